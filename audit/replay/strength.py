"""Strength of noise: requested noise against lines, and changes of hidden inputs against paid epsilon."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from audit.replay.cases import Case
from audit.replay.declared import infinite
from audit.replay.exercised import queries
from audit.replay.neighbours import OWNERS as NAMES
from audit.replay.patches import AUCTION, BROADCAST
from audit.replay.play import Played
from audit.replay.recorder import Decision, Recorder
from audit.replay.tracked import NoiseRequest, Site
from fedkme.features.fixed_point import FEATURE_UNIT
from fedkme.features.maps import ROW_UNIT
from fedkme.privacy.events import CURATOR, BoundedRange, Disclosure, Event, Gaussian, MwemCall, PureDp, leaves
from fedkme.secagg.noise import SMOOTHING
from fedkme.sums.values import SumQuery
from fedkme.sums.vector import SumVector

_ROUNDING = 1.0 + 1e-6
_COINS = {"clock": 2, "h2": 1, "pick": 1}
"""Number of requests for uniform numbers in a choice; a clock requests its patience and its prices' coins."""


def misuse(draw: NoiseRequest, dies: bool) -> Iterator[str]:
    """Reasons why the noise of a draw does not hide its input."""
    if draw.law == "uniform" or draw.decides:
        return
    where = f"{called(draw.site)}: draw {draw.number + 1}"
    if draw.altered:
        yield f"{where} goes through {', '.join(draw.altered)} before it is added"
    if draw.uses > 1:
        yield f"{where} is added {draw.uses} times"
    if not draw.uses and not dies:
        yield f"{where} is added to nothing"


def weak(case: Case, played: Played, site: Site, lines: Sequence[Disclosure]) -> Iterator[str]:
    """Findings on requested noise at a site that is weaker, or more often drawn, than its lines say."""
    recorder, events = played.recorder, [line.event for line in lines]
    draws = sorted((draw for draw in recorder.of(site) if draw.uses), key=lambda draw: draw.scale)
    choices = recorder.chosen(site)
    if infinite(events):
        return
    for choice in choices:
        if choice.coins < _COINS.get(choice.what, 0):
            yield f"choice {choice.number + 1} is made without the coins that it needs"
    if site == AUCTION:
        return
    yield from _weak_picks([choice for choice in choices if choice.what == "pick"], events)
    if site[1] == "release":
        yield from _weak_release(case, played, [draw for draw in recorder.of(site) if draw.uses], events)
        return
    calls = [choice for choice in choices if choice.what == "h2" and (site != BROADCAST or choice.number)]
    values = [draw for draw in recorder.of(site) if draw.law == "laplace"]
    yield from _weak_h2(calls, values[1:] if site == BROADCAST else values, lines)
    due = sorted(scale for line in lines for scale in _scales(case, site, line))
    if not due or any(isinstance(event, MwemCall) for event in leaves(events)):
        return
    if not draws and _is_maker(played, site):
        yield "a line is written and no noise is drawn"
    if len(draws) > len(due) and site[1] != "broadcast":
        yield f"noise is drawn {len(draws)} times and declared {len(due)} times"
    law = "discrete laplace" if isinstance(events[0], PureDp) else "gaussian"
    for draw, scale in zip(draws, due if len(due) == len(draws) else [due[0]] * len(draws), strict=True):
        if draw.law != law:
            yield f"noise is {draw.law} where a line says {law}"
        elif draw.scale * _ROUNDING < scale:
            yield f"noise has scale {draw.scale:.6g} where a line says {scale:.6g}"


def _is_maker(played: Played, site: Site) -> bool:
    """Check that a site makes its lines' noise: for sums either an owner or the curator makes it."""
    return site[1] != "sums" or any(
        isinstance(line.event, Gaussian) for line in played.lines_about(site[0], site[0], CURATOR)
    )


def _scales(case: Case, site: Site, line: Disclosure) -> Iterator[float]:
    """Scale of each draw of a line, in the units of the draws; empty if the line does not say."""
    event = line.event
    if isinstance(event, PureDp):
        yield 1.0 / event.epsilon
    elif isinstance(event, Gaussian) and line.sensitivity is not None:
        scale = event.noise_multiplier * line.sensitivity
        if site[1] == "sums":
            scale = math.sqrt((scale**2 + SMOOTHING) / _honest(case))
        elif site[1] != "histogram":  # counts are in rows, means in units of their lattice
            scale /= FEATURE_UNIT
        yield from [scale] * event.count


def _honest(case: Case) -> int:
    """Number of owners whose shares of noise a statement may count on."""
    security = case.pooling.security
    return len(NAMES) if security is None else security.terms(len(NAMES)).honest(len(NAMES))


def _weak_picks(picks: Sequence[Decision], events: Sequence[Event]) -> Iterator[str]:
    """Findings on picks of directions without a line, or above their lines' epsilon."""
    paid = sorted(cost for e in events if isinstance(e, BoundedRange) for cost in [e.epsilon] * e.count)
    spent = sorted(choice.parameters["epsilon"] for choice in picks)
    if len(spent) > len(paid):
        yield f"{len(spent)} directions are picked and {len(paid)} declared"
    elif any(one > other * _ROUNDING for one, other in zip(reversed(spent), reversed(paid), strict=False)):
        yield f"a direction is picked at {spent[-1]:.6g} where a line says {paid[-1]:.6g}"


def _weak_h2(
    choices: Sequence[Decision], draws: Sequence[NoiseRequest], lines: Sequence[Disclosure]
) -> Iterator[str]:
    """Findings on iterations of h2 without a declared one of as little noise, or more than declared.

    On a schedule calls differ: the iteration of the least noise needs the declared one of the least noise,
    and so on.
    """
    due = sorted(
        line.sensitivity / 2.0 / call.epsilon
        for line in lines
        if line.sensitivity is not None
        for call in leaves([line.event])
        if isinstance(call, MwemCall)
        for _ in range(call.iterations)
    )
    if not choices or not due:
        return
    unit = choices[0].parameters["unit"]
    scales = sorted(draw.scale * unit for draw in draws for _ in range(draw.size))
    if any(scale * _ROUNDING < least for scale, least in zip(scales, due, strict=False)):
        yield "an iteration of h2 has less noise than a line says"
    if sum(choice.parameters["iterations"] for choice in choices) > len(due):
        yield "h2 has more iterations than lines say"


def _weak_release(
    case: Case, played: Played, draws: Sequence[NoiseRequest], events: Sequence[object]
) -> Iterator[str]:
    """Findings on noise of a release that its largest possible changes would outweigh."""
    if not draws:
        return
    allowed = sum(event.count / event.noise_multiplier**2 for event in events if isinstance(event, Gaussian))
    spent, sums = 0.0, queries(played)
    query = sums[0]
    if query.marginals is not None:  # a row leaves one cell of each table and enters another
        weighted = [part for part in sums for _ in SumVector(part, case.schema).weights]
        queried = [*weighted, *([query] * len(draws))]  # where a curator died, draws may be more than blocks
        spent += sum(
            _square_of_move(part, draw.size) / draw.scale**2
            for draw, part in zip(draws, queried, strict=False)
        )
    elif query.sketch is not None:
        vector = SumVector(query, case.schema)
        first, *counts = draws  # where coalitions count, in the same stream
        spent += (vector.diameter / first.scale) ** 2 + sum(2.0 / draw.scale**2 for draw in counts)
    else:
        schema = case.schema
        moves = [
            (distance, 1.0 if block == len(part.specs) else ROW_UNIT)
            for part in sums
            for block, distance in enumerate(SumVector(replace(part, weights=()), schema).distances)
        ]
        blocks = [(distance, unit, draw) for (distance, unit), draw in zip(moves, draws, strict=False)]
        spent += max(
            sum((getattr(block, way) / unit / draw.scale) ** 2 for block, unit, draw in blocks)
            for way in ("within", "across")
        )
    if spent > allowed * _ROUNDING:
        yield f"noise allows moves of {math.sqrt(spent / allowed):.4g} times what the plan says"


def _square_of_move(query: SumQuery, size: int) -> float:
    """Largest squared distance in L2 by which a row moves a block of so many numbers."""
    if query.parities is not None:
        return 4.0 * size
    if query.products is not None:  # of k (k - 1) / 2 pairs of k scores
        return ((1.0 + math.sqrt(1.0 + 8.0 * size)) / 2.0 * 256.0**2) ** 2
    return 2.0


def far(case: Case, first: Played, second: Played, site: Site, lines: Sequence[Disclosure]) -> Iterator[str]:
    """Findings on a mechanism's inputs that moved by more than its lines pay for."""
    events = [line.event for line in lines]
    if infinite(events):
        return
    if site == AUCTION:
        yield from _far_clock(first.recorder, second.recorder, case.group * case.requests)
        return
    rows = case.group
    shares = math.sqrt(_honest(case)) if site[1] == "sums" else 1.0
    pairs = [
        (one, other)
        for one in first.recorder.of(site)
        for other in second.recorder.of(site)
        if (one.number, one.law) == (other.number, other.law) and one.uses and other.uses
    ]
    if [d.request for d, _ in pairs] != [d.request for _, d in pairs]:
        yield "other noise is asked for"
    squared = absolute = 0.0
    for one, other in pairs:
        if one.exact is None or other.exact is None or one.exact.shape != other.exact.shape:
            yield "its input has another shape"
            continue
        move = other.exact.astype(np.float64) - one.exact.astype(np.float64)
        if one.law == "gaussian":
            squared += float(np.square(move).sum()) / (shares * one.scale) ** 2
        else:
            absolute += float(np.abs(move).sum()) / one.scale
    for before, after in _paired_choices(first.recorder, second.recorder, site):
        if after.given.shape != before.given.shape:
            yield f"a {before.what} has other candidates"
            continue
        move = after.given - before.given
        if before.what == "logits":
            span = float(np.ptp(move))
            most = rows * max((e.epsilon for e in events if isinstance(e, BoundedRange)), default=0.0)
            if span > most * _ROUNDING + 1e-9:
                yield f"a choice's logits moved by {span:.4g}, declared is {most:.4g}"
        elif before.what in ("h2", "pick"):
            most = max((line.sensitivity or 0.0) for line in lines)
            if float(np.abs(move).max()) > rows * most * _ROUNDING:
                yield f"a number moved by {float(np.abs(move).max()):.4g}, declared is {rows * most:.4g}"
    if any(isinstance(event, Gaussian) for event in events):
        allowed = sum(e.count * (rows / e.noise_multiplier) ** 2 for e in events if isinstance(e, Gaussian))
        if squared > allowed * _ROUNDING:
            yield f"its input moved by {math.sqrt(squared / allowed):.4g} times what is declared"
    allowed = rows * sum(e.count * e.epsilon for e in events if isinstance(e, PureDp))
    if absolute > allowed * _ROUNDING and absolute:
        yield f"its input moved by {absolute:.4g} scales, declared are {allowed:.4g}"


def _far_clock(first: Recorder, second: Recorder, rows: int) -> Iterator[str]:
    """Findings on clocks that show replaced rows more than twice each: each value shows at one stop only."""
    seen = 0
    for one, other in _paired_choices(first, second, AUCTION):
        if one.what != "clock":
            continue
        if one.given.shape != other.given.shape:
            yield "a clock has other prices"
            continue
        move = np.abs(other.given - one.given)
        if move.size and float(move.max()) > rows:
            yield f"counts at a price moved by {float(move.max()):.0f}, replaced are {rows}"
        seen += bool(np.any(move[: int(one.chosen) + 1]))
    if seen > 2 * rows:
        yield f"{seen} clocks count replaced rows, {2 * rows} pay for them"


def _paired_choices(first: Recorder, second: Recorder, site: Site) -> list[tuple[Decision, Decision]]:
    return [
        (one, other)
        for one in first.chosen(site)
        for other in second.chosen(site)
        if (one.what, one.number) == (other.what, other.number)
    ]


def called(site: Site) -> str:
    """A mechanism in words."""
    return f"{site[1]} at {site[0]}"
