"""Finished simulations in a folder, a line each: scenario, end, result and rows accessed."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from fedkme.inputs import read_text
from fedkme.pages.html import number
from fedkme.verbs import table_of
from sim.evaluation.metrics import FORMS
from sim.formatting import distance


@dataclass(frozen=True, slots=True)
class PastRun:
    """A simulation as its folder tells it.

    Attributes:
        directory: its folder.
        ended: when its figures were written, UTC, to the second.
        status: complete, incomplete, failed, ...
        what: protocol of a summary, or method of a release.
        scenario: its scenario's name.
        owners: K.
        rows: p, or how many rows were generated.
        accessed: rows of owners that somebody saw; None for a release.
        mmd2: MMD^2 of the best form to D_v; None where it was not judged.
        verdict: good, fair, "cannot tell" or poor; None where there is none.
    """

    directory: str
    ended: str
    status: str
    what: str
    scenario: str
    owners: int
    rows: int
    accessed: int | None
    mmd2: float | None
    verdict: str | None


def past_runs(folder: Path) -> list[PastRun]:
    """Runs of which a folder has folders with metrics.json that can be read, the oldest first."""
    return sorted(_found(folder), key=lambda run: (run.ended, run.directory))


def table_of_runs(runs: Sequence[PastRun]) -> Table:
    """Return the runs as a table for a terminal."""
    rows = (
        (
            *(run.directory, run.ended[5:16].replace("T", " "), run.what, run.scenario),
            *(f"{run.rows:,}", number(run.accessed), distance(run.mmd2)),
            run.status if run.status != "complete" else run.verdict or run.status,
        )
        for run in runs
    )
    header = ("run", "<ended, UTC", "<of", "<scenario", ">rows", ">seen", ">MMD^2", "<outcome")
    return table_of(header, rows)


def _found(folder: Path) -> Iterator[PastRun]:
    for file in folder.glob("*/metrics.json"):
        try:
            metrics = json.loads(read_text(file))
            ended = datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")
            yield _read(metrics, str(file.parent), ended)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue


def _read(metrics: dict[str, Any], directory: str, ended: str) -> PastRun:
    release = "method" in metrics
    names = ("summary", *(f"summary_{form}" for form in FORMS))
    reached = [metrics["mmd2"][name] for name in names if name in metrics.get("mmd2", {})]
    verdict = metrics.get("verdict") or {}
    return PastRun(
        directory=directory,
        ended=ended,
        status=metrics["status"],
        what=metrics["method"] if release else metrics["protocol"],
        scenario=metrics["scenario"],
        owners=metrics["K"],
        rows=metrics["rows"] if release else metrics["p"],
        accessed=None if release else metrics["points_accessed"]["total"],
        mmd2=min(reached, default=None),
        verdict=verdict.get("grade"),
    )
