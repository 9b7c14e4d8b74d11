"""Curves with error bars as SVG and PNG, the paper's numbers beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkme.pages.line_chart import COLOURS
from lab.experiments.curves import Curve, CurveValue, curves_of
from lab.experiments.paper import PaperFigure, method_title
from lab.papers.verdict import Printed


def draw(
    figure: PaperFigure, measurements: Sequence[CurveValue], stem: Path, printed: Printed | None = None
) -> list[Path]:
    """Draw every panel of a figure, three in a line, to STEM.svg and STEM.png.

    The files are the same bytes for the same values. Numbers of the paper are dashed, in their method's
    colour.

    Raises:
        ModuleNotFoundError: matplotlib, of [sim], is not installed.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(len(figure.panels), 3)
    lines = math.ceil(len(figure.panels) / columns)
    drawing = Figure(figsize=(4.6 * columns, 4.0 * lines + 0.6), layout="constrained")
    FigureCanvasAgg(drawing)
    drawing.suptitle(figure.title)
    methods = dict.fromkeys(measurement.method for measurement in measurements)
    colours = {method: COLOURS[number % len(COLOURS)] for number, method in enumerate(methods)}
    names: dict[str, Any] = {}
    for position, panel in enumerate(figure.panels, 1):
        axes = drawing.add_subplot(lines, columns, position)
        axes.set_title(panel.title, fontsize=10)
        axes.set_xlabel(panel.x or figure.x)
        axes.set_ylabel(figure.y)
        names |= _plot(axes, curves_of(measurements, panel.name), colours)
        if figure.logarithmic:
            axes.loglog()
        theirs = {key[1:]: value for key, value in (printed or {}).items() if key[0] == panel.name}
        names |= _plot_printed(axes, theirs, colours)
    drawing.legend(names.values(), names.keys(), loc="outside lower center", ncols=4, fontsize=8)
    with matplotlib.rc_context({"svg.hashsalt": stem.name, "svg.fonttype": "none"}):
        drawing.savefig(stem.with_suffix(".svg"), metadata={"Date": None})
        drawing.savefig(stem.with_suffix(".png"), dpi=130)
    return [stem.with_suffix(".svg"), stem.with_suffix(".png")]


def _plot_printed(axes: Any, printed: Mapping[tuple[str, Any], float], colours: Mapping[str, str]) -> Any:
    """Draw a paper's numbers of methods that were measured; returns one line for a legend."""
    drawn = {}
    for method in dict.fromkeys(method for method, _ in printed if method in colours):
        points = {x: value for (of, x), value in printed.items() if of == method}
        (line,) = axes.plot(list(points), list(points.values()), "--", color=colours[method], lw=1, alpha=0.7)
        drawn["dashed: the paper's"] = line
    return drawn


def _plot(axes: Any, curves: Mapping[str, Curve], colours: Mapping[str, str]) -> dict[str, Any]:
    """Draw the curves of a panel; returns what stands for each in a legend, by name."""
    drawn = {}
    for method, curve in curves.items():
        points = curve.values()
        means, errors = [point.mean for point in points], [point.error for point in points]
        style = {"color": colours[method], "marker": "o", "markersize": 3.5, "capsize": 2.5}
        drawn[method_title(method)] = axes.errorbar(list(curve), means, errors, **style)
    largest = max((point.mean for curve in curves.values() for point in curve.values()), default=0.0)
    if largest > 1000:  # uniform sampling may be thousands of per cent over greedy
        axes.set_yscale("symlog", linthresh=10)
    axes.grid(alpha=0.3)
    return drawn
