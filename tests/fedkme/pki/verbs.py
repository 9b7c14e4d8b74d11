"""`fedkme pki` typed at a prompt."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from fedkme.pki.cli import app


def pki(*arguments: str | Path, typed: str | None = None) -> str:
    """Run a command of `fedkme pki`; returns what it printed on both streams.

    Raises:
        FedkmeError: what it failed with.
    """
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=typed)
    if result.exception is not None:
        raise result.exception
    return result.output


def said(output: str, field: str) -> str:
    """The first value of a field of the output."""
    return next(line.split(maxsplit=1)[1] for line in output.splitlines() if line.startswith(f"{field} "))
