"""Last lines of a consumer's command: the received files and their folder."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from consumer.releases.client import ReleaseConsumerSettings, is_of_release
from consumer.results import CSV, EVALUATION, SUMMARY
from consumer.settings import ConsumerSettings
from fedkme.tables.files import read_arrays
from fedkme.verbs import print_json


def received_summary(settings: ConsumerSettings) -> dict[str, Any]:
    """Describe the summary in the output folder: `output`, `rows`, `files`, and the verdict or None."""
    output = settings.output
    judged = output / EVALUATION
    evaluation = json.loads(judged.read_text(encoding="utf-8")) if judged.exists() else {}
    return {
        "output": output,
        "rows": len(read_arrays(output / SUMMARY, settings.name)["x"]),
        "files": sorted(path.name for path in output.iterdir() if path.suffix in (".npz", ".csv", ".json")),
        "verdict": evaluation.get("verdict"),
    }


def received_release(settings: ReleaseConsumerSettings) -> dict[str, Any]:
    """Describe the release in the output folder: `output`, `files`, and the card's verdict or None."""
    names = filter(is_of_release, sorted(path.name for path in settings.output.iterdir()))
    verdicts = map(_verdict_in, sorted(settings.output.glob("*.card.json")))
    return {"output": settings.output, "files": [*names], "verdict": next(verdicts, None)}


def _verdict_in(card: Path) -> dict[str, Any] | None:
    """Read the verdict in a curator's data card; None if it has no readable verdict."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        verdict = json.loads(card.read_text(encoding="utf-8"))["verdict"]
        if verdict["grade"] in ("good", "fair", "poor"):
            return dict(verdict)
    return None


def print_received(received: Mapping[str, Any], config: Path, as_json: bool) -> None:
    """Print the description: as JSON for programs, or as lines for a person."""
    if as_json:
        print_json(received)
        return
    output = received["output"]
    if CSV in received["files"]:
        typer.echo(f"{received['rows']} rows, with names and weights: {output / CSV}")
    typer.echo(f"files: {output} ({', '.join(received['files'])})")
    if verdict := received.get("verdict"):  # no number about D_v: a service's output goes to a log
        typer.echo(f"verdict: {verdict['grade']}")
    typer.echo(f"report as a page: fedkme report {config}")
