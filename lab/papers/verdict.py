"""verdict.md: claims and numbers of the paper, ours beside them, and why they may differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fedkme import __version__
from lab.experiments.curves import Curve, CurveValue, at, claimed_curve, curves_of, holds, overall
from lab.experiments.paper import PaperClaim, PaperFigure, PaperPanel, Place, method_title
from sim.sweep.table import SeedMean

WHERE = {"every": "at every {x}", "most": "at most {x}", "mean": "in the mean over {x}"}
NEAR = 0.005
"""Part of a printed number by which ours may miss it: the papers print three digits."""
Printed = Mapping[tuple[str, str, Place], float]


def verdict(
    figure: PaperFigure,
    measurements: Sequence[CurveValue],
    ran: str,
    printed: Printed | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The page, in Markdown.

    Args:
        figure: the experiment.
        measurements: measurements of the experiment.
        ran: which runs they come from, in sentences.
        printed: numbers of the paper.
        notes: further lines, about how the numbers compare.
    """
    beside = list(_beside(figure, measurements, printed or {}))
    lines = [
        f"# {figure.title}",
        "",
        *_headline(figure, measurements, printed or {}),
        figure.method,
        ran,
        f"{f'Not printed, and so our choice: {figure.unsaid}. ' if figure.unsaid else ''}"
        f"Version {__version__}.",
    ]
    if figure.claims:
        lines += ["", "| claim | the paper | ours | holds |", "|---|---|---|---|"]
        lines += [_claim_row(figure, claim, claimed_curve(measurements, claim)) for claim in figure.claims]
    if beside:
        lines += ["", "## The paper's numbers", "", *beside]
    if notes:
        lines += ["", *(f"- {note}" for note in notes)]
    if figure.reasons and _differs(figure, measurements):
        lines += ["", "## What differs", "", *(f"- {reason}" for reason in figure.reasons)]
    lines += ["", "## All of ours", "", "Mean over seeds ± standard error."]
    for panel in figure.panels:
        if curves := curves_of(measurements, panel.name):
            lines += ["", f"**{panel.title}**", "", *_table(panel.x or figure.x, curves)]
    return "\n".join(lines) + "\n"


def _curves(figure: PaperFigure, measurements: Sequence[CurveValue]) -> list[tuple[PaperClaim, Curve]]:
    """Each claim with its measured curve, which may be empty."""
    return [(claim, claimed_curve(measurements, claim)) for claim in figure.claims]


def _differs(figure: PaperFigure, measurements: Sequence[CurveValue]) -> bool:
    """Check whether something measured is not as a claim says; a figure without claims has only numbers."""
    curves = _curves(figure, measurements)
    return bool(measurements) and (
        not curves or any(curve and not holds(claim, curve) for claim, curve in curves)
    )


def _headline(figure: PaperFigure, measurements: Sequence[CurveValue], printed: Printed) -> Iterator[str]:
    """Count claims that hold, and numbers of the paper that are reached."""
    if not measurements:
        yield f"**Not measured**: no run gave a number (the paper's {figure.source})."
        yield ""
    elif figure.claims:
        measured = [holds(claim, curve) for claim, curve in _curves(figure, measurements) if curve]
        rest = len(figure.claims) - len(measured)
        left = f" {rest} of {len(figure.claims)} claims: not measured." if rest else ""
        hold = (
            f"{sum(measured)} of {len(measured)} claims hold in our hands"
            if measured
            else "No claim was measured"
        )
        yield f"{hold} (the paper's {figure.source}).{left}"
        yield ""
    sides = [
        (ours.mean / theirs - 1.0) * (1 if panel.best == "high" else -1)
        for panel, method, x, ours, theirs in _pairs(figure, measurements, printed)
        if panel.best and method not in figure.baselines
    ]
    if sides:
        reached = sum(side >= -NEAR for side in sides)
        yield f"{reached} of {len(sides)} numbers of private methods are reached to {NEAR:.1%}, or passed."
        yield f"The paper: {figure.source}."
        yield ""


def _pairs(
    figure: PaperFigure, measurements: Sequence[CurveValue], printed: Printed
) -> Iterator[tuple[PaperPanel, str, Place, SeedMean, float]]:
    """Ours and the paper's, where there are both."""
    for panel in figure.panels:
        for method, curve in curves_of(measurements, panel.name).items():
            for x, ours in curve.items():
                if (theirs := printed.get((panel.name, method, x))) is not None:
                    yield panel, method, x, ours, theirs


def _beside(figure: PaperFigure, measurements: Sequence[CurveValue], printed: Printed) -> Iterator[str]:
    rows = list(_pairs(figure, measurements, printed))
    if rows:
        yield "| quantity | method | where | the paper | ours | difference | seeds |"
        yield "|---|---|---|---|---|---|---|"
    for panel, method, x, ours, theirs in rows:
        where = at(panel.x or figure.x, x)
        numbers = f"{theirs:.4g} | {_number(ours)} | {ours.mean - theirs:+.2g} | {ours.count}"
        yield f"| {panel.title} | {method_title(method)} | {where} | {numbers} |"


def _claim_row(figure: PaperFigure, claim: PaperClaim, curve: Curve) -> str:
    x = next(panel.x for panel in figure.panels if panel.name == claim.panel) or figure.x
    wanted = f"{_range(claim)}, {WHERE[claim.over].format(x=x)}"
    if claim.reading:
        wanted += f" ({claim.reading})"
    points = "; ".join(f"{at(x, place)}: {_number(point)}" for place, point in curve.items())
    ours = f"{overall(curve):.3g} ({points})" if curve else "not measured"
    near = "no, within two standard errors" if holds(claim, curve, errors=2) else "**no**"
    held = "yes" if holds(claim, curve) else near if curve else "not measured"
    return f"| {claim.text} | {wanted} | {ours} | {held} |"


def _range(claim: PaperClaim) -> str:
    what = method_title(claim.method)
    what += f" less {method_title(claim.minus)}" if claim.minus else ""
    what += f" over {method_title(claim.times)}" if claim.times else ""
    if claim.low == float("-inf"):
        return f"{what}: at most {claim.high:g}"
    return (
        f"{what}: {claim.low:g} or more"
        if claim.high == float("inf")
        else f"{what}: {claim.low:g} to {claim.high:g}"
    )


def _table(axis: str, curves: Mapping[str, Curve]) -> Iterator[str]:
    places = list(dict.fromkeys(x for curve in curves.values() for x in curve))
    if not any(isinstance(x, str) for x in places):
        places.sort()
    yield f"| | {' | '.join(at(axis, x) for x in places)} |"
    yield "|---|" + "---|" * len(places)
    for method, curve in curves.items():
        cells = (_number(curve[x]) if x in curve else "-" for x in places)
        yield f"| {method_title(method)} | {' | '.join(cells)} |"


def _number(point: SeedMean) -> str:
    error = "" if point.count < 2 else f" ± {point.error:.2g}"
    return f"{point.mean:.4g}{error}"
