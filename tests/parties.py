"""Configurations of parties: values of their settings as tests have them, and the files that operators write.

Paths are those of files in a folder of the party's; values of a file name them relative to it with `HERE`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import consumer.cli
import curator.cli
import operate.audit_cli
import owner.cli
from fedkme.config import dump_toml
from fedkme.ops.supervision import StatusReporter

Values = dict[str, Any]
_VERBS = {
    "owner": owner.cli.app,
    "consumer": consumer.cli.app,
    "curator": curator.cli.app,
    "audit": operate.audit_cli.app,
}

HERE = Path()
WAIT_S = 300.0
"""Time to wait for something that takes a second when the machine has nothing else to do."""


class Transcript(StatusReporter):
    """Keeps what a party reports."""

    def __init__(self, party: str = "") -> None:
        super().__init__(party, supervised=False)
        self.said: list[tuple[str, dict[str, Any]]] = []

    def say(self, event: str, **fields: Any) -> None:
        self.said.append((event, fields))


NUMBERS = """
[[columns]]
name = "age"
kind = "numeric"
bounds = [0, 120]
[[columns]]
name = "pressure"
kind = "numeric"
bounds = [70, 220]
"""
"""The schema of `numbers`."""

MIXED = """
[[columns]]
name = "age"
kind = "numeric"
bounds = [0, 120]
[[columns]]
name = "smoker"
kind = "category"
categories = ["yes", "no"]
[label]
name = "ill"
classes = ["no", "yes"]
"""
"""A schema with a number, a category and labels."""


def numbers(count: int, place: int) -> str:
    """Rows of the party at a place, as a CSV file has them."""
    rows = (f"{20 + (7 * n + 20 * place) % 80},{80 + (11 * n + 31 * place) % 130}" for n in range(count))
    return "\n".join(["age,pressure", *rows, ""])


def run_verb(verb: str, *arguments: str | Path) -> str:
    """Run a verb of `fedkme` without a process of its own; returns what it prints; it must succeed."""
    done = CliRunner().invoke(_VERBS[verb], [*map(str, arguments)])
    assert done.exit_code == 0, f"{done.output} {done.exception}"
    return done.output


def _party(folder: Path, changes: Mapping[str, Any], **own: Any) -> Values:
    values = {"schema_file": folder / "schema.toml", "connect_s": 60.0, **own, **changes}
    return {"plaintext": values.get("identity") is None, **values}


def curator_values(folder: Path, **changes: Any) -> Values:
    """Values of a curator's settings."""
    return _party(folder, changes, directory=folder / "runs", durability="process")


def owner_values(folder: Path, name: str, curator: str, **changes: Any) -> Values:
    """Values of an owner's settings; the curator is its address."""
    files = {"data": folder / f"{name}.csv", "journal": str(folder / f"{name}.db")}
    approvals = folder / "approvals"
    return _party(
        folder, changes, name=name, curator=curator, **files, approvals=approvals, durability="process"
    )


def caller_values(folder: Path, curator: str, **changes: Any) -> Values:
    """Values of settings that consumers of summaries and of releases have in common."""
    return _party(folder, changes, curator=curator, output=folder / "consumer")


def consumer_values(folder: Path, curator: str, **changes: Any) -> Values:
    """Values of the settings of a consumer of a summary."""
    own = {"validation": folder / "validation.csv", "downstream": False, "request": {"p": 3}}
    kept = {"journal": str(folder / f"{changes.get('name', 'consumer')}.db"), "durability": "process"}
    return caller_values(folder, curator, **own | kept | changes)


def write_config(path: Path, values: Mapping[str, Any], text: str = "") -> Path:
    """Write a configuration: these values, with TOML that adds to them or stands in their place."""
    path.write_text(dump_toml({**values, **tomllib.loads(text)}), encoding="utf-8")
    return path


def subcommands(command: Any) -> dict[str, Any]:
    """Verbs of a group by name, those of other distributions among them; none where it is no group."""
    names = command.list_commands(None) if hasattr(command, "list_commands") else ()
    return {name: command.get_command(None, name) for name in names}
