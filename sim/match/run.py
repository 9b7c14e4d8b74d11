"""Rows for a target from a release's folder to a finished folder; no party is asked, nothing is charged."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ConfigDict, Field, FiniteFloat

from consumer.releases.client import release_settings_of
from consumer.results import (
    EVALUATION,
    RECEIVED_ROWS,
    SUMMARY,
    alone,
    lost_owners,
    make_folder,
    place_of,
    write_result,
)
from consumer.settings import ConsumerSettings
from consumer.summary.received import load_validation
from consumer.target.choosing import PoolChoice
from consumer.target.client import write_matched
from consumer.target.matching import AUDIENCE, drawn_for, match_rows
from curator.run.release_record import redrawn
from fedkme.answers.folder import RELEASE, SYNTHETIC, AskedFolder
from fedkme.arrays import WIDTHS
from fedkme.config import Settings, load_toml, validate
from fedkme.drafts.checking import line_that_reads
from fedkme.drafts.reading import RowsToCheck
from fedkme.embeddings.kernels import domain_gamma
from fedkme.errors import ConfigError, DataError, MissingDependencyError, on_disk
from fedkme.inputs import read_bytes
from fedkme.ops.threads import one_thread
from fedkme.pages.html import number
from fedkme.party import load_settings
from fedkme.privacy.accounting import ONE_ROW
from fedkme.privacy.events import CONSUMER, CURATOR, OWNERS, VALIDATION
from fedkme.protocols import TARGET
from fedkme.releases.counts import protocol_of
from fedkme.tables.data_file import Source, as_file, placed
from fedkme.tables.files import counted_persons, load_table, read_arrays
from fedkme.tables.schema import Schema, load_schema
from fedkme.tables.table import Table
from fedkme.verdict import lines_of
from sim.engines.run_folder import write_schema
from sim.evaluation.metrics import figures_of, forms_of
from sim.evaluation.received import received_release
from sim.evaluation.releases import compare_with_validation
from sim.progress import Follower
from sim.report.received import report_release, report_summary
from sim.report.summary_page import ALONE, TRAINING_HEADER, TRAINING_NOTE, render_received, training_rows
from sim.report.write import REPORT, modified, read_object

METRICS = "metrics.json"
CARD = "card.md"
NO_BYTE = "no byte that depends on D_v leaves the consumer's machine"


class MatchSettings(Settings):
    """Numbers of a match, from a command line or a call."""

    rows: int = Field(100, ge=1)
    """p, rows to choose."""
    draw: int | None = Field(None, ge=1)
    """Rows to draw from the release; None: `drawn_for` decides."""
    gamma: FiniteFloat | None = Field(None, ge=WIDTHS.low, le=WIDTHS.high)
    """Gamma of the kernel; None: by the schema's domain, as in a summary."""


@dataclass(frozen=True, slots=True)
class TargetRows:
    """Consumer's rows of a target.

    Attributes:
        validation: D_v.
        persons: person of each row of D_v; empty: each row is a person.
    """

    validation: Table
    persons: Sequence[str] = ()


class _Target(Settings):
    """The part of a consumer's configuration that names D_v; other keys are left alone."""

    model_config = ConfigDict(extra="ignore")
    validation: Source


def target_file(path: Path) -> Source:
    """Source of D_v: a file of rows, or what a configuration has under `validation`.

    Raises:
        ConfigError: the configuration is not valid, or names no D_v.
    """
    if path.suffix != ".toml":
        return path
    return placed(validate(_Target, load_toml(path), str(path)).validation, path.parent)


def load_target(source: Source, schema: Schema) -> TargetRows:
    """Read the file of D_v, with the persons of its rows.

    Raises:
        DataError: D_v does not follow the release's schema; says which settings may read it.
    """
    of_persons = schema.person is not None
    return target_rows(RowsToCheck("D_v", as_file(source), of_persons=of_persons), schema)


def target_rows(subject: RowsToCheck, schema: Schema) -> TargetRows:
    """Read D_v, with the persons of its rows.

    Raises:
        DataError: D_v does not follow the release's schema; says which settings may read it.
    """
    try:
        examined = subject.load(schema)
    except DataError as error:
        remedy = f"{error.remedy} D_v has the columns of the release's schema: schema.toml in its folder."
        if line := line_that_reads(subject, schema, "validation"):
            how = "Give" if subject.frame else "Give, in the file's place, a .toml beside it with"
            remedy = f"{how} the settings to read it: {line}"
        raise DataError(error.cause, remedy) from None
    return TargetRows(examined.table, counted_persons(examined, schema))


def match_folder(
    release: Path,
    out: Path,
    target: TargetRows,
    settings: MatchSettings,
    shown: Follower,
    *,
    test: Table | None = None,
    real: Table | None = None,
    train: bool = True,
) -> dict[str, Any]:
    """Choose rows for a target from the release in a folder; write them, their card and their page.

    Args:
        release: folder of a release: a simulation's, or a consumer's output.
        out: folder for the files, which are for the consumer alone.
        target: D_v.
        settings: number of rows, and how they are chosen.
        shown: follows the work.
        test: held-back rows that judge the result, or None.
        real: real rows of a summary that the consumer holds as well, or None.
        train: True to find what to train on.

    Returns:
        Metrics of the result.

    Raises:
        ConfigError: the release has no rows of equal weight, or fewer than p; D_v has no rows; or `out` is
            the release's folder.
        DataError: the folder has no release, or rows do not follow its schema.
        StoreError: a file cannot be written.
    """
    if not len(target.validation):
        raise ConfigError("the validation set has no rows", "Give at least one row.")
    if os.path.realpath(out) == os.path.realpath(release):
        cause = f"{out} is the release's own folder, which everybody may see"
        raise ConfigError(cause, "Give the rows, which are for the consumer alone, another folder.")
    schema = AskedFolder(release).stored.schema
    make_folder(out)
    gamma, draw = settings.gamma, settings.draw
    width = domain_gamma(schema.mean_squared_distance) if gamma is None else gamma
    with one_thread():  # more threads spin where cores are shared
        draws = partial(drawn_rows, release, schema, shown=shown)
        drawn = drawn_for(draws, schema, target.validation, width) if draw is None else draws(draw)
        matched = match_rows(
            PoolChoice(schema, drawn, target.validation, settings.rows, width),
            test=test,
            real=real,
            persons=target.persons,
            train=train,
            doubts=lost_owners(release),
            note=shown.note,
        )
    write_matched(matched, out, schema)
    write_schema(out, schema)
    metrics = metrics_of_target(release, out, schema, target.validation)
    write_result(out / alone(METRICS), (json.dumps(metrics, indent=2) + "\n").encode())
    write_result(out / alone(CARD), card_of(metrics).encode())
    write_page(out, metrics)
    return metrics


def drawn_rows(release: Path, schema: Schema, count: int, shown: Follower) -> Table:
    """Rows of a release: those in its folder where they are enough, else drawn again from its numbers.

    Where its method needs a package that is not here, the folder's rows are taken, however few.

    Raises:
        ConfigError: the method gives no rows of equal weight.
        DataError: the folder has no release.
    """
    path = release / RELEASE
    with on_disk(f"{path} cannot be read", "Give the folder of a release.", DataError):
        data = read_bytes(path)
    synthetic = release / SYNTHETIC
    there = load_table(synthetic, schema, "the release") if synthetic.exists() else None
    if there is not None and len(there) >= count:
        return there.take(np.arange(count))
    try:
        shown.note(f"drawing {count:,} rows from the release, which costs nothing")
        drawn = redrawn(data, count, shown.stage)
    except MissingDependencyError as error:
        if there is None:
            raise
        shown.warn(f"the release's own {len(there):,} rows are taken: {error.cause}")
        return there
    if drawn is not None:
        return drawn
    if there is None:
        raise ConfigError(
            f"a release of {protocol_of(data, str(path))} holds weighted points, and no rows to choose from",
            "Take a release of marginals, moments, merf or hermite.",
        )
    return there


def rows_of_summary(path: Path, schema: Schema) -> Table:
    """Real rows of a summary: of a consumer's folder all that came, or of a file.

    Raises:
        DataError: there are no rows, or they do not follow the schema.
    """
    if not path.is_dir():
        return load_table(path, schema, "the real rows")
    files = [file for name in (RECEIVED_ROWS, SUMMARY) if (file := place_of(path, name)).exists()]
    if not files:
        raise DataError(f"{path} has no rows of a summary", "Give a consumer's output folder, or a file.")
    return load_table(files[0], schema, "the real rows")


def metrics_of_target(release: Path, out: Path, schema: Schema, validation: Table) -> dict[str, Any]:
    """Metrics of rows for a target, from the files in their folder.

    Args:
        release: folder of the release.
        out: folder of the rows, which may be the same.
        schema: schema of the rows.
        validation: D_v.
    """
    evaluation = read_object(out / alone(EVALUATION))
    figures = figures_of(forms_of(evaluation))
    about = _about(release)
    p = len(read_arrays(out / alone(SUMMARY), CONSUMER)["x"])
    return {
        "status": "complete",
        "code": 0,
        "reason": None,
        "protocol": TARGET,
        "audience": AUDIENCE,
        "consumer": CONSUMER,
        "run": "rows for a target",
        "release": {"folder": release.name, **about["release"]},
        "p": p,
        "rows": p,
        "drawn": evaluation["drawn"],
        "gamma": evaluation["gamma"],
        "points_accessed": {"total": 0},
        **figures,
        "mmd2": figures["mmd2"] | {"control": evaluation["control"]},
        "training": evaluation["training"],
        "verdict": evaluation["verdict"],
        "privacy": about["privacy"],
        "columns": compare_with_validation(out, validation, schema),
    }


def _about(release: Path) -> dict[str, Any]:
    """Method, sizes and privacy statements of a release, by its metrics or its card."""
    card = next(iter(sorted(release.glob("*.card.json"))), None)
    metrics = release / METRICS
    facts: Mapping[str, Any] = {}
    if metrics.exists():
        facts = read_object(metrics)
    elif card is not None:
        method = protocol_of(read_bytes(release / RELEASE), RELEASE)
        facts = received_release(CONSUMER, method, read_object(card))
    own = [
        {
            "protected": VALIDATION,
            "observer": observer,
            "accountant": "sound",
            "epsilon": 0.0,
            "delta": 0.0,
            "neighbouring": "replace-one",
            "raw_points": 0,
            "reason": NO_BYTE,
            "unit": ONE_ROW,
        }
        for observer in (OWNERS, CURATOR)
    ]
    return {
        "release": {key: facts[key] for key in ("method", "K", "N") if key in facts},
        "privacy": [*facts.get("privacy", ()), *own],
    }


def card_of(metrics: Mapping[str, Any]) -> str:
    """Card of rows for a target, Markdown."""
    release = metrics["release"]
    training = metrics["training"]
    lines = [
        "# Rows for a target",
        "",
        f"{ALONE} Share the release instead.",
        "",
        f"- Rows: {metrics['rows']} of {metrics['drawn']:,} synthetic rows of a release "
        f"({', '.join(f'{key} {value}' for key, value in release.items() if key != 'folder')})",
        "- Rows of owners accessed: 0; this result costs owners and D_v nothing more",
        f"- MMD^2 to D_v with weights: {number(metrics['mmd2']['summary_weighted'])}; of independent columns "
        f"chosen likewise: {number(metrics['mmd2']['control'])}",
        "",
        *lines_of(metrics["verdict"]),
    ]
    if training is not None:
        lines += ["", "## What to train on", ""]
        lines += [f"| {' | '.join(TRAINING_HEADER)} |", "|---" * len(TRAINING_HEADER) + "|"]
        lines += [f"| {' | '.join(row)} |" for row in training_rows(training)]
        lines += ["", TRAINING_NOTE]
    return "\n".join(lines) + "\n"


def write_page(out: Path, metrics: Mapping[str, Any]) -> Path:
    """Write the page of rows for a target, for the consumer alone."""
    summary = out / alone(SUMMARY)
    page = render_received(metrics, read_arrays(summary, "match"), modified(out / alone(EVALUATION)))
    write_result(out / alone(REPORT), page.encode("utf-8"))
    return out / alone(REPORT)


def report_rows(settings: ConsumerSettings) -> tuple[Schema, dict[str, Any]]:
    """Write the page of the rows in a consumer's folder; return their schema and their metrics.

    Raises:
        ConfigError: the folder has no rows of a summary, or for a target.
    """
    if settings.request.real_rows:
        return report_summary(settings)
    output, schema = settings.output, load_schema(settings.schema_file)
    if not (output / alone(EVALUATION)).exists():
        raise ConfigError(f"there is no summary in {output}", "Ask for one: .summary().")
    metrics = metrics_of_target(output, output, schema, load_validation(settings, schema).table)
    write_page(output, metrics)
    return schema, metrics


def report_of_consumer(config: Path) -> Path:
    """Write the page of the last result of a consumer's configuration; return its path.

    Raises:
        ConfigError: there is no such file, or its folder has no result.
    """
    if "release" in (values := load_toml(config)):
        released = release_settings_of(values, config)
        report_release(released)
        return released.output / REPORT
    settings = load_settings(ConsumerSettings, config)
    report_rows(settings)
    return settings.output / (REPORT if settings.request.real_rows else alone(REPORT))
