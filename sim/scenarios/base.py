"""The type `Scenario`, and the functions by which all scenarios deal rows to parties."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from consumer.summary.verdict import doubts_of
from fedkme.config import Settings
from fedkme.errors import ConfigError
from fedkme.tables.schema import Schema, load_schema
from fedkme.tables.table import Table
from sim.data.catalogue import set_of
from sim.data.folder import place
from sim.scenarios.stand_ins import with_stand_in

Rows = NDArray[np.int64]
"""Indices of rows, (m,)."""

Fraction = Annotated[float, Field(gt=0, lt=1)]


@dataclass(frozen=True, eq=False)
class Scenario:
    """Scenario: which party holds which rows.

    Attributes:
        name: kind of the scenario.
        schema: public domain of every table below.
        owners: rows of each owner, by name, in the order of the names; an owner may have none.
        validation: D_v, the consumer's; shipped scenarios have no labels in it, as in the paper.
        test: rows that score a summary; may be empty.
        seeds: public rows, D_init; None without them.
    """

    name: str
    schema: Schema
    owners: Mapping[str, Table]
    validation: Table
    test: Table
    seeds: Table | None

    def reading(self) -> dict[str, Any]:
        """Columns left out and cells changed in D_v and the owners' rows that are here, with doubts."""
        here = self.owners.made if isinstance(self.owners, LazyTables) else self.owners
        tables = {**here, "consumer": self.validation}
        readings = {party: table.reading for party, table in tables.items() if table.reading is not None}
        left_out: dict[str, list[str]] = {}
        for party, reading in readings.items():
            for column in reading.left_out:
                left_out.setdefault(column, []).append(party)
        changes = [
            {"party": party, **asdict(change)}
            for party, reading in readings.items()
            for change in reading.changes
        ]
        facts: dict[str, Any] = {"left_out": left_out, "changes": changes, "parties": len(readings)}
        rows, own = {party: len(table) for party, table in tables.items()}, readings.pop("consumer", None)
        facts["doubts"] = doubts_of(readings, rows) + doubts_of({"consumer": own}, rows)
        unlabelled = sorted(party for party, table in here.items() if table.labels is None)
        if self.schema.label and 0 < len(unlabelled) < len(here):
            facts |= {"label": self.schema.label.name, "unlabelled": unlabelled}
        by_rows: dict[bytes, list[str]] = {}
        for party, table in tables.items():
            if table.reading is not None and len(table):
                by_rows.setdefault(table.digest(), []).append(party)
        if same := [parties for parties in by_rows.values() if len(parties) > 1]:
            facts["same"] = same
        return facts


class Frames(Settings):
    """Scenario `frames`: data frames of a program; the run's settings name this kind, and have no rows."""

    kind: Literal["frames"] = "frames"

    def build(self, seed: int) -> Scenario:
        """Refuse: the rows were never written.

        Raises:
            ConfigError: always.
        """
        cause = "the rows of scenario 'frames' were data frames of a program"
        remedy = "Call fedkme.summarize or fedkme.release again, or write the rows to files and use kind ="
        raise ConfigError(cause, f'{remedy} "csv".')


class LazyTables(Mapping[str, Table]):
    """Owners' tables by name; each is made at its first use, so that a process makes only its own tables."""

    def __init__(self, names: Iterable[str], make: Callable[[str], Table]) -> None:
        """Take the names, in order, and the function that makes an owner's table."""
        self._names = dict.fromkeys(names)
        self._make = make
        self.made: dict[str, Table] = {}
        """Tables that this process has made, by name."""

    def __getitem__(self, name: str) -> Table:
        """Return an owner's table; make it at its first use."""
        if name not in self._names:
            raise KeyError(name)
        if name not in self.made:
            self.made[name] = self._make(name)
        return self.made[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Count owners."""
        return len(self._names)


def generator(seed: int, *names: str) -> np.random.Generator:
    """Random numbers for a part of a scenario: equal for equal seed and names, otherwise independent."""
    words = [int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") for name in names]
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, *words])))


def owner_names(count: int) -> list[str]:
    """Names owner-1, owner-2, ..., padded with zeros so that names sort like numbers."""
    return [f"owner-{number:0{len(str(count))}}" for number in range(1, count + 1)]


def cut(
    labels: NDArray[Any], candidates: Rows, fraction: float, rng: np.random.Generator
) -> tuple[Rows, Rows]:
    """Two random parts of the candidates, ascending; the first is `fraction` of each class.

    The paper draws each row with probability `fraction`; the draw by class keeps the classes' ratio.
    """
    classes = [candidates[labels[candidates] == label] for label in np.unique(labels[candidates])]
    chosen = [rng.permutation(rows)[: round(fraction * len(rows))] for rows in classes]
    first = np.sort(np.concatenate([candidates[:0], *chosen]))
    return first, np.setdiff1d(candidates, first)


def draw(candidates: Rows, count: int, key: str, rng: np.random.Generator) -> Rows:
    """Draw `count` of the candidates at random, ascending.

    Raises:
        ConfigError: there are fewer candidates.
    """
    if count > len(candidates):
        cause = f"scenario.{key} asks for {count} rows and there are {len(candidates)}"
        raise ConfigError(cause, f"Set scenario.{key} to a smaller number.")
    return np.sort(rng.choice(candidates, count, replace=False))


def domain(name: str) -> Schema:
    """Load the public domain of a table, schemas/NAME.toml.

    Bounds and names come from the sources' code books; none is learnt from rows. A code book may give no
    bounds, as for the principal components of `credit`, the amplitudes of `epileptic` and the byte counts of
    `intrusion`: then bounds are round numbers, and values beyond them are clipped. The papers take such
    numbers from the private rows and do not pay for them.
    """
    return load_schema(Path(__file__).parent / "schemas" / f"{name}.toml")


def random_rows(schema: Schema, count: int, rng: np.random.Generator) -> Table | None:
    """Uniform rows of the public domain: seeds "can be completely random" (Sarpatwar 2019, section 4)."""
    return Table(schema.decode(rng.random((count, schema.encoded_width)))) if count else None


def locate(path: Path, key: str) -> Path:
    """Find the file that a scenario names.

    Raises:
        ConfigError: there is no such file; names the key.
    """
    file = place(path, None)
    if not file.is_file():
        given = f"with --set scenario.{key}=FILE"
        bring = f"`fedkme data {kind[0]}` brings it; or name it {given}." if (kind := set_of(file)) else ""
        if unset := re.search(r"\$\{?(\w+)", str(file)):
            raise ConfigError(
                f"scenario.{key}: the variable of the environment {unset[1]} is not set",
                bring
                or f"Set it to the folder that has {file.name}, or name that file {given} (docs/start.md).",
            )
        cause = f"scenario.{key}: there is no file {file}"
        raise ConfigError(cause, bring or f"Correct scenario.{key}, in the scenario's file or {given}.")
    return file


SettingsT = TypeVar("SettingsT", bound=Settings)


def anchored(config: SettingsT, base_dir: Path | None) -> SettingsT:
    """Make the paths of a scenario's files absolute, so that it runs from any folder.

    The stand-in takes the place of a shipped scenario's file that is not here.
    """
    config = with_stand_in(config)

    def fixed(value: Any) -> Any:
        if isinstance(value, Path):
            return place(value, base_dir)
        if isinstance(value, Settings):
            return anchored(value, base_dir)
        return tuple(map(fixed, value)) if isinstance(value, tuple) else value

    return config.model_copy(update={name: fixed(value) for name, value in config})
