"""The contract of an auction."""

from __future__ import annotations

import numpy as np
import pytest

from curator.summary.auctions.base import AUCTIONS, AuctionSettings, RankAuction, ranked
from curator.summary.settings import SummarySettings
from fedkme.config import validate
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import event_from_json
from fedkme.privacy.noise import simulated
from fedkme.protocol import Bid
from fedkme.protocols import PROTOCOLS

_NAMES = tuple("abcdef")


class AuctionContract:
    """Tests of any auction; a subclass gives the fixture `settings`."""

    @pytest.fixture
    def settings(self) -> AuctionSettings:
        """Settings of the auction."""
        raise NotImplementedError

    def test_it_has_a_row_and_settings_that_travel(self, settings: AuctionSettings) -> None:
        """Owners agree to an auction by its row in the table; a run's folder has its settings."""
        assert PROTOCOLS[settings.kind].family == "auction"
        assert AUCTIONS[settings.kind] is type(settings)
        table = validate(SummarySettings, {"auction": settings.model_dump(mode="json")}, "run.toml")
        assert table.auction == settings
        assert SummarySettings.model_validate_json(table.model_dump_json()) == table

    def test_its_event_is_one_that_accountants_know(self, settings: AuctionSettings) -> None:
        """Ledgers store the event; the accountant gives a reason if it has no finite epsilon."""
        event = settings.event(20, 5)
        assert event_from_json(event.to_json()) == event
        bound = Sound().epsilon((event,), 1e-5)
        assert bound.epsilon < np.inf or bound.reason

    def test_equal_coins_make_equal_choices(self, settings: AuctionSettings) -> None:
        """A run repeats from its seed, for any order of bids."""
        first, second = (settings.make(6, simulated(3, "curator", "auction")) for _ in range(2))
        if not (isinstance(first, RankAuction) and isinstance(second, RankAuction)):
            pytest.skip("it asks at a price, not by rank")
        for bids in _rounds(5):
            turned = dict(reversed(bids.items()))
            first.open_round(bids)
            second.open_round(turned)
            assert first.asked(bids) == second.asked(turned)

    def test_by_rank_it_asks_bidders_and_the_best_of_them(self, settings: AuctionSettings) -> None:
        """Rank 1 is asked with probability 1 (Algorithm 3, step 13).

        Within a round the auction may be called again, with the remaining bidders after others failed.
        """
        auction = settings.make(6, simulated(3, "curator", "auction"))
        if not isinstance(auction, RankAuction):
            pytest.skip("it asks at a price, not by rank")
        for bids in (bids for seed in range(40) for bids in _rounds(seed)):
            auction.open_round(bids)
            remaining = dict(bids)
            while remaining:
                names = auction.asked(remaining)
                assert len(set(names)) == len(names)
                assert set(names) <= remaining.keys()
                assert ranked(remaining)[0] in names
                remaining = {name: bid for name, bid in remaining.items() if name not in names}

    @pytest.mark.parametrize("owners", [1, 5, 125])
    def test_by_rank_it_promises_no_fewer_rows_than_the_summary_has(
        self, settings: AuctionSettings, owners: int
    ) -> None:
        """A round accesses at least one row, so a bound on the points accessed is at least p."""
        bound = settings.access_bound(100, owners)
        if isinstance(settings.make(owners, simulated(0, "curator", "auction")), RankAuction):
            assert bound is not None
        assert bound is None or bound >= 100


def _rounds(seed: int) -> list[dict[str, Bid]]:
    """Make rounds of bids, many of which are equal."""
    g = np.random.default_rng(seed)
    rounds: list[dict[str, Bid]] = []
    for _ in range(8):
        names = g.permutation(_NAMES)[: g.integers(1, 7)]
        values = g.choice([-1.0, 0.0, 0.25, 0.5], len(names))
        tokens = g.integers(0, 3, len(names))
        rows = zip(names, values, tokens, strict=True)
        rounds.append({str(name): Bid(float(value), int(token)) for name, value, token in rows})
    return rounds
