"""Format of a run's names and numbers, on the page and on a terminal alike."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fedkme.pages.html import number, short
from fedkme.protocols import PROTOCOLS
from fedkme.verdict import lines_of

Metrics = Mapping[str, Any]
"""The content of metrics.json."""

METHODS = {
    "summary": "this run",
    "summary_weighted": "this run, weighted",
    "summary_repeats": "this run, repeats",
    "greedy": "non-private greedy",
    "exact_greedy": "exact-kernel greedy",
    "uniform": PROTOCOLS["uniform"].title,
    "uniform_pruned": "uniform, pruned",
    "uniform_5p_pruned": "uniform 5p, pruned",
    "uniform_weighted": "uniform, weighted",
}
MODELS = {"linear_svm": "linear SVM", "mlp_32": "MLP 32"}


def distance(value: float | None) -> str:
    """An MMD^2, always in three significant digits so that a column of them compares."""
    return "-" if value is None else f"{value:#.3g}"


def method(name: str) -> str:
    """Name a way to select rows."""
    return METHODS.get(name, name.replace("_", " "))


def methods_of(name: str, metrics: Metrics) -> str:
    """Name ways to select rows that share a line."""
    twins = _twins(metrics)
    return " = ".join(method(each) for each in (twins if name in twins else (name,)))


def accessed_by_twins(metrics: Metrics) -> str:
    """Rows that two ways which select the same ones accessed, in words; "" where there are no two."""
    accessed = metrics.get("points_accessed_baselines", {})
    rows = ", ".join(f"{method(name)} {number(accessed[name])}" for name in _twins(metrics))
    return f"rows accessed: {rows}" if rows else ""


def _twins(metrics: Metrics) -> tuple[str, ...]:
    """Two ways that select the same rows: metrics have what both accessed, and the rest of the first."""
    without = metrics.get("points_accessed_baselines", {}).keys() - metrics.get("mmd2", {}).keys()
    return ("winner_only", "ask_everyone") if "ask_everyone" in without else ()


def title(protocol: str) -> str:
    """A protocol in words; its name where no package that is installed has it."""
    row = PROTOCOLS.get(protocol)
    return protocol if row is None else row.title


def model(name: str) -> str:
    """Name a model."""
    return MODELS.get(name, name.replace("_", " "))


def accuracies(metrics: Metrics) -> dict[str, Mapping[str, float]]:
    """Accuracy of each kind of model, by the way in which its rows were selected."""
    return {"summary": metrics.get("downstream", {}), **metrics.get("downstream_baselines", {})}


def plan_lines(metrics: Metrics) -> list[str]:
    """Lines of what the plan chose and expected, and of why it would have chosen otherwise."""
    plan = metrics.get("plan", {})
    return [plan[key] for key in ("line", "disagrees") if plan.get(key)]


def verdict(metrics: Metrics) -> str:
    """The outcome of a run in a line."""
    mmd2 = metrics.get("mmd2", {})
    if "summary" not in mmd2:
        return "No summary came out of this run, so there is nothing to compare."
    if lines := lines_of(metrics.get("verdict")):
        return " ".join(lines)
    text = f"The summary's MMD² is {distance(mmd2['summary'])}"
    over = metrics.get("percent_over_greedy", {}).get("summary")
    if over is not None:
        text += f", {abs(over):.1f} % {'over' if over >= 0 else 'under'} non-private greedy"
    return text + (f"; uniform sampling: {distance(mmd2['uniform'])}." if "uniform" in mmd2 else ".")


def reading_lines(facts: Mapping[str, Any]) -> Iterable[str]:
    """Lines for a person about cells left out or changed; none where nothing was."""
    left_out: Mapping[str, Sequence[str]] = facts.get("left_out", {})
    if left_out:
        everywhere = facts["parties"]
        names = [
            name if len(parties) == everywhere else f"{name} ({', '.join(parties)})"
            for name, parties in left_out.items()
        ]
        yield f"Left out: {_listed(names)}."
    for parties in facts.get("same", ()):
        yield f"The same rows, all of them, are given for {_listed(parties)}."
    if unlabelled := facts.get("unlabelled"):
        who = _listed(unlabelled)
        yield f"No '{facts['label']}' in rows of {who}: where one of them comes, no row has its label."
    by_what: dict[str, list[str]] = {}
    for change in facts.get("changes", ()):
        extremes = change["extremes"]
        numbers = "" if not extremes else f": {extremes[0]} to {extremes[1]}"
        if extremes and extremes[0] == extremes[1]:
            numbers = f": {extremes[0]}"
        cells = f"{change['column']} at {change['party']} ({change['cells']}{numbers})"
        by_what.setdefault(change["what"], []).append(cells)
    for what, places in by_what.items():
        yield f"{what[0].upper()}{what[1:]}: {_listed(places)}."


def reading_totals(facts: Mapping[str, Any]) -> Iterable[str]:
    """Lines about cells left out or changed, with one count for each kind of change."""
    yield from reading_lines({**facts, "changes": ()})
    cells: Counter[str] = Counter()
    for change in facts.get("changes", ()):
        cells[change["what"]] += change["cells"]
    if cells:
        parts = ", ".join(f"{count} {what}" for what, count in cells.items())
        parts = parts if len(cells) > 1 else next(iter(cells))
        were = "1 cell was" if cells.total() == 1 else f"{cells.total()} cells were"
        yield f"{were} changed while reading: {parts}. Which: report.html."


def _listed(parts: Sequence[str], most: int = 6) -> str:
    more = f" and {len(parts) - most} more" if len(parts) > most else ""
    return ", ".join(parts[:most]) + more


def percent(value: float | None) -> str:
    """A signed percentage."""
    return "" if value is None else f"{value:+,.{0 if abs(value) >= 100 else 1}f} %"


_FORMATS: Mapping[str, Callable[[float | None], str]] = {
    **dict.fromkeys(("mmd2", "mmd2_counted", "mmd2_test"), distance),
    "percent_over_greedy": percent,
    "effective": number,
}


def closeness(metrics: Metrics, titles: Mapping[str, str]) -> tuple[list[str], list[list[str]]]:
    """Header and cells of a table with a line for each way to select rows.

    Args:
        metrics: figures of a run.
        titles: title of each column, by its key in `metrics`; a column without a figure is left out.
    """
    shown = [key for key in titles if metrics.get(key)]
    rows = [
        [methods_of(name, metrics), *(_FORMATS[key](metrics[key].get(name)) for key in shown)]
        for name in metrics.get("mmd2", {})
    ]
    return ["method", *(f">{titles[key]}" for key in shown)], rows


def size(count: float | None) -> str:
    """Bytes in a unit that fits."""
    if count is None:
        return "-"
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{short(count)} {unit}"
        count /= 1000
    return f"{short(count)} GB"
