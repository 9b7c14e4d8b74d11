"""The page of a sweep: MMD^2 and points accessed against each axis, and every number in a table."""

from collections.abc import Iterable, Sequence

from fedkme.pages import html
from fedkme.pages.html import number, short
from fedkme.pages.line_chart import Point, Series, lines
from sim.sweep.measure import Row
from sim.sweep.table import AXIS, SeedMean, grouped, mean_of

VALUES = {"mmd2.summary": "MMD² to D_v", "points_accessed.total": "points accessed"}
"""Columns that are drawn, in words."""
LISTED = {
    **VALUES,
    "mmd2.summary_weighted": "with weights",
    "mmd2_test.summary": "MMD² to test",
    "downstream.linear_svm": "linear SVM",
    "downstream.mlp_32": "MLP 32",
    "seconds": "seconds",
}
"""Columns of the page's table, in words."""


def render_sweep(scenario: str, axes: Sequence[str], rows: Sequence[Row], total: int) -> str:
    """The page, one HTML file that loads nothing.

    Args:
        scenario: its name or file.
        axes: keys of the grid, in order.
        rows: those that there are, one a run.
        total: runs of the grid.
    """
    seeds = ", ".join(map(str, sorted({row["seed"] for row in rows}))) or "none"
    versions = ", ".join(sorted({row["version"] for row in rows}))
    about = f"{len(rows)} of {total} runs; seeds {seeds}; fedkme {versions}"
    warned = map(html.banner, invented(rows))
    head = html.joined([html.tag("h1", f"Sweep of {scenario}"), *warned, html.about(about)], "\n")
    sections = [(f"Against {axis}", _against(axis, axes, rows)) for axis in axes if _many(axis, rows)]
    sections += [("Every combination", _table(axes, rows)), ("Failures", _failures(rows))]
    return html.document(f"Sweep of {scenario}", head, sections)


def invented(rows: Iterable[Row]) -> list[str]:
    """Line about runs whose rows were a stand-in's; none where there is no such run."""
    return list(dict.fromkeys(row["stand_in"] for row in rows if row.get("stand_in")))


def _many(axis: str, rows: Sequence[Row]) -> bool:
    return len({row[AXIS + axis] for row in rows}) > 1


def _against(axis: str, axes: Sequence[str], rows: Sequence[Row]) -> html.Html:
    others = [AXIS + other for other in axes if other != axis and _many(other, rows)]
    count = len({row["seed"] for row in rows})
    caption = "Mean over seeds; a bar is one standard error each way." if count > 1 else "One seed: no bars."
    return html.pair(
        html.figure(name, drawing, caption)
        for column, name in VALUES.items()
        if (drawing := _drawing(axis, others, rows, column, name))
    )


def _drawing(axis: str, others: Sequence[str], rows: Sequence[Row], column: str, name: str) -> html.Html:
    settings = list(dict.fromkeys(row[AXIS + axis] for row in rows))
    numeric = all(isinstance(setting, int | float) and not isinstance(setting, bool) for setting in settings)
    words = () if numeric else tuple(map(str, settings))
    series = []
    for chosen, members in grouped(rows, others).items():
        means = {
            float(setting) if numeric else float(settings.index(setting)): mean_of(group, column)
            for (setting,), group in grouped(members, [AXIS + axis]).items()
        }
        points = tuple(Point(x, each.mean, each.error) for x, each in sorted(means.items()) if each)
        if points:
            series.append(Series(_words(others, chosen) or "all runs", points))
    return lines(f"{name} against {axis}", axis, "", series, words)


def _words(columns: Sequence[str], values: Sequence[object]) -> str:
    return " ".join(
        f"{column.removeprefix(AXIS)}={value}" for column, value in zip(columns, values, strict=True)
    )


def _table(axes: Sequence[str], rows: Sequence[Row]) -> html.Html:
    header, cells = combinations(axes, rows)
    marked = [*header[: len(axes)], *(f">{name}" for name in header[len(axes) :])]
    return html.table("Mean and standard error over seeds.", marked, cells)


def combinations(axes: Sequence[str], rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Names of columns, and for each combination of settings its runs, with means and standard errors."""
    columns = {column: name for column, name in LISTED.items() if any(column in row for row in rows)}
    return [*axes, "runs", *columns.values()], [
        [*map(str, chosen), str(len(members)), *(_cell(mean_of(members, column)) for column in columns)]
        for chosen, members in grouped(rows, [AXIS + axis for axis in axes]).items()
    ]


def _cell(value: SeedMean | None) -> str:
    if value is None:
        return "-"
    return short(value.mean) if value.count == 1 else f"{short(value.mean)} ± {value.error:.2g}"


def _failures(rows: Sequence[Row]) -> html.Html:
    failed = [
        (_words(names, [row[name] for name in names]), number(row["seed"]), number(row["code"]), row["cause"])
        for row in rows
        if row["code"]
        for names in [[name for name in row if name.startswith(AXIS)]]
    ]
    return html.table("", ("run", ">seed", ">code", "what happened"), failed)
