"""Picture of who saw what: each party's rows against each party that looks, by the ledgers' statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedkme.ledgers.statements import EACH_OWNER
from fedkme.privacy.accounting import ONE_ROW
from fedkme.privacy.events import CONSUMER, CURATOR, VALIDATION
from sim.formatting import number
from sim.report.html import Html, joined, note, tag

MOST_OWNERS = 12
"""Owners that have a line each; more share one."""
_COLUMNS: Mapping[str, frozenset[str]] = {
    "other owners": frozenset({"other owners", "owners", "owners and curator"}),
    "the curator": frozenset({CURATOR, "owners and curator"}),
    "the consumer": frozenset({CONSUMER}),
}
"""Observers of statements, for each column of the picture."""
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
    """

    kind: str
    words: str
    rows: int = 0

    @property
    def text(self) -> str:
        """All of it in words."""
        counted = f"{self.rows:,} rows as they are" if self.rows > 1 else "1 row as it is"
        return "; ".join(filter(None, (counted if self.rows else "", self.words)))

    @property
    def marked(self) -> Html:
        """Words and mark."""
        return tag("span", tag("span", _MARKS[self.kind], aria_hidden="true"), f" {self.text}")


def picture(entries: Sequence[Mapping[str, Any]]) -> Html:
    """A table of who saw what of whose rows, with a mark and words in each cell; empty without statements.

    Args:
        entries: statements of metrics.json; those that prove something, about one row, are drawn.
    """
    sound = [each for each in entries if each.get("accountant") == "sound"]
    drawn = [each for each in sound if each.get("unit", ONE_ROW) == ONE_ROW]
    about: dict[str, list[int]] = {}
    for place, each in enumerate(drawn):
        about.setdefault(str(each.get("protected")), []).append(place)
    lines = [
        (whose, [_cell([drawn[place] for place in _places(about, whose)], whose, who) for who in _COLUMNS])
        for whose in _whose(drawn)
    ]
    if len(lines) > MOST_OWNERS + 1:
        lines = list(_together(lines))
    if not lines:
        return Html()
    head = (tag("th", name, scope="col") for name in ("rows of", *(f"{who} saw" for who in _COLUMNS)))
    body = (tag("tr", tag("th", name, scope="row"), *_cells(seen)) for name, seen in lines)
    marks = "● rows as they are, ◑ exact figures, ○ figures with noise, · nothing."
    drawn_up = tag("table", tag("thead", tag("tr", *head)), tag("tbody", joined(body, "\n")), class_="seen")
    return joined([note(f"By the ledgers of this run: {marks}"), tag("div", drawn_up, class_="scroll")])


def _cells(seen: Iterable[Seen | None]) -> Iterable[Html]:
    for who, each in zip(_COLUMNS, seen, strict=True):
        content = each.marked if each else tag("span", "its own")
        yield tag("td", content, class_=each.kind if each else "nothing", data_name=f"{who} saw")


def _whose(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Data sets in their order; all owners in one line where none stands under its name."""
    named = dict.fromkeys(str(each.get("protected")) for each in entries)
    if len([name for name in named if not _is_validation(name)]) > 1:
        named.pop(EACH_OWNER, None)
    return list(named)


def _places(about: Mapping[str, list[int]], whose: str) -> list[int]:
    """Places of the statements about a data set, in their order, given those about each name."""
    each = [] if _is_validation(whose) or whose == EACH_OWNER else about.get(EACH_OWNER, [])
    return sorted([*about[whose], *each])


def _cell(entries: Sequence[Mapping[str, Any]], whose: str, who: str) -> Seen | None:
    """Find what one saw of another's rows, by the statements about them; None of its own."""
    if who == "the consumer" and _is_validation(whose):
        return None
    about = [each for each in entries if str(each.get("observer")) in _COLUMNS[who]]
    order = list(_MARKS)
    return min(map(_seen, about), key=lambda seen: order.index(seen.kind), default=Seen("nothing", "nothing"))


def _seen(entry: Mapping[str, Any]) -> Seen:
    """Read from a statement what its observer saw."""
    if entry.get("epsilon") == "inf":
        reason, rows = str(entry.get("reason") or ""), int(entry.get("raw_points") or 0)
        words = "; ".join(part for part in reason.split("; ") if part != _ROWS).replace(_EXACT, "exact ")
        return Seen("rows" if rows else "exact", words or "without a bound", rows)
    if not entry.get("epsilon"):
        return Seen("nothing", "nothing")
    return Seen("noisy", f"figures with noise, ε\u00a0=\u00a0{number(entry['epsilon'])}")


def _together(lines: Iterable[tuple[str, list[Seen | None]]]) -> Iterable[tuple[str, list[Seen | None]]]:
    """Lines of owners that were seen alike as one, with the sum of their rows."""
    groups: dict[tuple[Any, ...], list[tuple[str, list[Seen | None]]]] = {}
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
