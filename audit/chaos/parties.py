"""Lives of parties: the code of their processes, over a disk, a clock and a network of a simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc.aio
import numpy as np
from typing_extensions import override

from audit.chaos.clock import turn
from audit.chaos.disk import MortalRecords
from audit.chaos.network import Server, SimulatedNetwork
from audit.chaos.process import Process, current
from audit.chaos.worlds import SimulatedWorld
from audit.replay.neighbours import SCHEMA, UNLABELLED
from consumer.releases import client as release_client
from consumer.releases.client import ReleaseConsumerSettings, Request
from consumer.requests import RECEIVED, KeptRequest, Requests
from consumer.summary import client as summary_client
from consumer.summary.party import ConsumerParty
from curator.peers import CertificateCheck
from curator.releases.method import Finished, finished
from curator.runs.context import RunContext
from curator.server import CuratorParty, expected_members
from curator.settings import CuratorSettings
from curator.summary.settings import SummarySettings
from fedkme.directives import (
    Accepted,
    Answer,
    Directive,
    KeepHead,
    NoisyHistogram,
    OfferKeys,
    PriceCounts,
    Refusal,
    Rows,
    ShowHead,
    WordVector,
)
from fedkme.errors import ConnectionFailedError, ProtocolError
from fedkme.exchange import Offer, Plan
from fedkme.ops.supervision import StatusReporter
from fedkme.party import noise_for
from fedkme.protocol import Bid, Closing, Consider
from fedkme.releases.settings import settings_from_json
from fedkme.store import Store
from fedkme.wire.directives import answer_to_wire, directive_to_wire
from fedkme.wire.releases import request_to_wire
from fedkme.wire.retry import LAST_RETRY_S, Absence, CuratorCalls
from fedkme.wire.summaries import offer_to_messages
from owner.agent import attend
from owner.party import OwnerParty
from owner.runs import RunManager
from sim.engines.loopback import policy_of

SEED = 5
"""Seed of all parties' noise."""
PROGRESS_S, GRACE_S, CONNECT_S = 120.0, 400.0, 400.0
DIAL_S = 60.0
"""Seconds for which a party dials before it says why it cannot."""
_ADDRESS = "127.0.0.1:1"
_FINISH = 80
"""Steps while files of a release are made: most of its run's time, in which deaths come as often."""
_FINISHED: dict[Any, Finished] = {}
Say = Callable[[str, str], None]


class Teller(StatusReporter):
    """Writes a party's reports into the story."""

    def __init__(self, party: str, say: Say) -> None:
        super().__init__(party, supervised=False)
        self._tell = say

    @override
    def say(self, event: str, **fields: Any) -> None:
        if event not in ("progress", "round", "stage"):
            self._tell(self._party, f"{event} " + " ".join(f"{key}={fields[key]}" for key in fields))


class Liar(RunManager):
    """Runs of an owner that lies when a lie is due."""

    def __init__(self, *arguments: Any, process: Process) -> None:
        super().__init__(*arguments)
        self._process = process

    @override
    def answer(self, directive: Directive) -> Answer | None:
        answer = super().answer(directive)
        if answer is not None and not isinstance(answer, Refusal) and not isinstance(directive.body, _UNKEPT):
            self._compare(directive, answer)
        fate = self._process.fate
        if isinstance(answer, WordVector) and not fate.charged(directive.run):
            fate.uncharged.append(f"a vector left for {directive.run}, and its charge was on no disk")
        if answer is None or not fate.due:
            return answer
        fault = fate.take("lie")
        return answer if fault is None else lie(answer, fault.amount)

    def _compare(self, directive: Directive, answer: Answer) -> None:
        """Compare an answer with the first one to the same question."""
        fate = self._process.fate
        before, first = fate.answers.setdefault((directive.run, directive.seq), (directive, answer))
        if first is answer or _bytes_of(before) != _bytes_of(directive):
            return
        ways = [[part.SerializeToString() for part in answer_to_wire(a, before)] for a in (first, answer)]
        if ways[0] != ways[1]:
            fate.redrawn.append(f"another answer to question {directive.seq} of {directive.run}")


_UNKEPT = (OfferKeys, ShowHead, KeepHead, Consider)
"""Questions whose answers are of the moment, and in no journal."""


def _bytes_of(directive: Directive) -> bytes:
    return directive_to_wire(directive).SerializeToString(deterministic=True)


def lie(answer: Answer, which: int) -> Answer:
    """Turn an answer into a lie."""
    match answer:
        case Accepted(rows):
            return Accepted((rows + 3, 2**60, 0)[which % 3])
        case Bid(value, token):
            return Bid((value + 1.0, 1e300)[which % 2], token + which % 3)
        case PriceCounts(counts):
            return PriceCounts((np.full_like(counts, 2**53 - 1), counts[::-1].copy() + 1)[which % 2])
        case NoisyHistogram(cells):
            return NoisyHistogram((cells * 1_000, np.full_like(cells, 2**40))[which % 2])
        case Rows(rows) if rows:
            return Rows((list(rows[1:]), [rows[0]] * len(rows), [])[which % 3])
        case WordVector(words):
            return WordVector(
                (words[::-1].copy(), words[: len(words) // 2], words + np.uint64(2**60))[which % 3]
            )
        case Closing(sent):
            return Closing(sent + 1)
    return Refusal.of(ProtocolError("no", "No.") if which % 2 else ConnectionFailedError("no", "No."))


async def curate(
    world: SimulatedWorld, folder: Path, store: Store, network: SimulatedNetwork, process: Process, say: Say
) -> None:
    """Run the curator until it is told to stop."""
    case = world.case
    directory = folder / "curator"
    settings = CuratorSettings(
        plaintext=True,
        simulation_seed=SEED,
        directory=directory,
        schema_file=folder / "schema.toml",
        owners=tuple(world.owners),
        durability="process",
        progress_s=PROGRESS_S,
        grace_s=GRACE_S,
        connect_s=CONNECT_S,
        release=case.pooling,
        summary=case.summary or SummarySettings(),
    )
    teller = Teller("curator", say)
    members = expected_members(settings, store, teller.say)
    context = RunContext(
        settings,
        SCHEMA if case.labels else UNLABELLED,
        world.seeds,
        members,
        store,
        noise_for(process.noise_seed, process.name),
        teller.say,
        MortalRecords(process, directory, network.order),
    )
    party = CuratorParty(context, members, CertificateCheck())
    server: Any = Server(process)  # of gRPC's server it has what is asked for
    party.serve_on(server)
    network.server = server
    party.start()
    try:
        await asyncio.Event().wait()
    finally:
        if process.alive:
            await party.suspend()


async def own(
    world: SimulatedWorld, name: str, store: Store, network: SimulatedNetwork, process: Process, say: Say
) -> None:
    """Run an owner until it is told to stop, or refused."""
    party = OwnerParty(
        name=name,
        table=world.owners[name],
        schema=SCHEMA if world.case.labels else UNLABELLED,
        store=store,
        noise_for=noise_for(process.noise_seed, name),
        policy=policy_of(world.case.policies, name),
        clock=process.fate.clock,
        refused=lambda run, error: say(name, f"refuses {run}: {error}"),
    )
    runs = Liar(party, "curator", process=process)
    instance = process.chance.randbytes(16)

    calls = _calls(network, process, Teller(name, say), 0.5)

    def welcomed(epoch: int) -> None:
        calls.absence.over()
        network.welcomed(process, epoch)

    async def call(channel: grpc.aio.Channel) -> None:
        await attend(channel, _ADDRESS, name, instance, runs, welcomed)

    await calls.until_done(call)


@dataclass(frozen=True, kw_only=True, eq=False)
class _OfferingParty(ConsumerParty):
    """Consumer whose offers are compared over its lives."""

    process: Process

    @override
    def offer(self, stored: KeptRequest, plan: Plan) -> Offer:
        offer, fate = super().offer(stored, plan), self.process.fate
        first = fate.answers.setdefault(plan.run, offer)
        if first is not offer and _sent(first, plan) != _sent(offer, plan):
            fate.redrawn.append(f"another offer to {plan.run}")
        return offer


def _sent(offer: Offer, plan: Plan) -> list[bytes]:
    return [message.SerializeToString() for message in offer_to_messages(offer)]


async def summarise(
    world: SimulatedWorld,
    name: str,
    folder: Path,
    store: Store,
    network: SimulatedNetwork,
    process: Process,
    say: Say,
) -> Any:
    """Run a consumer until its summary has come."""
    teller = Teller(name, say)
    assert world.case.request is not None, "the case is of a summary"
    party = _OfferingParty(
        process=process,
        requests=Requests(name, store),
        request=world.case.request,
        schema=SCHEMA if world.case.labels else UNLABELLED,
        validation=world.validation,
        noise_for=noise_for(process.noise_seed, name),
        warn=lambda run, line: say(name, line),
        clock=process.fate.clock,
        simulation_seed=SEED,
    )
    document = party.document(folder / name)
    request = party.requests.going_on(document) or party.ask(document)
    if request.status == RECEIVED:
        request.finish(lambda error: say(name, f"warning {error}"))
        return None
    calls = _calls(network, process, teller, 2.0)
    return await summary_client.ask(calls, party, request, teller), request


async def ask_release(
    world: SimulatedWorld, name: str, folder: Path, network: SimulatedNetwork, process: Process, say: Say
) -> None:
    """Run a consumer until its release has come."""
    settings = ReleaseConsumerSettings(
        name=name,
        plaintext=True,
        curator=_ADDRESS,
        schema_file=folder / "schema.toml",
        output=folder / name,
        release=settings_from_json(world.case.settings),
    )
    request = Request(settings)
    teller = Teller(name, say)
    calls, message = _calls(network, process, teller, 2.0), request_to_wire(request.request)
    await release_client.ask(calls, message, settings.output, teller, request.done)


class _Patience(Absence):
    """Retries in virtual time without an end, with pauses by the process's own chance."""

    def __init__(self, teller: Teller, process: Process, first: float) -> None:
        super().__init__(teller, None, DIAL_S)
        self._process = process
        self._first = self._most = first

    @override
    def reached(self) -> None:
        super().reached()
        self._most = self._first

    @override
    def over(self) -> None:
        super().over()
        self._process.let_in = True

    @override
    def pause_s(self) -> float:
        self._most = min(LAST_RETRY_S, 2.0 * self._most)
        return self._process.chance.uniform(0.01, self._most)


def _calls(network: SimulatedNetwork, process: Process, teller: Teller, first: float) -> CuratorCalls:
    """Calls of a process to its curator; the first pause is at most twice `first` seconds."""
    absence = _Patience(teller, process, first)
    dial: Any = partial(network.dial, process, absence)  # has the part of gRPC's channel that is used
    return CuratorCalls(_ADDRESS, dial, absence)


async def compute(work: Callable[[], Any]) -> Any:
    """Compute in place of a thread; slowly, if such a fault is due.

    A coroutine that would have a loop of its own in its thread shares this loop. Files of a release follow
    from its bytes and from the owners that were lost: they are made once for all schedules, without reports
    of progress.
    """
    process = current.get()
    slow = None if process is None else process.fate.take("slow")
    await (turn() if slow is None else asyncio.sleep(slow.amount))
    if isinstance(work, partial) and work.func is asyncio.run:
        return await work.args[0]
    if isinstance(work, partial) and work.func is finished:
        method, release, _, owners = work.args
        if process is not None:
            for _ in range(_FINISH):
                process.tick()
                await turn()
        key = type(method), repr(method.settings), release, owners
        if key not in _FINISHED:
            _FINISHED[key] = finished(method, release, lambda *progress: None, owners)
        return _FINISHED[key]
    return work()
