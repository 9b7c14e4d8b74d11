"""Judging of a summary that is here, on data that never leaves: nothing that was asked or paid changes."""

from __future__ import annotations

import json
from pathlib import Path

from consumer.results import EVALUATION, write_result
from consumer.settings import ConsumerSettings
from consumer.summary.evaluation import Evaluation, evaluate_tables
from fedkme.errors import FedkmeError, NotJudgedError
from fedkme.features.fourier import FourierSpec
from fedkme.ops.supervision import StatusReporter
from fedkme.tables.files import load_table
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table


def judge(
    settings: ConsumerSettings,
    schema: Schema,
    validation: Table,
    summary: Table,
    features: FourierSpec,
    reporter: StatusReporter,
) -> None:
    """Evaluate a summary and write what was found; the log says that it was judged, and not how well.

    Raises:
        NotJudgedError: the evaluation failed, whatever the reason; the rows are what they were.
    """
    try:
        found = _evaluation(settings, schema, validation, summary, features.gamma)
        text = json.dumps(found.to_json(), indent=2) + "\n"
        write_result(settings.output / EVALUATION, text.encode())
    except FedkmeError as error:
        raise _not_judged(settings.output, error.cause, error.remedy) from None
    except Exception as error:  # of a library: its text may hold numbers of rows
        reporter.unforeseen(error)
        remedy = "The log says where it happened."
        raise _not_judged(settings.output, f"it failed with {type(error).__name__}", remedy) from None


def _evaluation(
    settings: ConsumerSettings, schema: Schema, validation: Table, summary: Table, gamma: float
) -> Evaluation:
    test = None if settings.test is None else load_table(settings.test, schema, settings.name)
    seeds = None if settings.seeds is None else load_table(settings.seeds, schema, settings.name)
    return evaluate_tables(schema, summary, validation, test, seeds, gamma, settings.downstream)


def _not_judged(output: Path, cause: str, remedy: str) -> NotJudgedError:
    return NotJudgedError(
        f"the summary in {output} is whole and was not judged: {cause}",
        f"{remedy} The same command then judges it, and asks nobody.",
    )
