"""The end of a command that received rows: they are written, p of them chosen and judged."""

from __future__ import annotations

from collections.abc import Callable

from consumer.results import CSV, EVALUATION, RECEIVED_ROWS, SUMMARY, remove_result, write_result
from consumer.settings import ConsumerSettings
from consumer.summary.forms import REPEATS, WEIGHTED, unweighted
from consumer.summary.judging import judge
from consumer.summary.offers import Summary, pruned
from fedkme.errors import ConfigError, IncompleteSummaryError, NotJudgedError
from fedkme.exchange import Plan
from fedkme.ops.supervision import StatusReporter
from fedkme.tables.files import Examined, load_rows, load_table, table_bytes
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table


def load_validation(settings: ConsumerSettings, schema: Schema) -> Examined:
    """Load D_v, with the persons that it is of.

    Raises:
        ConfigError: it has no rows.
        DataError: it does not follow the schema.
    """
    validation = load_rows(settings.validation, schema, settings.name, of_persons=True)
    if not len(validation.table):
        raise ConfigError("the validation set has no rows", "Give at least one row.")
    return validation


def keep_received(
    settings: ConsumerSettings,
    schema: Schema,
    validation: Table,
    summary: Summary,
    reporter: StatusReporter,
    kept: Callable[[], None] = lambda: None,
) -> None:
    """Write all rows that came, and the p of them that match D_v best; call `kept`, and report them.

    Other forms of an earlier summary in the folder, and what was found of it, go once both files are there.

    Raises:
        ConfigError: the disk does not take them.
    """
    output = settings.output
    write_result(output / RECEIVED_ROWS, table_bytes(summary.table))
    if summary.outcome.prune:
        summary = pruned(summary, settings.request.p, schema, validation)
    write_result(output / SUMMARY, table_bytes(summary.table))
    write_result(output / CSV, unweighted(summary.table).csv(schema))
    for name in (EVALUATION, WEIGHTED, REPEATS):
        remove_result(output / name)
    kept()
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


def judge_received(
    settings: ConsumerSettings,
    schema: Schema,
    validation: Table,
    plan: Plan,
    reporter: StatusReporter,
    judged: Callable[[], None] = lambda: None,
) -> None:
    """Judge the rows that are here, call `judged`, and end the command as it went.

    Raises:
        IncompleteSummaryError: they are fewer than were asked for.
        NotJudgedError: they could not be judged.
    """
    table, p = load_table(settings.output / SUMMARY, schema, settings.name), settings.request.p
    try:
        if len(table):
            judge(settings, schema, validation, table, plan, reporter)
        judged()
    except NotJudgedError as error:
        if len(table) >= p:
            raise
        reporter.say("warning", run=plan.run, round=0, line=str(error))
    if len(table) < p:
        kept = "They can be used as they are; " if len(table) else ""
        raise IncompleteSummaryError(
            f"the summary in {settings.output} has {len(table)} of {p} rows",
            f"{kept}'received' in the log says why there are no more.",
        )
