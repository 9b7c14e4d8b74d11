"""The last lines of a consumer's command: what came, and where it is."""

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
    """Tell what the output folder has of a summary: `output`, `rows`, `files`, and the verdict or None."""
    output = settings.output
    judged = output / EVALUATION
    found = json.loads(judged.read_text(encoding="utf-8")) if judged.exists() else {}
    return {
        "output": output,
        "rows": len(read_arrays(output / SUMMARY, settings.name)["x"]),
        "files": sorted(path.name for path in output.iterdir() if path.suffix in (".npz", ".csv", ".json")),
        "verdict": found.get("verdict"),
    }


def received_release(settings: ReleaseConsumerSettings) -> dict[str, Any]:
    """Tell what the output folder has of a release: `output`, `files`, and its card's verdict or None."""
    names = filter(is_of_release, sorted(path.name for path in settings.output.iterdir()))
    verdicts = map(_verdict_in, sorted(settings.output.glob("*.card.json")))
    return {"output": settings.output, "files": [*names], "verdict": next(verdicts, None)}


def _verdict_in(card: Path) -> dict[str, Any] | None:
    """Verdict of a data card, which a curator wrote; None where it has none that can be read."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        found = json.loads(card.read_text(encoding="utf-8"))["verdict"]
        if found["grade"] in ("good", "fair", "poor"):
            return dict(found)
    return None


def print_received(found: Mapping[str, Any], config: Path, as_json: bool) -> None:
    """Print what came: a JSON value for programs, or lines that say where it is."""
    if as_json:
        print_json(found)
        return
    output = found["output"]
    if CSV in found["files"]:
        typer.echo(f"{found['rows']} rows, with names and weights: {output / CSV}")
    typer.echo(f"files: {output} ({', '.join(found['files'])})")
    if verdict := found.get("verdict"):  # no number of D_v: a service's output goes to a log
        typer.echo(f"verdict: {verdict['grade']}")
    typer.echo(f"a page of it: fedkme report {config}")
