"""The consumer's process: asks for a summary, protects D_v itself, receives the rows, judges them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import grpc.aio

from consumer.gate import ConsumerGate
from consumer.sealed.boxes import give, keys_for
from consumer.sealed.keys import RunKeys
from consumer.settings import ConsumerSettings, RequestSettings
from consumer.summary.offers import Summary, finish, make_offer, make_request, pruned
from consumer.summary.pending import Pending
from consumer.summary.spending import check_request, check_spending, shared_event
from fedkme.errors import (
    ConfigError,
    ConnectionFailedError,
    FedkmeError,
    ProtocolError,
    StoreError,
)
from fedkme.exchange import Plan
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
from fedkme.wire.journals import OpenRequest
from fedkme.wire.rows import any_rows_from_wire
from fedkme.wire.summaries import OUTCOME, offer_to_messages, plan_from_wire, request_to_wire
from fedkme.wire.v1 import summaries_pb2 as pb
from fedkme.wire.v1 import summaries_pb2_grpc
from fedkme.wire.v1.types_pb2 import VersionRange

Stream = grpc.aio.StreamStreamCall[pb.ConsumerMessage, pb.CuratorMessage]


async def summarize(
    stream: Stream,
    request: RequestSettings,
    schema: Schema,
    validation: Table,
    noise_for: NoiseFor,
    reporter: StatusReporter,
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
    asked = pending.open
    assert asked is not None, "the request is taken up before it is made"
    messages = _messages(stream)
    await stream.write(pb.ConsumerMessage(request=request_to_wire(asked.request)))
    plan = await _plan(messages, schema)
    heard()
    if not plan.offered:
        if (offer := asked.offer_for(plan)) is None:
            afford(shared_event(request, plan.cells is not None))
            keys, gifts = None, list[Gift]()
            if plan.sealed:  # first: where nobody may have the secret, D_v discloses nothing
                warn = partial(reporter.say, "warning", run=plan.run)
                keys, gifts = give(
                    plan, gate.consumer, identity, lambda line: warn(line=line), simulation_seed
                )
            offer = make_offer(plan, request, schema, validation, noise_for, gate, keys, gifts)
            asked = replace(asked, plan=plan, offer=offer, secrets=None if keys is None else keys.secrets)
            pending.keep(asked)
        for message in offer_to_messages(offer):
            await stream.write(message)
    return await _receive(plan, messages, schema, reporter, keys_for(plan, asked))


async def receive_summary(
    run: str, stream: Stream, schema: Schema, reporter: StatusReporter, asked: OpenRequest | None = None
) -> Summary:
    """The summary of a run, on a stream that is attached to it; `asked` has the keys of sealed rows.

    Raises:
        FedkmeError: the curator's refusal or failure, in its own words.
    """
    messages = _messages(stream)
    plan = await _plan(messages, schema)
    return await _receive(replace(plan, run=run), messages, schema, reporter, keys_for(plan, asked))


async def _plan(messages: AsyncIterator[pb.CuratorMessage], schema: Schema) -> Plan:
    opening = await anext(messages, None)
    if opening is None or not opening.HasField("plan"):
        raise ProtocolError("the curator did not begin with a plan")
    version = opening.plan.version
    codecs.common_version(VersionRange(oldest=version, newest=version), "the curator")
    return plan_from_wire(opening.plan, schema.encoded_width)


async def _receive(
    plan: Plan,
    messages: AsyncIterator[pb.CuratorMessage],
    schema: Schema,
    reporter: StatusReporter,
    keys: RunKeys | None,
) -> Summary:
    """Progress, rows, and how the run ended."""
    parts = []
    async for message in messages:
        match message.WhichOneof("body"):
            case "progress":
                said = message.progress
                counts = {"rows": said.selected, "accessed": said.points_accessed}
                reporter.say("progress", run=plan.run, round=said.round, **counts)
            case "summary":
                parts.append(message.summary)
            case "outcome":
                rows = any_rows_from_wire(parts, plan.sealed)
                return finish(plan, rows, OUTCOME.from_wire(message.outcome), schema, keys)
    raise ConnectionFailedError("the curator ended the call before the outcome", "Look at its last lines.")


async def _messages(stream: Stream) -> AsyncIterator[pb.CuratorMessage]:
    while isinstance(message := await stream.read(), pb.CuratorMessage):
        if message.HasField("fault"):
            raise codecs.fault_from_wire(message.fault)
        yield message


async def run(settings: ConsumerSettings, reporter: StatusReporter) -> None:
    """Ask for a summary and write it with its evaluation."""
    schema = load_schema(settings.schema_file)
    validation = load_table(settings.validation, schema, settings.name, of_persons=True)
    if not len(validation):
        raise ConfigError("the validation set has no rows", "Give at least one row.")
    schema.check(validation, settings.name)
    _make(settings.output)
    reporter.say("loaded", rows=len(validation))
    address = await reporter.hear() if settings.curator == "-" else settings.curator
    settings.check_address(address)
    with open_ledger(settings.name, settings.output / "ledger.jsonl") as ledger:
        gate, pending = ConsumerGate(settings.name, ledger), Pending(settings.output)
        summary = await _ask(settings, schema, validation, address, gate, pending, reporter)
    if summary.outcome.prune:
        save_table(settings.output / "received.npz", summary.table)
        summary = pruned(summary, settings.request.p, schema, validation)
    save_table(settings.output / "summary.npz", summary.table)
    pending.done()
    tell_received(reporter, summary)
    _judge(settings, schema, validation, summary, reporter)


async def _ask(
    settings: ConsumerSettings,
    schema: Schema,
    validation: Table,
    address: str,
    gate: ConsumerGate,
    pending: Pending,
    reporter: StatusReporter,
) -> Summary:
    """Ask, and ask again after a broken connection, until there is an outcome.

    Raises:
        FedkmeError: the curator's refusal, or no curator for too long.
    """
    again = pending.open is not None
    if not again:
        check_request(settings)
    asked = pending.take_up(make_request(settings.request, schema, validation, gate, again))
    if again:
        gate.declared += asked.disclosures
        reporter.say("resumed", run="" if asked.plan is None else asked.plan.run)
    else:
        pending.keep(replace(asked, disclosures=tuple(gate.declared)))
    absence = Absence(reporter, settings.away_s, settings.connect_s)
    identity = own_identity(settings.identity, reporter)
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
                        reporter,
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


def tell_received(reporter: StatusReporter, summary: Summary) -> None:
    """Report a summary that came."""
    outcome = summary.outcome
    reporter.say(
        "received",
        run=summary.plan.run,
        round=outcome.rounds,
        rows=len(summary.table),
        complete=outcome.complete,
        reason=outcome.reason,
        accessed=outcome.points_accessed,
    )


def _make(output: Path) -> None:
    """The folder for what will come: better refused now than after the run."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{output} cannot be made: {error.strerror}", "Correct 'output'.") from None


def _judge(
    settings: ConsumerSettings, schema: Schema, validation: Table, summary: Summary, reporter: StatusReporter
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
        gamma=summary.plan.features.gamma,
        downstream=settings.downstream,
    )
    text = json.dumps(evaluation.to_json(), indent=2)
    (settings.output / "evaluation.json").write_text(text + "\n", encoding="utf-8")
    reporter.say("judged", run=summary.plan.run, round=summary.outcome.rounds, mmd2=evaluation.mmd2)
