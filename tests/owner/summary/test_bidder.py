"""The bidder: bids, tokens, draws and sales, and the memory of an owner's process."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedkme.errors import DataError, OwnerFaultError, ProtocolError, SchemaError
from fedkme.features.fixed_point import MeanVector, ScoredFeatures, quantize_mean
from fedkme.features.fourier import FourierSpec
from fedkme.party import noise_for
from fedkme.privacy.ledger import Ledger
from fedkme.protocol import AuctionTerms, Bid, Broadcast, Invitation
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Row, Table
from owner.consent.gate import OwnerGate
from owner.summary.bidder import Bidder
from tests.curator.summary.fakes import SCHEMA, bidder, invitation, make_task, table

TASK = make_task(5)
NOTHING = np.zeros_like(TASK.target)


def prepared(rows: Table) -> Bidder:
    owner = bidder("a", rows)
    assert owner.invite(invitation(TASK)) == len(rows)
    return owner


def random_mean(seed: int) -> MeanVector:
    return quantize_mean(np.random.default_rng(seed).uniform(-1, 1, len(TASK.target)))


def bids_and_reveals(owner: Bidder) -> Iterator[tuple[Bid, list[float], int | None]]:
    """Bids and rows of an owner until it runs dry, under means that change every round."""
    number = 0
    while (bid := owner.bid(Broadcast(number + 1, number, random_mean(number)))) is not None:
        number += 1
        if number % 3:  # in two of three rounds its row is asked for
            row = owner.reveal(number, bid.token)
            assert isinstance(row, Row)
            yield bid, row.values.tolist(), row.label


def test_a_bid_is_the_largest_marginal_gain() -> None:
    # Algorithm 3, step 6: of all unsent rows, by the same arithmetic as the curator's.
    rows = table(30, 1)
    owner, scored = prepared(rows), ScoredFeatures(len(TASK.target), TASK.target)
    scored.append(TASK.h1.fixed_point(SCHEMA.encode(rows.values)))
    for size in range(5):
        bid = owner.bid(Broadcast(size + 1, size, random_mean(size)))
        assert bid is not None
        assert bid.value == scored.bids(random_mean(size), size).max()


def test_the_first_of_equal_rows_is_bid() -> None:
    # A tie has the same outcome everywhere. The copies differ in their labels.
    best = table(1, 4).values[0]
    rows = Table(np.array([best, best, best]), np.array([1, 0, 0]))
    owner = prepared(rows)
    bid = owner.bid(Broadcast(1, 0, NOTHING))
    assert bid is not None
    row = owner.reveal(1, bid.token)
    assert isinstance(row, Row)
    assert row.label == 1


@pytest.mark.parametrize("size", [0, 1, 7])
def test_every_row_is_sent_once_until_the_owner_is_dry(size: int) -> None:
    # Step 16: a sent row is not bid again. An owner may run dry, or have no rows at all.
    rows = table(size, 2)
    owner = prepared(rows)
    bids = list(bids_and_reveals(owner))
    assert sorted(values for _, values, _ in bids) == sorted(rows.values.tolist())
    assert len({bid.token for bid, *_ in bids}) == size
    assert owner.bid(Broadcast(99, 99, NOTHING)) is None
    assert owner.close(1).rows_sent == size


@given(st.permutations(range(9)))
def test_bids_do_not_depend_on_the_order_of_rows_in_the_file(order: list[int]) -> None:
    # Tokens are opaque: they count the rows that were named, in the order of naming, so
    # the same rows in any order on disk say the same.
    rows = table(9, 3)
    bids, shuffled = (list(bids_and_reveals(prepared(r))) for r in (rows, rows.take(np.array(order))))
    assert bids == shuffled
    named = list(dict.fromkeys(bid.token for bid, *_ in bids))
    assert set(named) == set(range(9))


def test_a_row_keeps_its_token() -> None:
    # PRIVAUCTION counts how often a row was best, so it must recognise the row.
    owner = prepared(table(20, 5))
    tokens, far = [], random_mean(1)
    for mean in [far, -far, far, -far]:
        bid = owner.bid(Broadcast(1, 50, mean))
        assert bid is not None
        tokens.append(bid.token)
    assert tokens == [0, 1, 0, 1]
    with pytest.raises(OwnerFaultError, match="never bid a row 2"):
        owner.reveal(1, 2)
    with pytest.raises(OwnerFaultError, match="never bid a row -1"):
        owner.reveal(1, -1)


def test_a_new_run_starts_afresh() -> None:
    # Tokens, sent rows and the gate's count belong to one run.
    owner = prepared(table(6, 6))
    first = list(bids_and_reveals(owner))
    owner.invite(replace(invitation(TASK), run="run-2"))
    assert owner.close(1).rows_sent == 0
    assert list(bids_and_reveals(owner)) == first


def test_another_schema_is_refused() -> None:
    # Scaling comes from the public schema, so two schemas are two different runs.
    owner = bidder("a", table(3, 1))
    with pytest.raises(SchemaError, match="the curator and a hold different public schemas"):
        owner.invite(replace(invitation(TASK), schema="another"))
    with pytest.raises(ProtocolError, match="before the run began"):
        owner.bid(Broadcast(1, 0, NOTHING))


def test_rows_outside_the_schema_are_refused_at_the_start() -> None:
    # The error names the owner and no value.
    with pytest.raises(DataError, match="a: column 'x': outside the public bounds, rows: 2"):
        bidder("a", Table(np.full((2, 3), 1.5)))


def test_a_draw_is_uniform_without_replacement() -> None:
    # Section 4, c). Chi-square over the 15 pairs that 2 of 6 rows can be, 3000 draws, wrong with
    # probability 1e-6.
    rows, draws = table(6, 7), 3000
    place = {tuple(values): i for i, values in enumerate(rows.values)}
    owner, invited = prepared(rows), invitation(TASK)
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(draws):
        owner.invite(invited)
        drawn = [row for row in owner.draw(1, 2) if isinstance(row, Row)]
        seen[tuple(sorted(place[tuple(row.values)] for row in drawn))] += 1
    counts = [seen[pair] for pair in combinations(range(6), 2)]
    assert sum(counts) == draws
    assert stats.chisquare(counts).pvalue > 1e-6


def test_draws_never_repeat_a_row_and_end_when_there_is_none() -> None:
    rows = table(7, 8)
    owner = prepared(rows)
    bid = owner.bid(Broadcast(1, 0, NOTHING))
    assert bid is not None
    sent = [owner.reveal(1, bid.token), *owner.draw(1, 3), *owner.draw(2, 9), *owner.draw(3, 1)]
    assert sorted(row.values.tolist() for row in sent if isinstance(row, Row)) == sorted(rows.values.tolist())
    assert sorted(row.token for row in sent) == list(range(7))
    assert owner.close(1).rows_sent == 7


def test_the_gate_records_every_row_before_it_leaves() -> None:
    # Nothing leaves a party except through its gate. The ledger names no row's place.
    lines: list[str] = []
    gate = OwnerGate("a", Ledger("a", lines.extend))
    owner = Bidder("a", table(4, 9), SCHEMA, noise_for(0, "a")("draw"), gate)
    owner.invite(invitation(TASK))
    rows = owner.draw(2, 2)
    events = [json.loads(line)["disclosure"] for line in lines]
    about = {"run": "run-1", "round": 2, "protected": "a", "observer": "curator"}
    row_event = {"event": {"kind": "raw-rows", "count": 1}, "relation": "replace-one", "sensitivity": None}
    assert events == [{**about, **row_event, "nonce": f"row {row.token}"} for row in rows]


def test_a_row_asked_for_again_is_the_same_row_and_counts_once() -> None:
    # Points accessed are distinct rows.
    owner = prepared(table(4, 9))
    bid = owner.bid(Broadcast(1, 0, NOTHING))
    assert bid is not None
    first, again = owner.reveal(1, bid.token), owner.reveal(1, bid.token)
    assert isinstance(first, Row)
    assert isinstance(again, Row)
    assert first.values.tolist() == again.values.tolist()
    assert owner.close(1).rows_sent == 1


def test_an_owner_needs_its_rows_its_features_and_little_else() -> None:
    # Its rows, its feature matrix (float32) and little else. Features are
    # int16, so everything together stays below that float32 matrix, at the start and in a bid.
    count, width, dimension = 60_000, 64, 140
    schema = Schema(columns=(Numeric(name="pixel", bounds=(0, 255), count=width),))
    pixels = np.random.default_rng(1).integers(0, 256, (count, width), dtype=np.uint8)
    owner = Bidder("a", Table(pixels), schema, noise_for(0, "a")("draw"), OwnerGate("a"))
    spec = FourierSpec("paired", dimension, 0.1, width, 1)
    mean = np.ones(dimension, dtype=np.int32)
    tracemalloc.start()
    owner.invite(Invitation("run-1", schema.digest(), "c", "clock", (), AuctionTerms(spec, mean)))
    owner.bid(Broadcast(1, 1, mean))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    features, scores, working = 2 * count * dimension, 40 * count, 6 * 2**20
    assert peak < features + scores + working < 4 * count * dimension


def test_an_owner_computes_no_features_for_uniform_draws() -> None:
    # 10,000 owners in one process would each hold h1 of their rows for nothing.
    count, dimension = 2_000, 256
    schema = Schema(columns=(Numeric(name="x", bounds=(0, 1), count=4),))
    owner = Bidder("a", Table(np.zeros((count, 4))), schema, noise_for(0, "a")("draw"), OwnerGate("a"))
    terms = AuctionTerms(
        FourierSpec("paired", dimension, 0.1, 4, 1), np.ones(dimension, dtype=np.int32), count
    )
    tracemalloc.start()
    owner.invite(Invitation("run-1", schema.digest(), "c", "uniform", (), terms))
    rows = owner.draw(1, 5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(rows) == 5
    assert peak < 200 * count < 2 * count * dimension


def test_equal_rows_are_sold_in_the_number_counted_at_the_price() -> None:
    # Of 2,000 copies twice as many are worth the price each time that it falls by a spread;
    # the next process of the owner sells the same ones. Chance: constants are those of an empty secret.
    copies = Table(np.tile(table(1, 4).values, (2000, 1)), np.zeros(2000, dtype=np.int64))
    owner, again = prepared(copies), prepared(copies)
    broadcast = Broadcast(1, 0, NOTHING)
    bid = owner.bid(broadcast)
    assert bid is not None
    prices = bid.value + 0.01 * np.array([6.0, 5.0, 4.0, 0.0])
    counts = owner.quote(broadcast, prices, spread=0.01)
    again.bid(broadcast)
    again.restore_quote(broadcast, 0.01)
    np.testing.assert_allclose(counts, 2000 / np.array([64, 32, 16, 1]), rtol=0.3)
    assert len(owner.sell(1, prices[1])) == counts[1]
    again.sell(1, prices[1])
    assert again.named_since(0) == owner.named_since(0)
