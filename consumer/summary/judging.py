"""Judging of a received summary, on data that never leave; the request and its cost do not change."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from consumer.results import EVALUATION, RECEIVED_ROWS, write_result
from consumer.settings import ConsumerSettings
from consumer.summary.classes import classes_apart
from consumer.summary.evaluation import Evaluation, evaluator
from consumer.summary.forms import Forms, make_forms
from consumer.summary.held_out_mmd import by_halves
from consumer.summary.verdict import FormQuality, SummaryVerdict, Yardstick, verdict_on, yardstick
from fedkme.errors import FedkmeError, NotJudgedError
from fedkme.exchange import Plan
from fedkme.ops.supervision import StatusReporter
from fedkme.tables.files import load_table
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The forms of a summary, and the quality of each.

    Attributes:
        forms: rows of each form.
        alike: quality of p rows with equal weights.
        weighted: quality of rows with weights.
        repeats: quality of p rows with repetitions.
        classes: distance of each form's class shares from D_v's (`classes_apart`).
        by: yardstick of the verdict.
        verdict: verdict on the best form.
        halves: estimate of `by_halves`; None if the forms were good without it.
    """

    forms: Forms
    alike: Evaluation
    weighted: Evaluation
    repeats: Evaluation
    classes: tuple[float, ...]
    by: Yardstick
    verdict: SummaryVerdict
    halves: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain values, explained in docs/metrics.md."""
        fit = self.forms.fit
        about_fit = {"rows": len(fit), "ridge": fit.ridge, "gap": fit.gap, "least": self.forms.least}
        alike, weighted, repeats = (
            {"effective": effective, "classes": classes}
            for effective, classes in zip(self.forms.effective, self.classes, strict=True)
        )
        return (asdict(self.alike) | alike) | {
            "weighted": asdict(self.weighted) | weighted | about_fit,
            "repeats": asdict(self.repeats) | repeats | {"rows": len(self.forms.counts)},
            "spread": self.by.spread,
            "expected": self.by.expected,
            "halves": self.halves,
            "verdict": asdict(self.verdict),
        }

    def files(self, schema: Schema) -> dict[str, bytes]:
        """Files beside the summary by name, the evaluation last."""
        text = json.dumps(self.to_json(), indent=2) + "\n"
        return self.forms.files(schema) | {EVALUATION: text.encode()}


def judge_tables(
    schema: Schema,
    came: Table,
    summary: Table,
    validation: Table,
    test: Table | None,
    seeds: Table | None,
    p: int,
    gamma: float,
    downstream: bool,
) -> Judged:
    """Make the forms of a summary and judge each.

    Args:
        schema: schema of all tables.
        came: all received rows.
        summary: rows left by pruning, at least one.
        validation: D_v.
        test: held-back rows, or None.
        seeds: the public seed set, or None.
        p: number of requested rows.
        gamma: gamma of the kernel.
        downstream: True to train models.
    """
    against = evaluator(schema, validation, test, seeds, gamma, downstream)
    forms = make_forms(schema, came, summary, against.validation, p, validation.labels)
    alike = against.evaluate_table(schema, forms.summary)
    weighted = against.evaluate_table(schema, forms.weighted, forms.fit.weights)
    repeats = against.evaluate_table(schema, forms.repeats)
    by = yardstick(against.validation.own, len(validation), p)
    evaluations = (alike, weighted, repeats)
    listed = ((forms.summary, None), (forms.weighted, forms.fit.weights), (forms.repeats, None))
    classes = tuple(classes_apart(rows.labels, weights, validation.labels, p) for rows, weights in listed)
    qualities = [
        FormQuality(of.mmd2, size, each)
        for of, size, each in zip(evaluations, forms.effective, classes, strict=True)
    ]
    verdict, halves = verdict_on(qualities[0], qualities[1:], by), None
    if verdict.grade != "good":
        halves = by_halves(schema.encode(came.values), against.validation, p, came.labels, validation.labels)
        verdict = verdict_on(qualities[0], qualities[1:], by, halves=halves)
    return Judged(forms, *evaluations, classes, by, verdict, halves)


def judge(
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
    try:
        judged = _judged(settings, schema, validation, summary, plan.features.gamma)
        for name, content in judged.files(schema).items():
            write_result(settings.output / name, content)
    except FedkmeError as error:
        raise _not_judged(settings.output, error.cause, error.remedy) from None
    except Exception as error:  # from a library: its text may hold values of rows
        reporter.unforeseen(error)
        remedy = "The log says where it happened."
        raise _not_judged(settings.output, f"it failed with {type(error).__name__}", remedy) from None
    reporter.say("judged", run=plan.run, round=0, file=str(settings.output / EVALUATION))
    verdict = judged.verdict
    reporter.say("verdict", run=plan.run, round=0, grade=verdict.grade, advice=verdict.advice)


def _judged(
    settings: ConsumerSettings, schema: Schema, validation: Table, summary: Table, gamma: float
) -> Judged:
    test = None if settings.test is None else load_table(settings.test, schema, settings.name)
    seeds = None if settings.seeds is None else load_table(settings.seeds, schema, settings.name)
    path = settings.output / RECEIVED_ROWS
    came = load_table(path, schema, settings.name) if path.exists() else summary
    return judge_tables(
        schema, came, summary, validation, test, seeds, settings.request.p, gamma, settings.downstream
    )


def _not_judged(output: Path, cause: str, remedy: str) -> NotJudgedError:
    return NotJudgedError(
        f"the summary in {output} is whole and was not judged: {cause}",
        f"{remedy} The same command then judges it, and D_v pays for nothing more.",
    )
