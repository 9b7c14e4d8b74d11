"""The end of a command that received rows: writes the rows, chooses p of them and judges these."""

from collections.abc import Callable
from pathlib import Path

from consumer import results
from consumer.settings import ConsumerSettings
from consumer.summary.evaluation import evaluator
from consumer.summary.forms import REPEATS, WEIGHTED, unweighted
from consumer.summary.judging import judge_tables
from consumer.summary.offers import Summary, pruned
from fedkme.errors import ConfigError, FedkmeError, IncompleteSummaryError, NotJudgedError
from fedkme.exchange import Plan
from fedkme.ops.supervision import StatusReporter
from fedkme.tables.files import Examined, load_rows, load_table, table_bytes
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table


def load_validation(settings: ConsumerSettings, schema: Schema) -> Examined:
    """Load D_v, with its persons.

    Raises:
        ConfigError: D_v has no rows.
        DataError: D_v does not follow the schema.
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
    on_stored: Callable[[], None] = lambda: None,
) -> None:
    """Write all received rows, and the p rows that match D_v best; call `on_stored`, and report the rows.

    When both files exist, an earlier summary's other forms and evaluation are removed from the folder.

    Raises:
        ConfigError: a file cannot be written.
    """
    output = settings.output
    results.write_result(output / results.RECEIVED_ROWS, table_bytes(summary.table))
    if summary.outcome.prune:
        summary = pruned(summary, settings.request.p, schema, validation)
    results.write_result(output / results.SUMMARY, table_bytes(summary.table))
    results.write_result(output / results.CSV, unweighted(summary.table).csv(schema))
    for name in (results.EVALUATION, WEIGHTED, REPEATS):
        results.remove_result(output / name)
    outcome = summary.outcome
    owners = outcome.participation
    results.keep_participation(output, owners)
    on_stored()
    reporter.say(
        "received",
        run=summary.plan.run,
        round=outcome.rounds,
        rows=len(summary.table),
        complete=outcome.complete,
        reason=outcome.reason,
        accessed=outcome.points_accessed,
        participation="" if owners is None else owners.line,
    )


def judge_received(
    settings: ConsumerSettings,
    schema: Schema,
    validation: Table,
    plan: Plan,
    reporter: StatusReporter,
    on_judged: Callable[[], None] = lambda: None,
) -> None:
    """Judge the received rows, call `on_judged`, and raise the command's error, if any.

    Raises:
        IncompleteSummaryError: the rows are fewer than requested.
        NotJudgedError: the rows could not be judged.
    """
    table, p = load_table(settings.output / results.SUMMARY, schema, settings.name), settings.request.p
    try:
        if len(table):
            _judge(settings, schema, validation, table, plan, reporter)
        on_judged()
    except NotJudgedError as error:
        if len(table) >= p:
            raise
        reporter.say("warning", run=plan.run, round=0, line=str(error))
    if len(table) < p:
        usable = "The rows can be used as they are; " if len(table) else ""
        cause = f"the summary in {settings.output} has {len(table)} of {p} rows"
        raise IncompleteSummaryError(cause, f"{usable}'received' in the log says why there are no more.")


def _judge(
    settings: ConsumerSettings,
    schema: Schema,
    validation: Table,
    summary: Table,
    plan: Plan,
    reporter: StatusReporter,
) -> None:
    """Evaluate a summary and write the evaluation; the log has the verdict, without numbers.

    Raises:
        NotJudgedError: the evaluation failed, for any reason; the rows are unchanged.
    """
    output = settings.output
    try:
        test, seeds = (
            None if source is None else load_table(source, schema, settings.name)
            for source in (settings.test, settings.seeds)
        )
        path = output / results.RECEIVED_ROWS
        received = load_table(path, schema, settings.name) if path.exists() else summary
        against = evaluator(schema, validation, test, seeds, plan.features.gamma, settings.downstream)
        lost = results.lost_owners(output)
        judged = judge_tables(against, schema, validation, received, summary, settings.request.p, lost)
        for name, content in judged.files(schema).items():
            results.write_result(output / name, content)
    except FedkmeError as error:
        raise _not_judged(output, error.cause, error.remedy) from None
    except Exception as error:  # from a library: its text may hold values of rows
        reporter.unforeseen(error)
        remedy = "The log says where it happened."
        raise _not_judged(output, f"it failed with {type(error).__name__}", remedy) from None
    reporter.say("judged", run=plan.run, round=0, file=str(output / results.EVALUATION))
    verdict = judged.verdict
    reporter.say("verdict", run=plan.run, round=0, grade=verdict.grade, advice=verdict.advice)


def _not_judged(output: Path, cause: str, remedy: str) -> NotJudgedError:
    return NotJudgedError(
        f"the summary in {output} is whole and was not judged: {cause}",
        f"{remedy} The same command then judges it, and D_v pays for nothing more.",
    )
