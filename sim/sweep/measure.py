"""One run of a sweep as a row: its numbers, or what stopped it."""

import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fedkme.errors import FedkmeError
from sim.config import SimulationSettings
from sim.match.target import simulate
from sim.progress import Follower

Row = dict[str, Any]
"""A line of the table: numbers and text by the column's name."""

PER_OWNER = ("by_owner", "payouts", "curator_only")
"""Tables of metrics.json with an entry an owner: no columns of a sweep over numbers of owners."""


def attempted(work: Callable[[], Row]) -> Row:
    """Numbers of a piece of work; errors are in the row, under `code` and `cause`.

    Code 0 is success, 1 a fault of this program, and any other a number of docs/errors.md.
    """
    started = time.monotonic()
    try:
        row = work()
    except FedkmeError as error:
        row = {"code": error.code, "cause": error.cause}
    except Exception as error:  # a row of its own: the other runs are none the worse for it
        frame = traceback.extract_tb(error.__traceback__)[-1]
        row = {"code": 1, "cause": f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"}
    return row | {"seconds": time.monotonic() - started}


def measure(settings: SimulationSettings) -> Row:
    """Run a simulation and return its numbers, or what stopped it."""

    def simulated() -> Row:
        with tempfile.TemporaryDirectory(prefix="fedkme-sweep-") as folder:
            _, metrics = simulate(settings, Path(folder) / "run", Follower())
        return {"code": metrics["code"], "cause": metrics["reason"] or "", **flattened(metrics)}

    return attempted(simulated)


def measure_plain(settings: Any) -> Row:
    """Measure a run of plain values, as a task has them."""
    return measure(SimulationSettings.model_validate(settings))


def flattened(metrics: Mapping[str, Any]) -> Row:
    """Numbers and words of metrics.json by their path, such as `mmd2.summary`.

    Statements on privacy are `privacy.PROTECTED.OBSERVER.ACCOUNTANT`, an epsilon; of lists, and of tables
    with an entry an owner, nothing is in it.
    """
    return dict(_leaves(metrics, ""))


def _leaves(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if name in PER_OWNER or value is None:
            continue
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        elif name.startswith("privacy") and isinstance(value, list):
            yield from _epsilons(name, value)
        elif isinstance(value, bool | int | float | str):
            yield prefix + name, value


def _epsilons(name: str, statements: list[Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    """Epsilons of D_v, and of owners where they are all alike."""
    for each in statements:
        if each["protected"] in ("D_v", "each owner"):
            path = (name, each["protected"], each["observer"], each["accountant"])
            yield ".".join(path), float(each["epsilon"])
