"""Tables of a store, as the steps that lead from one version to the next.

Step n makes version n of version n - 1. A released step is never changed; a change is another step.
"""

from collections.abc import Callable
from pathlib import Path

from fedkme.errors import StoreError
from fedkme.inputs import read_text

Step = tuple[str, ...]
"""Statements that bring a store from one version to the next, in one transaction."""


def _steps(name: str) -> tuple[Step, ...]:
    """Read steps from their file, in which each statement is a paragraph."""
    text = read_text(Path(__file__).with_name(name))
    parts = [part.split("\n\n")[1:] for part in text.split("\n-- step ")[1:]]
    return tuple(tuple(_without_notes(statement) for statement in part) for part in parts)


def _without_notes(statement: str) -> str:
    lines = (line for line in statement.strip().splitlines() if not line.startswith("--"))
    return "\n".join(lines).removesuffix(";")


SQLITE, POSTGRES = _steps("sqlite.sql"), _steps("postgres.sql")


def is_current(version: int, steps: tuple[Step, ...], where: str) -> bool:
    """Check whether a store needs no step.

    Raises:
        StoreError: the store is of a newer version than the steps lead to.
    """
    if version > len(steps):
        cause = f"{where} is of version {version}, and this release knows versions up to {len(steps)}"
        raise StoreError(cause, "Install the release that wrote it, or a later one.")
    return version == len(steps)


def migrate(
    version: int, steps: tuple[Step, ...], where: str, begin: str, execute: Callable[[str], object]
) -> None:
    """Take the steps that are due, each in a transaction.

    Args:
        version: version of the store.
        steps: all steps from an empty store to today's version.
        where: the store's place, for errors.
        begin: the statement that begins a transaction.
        execute: runs a statement; raises StoreError where it fails.

    Raises:
        StoreError: a step failed; the store stays at the version before that step.
    """
    for number, step in enumerate(steps[version:], start=version + 1):
        execute(begin)
        try:
            for statement in step:
                execute(statement)
            execute(f"UPDATE schema_version SET version = {number}")
            execute("COMMIT")
        except StoreError as error:
            cause = f"{where} could not be brought to version {number}: {error.cause}"
            raise StoreError(cause, f"It is of version {number - 1}, as it was. {error.remedy}") from None
