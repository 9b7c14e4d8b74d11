"""Sections of reports that compare rows with real ones: by column, by pair of columns, by value."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedkme.pages import html
from sim.evaluation.grades import FAR
from sim.formatting import distance

MOST_BARS = 40
"""Columns, and pairs of columns, that are drawn."""
_MEASURES = {
    "columns": "Total variation of categories, Kolmogorov's distance of numbers",
    "pairs": "Total variation, numbers in eight bins",
}
_HALVES = {"columns": "real_halves", "pairs": "real_halves_pairs"}
_MOST_NAMED = 8
"""Columns, and pairs of columns, that are named as lost."""


def distances(compared: Mapping[str, Any], made: str, note: str) -> html.Html:
    """Distance of each column and of each pair of columns from the real one, and which are lost, in words.

    Args:
        compared: figures as `compare_columns` makes them.
        made: name of the rows that are compared.
        note: sentence that says whose rows are the real ones.
    """
    parts = [_distances(compared, of, measure, made, note) for of, measure in _MEASURES.items()]
    return html.joined([html.note(lost(compared)), html.pair(filter(None, parts))])


def lost(compared: Mapping[str, Any]) -> str:
    """Name the columns and pairs that are far from the real ones; empty where nothing was compared."""
    phrases = []
    for of in _MEASURES:
        what = "columns" if of == "columns" else "pairs of columns"
        by_name, floor = _measured(compared, of)
        far = [name for name in _furthest(by_name, floor) if _excess(by_name, floor, name) > FAR]
        if not by_name:
            continue
        if not far:
            phrases.append(f"All {what} are kept.")
            continue
        named = ", ".join(far[:_MOST_NAMED]) + (" and others" if len(far) > _MOST_NAMED else "")
        phrases.append(f"Lost or blurred: {len(far)} of {len(by_name)} {what} ({named}).")
    return " ".join(phrases)


def shares(compared: Mapping[str, Any], made: str, real: str, note: str) -> html.Html:
    """Shares of rows by value, of the label and of the columns that are furthest off.

    Args:
        compared: figures as `compare_columns` makes them.
        made: name of the rows that are compared.
        real: name of the real rows.
        note: sentence that says whose they are.
    """
    figures = []
    for entry in compared.get("shares", []):
        rows = []
        for value, ours, theirs in zip(entry["values"], entry["synthetic"], entry["real"], strict=True):
            rows.append(html.Bar(value, ((ours, "main"),), f"{ours:.1%}"))
            rows.append(html.Bar("", ((theirs, "other"),), f"{theirs:.1%}"))
        drawing = html.bars(f"Shares of rows by {entry['name']}", rows, height=19)
        figures.append(html.figure(entry["name"], drawing, ""))
    if not figures:
        return html.Html()
    caption = (
        f"Share of rows with a value: blue {made}, grey {real}. The label, and the columns that are furthest "
        f"off. {note}"
    )
    return html.joined([html.note(caption), html.pair(figures)])


def _distances(compared: Mapping[str, Any], of: str, measure: str, made: str, note: str) -> html.Html:
    what = "column" if of == "columns" else "pair of columns"
    by_name, floor = _measured(compared, of)
    if not by_name:
        return html.Html()
    rows = []
    shown = _furthest(by_name, {})[:MOST_BARS]
    for name in shown:
        far, near = by_name[name], min(by_name[name], floor.get(name, 0.0))
        text = f"{distance(far)} / {distance(floor.get(name))}"
        rows.append(html.Bar(name, ((near, "other"), (far - near, "main")), text))
    closer = len(by_name) - len(shown)
    more = f" The {closer} closest are left out." if closer else ""
    mean = [distance(compared[key].get("mean")) for key in (of, _HALVES[of])]
    yardstick, numbers = "two halves of the real rows differ by", "half to half"
    if fresh := compared.get("fresh"):
        yardstick, numbers = f"{fresh} real rows drawn at random differ from the others by", "real to real"
    caption = (
        f"0 to 1. {measure}. Grey: what {yardstick}; blue: what is on top of it. Numbers: {made} to real / "
        f"{numbers}; in the mean {mean[0]} / {mean[1]}.{more} {note}"
    )
    drawing = html.bars(f"Distance of each {what} from the real one", rows, height=24)
    return html.figure(f"Each {what}'s distance", drawing, caption)


def _measured(compared: Mapping[str, Any], of: str) -> Sequence[Mapping[str, float]]:
    """Distances by name, and those between two parts of the real rows."""
    return [compared.get(key, {}).get("by_name", {}) for key in (of, _HALVES[of])]


def _excess(by_name: Mapping[str, float], floor: Mapping[str, float], name: str) -> float:
    return by_name[name] - floor.get(name, 0.0)


def _furthest(by_name: Mapping[str, float], floor: Mapping[str, float]) -> list[str]:
    return sorted(by_name, key=lambda name: (-_excess(by_name, floor, name), name))
