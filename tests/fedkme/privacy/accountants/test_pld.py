"""Loss distributions: agreement with dp_accounting, and the pair that dominates a bounded range."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.privacy.accountants import Published, Sound
from fedkme.privacy.accountants.pld import bounded_range_delta, pure_delta
from fedkme.privacy.accounting import privauction_patience, privauction_rate
from fedkme.privacy.events import (
    BoundedRange,
    Composed,
    Event,
    Gaussian,
    Laplace,
    MwemCall,
    PrivAuction,
    PureDp,
)

SOUND, PUBLISHED = Sound(), Published()
D_V = MwemCall(0.01, 1656)
AUCTION = PrivAuction(privauction_rate(1.0, 1e-3, 27), privauction_patience(27), 100, 1.0, 1e-3)

# Proven figures: agreement with dp_accounting


@pytest.mark.parametrize(
    "events",
    [
        [Gaussian(3.7306)],
        [Laplace(1.0)],
        [Laplace(20.0, 50)],
        [Gaussian(5.0, 3), Laplace(10.0, 20), Gaussian(7.0)],
    ],
)
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9])
def test_agreement_with_dp_accounting(events: list[Event], delta: float) -> None:
    # Under its default relation, add-remove, dp_accounting takes noise multipliers as they are.
    assert SOUND.epsilon(events, delta).epsilon == pytest.approx(
        _pld_accountant(tuple(events)).get_epsilon(delta), rel=1e-3, abs=1e-3
    )


def test_bounded_range_agrees_with_zcdp_of_dp_accounting() -> None:
    # ANCHORS.md, part D: dp_accounting has the exponential mechanism as ZCDpEvent(e^2/8) only.
    from dp_accounting.rdp import RdpAccountant

    events = (BoundedRange(0.04, 1656), Laplace(50.0, 1656), PureDp(0.1))
    theirs = RdpAccountant().compose(dp_event(Composed(events))).get_epsilon(1e-5)
    ours = {figure.method: figure.epsilon for figure in SOUND.figures(events, 1e-5)}
    assert ours["zCDP"] == pytest.approx(theirs, rel=1e-2)


def dp_event(event: Event) -> Any:
    """The event as a dp_accounting.DpEvent; bounded range and pure DP become the zCDP that they imply."""
    import dp_accounting as library

    match event:
        case Gaussian(noise, count):
            return library.SelfComposedDpEvent(library.GaussianDpEvent(noise), count)
        case Laplace(noise, count):
            return library.SelfComposedDpEvent(library.LaplaceDpEvent(noise), count)
        case BoundedRange(epsilon, count):
            return library.SelfComposedDpEvent(library.ZCDpEvent(epsilon**2 / 8.0), count)
        case PureDp(epsilon, count):
            return library.SelfComposedDpEvent(library.ZCDpEvent(epsilon**2 / 2.0), count)
        case Composed(events):
            return library.ComposedDpEvent([dp_event(part) for part in events])
    raise TypeError(event.kind)


@lru_cache
def _pld_accountant(events: tuple[Event, ...]) -> Any:
    from dp_accounting.pld import PLDAccountant

    return PLDAccountant().compose(dp_event(Composed(events)))


# Proven figures: the bounded range


@given(
    span=st.floats(1e-3, 5.0),
    place=st.floats(-1.2, 1.2),
    shape=st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0.0, 1.0)), min_size=2, max_size=6),
)
def test_the_pair_dominates_every_mechanism_of_its_range(
    span: float, place: float, shape: list[tuple[float, float]]
) -> None:
    # accountants/pld.py: delta of an exponential mechanism at any epsilon is at most the pair's.
    weights, scores = np.array(shape).T
    q = weights / weights.sum()
    p = q * np.exp(span * scores)
    p /= p.sum()  # log p/q varies by span at most
    epsilon = place * span
    delta = np.maximum(p - math.exp(epsilon) * q, 0).sum()
    assert delta <= float(bounded_range_delta(np.array(epsilon), span)) + 1e-12


def test_the_pair_is_the_supremum() -> None:
    # delta(epsilon) is the largest of delta_t over t, and below pure DP's, which knows less.
    span = 0.7
    t = np.linspace(0, span, 2001)[:, None]
    epsilon = np.linspace(-0.69, 0.69, 47)
    single = (1 - np.exp(epsilon - t) - np.exp(t - span) + np.exp(epsilon - span)) / -np.expm1(-span)
    single = np.where((epsilon >= t - span) & (epsilon <= t), single, 0.0).max(axis=0)
    deltas = bounded_range_delta(epsilon, span)
    np.testing.assert_allclose(deltas, single, atol=1e-6)
    assert np.all(deltas <= pure_delta(epsilon, span) + 1e-15)


def test_bounded_range_holds_for_adaptively_chosen_steps() -> None:
    # Dong, Durfee, Rogers 2020: an adversary who chooses t afresh after every outcome gains over one t fixed
    # in advance. Its best delta by dynamic programming over a grid of t must stay below ours.
    span, steps = 0.5, 4
    grid = np.linspace(0, span, 11)
    first = (1 - np.exp(grid - span)) / -np.expm1(-span)  # P of the loss t; else it is t - span

    @lru_cache(None)
    def worst(steps_left: int, epsilon: float) -> float:
        if steps_left == 0:
            return max(0.0, -math.expm1(epsilon))
        best: float = max(
            p * worst(steps_left - 1, round(epsilon - t, 9))
            + (1 - p) * worst(steps_left - 1, round(epsilon - t + span, 9))
            for t, p in zip(grid.tolist(), first.tolist(), strict=True)
        )
        return best

    for epsilon in (0.0, 0.25, 0.5, 1.0):
        assert epsilon <= SOUND.epsilon([BoundedRange(span, steps)], worst(steps, epsilon)).epsilon + 1e-9
        fixed = max(_one_range(span, t, p, steps, epsilon) for t, p in zip(grid, first, strict=True))
        assert fixed <= worst(steps, epsilon) + 1e-12


def _one_range(span: float, t: float, p: float, steps: int, epsilon: float) -> float:
    """Delta at epsilon of `steps` releases that all have losses t (with probability p) and t - span."""
    k = np.arange(steps + 1)
    ways = np.array([math.comb(steps, int(down)) for down in k])
    gain = np.maximum(0.0, -np.expm1(epsilon - steps * t + k * span))
    return float((ways * p ** (steps - k) * (1 - p) ** k * gain).sum())
