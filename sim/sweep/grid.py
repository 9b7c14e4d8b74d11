"""Grid of a sweep: which simulations there are, and what tells one from another."""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from fedkme.config import Settings, override
from fedkme.errors import ConfigError
from sim.config import SimulationSettings, load_simulation, plain
from sim.jobs.choice import Jobs
from sim.jobs.tasks import Task, key_of, task_of
from sim.sweep.measure import Row, measure_plain
from sim.sweep.table import AXIS

AxisValue = bool | int | float | str
"""Value of a key, as `--set` has it."""


class SweepSettings(Settings):
    """A sweep: what `fedkme sim sweep` and a program that calls `sweep` decide."""

    scenario: str
    """A shipped scenario, or a TOML file."""
    out: Path
    """Folder for the table and the page; what an earlier sweep left there is not computed again."""
    grid: dict[str, Annotated[tuple[AxisValue, ...], Field(min_length=1)]] = Field({})
    """Values of each axis; an axis is any key of `--set`."""
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    """Seeds with which every combination is run."""
    assignments: tuple[str, ...] = ()
    """KEY=VALUE for all runs, as `--set` has them."""
    jobs: Jobs = 1
    """Runs at a time, each in a process of its own with one thread for linear algebra; or a cluster: `ray`,
    `ray://HOST:PORT`, `slurm`."""


@dataclass(frozen=True)
class SweepRun:
    """One simulation of a sweep.

    Attributes:
        choices: its value on each axis.
        settings: resolved.
    """

    choices: Mapping[str, Any]
    settings: SimulationSettings

    @cached_property
    def key(self) -> str:
        """SHA-256, in hex, of this package's version and of the resolved configuration."""
        return key_of({"configuration": plain(self.settings)})

    def words(self) -> str:
        """The run in a line: its values and its seed."""
        return " ".join([*(f"{key}={value}" for key, value in self.choices.items()), f"seed={self.seed}"])

    def task(self) -> Task:
        """The run as a task for any machine."""
        return task_of(f"sweep: {self.words()}", measure_plain, plain(self.settings))

    def columns(self) -> Row:
        """Columns known before the run: its values, and the configuration as JSON."""
        axes = {f"{AXIS}{key}": value for key, value in self.choices.items()}
        return {**axes, "configuration": json.dumps(plain(self.settings))}

    @property
    def seed(self) -> int:
        """Seed of everything random in it."""
        return self.settings.seed


def runs_of(sweep: SweepSettings) -> list[SweepRun]:
    """List every combination of the grid under the first seed, then under the next one; none twice.

    Raises:
        ConfigError: there is no such scenario, or a key or value is wrong; nothing has been run then.
    """
    named = [*sweep.grid, *(each.partition("=")[0].strip() for each in sweep.assignments)]
    if "seed" in named:
        raise ConfigError("'seed' is no key of a sweep, which sets it", "Seeds are --seeds, or 'seeds'.")
    values = [[(key, value) for value in sweep.grid[key]] for key in sweep.grid]
    combinations = list(itertools.product(*values))
    runs = (_resolved(sweep, dict(chosen), seed) for seed in sweep.seeds for chosen in combinations)
    return list({run.key: run for run in runs}.values())


def _resolved(sweep: SweepSettings, chosen: Mapping[str, AxisValue], seed: int) -> SweepRun:
    texts = [f"{key}={_text(value)}" for key, value in chosen.items()]
    fixed = ("engine=inprocess", *sweep.assignments)
    settings = load_simulation(sweep.scenario, [*fixed, *texts, f"seed={seed}"])
    return SweepRun({key: _read(value) for key, value in chosen.items()}, settings)


def _text(value: AxisValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(value: AxisValue) -> Any:
    """A value as TOML reads it; a list stays the text that it was."""
    read = override({}, [f"value={_text(value)}"])["value"]
    return read if isinstance(read, bool | int | float | str) else _text(value)


def parse_grid(axes: Iterable[str]) -> dict[str, tuple[AxisValue, ...]]:
    """Read axes that are written KEY=VALUE,VALUE,...

    Raises:
        ConfigError: an axis has no key or no values, or is there twice.
    """
    grid: dict[str, tuple[AxisValue, ...]] = {}
    for axis in axes:
        key, separator, text = axis.partition("=")
        values = tuple(_split(text))
        if not separator or not key.strip() or not all(values):
            raise ConfigError(f"--grid {axis}: no axis", "Write --grid KEY=VALUE,VALUE such as p=50,100.")
        if key.strip() in grid or key.strip() == "seed":
            cause = f"--grid {axis}: '{key}' is there already"
            raise ConfigError(cause, "Seeds are --seeds; name a key once.")
        grid[key.strip()] = values
    return grid


def _split(text: str) -> Iterator[str]:
    """Parts between commas that are in no brackets, braces or quotes."""
    part, depth, quote = "", 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        depth += 0 if quote else (character in "[{") - (character in "]}")
        if character == "," and not depth and not quote:
            yield part.strip()
            part = ""
        else:
            part += character
    yield part.strip()


def parse_seeds(text: str) -> tuple[int, ...]:
    """Read seeds: `0:5` is 0 to 4; `0,3,7` as they are.

    Raises:
        ConfigError: it is neither, or there are none.
    """
    if span := re.fullmatch(r"(\d+):(\d+)", text.strip()):
        seeds = tuple(range(int(span[1]), int(span[2])))
    elif re.fullmatch(r"\d+(,\d+)*", text.strip()):
        seeds = tuple(dict.fromkeys(map(int, text.split(","))))
    else:
        seeds = ()
    if not seeds:
        raise ConfigError(f"--seeds {text}: no seeds", "Write 0:5 for 0 to 4, or 0,3,7.")
    return seeds
