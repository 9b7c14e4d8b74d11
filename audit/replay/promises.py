"""Promises of settings against actual draws, by arithmetic that shares nothing with the accountants.

A setting promises (epsilon, delta) for a group of rows. A line of a ledger stands for the weakest mechanism
that it allows: a Gaussian of its multiplier, or for a pure or ranged event a randomised response. The
disclosure of these mechanisms at epsilon has a closed form. The promised delta must cover it, and an
accountant's figure must not lie below it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from scipy.special import log_ndtr

from audit.replay.cases import Case
from audit.replay.declared import VALIDATION
from audit.replay.neighbours import HOLDER
from audit.replay.play import Played
from fedkme.privacy.accountants import Sound, paid
from fedkme.privacy.events import (
    CONSUMER,
    CURATOR,
    OWNERS,
    BoundedRange,
    Clock,
    Disclosure,
    Event,
    Gaussian,
    MwemCall,
    PureDp,
    leaves,
)

_SLACK = 1.0 + 1e-6
_KNOWN = (Gaussian, PureDp, BoundedRange, Clock, MwemCall)
_SINGLE = 24
"""Most responses of an event that are composed one by one; more responses disclose at least as much."""
_LOSSES = 2**14
"""Sums of losses at which no further response is composed; the rest discloses at least as much."""
_PLACES = (0.5, 0.8, 0.95)
"""Places in its range at which a choice may have the larger of its two losses."""


def broken(case: Case, played: Played) -> Iterator[str]:
    """Promises of a case's settings that its ledgers do not keep."""
    for party, protected, observer, epsilon, delta, group in _promised(case):
        lines = [line for line in played.ledgers[party] if line.observer == observer]
        about = [line for line in lines if line.protected in (protected, _others(protected))]
        for run in sorted({line.run.partition("/")[0] for line in about}):
            mine = [line for line in about if line.run.partition("/")[0] == run]
            events = list(_once(mine))
            if not events or not all(isinstance(event, _KNOWN) for event in events):
                continue
            subject = f"{protected} towards {observer}"
            if disclosed(events, epsilon * _SLACK, group) > delta * _SLACK:
                promise = f"epsilon {epsilon:g} at {delta:g} for {group} rows"
                yield f"{subject}: the settings promise {promise}, and the lines do not keep it"
            figure = Sound().epsilon(tuple(paid(mine)), delta).epsilon
            if disclosed(events, figure * _SLACK, 1) > delta * _SLACK:
                yield f"{subject}: an accountant says {figure:.4g}, which its lines exceed"


def _promised(case: Case) -> Iterator[tuple[str, str, str, float, float, int]]:
    """Ledger, protected set, observer, epsilon, delta and rows of each promise."""
    if case.release is not None:
        values = case.release
        yield (
            HOLDER,
            HOLDER,
            CONSUMER,
            float(values["epsilon"]),
            float(values.get("delta", 1e-5)),
            int(values.get("group", 1)),
        )
        return
    assert case.summary is not None, "it is of a summary"
    assert case.request is not None, "it is of a summary"
    ours, theirs = case.summary.privacy, case.request.privacy
    yield HOLDER, HOLDER, OWNERS, ours.epsilon, ours.delta, ours.group
    yield CURATOR, HOLDER, OWNERS, ours.epsilon, ours.delta, ours.group
    yield CONSUMER, VALIDATION, OWNERS, theirs.epsilon, theirs.delta, theirs.group


def _others(protected: str) -> str:
    """Name of the protected set in lines about every owner at once."""
    return OWNERS if protected == HOLDER else protected


def _once(lines: Iterable[Disclosure]) -> Iterator[Event]:
    """Events of lines; a clock's event covers its whole run and counts once."""
    clocks = set()
    for event in leaves(line.event for line in lines):
        if not isinstance(event, Clock) or event not in clocks:
            yield event
        clocks.add(event)


def disclosed(events: Sequence[Event], epsilon: float, group: int) -> float:
    """Least delta at epsilon of the mechanisms that events allow, if `group` rows are replaced.

    A pure event may be a response of loss c or -c; a choice of range r may be a response of loss t or t - r,
    for any t; a value of h2 is Laplace noise, observed by its side. A Gaussian of multiplier s has mu = 1/s,
    and mu of several adds up in squares.
    """
    return max(_disclosed(events, epsilon, group, place) for place in _PLACES)


def _disclosed(events: Sequence[Event], epsilon: float, group: int, place: float) -> float:
    squared, responses = 0.0, list[tuple[float, float, int]]()
    for event in events:
        match event:
            case Gaussian(multiplier, count):
                squared += count * (group / multiplier) ** 2
            case PureDp(cost, count):
                responses.append((group * cost, -group * cost, count))
            case BoundedRange(cost, count):
                responses.append(_choice(group * cost, place, count))
            case Clock(cost):
                responses.append((2.0 * group * cost, -2.0 * group * cost, 1))
            case MwemCall(
                cost, count
            ):  # errors of a replaced row move by 2: 4 e to choose, 2 e for the value
                side = math.log(2.0 * math.exp(group * cost) - 1.0)
                responses += [_choice(4.0 * group * cost, place, count), (side, -side, count)]
    losses, mu = _losses(responses), math.sqrt(squared)
    return math.fsum(chance * _gaussian(epsilon - loss, mu) for loss, chance in losses.items())


def _choice(span: float, place: float, count: int) -> tuple[float, float, int]:
    return place * span, (place - 1.0) * span, count


def _losses(responses: Sequence[tuple[float, float, int]]) -> dict[float, float]:
    """Distribution of the sum of responses' losses; each response has one of two losses."""
    chances = {0.0: 1.0}
    for high, low, count in responses:
        up = math.expm1(low) / (math.exp(low) - math.exp(high)) * math.exp(high)
        for _ in range(min(count, _SINGLE) if len(chances) < _LOSSES else 0):
            after: dict[float, float] = {}
            for loss, chance in chances.items():
                for moved, part in ((loss + high, up), (loss + low, 1.0 - up)):
                    key = round(moved, 9)
                    after[key] = after.get(key, 0.0) + chance * part
            chances = after
    return chances


def _gaussian(epsilon: float, mu: float) -> float:
    """Balle and Wang 2018, theorem 8, for any real epsilon."""
    if mu == 0.0:
        return max(0.0, -math.expm1(epsilon))
    first = math.exp(float(log_ndtr(mu / 2.0 - epsilon / mu)))
    second = epsilon + float(log_ndtr(-mu / 2.0 - epsilon / mu))
    return max(0.0, first - math.exp(second)) if second < 700.0 else 0.0
