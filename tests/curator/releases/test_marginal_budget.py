"""The accounting of marginals: what a choice and a measurement cost, and that nothing goes over."""

from __future__ import annotations

import itertools
import math
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import logsumexp

from curator.releases.marginals.adaptive import _error
from curator.releases.marginals.budget import (
    BudgetFilter,
    measurement_cost,
    measurement_sigma,
    selection_cost,
    selection_logits,
    selection_range,
)
from fedkme.errors import BudgetError, ConfigError
from fedkme.features.counts import marginal_counts
from fedkme.privacy.accountants import Sound
from fedkme.privacy.accountants.pld import bounded_range_delta
from fedkme.privacy.events import CHOICE_SLACK, BoundedRange, leaves
from fedkme.privacy.gaussian import gaussian_delta
from fedkme.privacy.noise import choice_weights, simulated


@given(st.integers(1, 2000), st.integers(1, 2**31), st.integers(0, 2**32 - 1))
def test_the_error_of_a_marginal_is_an_exact_sum(cells: int, rows: int, seed: int) -> None:
    # Rounding of the sum took up to a third of CHOICE_SLACK at each of the two marginals that a row moves.
    random = np.random.default_rng(seed)
    shares, counts = random.dirichlet(np.ones(cells)), random.multinomial(rows, np.ones(cells) / cells)
    errors = [
        _error(Mock(**{"probabilities.return_value": shares[order]}), counts[order], (0,), rows)
        for order in (np.arange(cells), random.permutation(cells))
    ]
    assert errors[0] == errors[1]


@pytest.mark.parametrize("span", [1e-3, 0.1, 1.0, 4.0, 12.0])
def test_a_choice_of_bounded_range_is_gaussian_dp_of_what_it_is_charged_and_of_no_less(span: float) -> None:
    # budget: "2 Phi^-1(1/(1 + e^(-r/2)))-GDP, no smaller mu will do": delta of every choice of that range,
    # at every epsilon, is at most the Gaussian's; with 1 % less mu it is not.
    mu = math.sqrt(selection_cost(span))
    epsilons = np.linspace(0.0, span, 200)
    choice = bounded_range_delta(epsilons, span)
    assert all(gaussian_delta(1 / mu, e) >= d - 1e-12 for e, d in zip(epsilons.tolist(), choice, strict=True))
    assert gaussian_delta(1 / (0.99 * mu), 0.0) < choice[0]
    assert mu <= math.sqrt(math.pi / 8.0) * span * (1 + 1e-9)
    assert selection_range(selection_cost(span)) == pytest.approx(span)


def test_a_choice_between_marginals_has_the_range_that_is_entered() -> None:
    # "choosing S with probability proportional to exp(c score) has range 4 c max w": over all neighbours of a
    # table, log ratios of the probabilities lie in an interval no longer than the event says.
    sizes, cliques = (2, 3), [(0,), (1,), (0, 1)]
    weights, rng = np.array([1.0, 1.0, 2.0]), np.random.default_rng(0)
    span = 3.0
    table = rng.integers(0, sizes, (6, 2))
    models = [rng.dirichlet(np.ones(math.prod(sizes[c] for c in clique))) * 6 for clique in cliques]

    def chances(codes: NDArray[np.int64]) -> NDArray[np.float64]:
        errors = [
            np.abs(marginal_counts(codes, c, sizes) - m).sum() for c, m in zip(cliques, models, strict=True)
        ]
        logits = selection_logits(np.array(errors), np.zeros(3), weights, span)
        shares: NDArray[np.float64] = np.exp(logits - logsumexp(logits))
        return shares

    before, widest = chances(table), 0.0
    for place, row in itertools.product(range(6), itertools.product(range(2), range(3))):
        other = table.copy()
        other[place] = row
        ratio = np.log(chances(other) / before)
        widest = max(widest, float(ratio.max() - ratio.min()))
    assert 0.2 * span < widest <= span

    # `Budget.select` draws by exactly these chances.
    budget = BudgetFilter(5.0, 1e-5)
    budget.total, noise = 1e9, simulated(0, "curator", "test")
    errors = [
        np.abs(marginal_counts(table, c, sizes) - m).sum() for c, m in zip(cliques, models, strict=True)
    ]
    drawn = [
        budget.select(np.array(errors), np.zeros(3), weights, selection_cost(span), noise)
        for _ in range(4000)
    ]
    entered = next(iter(leaves([budget.pieces])))
    assert isinstance(entered, BoundedRange)
    assert entered.epsilon == pytest.approx(span)
    frequencies = np.bincount(drawn, minlength=3) / 4000
    assert np.abs(frequencies - before).max() < 4 * 0.5 / math.sqrt(4000)  # 4 standard deviations


@given(
    st.lists(
        st.tuples(st.integers(0, 10**7), st.integers(-50, 50), st.sampled_from([-2, 2]), st.integers(1, 3)),
        min_size=2,
        max_size=5,
    ),
    st.sampled_from([0, 10**9, 2**44]),
    st.sampled_from([1e-12, 1e-3, 1.0, 50.0]),
    st.integers(0, 10**6),
)
def test_a_choice_keeps_to_its_range_whatever_the_size_of_tables(
    rows: list[tuple[int, int, int, int]], least: int, span: float, seed: int
) -> None:
    # Issue 33, item 7: AIM's scores were held to nothing. Errors near each other, or near their constants,
    # are sums over many cells, which rounding moves by some 2^-50 of themselves.
    exact, near, steps, weights = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    constants = least + exact - near
    rounding = 1.0 + 2.0**-50 * np.random.default_rng(seed).uniform(-1, 1, (2, len(rows)))
    before = choice_weights(selection_logits((least + exact) * rounding[0], constants, weights, span))
    other = np.maximum(least + exact + steps, 0.0) * rounding[1]
    after = choice_weights(selection_logits(other, constants, weights, span))
    ratio = np.log(after) - np.log(before)
    assert ratio.max() - ratio.min() <= span * (1.0 + 1e-12) + CHOICE_SLACK * (span < CHOICE_SLACK)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-6), (4.0, 1e-9)])
def test_what_is_spent_never_exceeds_the_target_by_the_sound_accountant(epsilon: float, delta: float) -> None:
    budget = BudgetFilter(epsilon, delta)
    noise = simulated(0, "curator", "test")
    piece = budget.total / 12
    for _ in range(6):
        budget.select(np.array([0.0, 1.0]), np.zeros(2), np.ones(2), 0.2 * piece, noise)
        budget.measure([measurement_sigma(0.9 * piece)] * 2)
    sound = Sound()
    assert sound.epsilon([budget.event], delta).epsilon <= epsilon * (1 + 1e-9)
    assert sound.epsilon([budget.pieces], delta).epsilon <= epsilon * (1 + 1e-3)  # a grid of losses rounds up
    assert sound.epsilon([budget.event], delta).epsilon >= epsilon * (1 - 1e-6)  # and nothing is given away
    assert measurement_cost(measurement_sigma(piece)) == pytest.approx(piece)


def test_a_budget_refuses_before_it_pays() -> None:
    budget = BudgetFilter(1.0, 1e-5)
    budget.measure([measurement_sigma(0.6 * budget.total)])
    spent = budget.spent
    with pytest.raises(BudgetError, match="over its epsilon"):
        budget.measure([measurement_sigma(0.6 * budget.total)])
    with pytest.raises(BudgetError):
        budget.select(
            np.ones(2), np.zeros(2), np.ones(2), 0.5 * budget.total, simulated(0, "curator", "test")
        )
    assert budget.spent == spent
    assert len(list(leaves([budget.pieces]))) == 1


def test_a_budget_of_no_epsilon_is_refused() -> None:
    with pytest.raises(ConfigError):
        BudgetFilter(-1.0, 1e-5)
    with pytest.raises(ConfigError):
        BudgetFilter(1.0, 0.0)
