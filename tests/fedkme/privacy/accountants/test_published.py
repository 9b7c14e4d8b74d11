"""The paper's own figures, step by step."""

import math

import pytest

from fedkme.privacy.accountants import Published, Sound
from fedkme.privacy.accounting import privauction_patience, privauction_rate
from fedkme.privacy.events import Event, Gaussian, MwemCall, PrivAuction, RawRows

SOUND, PUBLISHED = Sound(), Published()
D_V = MwemCall(0.01, 1656)
LATER = MwemCall(0.01 / math.sqrt(5 * 100), 5)
AUCTION = PrivAuction(privauction_rate(1.0, 1e-3, 27), privauction_patience(27), 100, 1.0, 1e-3)


def test_the_papers_figures_step_by_step() -> None:
    # Section 4: 1.4 for D_v at delta 0.01, 0.043 for p = 100 calls at delta 0.0001; MATH.md: 1.4006, 0.04302.
    assert PUBLISHED.epsilon([D_V], 0.01).epsilon == pytest.approx(1.4006, abs=5e-5)
    assert PUBLISHED.epsilon([LATER] * 100, 1e-4).epsilon == pytest.approx(0.04302, abs=5e-6)
    steps = PUBLISHED.steps([D_V], 0.01)
    # SARPATWAR.md, section 4: theorem 7 exactly gives 1.248; ANCHORS.md, part D: form 2 is 1.3178.
    for figure in ("1656 iterations", "16.56", "1.3178", "1.2479", "1.4006"):
        assert any(figure in step for step in steps), figure
    assert any("0.043019" in step for step in PUBLISHED.steps([LATER] * 100, 1e-4))


def test_the_published_claim_of_the_auction_is_added() -> None:
    # Theorem 6 claims (1, 1e-3) for PRIVAUCTION; its delta is spent before theorem 7's.
    figure = PUBLISHED.epsilon([AUCTION, *[LATER] * 100], 1e-3 + 1e-4)
    assert figure.epsilon == pytest.approx(1.04302, abs=5e-6)
    assert "theorem 6" in PUBLISHED.steps([AUCTION], 1e-3)[0]
    assert math.isinf(PUBLISHED.epsilon([AUCTION], 1e-4).epsilon)
    assert PUBLISHED.steps([AUCTION], 1e-4)[0].startswith("no figure")


def test_published_has_no_figure_for_mechanisms_outside_the_paper() -> None:
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
