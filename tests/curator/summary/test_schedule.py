"""Theorem 2's schedule of h2's parameter: plan, draws, ledgers and sums are the same, call by call."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from consumer.settings import RequestSettings
from curator.summary.settings import SummarySettings
from fedkme.errors import ConfigError, ProtocolError
from fedkme.features.fourier import FourierSpec
from fedkme.party import NoiseFor
from fedkme.privacy.accountants import Sound
from fedkme.privacy.accounting import zcdp_epsilon
from fedkme.privacy.events import (
    CONSUMER,
    CURATOR,
    OWNERS,
    Disclosure,
    Event,
    MwemCall,
    MwemSchedule,
    in_sequence,
    leaves,
)
from fedkme.privacy.events.groups import for_group
from fedkme.privacy.ledger import disclosures_in
from fedkme.privacy.means import Cost, MwemMean
from fedkme.privacy.noise import NoiseSource
from fedkme.privacy.settings import EpsilonSchedule, MwemSettings, broadcast_events
from fedkme.privacy.summary_disclosures import MEAN
from fedkme.protocol import AuctionTerms, Broadcast, Invitation
from owner.consent.gate import OwnerGate
from sim.engines.inprocess import InProcessMarket, KeptRecords, run_in_process
from tests.curator.summary.fakes import WrittenNoise, owners, small_market, table
from tests.fedkme.privacy.formulas import mwem_zcdp

EXCHANGED = 2  # rows of the summary for a replaced row of an owner, by the clock


def theorem_2(epsilon: float, delta: float, iterations: int, call: int, p: int) -> float:
    """eps_l as Theorem 2 prints it."""
    return epsilon / math.sqrt(16 * iterations * call * math.log(1 / delta) * math.log(p))


@given(
    p=st.integers(2, 12),
    iterations=st.integers(1, 6),
    epsilon=st.floats(0.1, 20.0),
    delta=st.floats(1e-9, 0.3),
    block=st.integers(1, 4),
    seeds=st.booleans(),
)
@settings(max_examples=8, deadline=None)
def test_ledgers_have_the_calls_that_were_drawn(
    p: int, iterations: int, epsilon: float, delta: float, block: int, seeds: bool
) -> None:
    noise = WrittenNoise()
    market = small_market(owners(p, 4, 6))
    seeded = market.noise_for

    def noise_for(party: str) -> NoiseFor:
        def source(purpose: str) -> NoiseSource:
            return noise if (party, purpose) == (CURATOR, "broadcast") else seeded(party)(purpose)

        return source

    market = replace(market, noise_for=noise_for, seeds=market.seeds if seeds else None)
    curator = SummarySettings.model_validate(
        {
            "protocol": "algorithm3",
            "auction": {"kind": "clock", "epsilon": 0.5, "block": block, "step": 0.5},
            "broadcast": {
                "mechanism": "mwem",
                "initial_iterations": 7,
                "iterations": iterations,
                "schedule": {"epsilon": epsilon, "delta": delta},
            },
            "privacy": {"epsilon": 1e6},
        }
    )
    request = RequestSettings.model_validate({"p": p, "target": {"mechanism": "exact"}})
    records = KeptRecords()
    asyncio.run(run_in_process(market, table(6, 8), curator, request, records))
    assert records.summary is not None
    assert len(records.summary.rounds) == p

    # Drawn: a call a round, l = 2..p, each at the theorem's parameter; 100 / e in steps of the grid is 1 / e.
    drawn = [(100.0 / scale, size) for scale, size in noise.laplace_draws][1 if seeds else 0 :]
    assert [size for _, size in drawn] == [iterations] * (p - 1)
    assert [e for e, _ in drawn] == pytest.approx(
        [theorem_2(epsilon, delta, iterations, call, p) for call in range(2, p + 1)]
    )

    # Written: the same calls, for the two rows that a row of an owner exchanges, in every ledger.
    calls = [(call.epsilon, call.iterations) for call in calls_of(market, CURATOR)]
    assert [each for pair in calls for each in pair] == pytest.approx(
        [each for e, size in drawn for each in (EXCHANGED * e, size)]
    )
    assert calls_of(market, CURATOR) == calls_of(market, "a") == calls_of(market, "b")

    # Planned, and summed: the plan is the ledger, at the sum of what the calls cost.
    planned = broadcast_events(curator.broadcast, p, EXCHANGED)
    assert list(leaves(planned)) == calls_of(market, CURATOR)
    rho = sum(mwem_zcdp(EXCHANGED * e, size, "replace-one") for e, size in drawn)
    figures = {figure.method: figure.epsilon for figure in Sound().figures(planned, 1e-12)}
    assert figures["zCDP"] == pytest.approx(zcdp_epsilon(rho, 1e-12))
    pure = sum((4.0 + 2.0) * EXCHANGED * e * size for e, size in drawn)
    assert figures["sum of pure epsilons"] == pytest.approx(pure)


def calls_of(market: InProcessMarket, party: str) -> list[MwemCall]:
    """Calls of h2 about owners' rows in a party's ledger, in order."""
    lines = disclosures_in(line.line for line in market.stores()[party].ledger())
    about = (OWNERS, OWNERS)
    means = [d.event for d in lines if (d.protected, d.observer) == about and d.nonce.startswith(MEAN)]
    return [event for event in leaves(means) if isinstance(event, MwemCall)]


def test_by_default_all_calls_have_one_parameter() -> None:
    # What ledgers and owners have had so far stays what it was, to the letter.
    assert MwemSettings().schedule is None
    assert broadcast_events(MwemSettings(), 100, 1) == [MwemCall(0.01 / math.sqrt(500), 500)]
    with pytest.raises(ValidationError, match="give one of them"):
        MwemSettings(epsilon=0.1, schedule=EpsilonSchedule())


def test_the_schedule_is_not_what_the_theorem_says_of_it() -> None:
    # The theorem says (1, 1e-3) of all rounds. A selection costs 4 e and a value 2 e, and a replaced row of
    # an owner exchanges two rows: the calls cost more, which is all that is said anywhere.
    schedule = MwemSettings(schedule=EpsilonSchedule(epsilon=1.0, delta=1e-3))
    assert Sound().epsilon(broadcast_events(schedule, 12, EXCHANGED), 1e-3).epsilon > 1.4
    assert Sound().epsilon(broadcast_events(schedule, 12, 1), 1e-3).epsilon < 1.0


def test_a_run_of_one_round_plans_a_call_that_is_not_made() -> None:
    # log p is 0: the first call reads public rows alone, and no other call follows.
    (planned,) = broadcast_events(MwemSettings(schedule=EpsilonSchedule()), 1, 1)
    assert isinstance(planned, MwemSchedule)
    assert (planned.first, planned.last) == (2, 2)


def test_no_call_is_made_beyond_the_schedule() -> None:
    mean = MwemSettings(schedule=EpsilonSchedule(), initial_iterations=1).make(2, 1.0, 3, WrittenNoise())
    assert isinstance(mean, MwemMean)
    for _ in range(3):
        mean.release()
    with pytest.raises(ConfigError, match="a schedule of 3 calls"):
        mean.release()


SCHEDULE = MwemSchedule(0.3, 5, 2, 9)


def test_lines_in_sequence_are_one_line() -> None:
    rounds = [SCHEDULE.during(number, number) for number in range(4, 8)]
    assert in_sequence(rounds) == SCHEDULE.during(4, 7)
    assert list(leaves([SCHEDULE.during(4, 7)])) == list(leaves(rounds))
    assert list(leaves([in_sequence(rounds[::-1])])) == list(leaves(rounds[::-1]))
    assert in_sequence([MwemCall(0.3, 5)] * 3) == MwemCall(0.3, 15)
    assert for_group([SCHEDULE], 3) == for_group(SCHEDULE.calls(), 3)
    tripled = Cost(SCHEDULE, 2.0).of_rows(3)
    assert (tripled.event, tripled.sensitivity) == (replace(SCHEDULE, epsilon=3 * 0.3), 6.0)
    for first, last in ((1, 3), (8, 10), (5, 4)):
        with pytest.raises(ConfigError, match="the schedule has 2 to 9"):
            SCHEDULE.during(first, last)
    with pytest.raises(ConfigError, match="cannot have calls"):
        MwemSchedule(0.3, 5, 2, 10**6)


def gate_of(planned: Event = SCHEDULE, heard: Event = SCHEDULE, rows: int = 9) -> OwnerGate:
    """An owner's gate, after the invitation to a run of so many rounds."""
    line = Disclosure("run-1", 1, OWNERS, OWNERS, heard, "replace-one", 2.0, MEAN)
    terms = AuctionTerms(FourierSpec("paired", 8, 1.0, 3, 0), np.zeros(8, np.int32), rows, (line,))
    gate = OwnerGate("north")
    gate.open(Invitation("run-1", "digest", CONSUMER, "clock", (planned,), terms))
    return gate


@pytest.mark.parametrize(
    "refused",
    [
        lambda: gate_of(planned=SCHEDULE.during(3, 9)),
        lambda: gate_of(planned=replace(SCHEDULE, epsilon=0.2)),
        lambda: gate_of(rows=8),
        lambda: gate_of(planned=SCHEDULE.during(2, 8), heard=SCHEDULE.during(2, 8)),
    ],
    ids=["fewer calls planned", "cheaper calls planned", "fewer rounds", "more rounds"],
)
def test_an_owner_refuses_lines_that_the_plan_does_not_have(refused: Callable[[], OwnerGate]) -> None:
    gate_of()
    with pytest.raises(ProtocolError, match="calls of h2 that run-1 does not plan"):
        refused()


@pytest.mark.parametrize("event", [SCHEDULE, MwemCall(0.3, 5)], ids=lambda event: event.kind)
def test_an_owner_refuses_more_rounds_than_it_was_invited_to(event: Event) -> None:
    # The plan is what the run costs its rows: a curator that goes on after p rounds would cost more.
    gate = gate_of(event, event)
    gate.pass_bid("run-1", Broadcast(9, 12, np.zeros(8, np.int32)))
    with pytest.raises(ProtocolError, match="round 10 of a run of 9 rounds"):
        gate.pass_bid("run-1", Broadcast(10, 13, np.zeros(8, np.int32)))
    with pytest.raises(ProtocolError, match="round 10 of a run of 9 rounds"):
        gate.close(10)
