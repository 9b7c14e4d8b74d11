"""The consumer's process: asks for a summary, protects D_v itself, receives the rows, judges them."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import grpc.aio
import numpy as np
from numpy.typing import NDArray

from consumer.gate import ConsumerGate
from consumer.sealed.boxes import give, keys_for, opened
from consumer.sealed.keys import RunKeys
from consumer.settings import ConsumerSettings, KernelSettings, RequestSettings
from consumer.summary.offers import make_offer
from consumer.summary.pending import Pending, forget_keys, keep_keys
from consumer.summary.spending import check_request, check_spending, shared_event
from fedkme.embeddings.kernels import median_gamma
from fedkme.errors import (
    ConfigError,
    ConnectionFailedError,
    FedkmeError,
    ProtocolError,
    StoreError,
)
from fedkme.features.fourier import FourierSpec
from fedkme.ops.supervision import StatusReporter
from fedkme.party import NoiseFor
from fedkme.pki.identity import Identity
from fedkme.privacy.events import Event
from fedkme.privacy.ledger import open_ledger
from fedkme.sealed import Gift
from fedkme.tables.files import load_table, save_table
from fedkme.tables.schema import Schema, load_schema
from fedkme.tables.table import Table
from fedkme.wire import codecs
from fedkme.wire.absence import Absence
from fedkme.wire.channel import explained
from fedkme.wire.dial import dial, own_identity
from fedkme.wire.rows import any_rows_from_wire, hashes_to_wire
from fedkme.wire.sealed import gift_to_wire
from fedkme.wire.v1 import summaries_pb2 as pb
from fedkme.wire.v1 import summaries_pb2_grpc
from fedkme.wire.v1.types_pb2 import VersionRange

Encoded = NDArray[np.float32]
Stream = grpc.aio.StreamStreamCall[pb.ConsumerMessage, pb.CuratorMessage]


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """Summary as the consumer receives it.

    Attributes:
        run: the run that made it.
        table: the rows, in the order in which they were chosen.
        features: the run's h1, with its gamma.
        complete: whether there are as many as were asked for.
        reason: why not.
        rounds: how many it took.
        points_accessed: how many rows the curator saw for them.
        prune: whether there are more rows than were asked for, to choose from.
    """

    run: str
    table: Table
    features: FourierSpec
    complete: bool
    reason: str
    rounds: int
    points_accessed: int
    prune: bool = False


def gamma_of(kernel: KernelSettings, validation: Encoded, seeds: Encoded) -> float:
    """gamma, from a number or by the median heuristic.

    Args:
        kernel: the setting.
        validation: encoded rows of D_v.
        seeds: encoded rows of the public seed set.

    Raises:
        ConfigError: it is to come from a seed set that there is not.
    """
    if kernel.gamma == "median-validation":
        return median_gamma(validation)
    if kernel.gamma != "median-seeds":
        return kernel.gamma
    if not len(seeds):
        raise ConfigError(
            "gamma is to come from the seed set and there is none",
            "Give gamma as a number or as 'median-validation', or give a seed set.",
        )
    return median_gamma(seeds)


def make_request(
    request: RequestSettings, schema: Schema, validation: Table, gate: ConsumerGate, again: bool = False
) -> pb.SummaryRequest:
    """The first message of a consumer; made again, it discloses nothing more."""
    message = pb.SummaryRequest(
        name=gate.consumer,
        request_id=secrets.token_bytes(16),
        versions=codecs.VERSIONS,
        rows=request.p,
        schema_digest=schema.digest(),
        validation_rows=len(validation),
    )
    if request.kernel.gamma == "median-seeds":
        message.gamma_from_seeds = True  # the curator has them
    else:
        rows = schema.encode(validation.values)
        message.gamma = gamma_of(request.kernel, rows, rows[:0])
        if request.kernel.gamma == "median-validation" and not again:
            gate.pass_gamma(message.gamma)
    return message


async def summarize(
    stream: Stream,
    request: RequestSettings,
    schema: Schema,
    validation: Table,
    noise_for: NoiseFor,
    voice: StatusReporter,
    gate: ConsumerGate,
    pending: Pending,
    heard: Callable[[], None] = lambda: None,
    identity: Identity | None = None,
    simulation_seed: int | None = None,
    afford: Callable[[Event], None] = lambda event: None,
) -> Summary:
    """One summary over an open stream; asked again, it is the same request, with the same g~.

    Raises:
        BudgetError: D_v cannot pay for what the plan asks for; nothing of it was computed.
        FedkmeError: the curator's refusal or failure, in its own words.
    """
    messages = _messages(stream)
    document = pending.document
    await stream.write(pb.ConsumerMessage(request=document.request))
    plan = await _plan(messages)
    features = codecs.features_from_wire(plan.features, schema.encoded_width)
    heard()
    if not plan.offered:
        known = (document.run, document.features, document.cells) == (plan.run, plan.features, plan.cells)
        if not known or not document.offer:
            afford(shared_event(request, plan.HasField("cells")))
            keys, gifts = None, list[Gift]()
            if plan.hashed:  # first: where nobody may have the secret, D_v discloses nothing
                keys, gifts = give(plan, gate.consumer, identity, voice, simulation_seed)
            draw = keys.draw(features) if keys is not None and plan.secret_draw else None
            outgoing = make_offer(request, plan, draw or features, schema, validation, noise_for, gate)
            outgoing[0].gifts.extend(gift_to_wire(gift) for gift in gifts)
            if keys is not None and draw is not None:
                outgoing[0].reference = hashes_to_wire(keys.reference(draw, schema))
            forget_keys(document)
            if keys is not None:
                keep_keys(document, keys)
            document.run = plan.run
            document.features.CopyFrom(plan.features)
            document.cells.CopyFrom(plan.cells)
            del document.offer[:]
            document.offer.extend(outgoing)
            pending.keep()
        for said_now in document.offer:
            await stream.write(said_now)
    keys = keys_for(plan, document, gate.consumer)
    return await _receive(plan, messages, schema, features, voice, keys)


async def receive_summary(
    run: str,
    stream: Stream,
    schema: Schema,
    voice: StatusReporter,
    pending: Pending | None = None,
    consumer: str = "",
) -> Summary:
    """The summary of a run, on a stream that is attached to it; `pending` has the keys of sealed rows.

    Raises:
        FedkmeError: the curator's refusal or failure, in its own words.
    """
    messages = _messages(stream)
    plan = await _plan(messages)
    features = codecs.features_from_wire(plan.features, schema.encoded_width)
    keys = keys_for(plan, None if pending is None else pending.document, consumer)
    plan.run = run
    return await _receive(plan, messages, schema, features, voice, keys)


async def _plan(messages: AsyncIterator[pb.CuratorMessage]) -> pb.Plan:
    opening = await anext(messages, None)
    if opening is None or not opening.HasField("plan"):
        raise ProtocolError("the curator did not begin with a plan", "Install the same release of fedkme.")
    plan = opening.plan
    codecs.common_version(VersionRange(oldest=plan.version, newest=plan.version), "the curator")
    return plan


async def _receive(
    plan: pb.Plan,
    messages: AsyncIterator[pb.CuratorMessage],
    schema: Schema,
    features: FourierSpec,
    voice: StatusReporter,
    keys: RunKeys | None = None,
) -> Summary:
    """Progress, rows, and how the run ended."""
    run, draw = plan.run, keys.draw(features) if keys is not None and plan.secret_draw else None
    parts = []
    async for message in messages:
        match message.WhichOneof("body"):
            case "progress":
                said = message.progress
                counts = {"rows": said.selected, "accessed": said.points_accessed}
                voice.say("progress", run=run, round=said.round, **counts)
            case "summary":
                parts.append(message.summary)
            case "outcome":
                table = opened(any_rows_from_wire(parts, keys is not None), schema, keys, draw)
                outcome = message.outcome
                complete = outcome.status == pb.Outcome.STATUS_COMPLETE
                return Summary(
                    run,
                    table,
                    features,
                    complete,
                    outcome.reason,
                    outcome.rounds,
                    outcome.points_accessed,
                    outcome.prune,
                )
    raise ConnectionFailedError("the curator ended the call before the outcome", "Look at its last lines.")


async def _messages(stream: Stream) -> AsyncIterator[pb.CuratorMessage]:
    while isinstance(message := await stream.read(), pb.CuratorMessage):
        if message.HasField("fault"):
            raise codecs.fault_from_wire(message.fault)
        yield message


async def run(settings: ConsumerSettings, voice: StatusReporter) -> None:
    """Ask for a summary and write it with its evaluation."""
    schema = load_schema(settings.schema_file)
    validation = load_table(settings.validation, schema, settings.name)
    if not len(validation):
        raise ConfigError("the validation set has no rows", "Give at least one row.")
    schema.check(validation, settings.name)
    _make(settings.output)
    voice.say("loaded", rows=len(validation))
    address = await voice.hear() if settings.curator == "-" else settings.curator
    settings.check_address(address)
    with open_ledger(settings.name, settings.output / "ledger.jsonl") as ledger:
        gate, pending = ConsumerGate(settings.name, ledger), Pending(settings.output)
        summary = await _ask(settings, schema, validation, address, gate, pending, voice)
    if summary.prune:
        save_table(settings.output / "received.npz", summary.table)
        summary = pruned(summary, settings.request.p, schema, validation)
    save_table(settings.output / "summary.npz", summary.table)
    pending.done()
    voice.say(
        "received",
        run=summary.run,
        round=summary.rounds,
        rows=len(summary.table),
        complete=summary.complete,
        reason=summary.reason,
        accessed=summary.points_accessed,
    )
    _judge(settings, schema, validation, summary, voice)


def pruned(summary: Summary, p: int, schema: Schema, validation: Table) -> Summary:
    """The p rows that match D_v best, chosen here: nobody else learns which; all where there are no more."""
    from fedkme.cells.prune import prune  # by the cells protocol alone

    if len(summary.table) <= p:
        return replace(summary, complete=len(summary.table) == p)
    rows = schema.encode(summary.table.values)
    kept = prune(rows, schema.encode(validation.values), p, summary.features.gamma)
    return replace(summary, table=summary.table.take(kept))


async def _ask(
    settings: ConsumerSettings,
    schema: Schema,
    validation: Table,
    address: str,
    gate: ConsumerGate,
    pending: Pending,
    voice: StatusReporter,
) -> Summary:
    """Ask, and ask again after a broken connection, until there is an outcome.

    Raises:
        FedkmeError: the curator's refusal, or no curator for too long.
    """
    again = pending.document.HasField("request")
    if not again:
        check_request(settings)
    request = make_request(settings.request, schema, validation, gate, again)
    pending.take_up(request)
    if again:
        gate.declared += codecs.disclosures_from_wire(pending.document.disclosures, codecs.MOST_DECLARED)
        voice.say("resumed", run=pending.document.run)
    else:
        pending.document.disclosures.extend(codecs.disclosure_to_wire(about) for about in gate.declared)
        pending.keep()
    absence = Absence(voice, settings.away_s, settings.connect_s)
    identity = own_identity(settings.identity, voice)
    while True:
        try:
            async with await dial(address, identity, settings.connect_s) as channel:
                absence.reached()
                stream = summaries_pb2_grpc.SummariesStub(channel).Summarize()
                with explained(address):
                    summary = await summarize(
                        stream,
                        settings.request,
                        schema,
                        validation,
                        settings.noise_for(settings.name),
                        voice,
                        gate,
                        pending,
                        absence.over,
                        None if identity is None else identity.current(),
                        settings.simulation_seed,
                        lambda event: check_spending(settings, [event]),
                    )
            return summary
        except ConnectionFailedError as error:
            await absence.wait(error)
        except StoreError:
            raise  # the curator's: the run goes on when it can
        except FedkmeError:
            pending.done()
            raise


def _make(output: Path) -> None:
    """The folder for what will come: better refused now than after the run."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{output} cannot be made: {error.strerror}", "Correct 'output'.") from None


def _judge(
    settings: ConsumerSettings, schema: Schema, validation: Table, summary: Summary, voice: StatusReporter
) -> None:
    """Evaluate what was received, here, on data that never leaves."""
    from consumer.summary.evaluation import evaluate_tables

    if not len(summary.table):
        return
    test = None if settings.test is None else load_table(settings.test, schema, settings.name)
    seeds = None if settings.seeds is None else load_table(settings.seeds, schema, settings.name)
    evaluation = evaluate_tables(
        schema,
        summary.table,
        validation,
        test,
        seeds,
        gamma=summary.features.gamma,
        downstream=settings.downstream,
    )
    text = json.dumps(evaluation.to_json(), indent=2)
    (settings.output / "evaluation.json").write_text(text + "\n", encoding="utf-8")
    voice.say("judged", run=summary.run, round=summary.rounds, mmd2=evaluation.mmd2)
