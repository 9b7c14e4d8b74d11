"""Accountants: the paper's figures, proven figures, their laws, and the matrix."""

import math
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkme.errors import ConfigError
from fedkme.privacy.accountants import Accountant, Published, Sound, matrix, to_dp_event
from fedkme.privacy.accountants.pld import bounded_range_delta, pure_delta
from fedkme.privacy.accountants.sound import zcdp_delta
from fedkme.privacy.accounting import mwem_zcdp, privauction_patience, privauction_rate, zcdp_epsilon
from fedkme.privacy.events import (
    BoundedRange,
    Clock,
    Composed,
    Disclosure,
    Event,
    ExactStatistic,
    Gaussian,
    HashedRows,
    Laplace,
    MwemCall,
    MwemRelation,
    PrivAuction,
    PureDp,
    RawRows,
    SubsampledGaussian,
)
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.privacy.ledger import merged

SOUND, PUBLISHED = Sound(), Published()
D_V = MwemCall(0.01, 1656)
LATER = MwemCall(0.01 / math.sqrt(5 * 100), 5)
AUCTION = PrivAuction(privauction_rate(1.0, 1e-3, 27), privauction_patience(27), 100, 1.0, 1e-3)


# The paper's figures


def test_the_papers_figures_step_by_step() -> None:
    # Section 4: 1.4 for D_v at delta 0.01, 0.043 for p = 100 calls at delta 0.0001; MATH.md: 1.4006, 0.04302.
    assert PUBLISHED.epsilon([D_V], 0.01).epsilon == pytest.approx(1.4006, abs=5e-5)
    assert PUBLISHED.epsilon([LATER] * 100, 1e-4).epsilon == pytest.approx(0.04302, abs=5e-6)
    steps = PUBLISHED.steps([D_V], 0.01)
    # SARPATWAR.md, section 4: theorem 7 exactly gives 1.248; ANCHORS.md, part D: form 2 is 1.3178.
    for figure in ("1656 iterations", "16.56", "1.3178", "1.2479", "1.4006"):
        assert any(figure in step for step in steps), figure
    assert any("0.043019" in step for step in PUBLISHED.steps([LATER] * 100, 1e-4))


def test_the_auctions_claim_is_added() -> None:
    # Theorem 6 claims (1, 1e-3) for PRIVAUCTION; its delta is spent before theorem 7's.
    figure = PUBLISHED.epsilon([AUCTION, *[LATER] * 100], 1e-3 + 1e-4)
    assert figure.epsilon == pytest.approx(1.04302, abs=5e-6)
    assert "theorem 6" in PUBLISHED.steps([AUCTION], 1e-3)[0]
    assert math.isinf(PUBLISHED.epsilon([AUCTION], 1e-4).epsilon)
    assert PUBLISHED.steps([AUCTION], 1e-4)[0].startswith("no figure")


def test_published_has_no_figure_for_what_the_paper_does_not_have() -> None:
    figure = PUBLISHED.epsilon([D_V, Gaussian(4.0), RawRows(1)], 0.01)
    assert (figure.epsilon, figure.method) == (math.inf, "none")
    assert "gaussian, raw-rows" in figure.reason
    assert PUBLISHED.delta([Gaussian(4.0)], 1.0).delta == 1


@pytest.mark.parametrize("events", [[D_V], [LATER] * 100, [AUCTION, LATER]])
@pytest.mark.parametrize("delta", [2e-3, 1e-2, 0.2])
def test_published_delta_is_the_inverse(events: list[Event], delta: float) -> None:
    epsilon = PUBLISHED.epsilon(events, delta).epsilon
    assert PUBLISHED.delta(events, epsilon * (1 + 1e-12)).delta <= delta * (1 + 1e-9)
    assert PUBLISHED.delta(events, epsilon * (1 - 1e-6)).delta > PUBLISHED.delta(events, epsilon * 1.01).delta


def test_published_without_delta_is_the_plain_sum() -> None:
    assert PUBLISHED.epsilon([D_V], 0.0).epsilon == pytest.approx(16.56)
    assert "16.56" in PUBLISHED.steps([D_V], 0.0)[-1]
    assert PUBLISHED.delta([D_V], 17.0).delta == 0


# Proven figures: the table of MATH.md


@pytest.mark.parametrize(
    ("relation", "delta", "zcdp", "pld"),
    [
        ("replace-one", 0.01, 3.308, 3.104),
        ("add-remove, q counted", 0.01, 2.436, 2.392),
        ("add-remove, q public", 0.01, 1.351, 1.228),
        ("replace-one", 1e-5, None, 5.63),
    ],
)
def test_what_h2_of_d_v_costs(relation: MwemRelation, delta: float, zcdp: float | None, pld: float) -> None:
    # MATH.md, "Composition of what is released": the zCDP column to all digits, PLD to 3 digits.
    by_method = {f.method: f.epsilon for f in SOUND.figures([MwemCall(0.01, 1656, relation)], delta)}
    assert by_method["PLD"] == pytest.approx(pld, rel=1e-3)
    if zcdp is not None:
        assert float(f"{by_method['zCDP']:.4g}") == zcdp
    best = SOUND.epsilon([MwemCall(0.01, 1656, relation)], delta)
    assert best.epsilon == min(by_method.values())


def test_what_h2_of_the_summary_costs() -> None:
    # MATH.md: "D_s, p = 100, delta 1e-4, replace one: 0.0762 (zCDP), 0.0718 (PLD)"; 100 calls or one list.
    by_method = {figure.method: figure.epsilon for figure in SOUND.figures([LATER] * 100, 1e-4)}
    assert float(f"{by_method['zCDP']:.3g}") == 0.0762
    assert float(f"{by_method['PLD']:.3g}") == 0.0718
    assert SOUND.epsilon([Composed((LATER,) * 100)], 1e-4).epsilon == by_method["PLD"]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([PureDp(0.01, 1656)], 0.6980),
        ([PureDp(0.01, 1656), PureDp(0.01, 1656)], 1.1089),
        ([PureDp(0.04, 1656), Laplace(50, 1656)], 5.2474),
        ([PureDp(0.02, 1656), Laplace(100, 1656)], 2.0409),
    ],
)
def test_pure_releases_compose_optimally(events: list[Event], expected: float) -> None:
    # ANCHORS.md, part D (b): optimal composition at delta 0.01, found with dp_accounting.
    assert SOUND.epsilon(events, 0.01).epsilon == pytest.approx(expected, rel=1e-4)


def test_small_deltas_fall_back_on_zcdp() -> None:
    # Floating point carries a loss distribution down to about 1e-11.
    figure = SOUND.epsilon([D_V], 1e-13)
    assert figure.method == "zCDP"
    assert figure.epsilon == zcdp_epsilon(mwem_zcdp(0.01, 1656, "replace-one"), 1e-13)


# Proven figures: Gaussian


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.1, 1e-6), (4.0, 1e-9)])
@pytest.mark.parametrize("releases", [1, 2, 100])
def test_calibration_and_accounting_are_inverse(epsilon: float, delta: float, releases: int) -> None:
    # Issue 3, item 2: "Exact calibration of the Gaussian mechanism".
    sigma = gaussian_sigma(epsilon, delta, releases)
    for events in ([Gaussian(sigma, releases)], [Gaussian(sigma)] * releases):
        figure = SOUND.epsilon(events, delta)
        assert figure.method == "exact Gaussian"
        assert figure.epsilon == pytest.approx(epsilon, rel=1e-9)
        assert SOUND.delta(events, epsilon).delta == pytest.approx(delta, rel=1e-9)


def test_gaussians_of_different_noise() -> None:
    # 1/sigma^2 adds up: 3 and 4 compose to 2.4.
    assert SOUND.epsilon([Gaussian(3.0), Gaussian(4.0)], 1e-5) == SOUND.epsilon([Gaussian(2.4)], 1e-5)


# Proven figures: agreement with dp_accounting


@pytest.mark.parametrize(
    "events",
    [
        [Gaussian(3.7306)],
        [Laplace(1.0)],
        [Laplace(20.0, 50)],
        [Gaussian(5.0, 3), Laplace(10.0, 20), Gaussian(7.0)],
        [SubsampledGaussian(1.0, 0.01, 200), Laplace(4.0)],
    ],
)
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9])
def test_agreement_with_dp_accounting(events: list[Event], delta: float) -> None:
    # Issue 3: "figures agree with dp_accounting where it has the event". Its default relation, add-remove,
    # takes noise multipliers as they are.
    assert SOUND.epsilon(events, delta).epsilon == pytest.approx(
        _pld_accountant(tuple(events)).get_epsilon(delta), rel=1e-3, abs=1e-3
    )


def test_agreement_with_dp_accounting_in_delta() -> None:
    events = (Gaussian(5.0, 3), Laplace(10.0, 20))
    for epsilon in (0.0, 0.5, 2.0):
        assert SOUND.delta(events, epsilon).delta == pytest.approx(
            _pld_accountant(events).get_delta(epsilon), rel=1e-3
        )


def test_bounded_range_agrees_with_zcdp_of_dp_accounting() -> None:
    # ANCHORS.md, part D: dp_accounting has the exponential mechanism as ZCDpEvent(e^2/8) only.
    from dp_accounting.rdp import RdpAccountant

    events = (BoundedRange(0.04, 1656), Laplace(50.0, 1656), PureDp(0.1))
    theirs = RdpAccountant().compose(to_dp_event(Composed(events))).get_epsilon(1e-5)
    ours = {figure.method: figure.epsilon for figure in SOUND.figures(events, 1e-5)}
    assert ours["zCDP"] == pytest.approx(theirs, rel=1e-2)


def test_what_dp_accounting_has_no_event_for_is_refused_by_it() -> None:
    import dp_accounting

    accountant = dp_accounting.pld.PLDAccountant()
    for unknown in (AUCTION, HashedRows(1)):
        assert not accountant.supports(to_dp_event(unknown))
    for exact in (RawRows(1), ExactStatistic("a median")):
        assert math.isinf(dp_accounting.pld.PLDAccountant().compose(to_dp_event(exact)).get_epsilon(0.1))
    assert dp_accounting.rdp.RdpAccountant().supports(to_dp_event(Composed((D_V, Clock(1.0)))))


@lru_cache
def _pld_accountant(events: tuple[Event, ...]) -> Any:
    from dp_accounting.pld import PLDAccountant

    return PLDAccountant().compose(to_dp_event(Composed(events)))


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
    found = bounded_range_delta(epsilon, span)
    np.testing.assert_allclose(found, single, atol=1e-6)
    assert np.all(found <= pure_delta(epsilon, span) + 1e-15)


def test_bounded_range_holds_when_each_step_is_chosen_after_the_last() -> None:
    # Dong, Durfee, Rogers 2020: an adversary who chooses t afresh after every outcome gains over one t fixed
    # in advance. Its best delta by dynamic programming over a grid of t must stay below ours.
    span, steps = 0.5, 4
    grid = np.linspace(0, span, 11)
    first = (1 - np.exp(grid - span)) / -np.expm1(-span)  # P of the loss t; else it is t - span

    @lru_cache(None)
    def worst(left: int, epsilon: float) -> float:
        if left == 0:
            return max(0.0, -math.expm1(epsilon))
        best: float = max(
            p * worst(left - 1, round(epsilon - t, 9))
            + (1 - p) * worst(left - 1, round(epsilon - t + span, 9))
            for t, p in zip(grid.tolist(), first.tolist(), strict=True)
        )
        return best

    for epsilon in (0.0, 0.25, 0.5, 1.0):
        assert worst(steps, epsilon) <= SOUND.delta([BoundedRange(span, steps)], epsilon).delta
        fixed = max(_one_range(span, t, p, steps, epsilon) for t, p in zip(grid, first, strict=True))
        assert fixed <= worst(steps, epsilon) + 1e-12


def _one_range(span: float, t: float, p: float, steps: int, epsilon: float) -> float:
    """Delta at epsilon of `steps` releases that all have losses t (with probability p) and t - span."""
    k = np.arange(steps + 1)
    ways = np.array([math.comb(steps, int(down)) for down in k])
    gain = np.maximum(0.0, -np.expm1(epsilon - steps * t + k * span))
    return float((ways * p ** (steps - k) * (1 - p) ** k * gain).sum())


# What has no proof


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (AUCTION, "best bidder is always asked"),
        (RawRows(3), "rows are seen"),
        (HashedRows(3), "without noise"),
        (ExactStatistic("the winner of a round"), "released without noise: the winner of a round"),
    ],
)
def test_no_proof_means_inf_with_the_reason(event: Event, reason: str) -> None:
    # DESIGN.md, decision 4: never an estimate, however little of the whole it is and however large delta.
    assert not SOUND.supports(event)
    for events in ([event], [Gaussian(1e6), Composed((Laplace(1e6), Composed((event,))))]):
        figure = SOUND.epsilon(events, 0.5)
        assert (figure.epsilon, figure.method) == (math.inf, "none")
        assert reason in figure.reason
        assert SOUND.delta(events, 100.0).delta == 1
        assert figure.to_json()["epsilon"] == "inf"


@dataclass(frozen=True)
class Telepathy(Gaussian):
    """A kind that no accountant was built for, though it looks like one that is."""

    kind: ClassVar[str] = "telepathy"


@pytest.mark.parametrize("accountant", [SOUND, PUBLISHED])
def test_unknown_kinds_are_not_supported(accountant: Accountant) -> None:
    # CONVENTIONS.md: supports() is False for anything the accountant was not built for, at any depth.
    assert not accountant.supports(Telepathy(1.0))
    assert not accountant.supports(Composed((D_V, Composed((Telepathy(1.0),)))))
    assert "telepathy" in accountant.epsilon([D_V, Telepathy(1.0)], 0.01).reason
    assert accountant.supports(Composed((D_V, Composed(()))))


def test_a_refusal_changes_nothing() -> None:
    # CONVENTIONS.md: failure is atomic. Accountants keep no state, so a figure is the same before and after.
    before = SOUND.epsilon([D_V], 0.01)
    SOUND.epsilon([D_V, AUCTION], 0.01)
    assert SOUND.epsilon([D_V], 0.01) == before


def test_relations_do_not_mix() -> None:
    # Issue 3: every figure names its relation; events under different ones have no common figure.
    figure = SOUND.epsilon([Clock(0.1, "add-remove"), MwemCall(0.01, 5, "replace-one")], 0.01)
    assert math.isinf(figure.epsilon)
    assert "relations" in figure.reason
    assert SOUND.supports(Composed((Clock(0.1, "add-remove"), MwemCall(0.01, 5, "add-remove, q public"))))


def test_without_delta_only_pure_releases_have_a_figure() -> None:
    assert SOUND.epsilon([Clock(0.5), Laplace(2.0), BoundedRange(0.25)], 0.0).epsilon == 1.75
    assert math.isinf(SOUND.epsilon([Gaussian(2.0)], 0.0).epsilon)
    assert "delta = 0" in SOUND.epsilon([Clock(0.5), Gaussian(2.0)], 0.0).reason


def test_nothing_released_costs_nothing() -> None:
    for accountant in (SOUND, PUBLISHED):
        assert accountant.epsilon([Composed(())], 0.0).epsilon == 0
        assert accountant.delta([], 0.0).delta == 0


@pytest.mark.parametrize("accountant", [SOUND, PUBLISHED])
def test_questions_out_of_range_are_refused(accountant: Accountant) -> None:
    for delta in (-0.1, 1.0, math.nan):
        with pytest.raises(ConfigError):
            accountant.epsilon([D_V], delta)
    with pytest.raises(ConfigError):
        accountant.delta([D_V], -1.0)


# Laws

PROVEN: st.SearchStrategy[Event] = st.one_of(
    st.builds(Gaussian, st.floats(1.0, 50.0), st.integers(1, 5)),
    st.builds(Laplace, st.floats(1.0, 50.0), st.integers(1, 20)),
    st.builds(BoundedRange, st.floats(0.02, 1.0), st.integers(1, 20)),
    st.builds(PureDp, st.floats(0.02, 1.0), st.integers(1, 20)),
)


@settings(max_examples=15, deadline=None)
@given(st.lists(PROVEN, min_size=1, max_size=3), PROVEN)
def test_more_events_never_cost_less(events: list[Event], more: Event) -> None:
    # Up to the grid, whose step depends on the events: 1e-3 of epsilon.
    for delta in (1e-2, 1e-6):
        less = SOUND.epsilon(events, delta).epsilon
        assert SOUND.epsilon([*events, more], delta).epsilon >= less * (1 - 1e-3) - 1e-9


@settings(max_examples=15, deadline=None)
@given(st.lists(PROVEN | st.just(D_V), min_size=1, max_size=3))
def test_larger_deltas_never_cost_more(events: list[Event]) -> None:
    deltas = [0.0, 1e-15, 1e-11, 1e-9, 1e-5, 1e-2, 0.5]
    curve = [figure.epsilon for figure in SOUND.curve(events, deltas)]
    assert all(b <= a + 1e-12 for a, b in pairwise(curve))


@settings(max_examples=15, deadline=None)
@given(st.lists(PROVEN, min_size=1, max_size=3), st.sampled_from([1e-2, 1e-5]))
def test_epsilon_and_delta_describe_one_curve(events: list[Event], delta: float) -> None:
    epsilon = SOUND.epsilon(events, delta).epsilon
    assert SOUND.delta(events, epsilon * (1 + 1e-9) + 1e-9).delta <= delta * (1 + 1e-6)


@settings(max_examples=15, deadline=None)
@given(st.permutations([Gaussian(5.0), Laplace(8.0, 3), BoundedRange(0.1, 9), D_V, Clock(0.2)]))
def test_the_order_of_events_does_not_matter(events: list[Event]) -> None:
    expected = SOUND.epsilon([Composed(tuple(sorted(events, key=repr)))], 1e-5).epsilon
    assert SOUND.epsilon(events, 1e-5).epsilon == expected


@given(st.floats(1e-6, 50.0), st.floats(1e-12, 0.1))
def test_the_two_conversions_from_zcdp_are_inverse(rho: float, delta: float) -> None:
    epsilon = zcdp_epsilon(rho, delta)
    if epsilon > 0:
        assert zcdp_delta(rho, epsilon) == pytest.approx(delta, rel=1e-3)


def test_extreme_events_have_a_figure() -> None:
    # A peer's ledger may hold anything that events allow: no overflow, no endless computation.
    for event in (
        Gaussian(1e-100, 10**50),
        Laplace(1e100, 10**50),
        SubsampledGaussian(1e50, 1e-50, 10),
        SubsampledGaussian(1e-50, 0.5),
        PureDp(1e-60),
        BoundedRange(700.0),
    ):
        for events in ([event], [event, Laplace(2.0)]):
            assert SOUND.epsilon(events, 1e-5).epsilon >= 0
            assert 0 <= SOUND.delta(events, 1.0).delta <= 1


def test_rare_samples_have_renyi_figures_below_the_loss_distribution() -> None:
    # Issue 3, item 2: "by PLD where all events allow it, else by RDP/zCDP".
    figure = SOUND.epsilon([SubsampledGaussian(1.0, 0.01, 100)], 1e-12)
    assert figure.method == "RDP"
    assert SOUND.epsilon([SubsampledGaussian(1.0, 0.01, 100)], 1e-11).epsilon <= figure.epsilon


def test_the_library_is_imported_when_a_figure_needs_it() -> None:
    # It takes 1.7 s to import; nothing on the path of a round may wait for it.
    code = """
import sys
from fedkme.privacy import accountants as a, events as e
a.Sound().epsilon([e.Gaussian(2.0), e.RawRows(1)], 0.1), a.Sound().epsilon([e.Gaussian(2.0)], 0.1)
a.Published().epsilon([e.MwemCall(0.01, 5)], 0.1)
print("dp_accounting" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# The matrix


def entry(observer: str, event: Event, nonce: str, **other: Any) -> Disclosure:
    plain = Disclosure("run-1", 1, "owner-1", observer, event, "replace-one", 2.0, nonce)
    return replace(plain, **other)


def test_the_matrix_composes_what_each_observer_saw() -> None:
    # Issue 3, item 3: protected x observer, with raw rows seen.
    noisy = Gaussian(10.0)
    rows = matrix(
        [
            *(entry(observer, noisy, str(i)) for i in range(4) for observer in ("owner-2", "owner-3")),
            entry("owner-3", Laplace(10.0), "5"),
            entry("curator", Composed((RawRows(2), noisy)), "6"),
            entry("curator", RawRows(3), "7"),
            entry("owner-2", Gaussian(4.0), "8", protected="D_v"),
        ],
        SOUND,
        1e-5,
    )
    found = {(row.protected, row.observer): row for row in rows}
    assert list(found) == sorted(found)
    assert len(found) == 4
    assert found["owner-1", "owner-2"].figure == SOUND.epsilon([Gaussian(5.0)], 1e-5)
    assert found["owner-1", "owner-3"].figure.epsilon > found["owner-1", "owner-2"].figure.epsilon
    assert found["owner-1", "curator"].raw_rows == 5
    assert math.isinf(found["owner-1", "curator"].figure.epsilon)
    assert found["D_v", "owner-2"].figure == SOUND.epsilon([Gaussian(4.0)], 1e-5)


def test_each_line_of_a_ledger_is_a_draw_and_the_other_sides_copy_is_none() -> None:
    # Issue 12, A1: 60 equal lines were 60 draws, and cost as much as one.
    # DESIGN.md, decision 3: both sides hold the entry.
    once = entry("owner-2", Gaussian(5.0), "1")
    (row,) = matrix([once] * 60, SOUND, 1e-5)
    assert row.figure == SOUND.epsilon([Gaussian(5.0, 60)], 1e-5)
    (row,) = matrix(merged([[once, once], [once, replace(once), once], []]), SOUND, 1e-5)
    assert row.figure == SOUND.epsilon([Gaussian(5.0, 3)], 1e-5)


def test_a_runs_clocks_are_paid_once() -> None:
    # SARPATWAR.md, section 6: eps for ALL clocks of the run together; the next run pays again.
    stops = [entry("owner-2", Clock(0.2), "auction 1", round=i) for i in range(10)]
    (row,) = matrix(stops, SOUND, 0.0)
    assert row.figure.epsilon == pytest.approx(0.4)
    # Another run, or one of the same name with another g~, or the same lines again: another clock.
    clock = entry("owner-2", Clock(0.2), "auction 1", round=3)
    for other in (replace(clock, run="run-2"), replace(clock, nonce="auction 2"), clock):
        (row,) = matrix([*stops, other], SOUND, 0.0)
        assert row.figure.epsilon == pytest.approx(0.8)
    (row,) = matrix(stops * 3, SOUND, 0.0)
    assert row.figure.epsilon == pytest.approx(1.2)


def test_disclosures_under_different_relations_have_no_common_figure() -> None:
    mixed = [
        entry("owner-2", Gaussian(5.0), "1"),
        entry("owner-2", Gaussian(5.0), "2", relation="add-remove"),
    ]
    (row,) = matrix(mixed, SOUND, 1e-5)
    assert math.isinf(row.figure.epsilon)
    assert row.relation == "add-remove and replace-one"
