"""Figures over seeds: each as it comes, then mean and standard deviation beside what a paper prints."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedkme.errors import DataError

Told = Callable[[str], None]
Printed = Mapping[str, Mapping[str, object]]
"""Numbers that a paper prints, by experiment and method."""
MethodT = TypeVar("MethodT", bound=str | None)


def say(line: str) -> None:
    """Print at once, for who waits."""
    print(line, flush=True)


def require(paths: Sequence[Path]) -> None:
    """Check for the files of an experiment; of several experiments, after what could be run.

    Raises:
        DataError: one is not there.
    """
    if absent := list(dict.fromkeys(path.name for path in paths if not path.exists())):
        raise DataError(
            f"there is no {', no '.join(absent)} in the folder of the data", "Set FEDKME_DATA to that folder."
        )


def summary(runs: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation over seeds (0 for one seed) of each figure."""
    spread = 1 if len(runs) > 1 else 0
    return {
        key: (
            float(np.mean([run[key] for run in runs])),
            float(np.std([run[key] for run in runs], ddof=spread)),
        )
        for key in runs[0]
        if np.isfinite([run[key] for run in runs]).all()
    }


class Figures:
    """Figures that experiments found, by name and method: mean, deviation and every run."""

    def __init__(self, seeds: Sequence[int], printed: Printed, told: Told = say) -> None:
        self.found: dict[str, Any] = {}
        self._seeds = seeds
        self._printed = printed
        self._told = told

    def add(
        self,
        name: str,
        method: str,
        run: Callable[[int], Mapping[str, float]],
        seeds: Sequence[int] | None = None,
    ) -> None:
        """Run an experiment for each seed (by default all) and tell of each, then of all."""
        runs = []
        for seed in self._seeds if seeds is None else seeds:
            started = time.monotonic()
            runs.append(dict(run(seed)))
            shown = ", ".join(f"{key} {value:.4g}" for key, value in runs[-1].items())
            self._told(f"{name}, {method}, seed {seed}: {shown} ({time.monotonic() - started:.0f} s)")
        found = summary(runs)
        self.found.setdefault(name, {})[method] = {"mean, sd": found, "runs": runs}
        printed = self._printed.get(name, {}).get(method)
        beside = f"; the paper prints {printed}" if printed else ""
        shown = ", ".join(f"{key} {mean:.3f} +- {sd:.3f}" for key, (mean, sd) in found.items())
        self._told(f"{name}, {method}, {len(runs)} seeds: {shown}{beside}")

    def compare(
        self,
        name: str,
        methods: Sequence[MethodT],
        run: Callable[[MethodT, int], Mapping[str, float]],
        out: Path | None,
    ) -> None:
        """Run an experiment for each method, None for real rows; write the figures down after each."""
        for method in methods:
            self.add(name, "real" if method is None else method, partial(run, method))
            self.write(out)

    def write(self, file: Path | None) -> None:
        """The figures as JSON; numbers that are not finite as null."""
        if file is not None:
            file.write_text(json.dumps(_plain(self.found), indent=2) + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
