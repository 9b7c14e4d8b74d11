"""The end of a command that received rows: writes the rows, chooses p of them and judges these."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from fedkme.tables.data_file import Source
from fedkme.tables.files import Examined, load_rows, load_table, table_bytes
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

FILES = (
    *(results.EVALUATION, WEIGHTED, REPEATS, results.CSV, results.PARTICIPATION),
    *(results.RECEIVED_ROWS, results.SUMMARY),
)
"""Files of a summary, the summary last."""


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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReceivedRows:
    """Rows that came for a consumer: writes them, chooses p of them, and judges these.

    Attributes:
        settings: settings of the consumer.
        schema: schema of the rows.
        validation: D_v.
        reporter: receives the outcome.
        persons: person of each row of D_v; empty: each row is a person.
    """

    settings: ConsumerSettings
    schema: Schema
    validation: Table
    reporter: StatusReporter
    persons: Sequence[str] = ()

    def keep(self, summary: Summary, on_stored: Callable[[], None] = lambda: None) -> None:
        """Write all received rows, and the p rows that match D_v best; call `on_stored`, and report the rows.

        The files of an earlier request's summary are moved to a folder of their own.

        Raises:
            ConfigError: a file cannot be written.
        """
        output, outcome = self.settings.output, summary.outcome
        new = {results.RECEIVED_ROWS: table_bytes(summary.table)}
        if outcome.prune:
            summary = pruned(summary, self.settings.request.p, self.schema, self.validation)
            outcome = summary.outcome
        new[results.SUMMARY] = table_bytes(summary.table)
        if place := results.set_aside(output, FILES, new):
            line = f"the rows of another request, which were here, are in {place}"
            self.reporter.say("warning", run=summary.plan.run, round=0, line=line)
        for name, content in new.items():
            results.write_result(output / name, content)
        results.write_result(output / results.CSV, unweighted(summary.table).csv(self.schema))
        owners = outcome.participation
        results.keep_participation(output, owners)
        on_stored()
        self.reporter.say(
            "received",
            run=summary.plan.run,
            round=outcome.rounds,
            rows=len(summary.table),
            complete=outcome.complete,
            reason=outcome.reason,
            accessed=outcome.points_accessed,
            participation="" if owners is None else owners.line,
        )

    def judge(self, plan: Plan, on_judged: Callable[[], None] = lambda: None) -> None:
        """Judge the kept rows, call `on_judged`, and raise the command's error, if any.

        Raises:
            IncompleteSummaryError: the rows are fewer than requested.
            NotJudgedError: the rows could not be judged.
        """
        output, p = self.settings.output, self.settings.request.p
        table = self._load(output / results.SUMMARY)
        try:
            if len(table):
                self._evaluate(table, plan)
            on_judged()
        except NotJudgedError as error:
            if len(table) >= p:
                raise
            self.reporter.say("warning", run=plan.run, round=0, line=str(error))
        if len(table) < p:
            usable = "The rows can be used as they are; " if len(table) else ""
            cause = f"the summary in {output} has {len(table)} of {p} rows"
            raise IncompleteSummaryError(cause, f"{usable}'received' in the log says why there are no more.")

    def _load(self, source: Source) -> Table:
        return load_table(source, self.schema, self.settings.name)

    def _evaluate(self, summary: Table, plan: Plan) -> None:
        """Evaluate a summary and write the evaluation; the log has the verdict, without numbers.

        Raises:
            NotJudgedError: the evaluation failed, for any reason; the rows are unchanged.
        """
        settings, schema, validation, output = (
            self.settings,
            self.schema,
            self.validation,
            self.settings.output,
        )
        try:
            test = None if settings.test is None else self._load(settings.test)
            seeds = None if settings.seeds is None else self._load(settings.seeds)
            path = output / results.RECEIVED_ROWS
            received = self._load(path) if path.exists() else summary
            against = evaluator(schema, validation, test, seeds, plan.features.gamma, settings.downstream)
            lost = results.lost_owners(output)
            p, persons = settings.request.p, self.persons
            judged = judge_tables(against, schema, validation, received, summary, p, lost, persons=persons)
            for name, content in judged.files(schema).items():
                results.write_result(output / name, content)
        except FedkmeError as error:
            raise _not_judged(output, error.cause, error.remedy) from None
        except Exception as error:  # from a library: its text may hold values of rows
            self.reporter.unforeseen(error)
            remedy = "The log says where it happened."
            raise _not_judged(output, f"it failed with {type(error).__name__}", remedy) from None
        verdict, about = judged.verdict, {"run": plan.run, "round": 0}
        self.reporter.say("judged", **about, file=str(output / results.EVALUATION))
        self.reporter.say("verdict", **about, grade=verdict.grade, advice=verdict.advice)


def _not_judged(output: Path, cause: str, remedy: str) -> NotJudgedError:
    return NotJudgedError(
        f"the summary in {output} is whole and was not judged: {cause}",
        f"{remedy} The same command then judges it, and D_v pays for nothing more.",
    )
