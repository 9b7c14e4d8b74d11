"""Games that are whole runs: the same on both engines, and they find what they are for (issue 3, item 6)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from audit.attacks import auctions, clock, joint
from audit.attacks.finding import Claim, Effort
from audit.attacks.wire import GRPC, LOOPBACK
from audit.planted_faults import FAULTS
from curator.summary.auctions.base import AskEveryoneSettings
from curator.summary.auctions.privauction import PrivAuctionSettings
from fedkme.directives import Answer, Directive, Sell
from fedkme.errors import OwnerLostError
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import Gaussian, PureDp
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.tables.table import Row
from owner.runs import RunManager
from owner.summary.bidder import Bidder

CLAIM = Claim(1.0, 0.0, auctions.RELATION)
GAMES = {
    "clock": clock.clock_game(CLAIM),
    "privauction": auctions.chain_game(lambda noise: PrivAuctionSettings().make(2, noise), CLAIM, 3),
    "clock and broadcasts": joint.joint_game(CLAIM),
}


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("second", [False, True])
def test_a_game_is_the_same_over_grpc_as_in_process(name: str, second: bool) -> None:
    # One definition, and an engine is only a way to make ports: what an owner hears over its stream is, bit
    # for bit, what it hears by calls in one process. So what the many runs there find holds for the wire.
    scores = [
        GAMES[name].over(engine, 1).sample(second, 40, np.random.default_rng(2))
        for engine in (LOOPBACK, GRPC)
    ]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert len(set(scores[0])) > 1 or (name == "privauction" and not second)


def test_over_grpc_owners_hear_what_their_streams_carry(monkeypatch: pytest.MonkeyPatch) -> None:
    # "Black box through the real wire": every price that the score is made of came as a message.
    carried: list[float] = []
    answer = RunManager.answer

    def tapped(runs: RunManager, directive: Directive) -> Answer | None:
        carried.extend([directive.body.price] if isinstance(directive.body, Sell) else [])
        return answer(runs, directive)

    monkeypatch.setattr(RunManager, "answer", tapped)
    early = GAMES["clock"].over(GRPC, 1).sample(True, 30, np.random.default_rng(1))
    assert len(carried) == 2 * 2 * 30  # owners, rounds, runs
    assert 2 * early.sum() == sum(price > np.mean([min(carried), max(carried)]) for price in carried) > 0


def test_a_lost_owner_ends_a_game_over_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    # Half a run is no trial, and a game does not go on without the owner that it is about.
    def sell(bidder: Bidder, round_number: int, price: float) -> Sequence[Row]:
        raise RuntimeError

    monkeypatch.setattr(Bidder, "sell", sell)
    game = GAMES["clock"].over(GRPC, 1)
    with pytest.raises(OwnerLostError, match="holder"):
        game.sample(True, 5, np.random.default_rng(1))


@pytest.mark.parametrize("fault", ["", "a clock without patience"])
def test_whole_rounds_show_a_clock_without_patience(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A clock whose threshold has no noise tells by when it stops, in prices that another owner is told, of
    # one row more. False alarm: 1e-3, seed fixed.
    if fault:
        FAULTS[fault].plant(monkeypatch)
    finding = clock.clock_game(CLAIM).over(LOOPBACK, 400)(Effort(alpha=1e-3))
    assert finding.trials == 200
    assert finding.violated == bool(fault)


def test_an_owner_that_counts_sent_rows_again_shows_nothing_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    # It counts more rows than it has left, is out for that, and its count is in no clock.
    FAULTS["rows counted again after they were sent"].plant(monkeypatch)
    finding = clock.clock_game(CLAIM).over(LOOPBACK, 400)(Effort(alpha=1e-3))
    assert not finding.violated


def test_the_joint_score_is_the_log_likelihood_ratio() -> None:
    # "Likelihood-ratio statistic fixed in advance": a ratio of densities, so its mean is 1 where the
    # denominator is true. Within 5 standard errors, in which a wrong noise or a wrong sum is far outside.
    game = GAMES["clock and broadcasts"].over(LOOPBACK, 1)
    random = np.random.default_rng(5)
    first, second = (game.sample(world, 400, random) for world in (False, True))
    ratio = np.exp(first)
    assert abs(ratio.mean() - 1.0) < 5.0 * ratio.std() / np.sqrt(len(ratio))
    assert second.mean() > 0.2 > -0.2 > first.mean()  # each world's divergence from the other


def test_the_joint_claim_is_what_the_accountant_composes() -> None:
    # Clock, pure and once a run, and Gaussian broadcasts of one exchanged row: for add or remove.
    claim = joint.clock_and_broadcasts().claim
    broadcasts = Gaussian(gaussian_sigma(1.0, 1e-5, 2), 2)
    assert claim.epsilon == Sound().epsilon([PureDp(1.0), broadcasts], 1e-5).epsilon
    assert 1.0 < claim.epsilon < 2.0
    assert "add or remove" in claim.relation


def test_the_chain_breaks_nothing_that_asks_everyone() -> None:
    # The game itself tells the worlds apart in no other way than by who is asked.
    game = auctions.chain_game(lambda noise: AskEveryoneSettings().make(2, noise), CLAIM, 3).over(LOOPBACK, 1)
    random = np.random.default_rng(1)
    assert not any(game.sample(world, 20, random).any() for world in (False, True))
