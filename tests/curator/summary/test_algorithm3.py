"""Algorithm 3 over honest owners: its bookkeeping, what it picks, and what h2 is asked for."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.settings import RequestSettings
from curator.run.summary_record import SummaryRecord
from curator.summary.auctions.base import AnyAuction, AskEveryone, AskEveryoneSettings, WinnerOnlySettings
from curator.summary.auctions.privauction import PrivAuctionSettings
from curator.summary.settings import SummarySettings
from fedkme.arrays import FloatArray
from fedkme.errors import NotEnoughRowsError
from fedkme.features.fixed_point import MEAN_UNIT, normalised_features, normalised_mean
from fedkme.privacy.noise import NoiseSource
from fedkme.privacy.settings import (
    AnyMean,
    ExactSettings,
    GaussianSettings,
    MwemSettings,
    MwemTargetSettings,
    release_target,
)
from fedkme.tables.table import Table
from sim.engines.inprocess import KeptRecords, run_in_process
from tests.curator.summary.fakes import (
    SCHEMA,
    DirectPort,
    Listener,
    Mortal,
    Tardy,
    WrittenNoise,
    bidder,
    make_settings,
    make_task,
    owners,
    ports,
    run,
    small_market,
    table,
)
from tests.record_transcripts import record_transcript

AUCTIONS: dict[str, AnyAuction] = {
    "privauction": PrivAuctionSettings(rate=0.7, patience=3),
    "winner only": WinnerOnlySettings(),
    "ask everyone": AskEveryoneSettings(),
}
MEANS: dict[str, AnyMean] = {
    "exact": ExactSettings(),
    "mwem": MwemSettings(initial_iterations=6, iterations=2, epsilon=0.5),
    "gaussian": GaussianSettings(),
}


@dataclass(frozen=True)
class Case:
    """A run: any number of owners, of different sizes, some of them empty."""

    sizes: tuple[int, ...]
    p: int
    seeds: int
    count_seeds: bool
    settings: SummarySettings

    def record(self, owner_ports: list[DirectPort]) -> SummaryRecord:
        task = make_task(self.p, seeds=self.seeds, count_seeds=self.count_seeds)
        return run(task, self.settings, owner_ports)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=5).filter(any))
    return Case(
        tuple(sizes),
        p=draw(st.one_of(st.just(sum(sizes)), st.integers(1, sum(sizes)))),
        seeds=draw(st.sampled_from([0, 3])),
        count_seeds=draw(st.booleans()),
        settings=make_settings(
            draw(st.sampled_from(list(AUCTIONS.values()))), draw(st.sampled_from(list(MEANS.values())))
        ),
    )


@settings(max_examples=150)
@given(cases())
def test_the_books_balance(case: Case) -> None:
    # Properties of the auction's bookkeeping; DESIGN.md, Words: points accessed are counted at
    # the owner's gate and at the curator, and the two agree. p may be all rows there are: owners run dry.
    tables = owners(*case.sizes)
    record = case.record(ports(tables))
    assert record.status == "complete"
    assert record.faults == []
    assert record.owner_rows == {name: len(rows) for name, rows in tables.items()}

    revealed = [(owner, token) for _, owner, token in record.accesses]
    selected = [(row.owner, row.token) for row in record.selected]
    assert len(set(revealed)) == len(revealed)
    assert len(set(selected)) == len(selected) == case.p
    for number, row in enumerate(selected, start=1):
        assert row in [(owner, token) for round_, owner, token in record.accesses if round_ <= number]
    assert record.accessed_by_owner() == record.closings
    assert record.wasted() == len(revealed) - len(selected)

    begin = case.seeds if case.count_seeds else 0
    assert [r.round for r in record.rounds] == list(range(1, case.p + 1))
    assert [r.size for r in record.rounds] == list(range(begin, begin + case.p))
    for r in record.rounds:
        assert r.accessed == sum(number <= r.round for number, _, _ in record.accesses)
        assert r.pool == r.accessed - r.round
        assert r.revealed == sum(number == r.round for number, _, _ in record.accesses) == r.asked
        assert (r.owner, r.token, r.bid) == (*selected[r.round - 1], record.selected[r.round - 1].gain)
    bound = case.settings.auction.access_bound(case.p, len(tables))
    if case.settings.auction.kind != "privauction":  # Lemma 5 bounds an expectation
        assert len(revealed) <= (bound or 0)


@settings(max_examples=20)
@given(cases())
def test_the_summary_is_rows_of_the_owners_as_they_are(case: Case) -> None:
    # Each selected row is one of its owner's, with its label, and none comes twice.
    tables = owners(*case.sizes)
    record = case.record(ports(tables))
    chosen = Counter((row.owner, tuple(row.values), row.label) for row in record.selected)
    held = Counter(
        (name, tuple(values), int(label))
        for name, rows in tables.items()
        for values, label in zip(rows.values, rows.labels if rows.labels is not None else [], strict=True)
    )
    assert chosen <= held


@settings(max_examples=20)
@given(cases(), st.randoms(use_true_random=False))
def test_neither_the_order_of_owners_nor_of_answers_matters(case: Case, random: Random) -> None:
    # DESIGN.md, decision 1: canonical owner order; nothing depends on which answer came first.
    tables = owners(*case.sizes)
    late: list[DirectPort] = [Tardy(bidder(name, rows), i) for i, (name, rows) in enumerate(tables.items())]
    random.shuffle(late)
    assert record_transcript(case.record(late)) == record_transcript(case.record(ports(tables)))


def test_owners_with_the_same_rows_are_credited_alike() -> None:
    # An earlier rule took the first owner's of equal rows first, with the larger gain, in every round.
    credited: Counter[str] = Counter()
    for seed in range(6):
        rows = table(12, seed)
        record = run(make_task(10), make_settings(), ports({"a": rows, "b": rows, "c": table(3, 50 + seed)}))
        firsts = {tuple(row.values): row.owner for row in reversed(record.selected)}
        credited.update(firsts.values())
    assert abs(credited["a"] - credited["b"]) < 0.3 * (credited["a"] + credited["b"])


def test_more_rows_than_there_are_is_refused_before_round_1() -> None:
    # Issue 2, item 7: a clear error before round 1; nothing was broadcast.
    listeners = [Listener(bidder(name, rows)) for name, rows in owners(2, 0, 3).items()]
    record = SummaryRecord()
    with pytest.raises(NotEnoughRowsError, match=r"6 rows .* 3 owners have 5\. Ask for at most 5"):
        run(make_task(6), make_settings(), listeners, record=record)
    assert not any(listener.broadcasts for listener in listeners)
    assert not record.accesses


def brute_force(tables: dict[str, Table], target: FloatArray, p: int) -> list[tuple[str, int]]:
    """Greedy by J itself in the feature space of h1: each pick the argmax of J(S + x) over all rows."""
    task = make_task(1)
    hashes = {(name, i): h for name, rows in tables.items() for i, h in enumerate(task.h1(rows.values))}
    picks: list[tuple[str, int]] = []
    for _ in range(p):

        def objective(row: tuple[str, int]) -> float:
            mean = np.mean([hashes[pick] for pick in [*picks, row]], axis=0)
            return float(2 * target @ mean - mean @ mean)

        picks.append(max(hashes.keys() - set(picks), key=objective))
    return picks


@pytest.mark.parametrize("auction", AUCTIONS)
def test_exact_means_select_the_rows_that_brute_force_selects(auction: str) -> None:
    # Issue 2, item 4, "non-private greedy": the argmax of J (eq. 3) over all rows of all owners.
    # SARPATWAR.md, section 6: no auction that always asks rank 1 loses anything, thanks to the pool.
    tables, p = owners(12, 7, 1, 9, seed=3), 14
    task = make_task(p)
    record = run(task, make_settings(AUCTIONS[auction]), ports(tables))
    target = math.sqrt(2 / task.h1.spec.dimension) * normalised_mean(task.target)
    picks = [tables[name].values[row] for name, row in brute_force(tables, target, p)]
    assert np.array_equal(record.values(), np.array(picks))


def test_a_run_counts_how_often_a_row_was_best() -> None:
    # Step 14 inside a run. Coins ask rank 1 alone here, so with tau = 1 every bidder is asked, as in ask
    # everyone, and with an endless tau nobody else.
    def transcript(auction: AnyAuction) -> dict[str, object]:
        return record_transcript(run(make_task(9), make_settings(auction), ports(owners(5, 3, 4))))

    def patient(tau: float) -> dict[str, object]:
        return transcript(PrivAuctionSettings(rate=1e6, patience=tau))

    assert patient(1) == transcript(AskEveryoneSettings())
    assert patient(1e9) == transcript(WinnerOnlySettings())


class Eavesdropping(AskEveryoneSettings):
    """Writes down the K that it is made for."""

    heard: list[int]

    def make(self, owners: int, noise: NoiseSource) -> AskEveryone:
        self.heard.append(owners)
        return super().make(owners, noise)


def test_k_is_the_number_of_owners_that_take_part() -> None:
    # eps_auc and tau follow from K; one lost before round 1 is not counted, one without rows is.
    tables = owners(5, 0, 4, 4)
    lost = Mortal(bidder("c", tables.pop("c")), "invite")
    auction = Eavesdropping(heard=[])
    settings = make_settings().model_copy(update={"auction": auction})
    run(make_task(3), settings, [*ports(tables), lost])
    assert auction.heard == [3]


def broadcasts(p: int, mean: AnyMean, noise: WrittenNoise, *, seeds: int) -> Listener:
    listener = Listener(bidder("a", table(p, 1)))
    run(make_task(p, seeds=seeds), make_settings(broadcast=mean), [listener], lambda purpose: noise)
    return listener


MWEM = MwemSettings(initial_iterations=30, initial_epsilon=0.05, iterations=4, grid_step=0.01)
LATER = 0.01 / math.sqrt(4 * 3)  # 0.01 / sqrt(T_sub p), in a run of p = 3


def test_with_seeds_the_first_release_alone_spends_the_first_budget() -> None:
    # Section 4: T_init iterations on the public seeds, then T_sub from the warm start. Noise of scale 1/e in
    # sums of rows is 100 / e in steps of the grid.
    noise = WrittenNoise()
    broadcasts(3, MWEM, noise, seeds=5)
    scales, counts = zip(*noise.laplace_draws, strict=True)
    assert counts == (30, 4, 4)
    assert scales == pytest.approx((100 / 0.05, 100 / LATER, 100 / LATER))


def test_d_v_is_released_by_one_call() -> None:
    # Step 3: g~ = h2(h1(D_v)); T iterations at eps_v and no more. Without noise it is the mean itself.
    h1, validation, noise = make_task(1).h1, SCHEMA.encode(table(9, 2).values), WrittenNoise()
    release_target(MwemTargetSettings(iterations=30, epsilon=0.02), h1, validation, noise)
    assert noise.laplace_draws == [(100 / 0.02, 30)]
    exact, _ = release_target(ExactSettings(), h1, validation, noise)
    mean = normalised_features(h1.fixed_point(validation)).mean(axis=0)
    np.testing.assert_allclose(normalised_mean(exact), mean, atol=0.51 * MEAN_UNIT, rtol=0)


@pytest.mark.parametrize("count_seeds", [True, False])
def test_the_broadcast_is_the_mean_of_the_rows_that_count(count_seeds: bool) -> None:
    # Step 5, q = l - 1 + |D_init| (errata 2), averages (errata 3). SummarySettings.seed_set: `subtracted`
    # takes the seeds out again (errata 23).
    task = make_task(6, seeds=4, count_seeds=count_seeds)
    listener = Listener(bidder("a", table(8, 1)))
    record = run(task, make_settings(), [listener])
    counted = task.seeds if count_seeds else task.seeds[:0]
    for broadcast in listener.broadcasts:
        before = [row.values for row in record.selected[: broadcast.round - 1]]
        rows = [*counted, *task.h1.fixed_point(SCHEMA.encode(np.array(before)))] if before else [*counted]
        assert broadcast.size == len(rows)
        if rows:
            mean = normalised_features(np.array(rows)).mean(axis=0)
            np.testing.assert_allclose(normalised_mean(broadcast.mean), mean, atol=0.51 * MEAN_UNIT, rtol=0)


def test_the_estimate_of_mmd_is_that_of_the_rows_so_far() -> None:
    # Issue 2, item 10: the current MMD estimate, of the summary's exact mean and g~.
    task = make_task(4)
    record = run(task, make_settings(), ports(owners(3, 3)))
    features = normalised_features(task.h1.fixed_point(SCHEMA.encode(record.values())))
    for r in record.rounds:
        gap = features[: r.round].mean(axis=0) - normalised_mean(task.target)
        assert r.mmd2_estimate == pytest.approx(2 / len(gap) * gap @ gap, rel=1e-9)


def in_process(settings: SummarySettings, **request: object) -> tuple[SummaryRecord, dict[str, object]]:
    """A run of two rows by the engine `inprocess`: three seeds, |D_v| = 6."""
    request_settings = RequestSettings.model_validate({"p": 2, "target": {"mechanism": "exact"}, **request})
    records = KeptRecords()
    asyncio.run(run_in_process(small_market(owners(4, 4)), table(6, 8), settings, request_settings, records))
    assert records.summary is not None
    assert records.summary.status == "complete"
    return records.summary, records.facts


@pytest.mark.parametrize(("share", "points"), [("embedding", 0), ("rows", 6)])
def test_points_of_d_v_that_the_curator_sees_are_counted(share: str, points: int) -> None:
    # Issue 2, item 6: by default g~ alone; sending D_v is an option that counts |D_v| as accessed.
    _, facts = in_process(SummarySettings(protocol="algorithm3"), share=share)
    assert facts["validation_points"] == points
    assert (facts["validation_rows"], facts["seed_rows"], facts["p"]) == (6, 3, 2)


@pytest.mark.parametrize(("seed_set", "sizes"), [("counted", [3, 4]), ("subtracted", [0, 1])])
def test_the_seed_set_counts_unless_it_is_subtracted(seed_set: str, sizes: list[int]) -> None:
    record, _ = in_process(SummarySettings.model_validate({"protocol": "algorithm3", "seed_set": seed_set}))
    assert [r.size for r in record.rounds] == sizes
