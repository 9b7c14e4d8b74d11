"""Issue 12, A1: the ledger is a list of draws. Of every mechanism, k draws cost k times, whoever reads it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from consumer.gate import ConsumerGate
from curator.cells.disclosures import CellDisclosures
from curator.summary.disclosures import SummaryDisclosures
from curator.sums.charges import SumDisclosures
from fedkme.cells.histogram import CountNoise, GaussianNoise, HistogramNoise, histogram_noise
from fedkme.errors import BudgetError
from fedkme.exchange import Offer
from fedkme.features.fourier import FourierSpec
from fedkme.features.sums import Layout
from fedkme.ledgers.archiving import condensed
from fedkme.ops.metrics import DELTA, Spending
from fedkme.privacy.accountants import Sound, matrix
from fedkme.privacy.budget import WindowBudget, check_budget, check_owners
from fedkme.privacy.events import (
    CURATOR,
    OWNERS,
    BoundedRange,
    Clock,
    Event,
    Gaussian,
    MwemCall,
    MwemSchedule,
    validation_of,
)
from fedkme.privacy.ledger import disclosures_in, merged, read_ledger, stored_ledger
from fedkme.privacy.means import Cost
from fedkme.privacy.summary_disclosures import AUCTION
from fedkme.protocol import AuctionTerms, Broadcast, Invitation, Security, SumTerms
from fedkme.protocols import SKETCH
from fedkme.store.memory import MemoryStore
from fedkme.sums.values import SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.schema import Numeric, Schema
from operate.audit_cli import app
from owner.consent.gate import OwnerGate
from owner.consent.history import History
from tests.test_privacy_table import entries

RUN, CONSUMER, OWNER = "run-1", "hospital", "north"
MEAN_COST = Cost(Gaussian(4.0), 2.0)
MARGIN = Gaussian(5.0)
COUNTS = histogram_noise(0.5)
COUNTED = COUNTS.event
SCHEDULE = MwemSchedule(0.05, 5, 2, 6)
CLOCK = Clock(0.25)
SCHEMA = Schema(columns=(Numeric(name="x", bounds=(0, 1)),))
VECTOR = SumVector(SumQuery((), Layout(), counts=True), SCHEMA)
SECURE = Security()
OFTEN = GaussianNoise(3.0)
Drawn = NDArray[Any]


class Books:
    """Ledgers of a curator, an owner and a consumer, each of which was told of every draw of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stores = {party: MemoryStore(party) for party in (CURATOR, OWNER, CONSUMER)}
        self.curator, self.owner, self.consumer = (
            stored_ledger(party, store) for party, store in self.stores.items()
        )

    def files(self) -> list[Path]:
        """One file a party; ."""
        for party, store in self.stores.items():
            text = "".join(f"{line.line}\n" for line in store.ledger())
            (self.folder / f"{party}.jsonl").write_text(text)
        return [path for path in sorted(self.folder.glob("*.jsonl")) if path.stat().st_size]


def mean_of_d_v(books: Books, drawn: Drawn, event: Event) -> None:
    gate = ConsumerGate(CONSUMER)
    gate.pass_target(RUN, drawn, Cost(event, 2.0))
    books.consumer.extend(gate.declared)
    offer = Offer(drawn, disclosures=tuple(gate.declared))
    SummaryDisclosures(RUN, books.curator, CONSUMER).receive_target(drawn, offer)


def histogram_of_d_v(books: Books, drawn: Drawn, event: Event, how: CountNoise = COUNTS) -> None:
    gate = ConsumerGate(CONSUMER)
    gate.pass_histogram(RUN, how, drawn)
    assert gate.declared[0].event == event
    books.consumer.extend(gate.declared)
    offer = Offer(histogram=drawn, disclosures=tuple(gate.declared))
    CellDisclosures(RUN, books.curator, CONSUMER).receive_target(drawn, offer)


def picks_of_d_v(books: Books, drawn: Drawn, event: Event) -> None:
    gate, counts = ConsumerGate(CONSUMER), drawn.astype(np.int64)
    gate.pass_picks(RUN, event, [3], counts)
    gate.pass_histogram(RUN, HistogramNoise(1e7), counts)  # of no cost beside the pick's
    books.consumer.extend(gate.declared)
    offer = Offer(histogram=counts, disclosures=tuple(gate.declared), picks=(3,))
    CellDisclosures(RUN, books.curator, CONSUMER).receive_target(counts, offer)


def margin_of_d_v(books: Books, drawn: Drawn, event: Event) -> None:
    gate, counts = ConsumerGate(CONSUMER), drawn.astype(np.int64)
    gate.pass_picks(RUN, BoundedRange(1e-7), [3], counts)  # of no cost beside the margin's
    gate.pass_histogram(RUN, GaussianNoise(MARGIN.noise_multiplier * 2.0**0.5), counts, 3)
    books.consumer.extend(gate.declared)
    offer = Offer(histogram=counts, disclosures=tuple(gate.declared), picks=(3,))
    CellDisclosures(RUN, books.curator, CONSUMER).receive_target(counts, offer, {3: counts})


def histogram_of_an_owner(books: Books, drawn: Drawn, event: Event) -> None:
    OwnerGate(OWNER, books.owner).pass_histogram(RUN, event, drawn)
    CellDisclosures(RUN, books.curator, CONSUMER).receive_histogram(OWNER, event, drawn)


def in_an_auction(
    books: Books, target: Drawn, mean: Cost = MEAN_COST
) -> tuple[SummaryDisclosures, OwnerGate]:
    """Both sides' gates of a run with this g~."""
    curator, owner = SummaryDisclosures(RUN, books.curator, CONSUMER), OwnerGate(OWNER, books.owner)
    curator.open(CLOCK, target, 1)
    heard = curator.to_be_heard(mean, CLOCK, target)
    terms = AuctionTerms(FourierSpec("paired", 8, 1.0, 3, 0), target, 6, heard)
    owner.restore(Invitation(RUN, "digest", CONSUMER, "clock", (), terms))
    return curator, owner


def broadcast_of_the_summary(
    books: Books, drawn: Drawn, event: Event, planned: Event = MEAN_COST.event
) -> None:
    curator, owner = in_an_auction(books, np.zeros(8, np.int32), mean=Cost(planned, 2.0))
    curator.draw_mean(2, Cost(event, 2.0))
    statement = Broadcast(2, 1, drawn)
    curator.pass_mean(statement)
    owner.pass_counts(RUN, statement)


def clock(books: Books, drawn: Drawn, event: Event) -> None:
    curator, owner = in_an_auction(books, drawn)
    for number in (1, 2, 5):
        curator.pass_questions(number)
        owner.pass_rows(RUN, number, [], AUCTION)


def noisy_sums(
    books: Books, drawn: Drawn, event: Event, protocol: str = "merf", security: Security | None = SECURE
) -> None:
    invitation = Invitation(RUN, "digest", CONSUMER, protocol, (event,), SumTerms(security))
    owner, curator = OwnerGate(OWNER, books.owner), SumDisclosures(invitation)
    owner.restore(invitation)
    seen = None if security is None else event
    owner.pass_sums(1, VECTOR, seen)
    curator.receive_vector(1, OWNER, VECTOR, seen)
    books.curator.extend(curator.came())


D_V = validation_of(CONSUMER)
Draw = Callable[[Books, Drawn, Event], None]
MECHANISMS: dict[str, tuple[Draw, Event, str, str]] = {
    "g~, Gaussian": (mean_of_d_v, Gaussian(5.0), D_V, OWNERS),
    "g~, MWEM": (mean_of_d_v, MwemCall(0.01, 10), D_V, CURATOR),
    "histogram of D_v": (histogram_of_d_v, COUNTED, D_V, OWNERS),
    "counts of D_v, asked often": (partial(histogram_of_d_v, how=OFTEN), OFTEN.event, D_V, OWNERS),
    "picks of D_v": (picks_of_d_v, BoundedRange(0.2), D_V, OWNERS),
    "margins of D_v": (margin_of_d_v, MARGIN, D_V, OWNERS),
    "histogram of an owner": (histogram_of_an_owner, COUNTED, OWNER, OWNERS),
    "g_l": (broadcast_of_the_summary, MEAN_COST.event, OWNERS, OWNERS),
    "g_l, MWEM on a schedule": (
        partial(broadcast_of_the_summary, planned=SCHEDULE),
        SCHEDULE.during(2, 2),
        OWNERS,
        OWNERS,
    ),
    "clock": (clock, CLOCK, OWNERS, OWNERS),
    "sums with noise": (noisy_sums, Gaussian(6.0), OWNER, CURATOR),
    "a release": (noisy_sums, Gaussian(6.0), OWNER, CONSUMER),
    "of sums as they are": (partial(noisy_sums, security=None), Gaussian(6.0), OWNER, CONSUMER),
    "a sketch": (partial(noisy_sums, protocol=SKETCH), Gaussian(6.0), OWNER, OWNERS),
    "moments": (partial(noisy_sums, protocol="moments"), Gaussian(6.0), OWNER, OWNERS),
    "marginals": (partial(noisy_sums, protocol="marginals"), Gaussian(6.0), OWNER, OWNERS),
}
RANK, NOTHING = "an epsilon of inf, by its name, however often", "it draws nothing"
MEANS = ("g~, Gaussian",)
SUMS = ("sums with noise", "a release", "of sums as they are")
DRAWS: dict[str, tuple[str, ...] | str] = {
    "g~ by a Gaussian": MEANS,
    "g~ and g_l by h2": ("g~, MWEM", "g_l, MWEM on a schedule"),
    "g_l by Gaussians": ("g_l",),
    "Descending clock": ("clock",),
    "PRIVAUCTION as published": RANK,
    "Ask everyone, and winner only": RANK,
    "Uniform sampling": NOTHING,
    "Histogram by cells": ("histogram of D_v", "histogram of an owner"),
    "Counts of a D_v that is asked about often": ("counts of D_v, asked often",),
    "Directions that D_v picks": ("picks of D_v",),
    "Margins of D_v over a release": ("picks of D_v", "margins of D_v"),
    "Sketch for public cells": ("a sketch",),
    "Sketch and histogram together": ("a sketch", "histogram of an owner"),
    "Sketch and counts of coalitions": ("a sketch",),
    "Orders, mixture weights, pruning": NOTHING,
    "D_v shared with the curator": (*MEANS, "histogram of D_v"),
    "Sealed rows (content hashed, by cells and uniform)": ("histogram of an owner",),
    "Hashed rows (content hashed, Algorithm 3)": RANK,
    "Pooled sums with a trusted curator": SUMS,
    "Moments by class": (*SUMS, "moments"),
    "Marginals, noisy rounds": (*SUMS, "marginals"),
    "Rows for a target": (*SUMS, "marginals"),
    "Secure aggregation": ("sums with noise", "a release"),
    "Payouts": NOTHING,
    "Heads of ledgers": NOTHING,
    "Limits, budgets, approvals": NOTHING,
    "Ledgers of both sides": NOTHING,
}
"""Entries of docs/privacy.md, with the mechanisms here that are of their draws; or why there are none."""


def test_every_entry_of_the_table_has_its_draws_counted() -> None:
    assert set(DRAWS) == set(entries())
    assert {name for names in DRAWS.values() if not isinstance(names, str) for name in names} == set(
        MECHANISMS
    )


@pytest.mark.parametrize("name", MECHANISMS)
@settings(max_examples=6, deadline=None)
@given(draws=st.integers(1, 4), alike=st.booleans())
def test_k_draws_cost_k_times_in_every_reader(name: str, draws: int, alike: bool) -> None:
    # All under the name of one run, in which the curator lies; where `alike`, even with the same bytes.
    draw, event, protected, observer = MECHANISMS[name]
    cost = Sound().epsilon([event] * draws, DELTA).epsilon
    with tempfile.TemporaryDirectory() as folder:
        books = Books(Path(folder))
        for number in range(draws):
            draw(books, np.full(8, 7 if alike else number, np.int32), event)
        files = books.files()
        ledgers = [[entry.disclosure for entry in read_ledger(path)] for path in files]
        disclosures = [
            lines
            for lines in ledgers
            if any((d.protected, d.observer) == (protected, observer) for d in lines)
        ]
        assert len(disclosures) == 2  # both sides

        # the matrix, of each ledger, of what an archive leaves of it, and of all of them
        for lines in (
            *disclosures,
            *map(condensed, disclosures),
            merged(ledgers),
        ):  # those in the middle once archived
            figures_of = {
                (row.protected, row.observer): row.figure.epsilon for row in matrix(lines, Sound(), DELTA)
            }
            assert figures_of[protected, observer] == pytest.approx(cost)

        # budgets, over the ledger of whoever has one
        for lines in disclosures:
            check_budget(WindowBudget(epsilon=cost * 1.001, delta=DELTA), protected, observer, lines, [])
            with pytest.raises(BudgetError):
                check_budget(WindowBudget(epsilon=cost * 0.999, delta=DELTA), protected, observer, lines, [])
            if observer == OWNERS and protected != D_V:
                with pytest.raises(BudgetError):
                    check_owners(WindowBudget(epsilon=cost * 0.999, delta=DELTA), lines, [])

        # statements, as `fedkme audit ledger` prints them
        result = CliRunner().invoke(app, ["ledger", "--json", *map(str, files)], catch_exceptions=False)
        figures = [
            float(statement["epsilon"])
            for statement in json.loads(result.stdout)
            if statement["accountant"] == "sound"
        ]
        assert any(figure == pytest.approx(cost) for figure in figures)

        # figures for operators
        for store in books.stores.values():
            if any((d.protected, d.observer) == (protected, observer) for d in lines_of(store)):
                assert exposed(store, protected, observer) == pytest.approx(cost)

        # the owner's own history, where no plan says what a run costs
        if (protected, observer) == (OWNERS, OWNERS):
            history = History(OWNER, books.stores[OWNER])
            history.read()
            assert Sound().epsilon(history.cost(RUN), DELTA).epsilon == pytest.approx(cost)


def lines_of(store: MemoryStore) -> list[Any]:
    return disclosures_in(line.line for line in store.ledger())


class Still(Spending):
    """Computes when it is told to, in this thread."""

    def _work(self) -> None:
        pass


def exposed(store: MemoryStore, protected: str, observer: str) -> float:
    """Epsilon as Prometheus reads it."""
    registry = CollectorRegistry()
    spending = Still(store, registry, lambda error: None)
    spending._compute()
    epsilon = registry.get_sample_value("fedkme_epsilon", {"protected": protected, "observer": observer})
    assert epsilon is not None
    return epsilon
