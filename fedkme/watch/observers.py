"""Picture of who saw what, in one run or in all: each party's rows against each party that looks."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fedkme.pages.html import Html, joined, note, number, tag
from fedkme.privacy.events import CONSUMER, CURATOR, OWNERS, VALIDATION, validation_of
from fedkme.watch.state import Learned

MOST_OWNERS = 12
"""Owners that have a line each; of more, those that were seen alike share one."""
EACH_OWNER = "each owner"
"""Name in ledgers' statements of owners of which an observer can learn the same."""
_COALITION = "owners and curator"
_OWNERS = frozenset({"other owners", OWNERS, _COALITION})
_SHARED = {"other owners": _OWNERS, CURATOR: frozenset({CURATOR, _COALITION})}
"""Observers of a column that has several."""
_MARKS = {"rows": "●", "exact": "◑", "noisy": "○", "nothing": "·"}
_EXACT = "released without noise: "
_ROWS = "rows are seen as they are"


@dataclass(frozen=True, slots=True)
class Seen:
    """Part of another's rows that one party saw.

    Attributes:
        kind: "rows", "exact", "noisy" or "nothing", from most to least.
        words: the same in words, without the rows.
        rows: number of rows seen as they are.
        reason: why there is no bound.
    """

    kind: str
    words: str
    rows: int = 0
    reason: str = ""

    @property
    def marked(self) -> Html:
        """Words and mark."""
        counted = f"{self.rows:,} rows as they are" if self.rows > 1 else "1 row as it is"
        words = "; ".join(filter(None, (counted if self.rows else "", self.words)))
        mark = tag("span", _MARKS[self.kind], aria_hidden="true")
        return tag("span", mark, f" {words}", title=self.reason)


def picture(learned: Sequence[Learned], source: str, consumers: Sequence[str] = ()) -> Html:
    """A table of who saw what of whose rows, with a mark and words in each cell; empty if nothing is known.

    Args:
        learned: what is known, each about one row of a data set.
        source: whose ledgers say so.
        consumers: those that have a column even if they learned nothing.
    """
    about: dict[str, list[int]] = {}
    for place, each in enumerate(learned):
        about.setdefault(each.protected, []).append(place)
    shared = _OWNERS | {CURATOR}
    others = {each.observer for each in learned if each.observer not in shared}
    columns = ["other owners", CURATOR, *sorted({*others, *consumers})]
    lines = [
        (whose, [_cell([learned[place] for place in _places(about, whose)], whose, who) for who in columns])
        for whose in _data_sets(about)
    ]
    if len(lines) > MOST_OWNERS + 1:
        lines = list(_together(lines))
    if not lines:
        return Html()
    names = [f"the {who} saw" if who in (CURATOR, CONSUMER) else f"{who} saw" for who in columns]
    head = (tag("th", name, scope="col") for name in ("rows of", *names))
    body = (
        tag("tr", tag("th", EACH_OWNER if name == OWNERS else name, scope="row"), *_cells(seen, names))
        for name, seen in lines
    )
    marks = f"{source}: ● rows as they are, ◑ exact figures, ○ figures with noise, · nothing."
    whole = tag("table", tag("thead", tag("tr", *head)), tag("tbody", joined(body, "\n")), class_="seen")
    return joined([note(marks), tag("div", whole, class_="scroll")])


def _cells(seen: Iterable[Seen | None], names: Sequence[str]) -> Iterable[Html]:
    for name, each in zip(names, seen, strict=True):
        content = each.marked if each else tag("span", "its own")
        yield tag("td", content, class_=each.kind if each else "nothing", data_name=name)


def _data_sets(about: Iterable[str]) -> list[str]:
    """Data sets in their order; all owners in one line where none stands under its name."""
    named = dict.fromkeys(about)
    if len([name for name in named if not _is_validation(name)]) > 1:
        named.pop(EACH_OWNER, None)
    return list(named)


def _places(about: dict[str, list[int]], whose: str) -> list[int]:
    """Places of all lines about a data set, in order, from the places of each name."""
    each = [] if _is_validation(whose) or whose == EACH_OWNER else about.get(EACH_OWNER, [])
    return sorted([*about[whose], *each])


def _cell(learned: Sequence[Learned], whose: str, who: str) -> Seen | None:
    """Part of a data set that an observer saw; None of its own."""
    if who not in _SHARED and whose in (VALIDATION, validation_of(who)):
        return None
    observers = _SHARED.get(who, {who})
    about = [each for each in learned if each.observer in observers]
    order = list(_MARKS)
    return min(map(_seen, about), key=lambda seen: order.index(seen.kind), default=Seen("nothing", "nothing"))


def _seen(learned: Learned) -> Seen:
    if math.isinf(learned.epsilon):
        exact = (part for part in learned.reason.split("; ") if part != _ROWS)
        words = "; ".join(exact).replace(_EXACT, "exact ")
        kind = "rows" if learned.rows else "exact"
        return Seen(kind, words or "without a bound", learned.rows, learned.reason)
    if not learned.epsilon:
        return Seen("nothing", "nothing")
    return Seen("noisy", f"figures with noise, ε\u00a0=\u00a0{number(learned.epsilon)}")


def _together(lines: Iterable[tuple[str, list[Seen | None]]]) -> Iterable[tuple[str, list[Seen | None]]]:
    """Lines of owners that were seen alike as one, with the sum of their rows."""
    groups: dict[tuple[object, ...], list[tuple[str, list[Seen | None]]]] = {}
    for name, seen in lines:
        alike = tuple(each and (each.kind, each.words) for each in seen)
        groups.setdefault((_is_validation(name), *alike), []).append((name, seen))
    for group in groups.values():
        columns = list(zip(*(seen for _, seen in group), strict=True))
        name = group[0][0] if len(group) == 1 else f"{len(group):,} owners, {group[0][0]} to {group[-1][0]}"
        yield name, [column[0] and replace(column[0], rows=_rows(column)) for column in columns]


def _rows(column: Iterable[Seen | None]) -> int:
    return sum(each.rows for each in column if each)


def _is_validation(protected: str) -> bool:
    """Check for a validation set, which in statements goes without its consumer's name where there is one."""
    return protected.startswith(VALIDATION)
