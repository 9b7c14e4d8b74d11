"""Result files in a consumer's output folder: complete, private, and on disk before any report."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from fedkme.durable import make_folder as make_durably
from fedkme.durable import move, replace, sync_folder
from fedkme.errors import StoreError, on_disk
from fedkme.exchange import Participation
from fedkme.inputs import read_bytes, read_text

SUMMARY = "summary.npz"
RECEIVED_ROWS = "received.npz"
"""All received rows; the summary is the p of these that match D_v best."""
EVALUATION = "evaluation.json"
PARTICIPATION = "participation.json"
"""Number of owners of the result's run, and why others were lost; missing where none was."""
CSV = "summary.csv"
"""Rows of the summary as readable text, with their weights."""

TRAIN, TRAIN_CSV = "train.npz", "train.csv"
"""Rows to train on, with weights, as cross-validation on D_v chose them."""
ALONE = "consumer-only."
"""Beginning of the names of files that depend on exact D_v, and are for the consumer alone."""


def alone(name: str) -> str:
    """Name of a file that nobody but the consumer may see."""
    return f"{ALONE}{name}"


def place_of(output: Path, name: str) -> Path:
    """Path of a result's file, which has another name where it is for the consumer alone."""
    private = output / alone(name)
    return private if private.exists() else output / name


def keep_participation(output: Path, owners: Participation | None) -> None:
    """Write which owners a run lost; remove what an earlier result said where it lost none.

    Raises:
        StoreError: the file cannot be written or removed.
    """
    if owners is not None and owners.lost:
        write_result(output / PARTICIPATION, json.dumps(asdict(owners)).encode())
    else:
        remove_result(output / PARTICIPATION)


def participation_in(output: Path) -> Participation | None:
    """Owners of a result's run where it lost one; None where it lost none."""
    path = output / PARTICIPATION
    return Participation.from_json(json.loads(read_text(path))) if path.exists() else None


def lost_owners(output: Path) -> list[str]:
    """Line about the owners that the run of a result lost; none where it lost none."""
    owners = participation_in(output)
    return [] if owners is None else owners.doubts


def set_aside(output: Path, names: Sequence[str], new: Mapping[str, bytes]) -> str:
    """Move the files of an earlier summary to a folder of their own; return its name, "" where there is none.

    Args:
        output: the consumer's output folder.
        names: names of the files that are moved; the last is the summary, which a crash leaves.
        new: contents by name; where they, or nothing else, are on disk, all files stay.

    Raises:
        StoreError: a file cannot be moved.
    """
    with on_disk(f"an earlier summary in {output} cannot be moved", "Correct the rights there.", StoreError):
        old = {name: read_bytes(output / name) for name in names if (output / name).exists()}
        if new.items() <= old.items() or old.items() <= new.items():
            return ""
        place = next(each for n in itertools.count(1) if not (each := output / f"earlier-{n}").exists())
        move(names, output, place)
    return place.name


def make_folder(output: Path) -> None:
    """Make the output folder before the run, so that a failure costs nothing.

    Raises:
        ConfigError: the folder cannot be made.
        StoreError: the disk fails.
    """
    with on_disk(f"{output} cannot be made", "Correct 'output'."):
        make_durably(output, 0o700)


def write_result(path: Path, data: bytes) -> None:
    """Replace a file, or leave the existing one after a failure.

    Raises:
        StoreError: the file cannot be written.
    """
    try:
        replace(path, data, 0o600)
    except OSError as error:
        raise unwritten(path, error) from None


def remove_result(path: Path) -> None:
    """Remove a file of an earlier result, if it exists.

    Raises:
        StoreError: the file cannot be removed.
    """
    with on_disk(f"{path} cannot be removed", "Correct its rights.", StoreError):
        path.unlink(missing_ok=True)
        sync_folder(path.parent)


def unwritten(path: Path, error: OSError) -> StoreError:
    """Make the error for a file that cannot be written; the request stays open."""
    cause = f"{path} cannot be written: {error.strerror}"
    return StoreError(cause, "Make room, and ask again: the request is kept.")
