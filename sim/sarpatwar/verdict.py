"""verdict.md: each claim of the paper, our numbers, whether it holds, and why they may differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedkme import __version__
from sim.sarpatwar.curves import Curve, CurveValue, claimed_curve, curves_of, holds, overall
from sim.sarpatwar.paper import PaperClaim, PaperFigure, method_title
from sim.sweep.statistics import SeedMean

WHERE = {"every": "at every {x}", "most": "at most {x}", "mean": "in the mean over {x}"}


def verdict(figure: PaperFigure, measurements: Sequence[CurveValue], ran: str) -> str:
    """The page, in Markdown.

    Args:
        figure: the experiment.
        measurements: of it.
        ran: which runs they come from, in a sentence.
    """
    found = [(claim, claimed_curve(measurements, claim)) for claim in figure.claims]
    kept = [holds(claim, curve) for claim, curve in found]
    lines = [
        f"# Sarpatwar 2019, {figure.title}",
        "",
        f"{sum(kept)} of {len(kept)} claims hold in our hands (the paper's {figure.source}).",
        "",
        figure.method,
        ran,
        f"Not printed, and so our choice: {figure.unsaid}. Version {__version__}.",
        "",
        "| claim | the paper | ours | holds |",
        "|---|---|---|---|",
        *(_claim_row(figure, claim, curve) for claim, curve in found),
    ]
    if not all(kept) and figure.reasons:
        lines += ["", "## Why they differ", "", *(f"- {reason}" for reason in figure.reasons)]
    lines += ["", "## The curves", "", "Mean over seeds ± standard error."]
    for panel in figure.panels:
        lines += [
            "",
            f"**{panel.title}**",
            "",
            *_table(panel.x or figure.x, curves_of(measurements, panel.name)),
        ]
    return "\n".join(lines) + "\n"


def _claim_row(figure: PaperFigure, claim: PaperClaim, curve: Curve) -> str:
    x = next(panel.x for panel in figure.panels if panel.name == claim.panel) or figure.x
    wanted = f"{_range(claim)}, {WHERE[claim.over].format(x=x)}"
    if claim.reading:
        wanted += f" ({claim.reading})"
    points = "; ".join(f"{x} = {at:g}: {_number(point)}" for at, point in curve.items())
    ours = f"{overall(curve):.3g} ({points})" if curve else "not measured"
    near = "no, within two standard errors" if holds(claim, curve, errors=2) else "**no**"
    return f"| {claim.text} | {wanted} | {ours} | {'yes' if holds(claim, curve) else near} |"


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


def _table(x: str, curves: dict[str, Curve]) -> Iterator[str]:
    places = sorted({at for curve in curves.values() for at in curve})
    yield f"| | {' | '.join(f'{x} = {at:g}' for at in places)} |"
    yield "|---|" + "---|" * len(places)
    for method, curve in curves.items():
        cells = (_number(curve[at]) if at in curve else "-" for at in places)
        yield f"| {method_title(method)} | {' | '.join(cells)} |"


def _number(point: SeedMean) -> str:
    error = "" if point.count < 2 else f" ± {point.error:.2g}"
    return f"{point.mean:.4g}{error}"
