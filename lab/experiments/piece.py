"""Pieces of an experiment: any machine can compute one, and each is a row of the experiment's table."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from fedkme.config import Settings
from fedkme.errors import DataError
from lab.experiments.curves import CurveValue
from sim.data.catalogue import set_of
from sim.data.folder import data_file
from sim.jobs.tasks import Task, key_of, named, task_of
from sim.sweep.measure import Row, attempted


class Piece(Settings, ABC):
    """Part of an experiment as plain values; its results follow from these and the data alone."""

    seed: int = 0
    """Seed of everything random in it."""

    @abstractmethod
    def measure(self) -> Iterable[Any]:
        """Compute the values: dataclasses with `method`, `panel` and `value`, such as `CurveValue`.

        Raises:
            FedkmeError: the data are missing, or the piece cannot be computed.
        """

    @property
    def key(self) -> str:
        """SHA-256, in hex, of this package's version and of the piece."""
        return key_of({"piece": self._plain()})

    def words(self) -> str:
        """Describe the piece in one line, by its fields that are text or numbers."""
        values = {name: value for name, value in self if isinstance(value, str | int | float)}
        return " ".join(f"{name}={value}" for name, value in values.items())

    def task(self) -> Task:
        """Make a task that any machine can run."""
        return task_of(self.words(), measure_plain, self._plain())

    def columns(self) -> Row:
        """Columns of the piece itself, before its result."""
        return {"piece": json.dumps(self._plain())}

    def _plain(self) -> list[Any]:
        return [f"{type(self).__module__}:{type(self).__qualname__}", self.model_dump(mode="json")]


def measure_plain(plain: tuple[str, Any]) -> Row:
    """Measure a piece from plain values; an error becomes part of the row."""

    def measured() -> Row:
        values = list(named(plain[0]).model_validate(plain[1]).measure())
        shown = ", ".join(f"{value.method} {value.panel} {value.value:.3g}" for value in values[:4])
        content = json.dumps([astuple(value) for value in values])
        return {"code": 0, "cause": "", "status": "done", "said": shown, "values": content}

    return attempted(measured)


def values_of(rows: Iterable[Row]) -> list[CurveValue]:
    """Values in the rows of pieces, without NaN."""
    curve_values = (CurveValue(*entry) for row in rows for entry in json.loads(row.get("values", "[]")))
    return [entry for entry in curve_values if not math.isnan(entry.value)]


def data_folder() -> Path:
    """Folder of the papers' data, FEDKME_DATA."""
    return data_file("adult_raw.parquet").parent


def require(files: Sequence[str]) -> None:
    """Check for the files of an experiment.

    Raises:
        DataError: one is not in the folder of the data.
    """
    absent = [file for file in dict.fromkeys(files) if not data_file(file).is_file()]
    if absent:
        names = " ".join(source[0] for file in absent if (source := set_of(Path(file))))
        cause = f"there is no {', no '.join(Path(file).name for file in absent)} in the folder of the data"
        raise DataError(cause, f"Run: fedkme data {names}; or set FEDKME_DATA to the folder that has it.")
