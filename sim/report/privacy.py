"""Privacy statements as people read them, of summaries and releases, on the page and on a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedkme.pages.html import Html, number, table
from fedkme.privacy.accounting import HELP, ONE_ROW
from fedkme.privacy.events import CONSUMER, VALIDATION
from fedkme.watch.observers import picture
from fedkme.watch.state import Learned

Statements = Sequence[Mapping[str, Any]]
"""A list of metrics.json (`PrivacyStatement.to_json`)."""

NOTE = Html(
    '<p class="note">Only the <em>sound</em> accountant states what is proven of what the code did, by the '
    "method that is named; <em>published</em> is the paper's own arithmetic. ε and δ are for any one "
    "row replaced by another (replace-one), or for all rows of a person where a line says so; for all rows "
    "of an owner ε is finite where that of a row is, and too large to mean anything. ε = inf means that no "
    "finite bound is proven: the observer may tell whether a row was there. Rows seen are outside any ε.</p>"
)
RELATION = "replace-one"
"""The relation of NOTE; a line says where it is another's."""
NAMED = 3
"""Owners that a line of a terminal names; of more it says how many."""
NAMED_ON_PAGE = 12
"""Owners that a row of the page names."""


def who_saw_what(entries: Statements) -> Html:
    """A picture of the statements that prove something about one row; empty without any."""
    learned = [
        Learned(
            str(entry.get("protected")),
            str(entry.get("observer")),
            float(entry.get("epsilon") or 0),
            float(entry.get("delta") or 0),
            int(entry.get("raw_points") or 0),
            str(entry.get("reason") or ""),
        )
        for entry in entries
        if entry.get("accountant") == "sound" and entry.get("unit", ONE_ROW) == ONE_ROW
    ]
    return picture(learned, "By the ledgers of this run", (CONSUMER,))


def section(entries: Statements, caption: str) -> Html:
    """A table of statements; owners of which an observer can learn the same share a row."""
    header = (
        "protected",
        "observer",
        "accountant",
        ">ε",
        ">δ",
        ">rows seen",
        "how, or why there is no bound",
    )
    rows = [
        (
            _whose(entry),
            str(entry.get("observer", "")),
            str(entry.get("accountant", "")),
            number(entry.get("epsilon")),
            number(entry.get("delta")) if _bounded(entry) else "-",
            number(entry.get("raw_points")),
            _reason(entry),
        )
        for entry in _joined(entries, NAMED_ON_PAGE)
    ]
    return table(caption, header, rows)


def lines(entries: Statements) -> list[str]:
    """Lines for a terminal, one a statement; statements without a bound have the reason."""
    return [_line(entry) for entry in _joined(entries, NAMED)]


def outcome(entries: Statements) -> list[str]:
    """Two lines for a first reader: the rows that each observer saw, and each largest proven epsilon."""
    proven = [
        each for each in entries if each["accountant"] == "sound" and each.get("unit", ONE_ROW) == ONE_ROW
    ]
    seen: list[str] = []
    lines: list[str] = []
    for of_consumer, whose in ((False, "owners' rows"), (True, "D_v")):
        group = [each for each in proven if str(each["protected"]).startswith(VALIDATION) is of_consumer]
        rows: dict[str, int] = {}
        bounds: dict[str, str] = {}
        for entry in sorted(group, key=lambda each: float(each["epsilon"])):
            observer = str(entry["observer"])
            rows[observer] = rows.get(observer, 0) + (entry["raw_points"] or 0)
            _, helped, condition = str(entry.get("reason")).partition(HELP)
            bounds[observer] = number(float(entry["epsilon"])) + (f" {helped}{condition}" if helped else "")
        if group:
            seen.append(f"{whose} {', '.join(f'by {name} {many}' for name, many in rows.items())}")
            lines.append(f"{whose} {', '.join(f'to {name} {bound}' for name, bound in bounds.items())}")
    if not proven:
        return []
    return [f"Rows seen as they are: {'; '.join(seen)}.", f"Epsilon (inf: no bound): {'; '.join(lines)}."]


def _line(entry: Mapping[str, Any]) -> str:
    text = f"  {_whose(entry)} against {entry['observer']}, {entry['accountant']}: "
    if _bounded(entry):
        text += f"epsilon {number(entry['epsilon'])} at delta {number(entry['delta'])}"
        _, helped, rest = str(entry.get("reason")).partition(HELP)
        text += f", {helped}{rest}" if helped else ""
    else:
        text += f"epsilon inf ({entry['reason']})"
    return f"{text}; rows seen: {entry['raw_points']}" if entry["raw_points"] else text


def _whose(entry: Mapping[str, Any]) -> str:
    """The data set; with the unit, where that is not one row."""
    protected, unit = str(entry.get("protected", "")), entry.get("unit", ONE_ROW)
    return protected if unit == ONE_ROW else f"{protected} ({unit})"


def _bounded(entry: Mapping[str, Any]) -> bool:
    return entry.get("epsilon") != "inf"


def _reason(entry: Mapping[str, Any]) -> str:
    """The reason, with the neighbouring relation of a bound where NOTE does not say it."""
    relation = str(entry.get("neighbouring") or "any")
    reason = str(entry.get("reason") or "")
    return f"{reason}, {relation}" if _bounded(entry) and relation not in ("any", RELATION) else reason


def _joined(entries: Statements, named: int) -> list[dict[str, Any]]:
    """Statements that differ in names and rows seen alone, as one with all names and the sum of the rows."""
    alike: dict[tuple[object, ...], list[Mapping[str, Any]]] = {}
    for entry in entries:
        same = tuple(value for key, value in entry.items() if key not in ("protected", "raw_points"))
        validation = str(entry.get("protected")).startswith(VALIDATION)
        alike.setdefault((validation, bool(entry.get("raw_points")), *same), []).append(entry)
    return [
        dict(group[0])
        | {
            "protected": _names([str(entry.get("protected", "")) for entry in group], named),
            "raw_points": sum(entry.get("raw_points") or 0 for entry in group),
        }
        for group in alike.values()
    ]


def _names(names: Sequence[str], named: int) -> str:
    more = len(names) - named
    return ", ".join(names[:named]) + (f" and {more} more" if more > 0 else "")
