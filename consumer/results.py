"""Results in a consumer's output folder: whole, its user's alone, on disk before anything is said of them."""

from __future__ import annotations

from pathlib import Path

from fedkme.durable import make_folder as make_durably
from fedkme.durable import replace, sync_folder
from fedkme.errors import ConfigError, on_disk

SUMMARY = "summary.npz"
RECEIVED_ROWS = "received.npz"
"""All rows that came, of which the summary is the p that match D_v best."""
EVALUATION = "evaluation.json"
CSV = "summary.csv"
"""Rows of the summary as people read them, with their weights."""


def make_folder(output: Path) -> None:
    """Make the folder for what will come: better refused now than after the run.

    Raises:
        ConfigError: it cannot be made.
    """
    with on_disk(f"{output} cannot be made", "Correct 'output'."):
        make_durably(output, 0o700)


def write_result(path: Path, data: bytes) -> None:
    """Write a file, or leave the one that is there.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        replace(path, data, 0o600)
    except OSError as error:
        raise unwritten(path, error) from None


def remove_result(path: Path) -> None:
    """Remove a file of an earlier result, if it is there.

    Raises:
        ConfigError: it cannot be removed.
    """
    with on_disk(f"{path} cannot be removed", "Correct its rights."):
        path.unlink(missing_ok=True)
        sync_folder(path.parent)


def unwritten(path: Path, error: OSError) -> ConfigError:
    """The error for a file that a disk does not take: what was asked for is kept."""
    return ConfigError(
        f"{path} cannot be written: {error.strerror}", "Make room, and ask again: the request is kept."
    )
