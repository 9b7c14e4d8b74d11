"""Lines of figures.csv: each a figure of one entrant's rows, by its whole key."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from fedkme.errors import DataError

FILE = "figures.csv"
MADE = "rows made"
"""Figure of every entrant that was run: the number of its rows, NaN where it failed."""


@dataclass(frozen=True, slots=True)
class RunKey:
    """Run of one entrant.

    Attributes:
        table: name in `lab.referee.tables`.
        entrant: name of the tool and its mechanism.
        epsilon: epsilon of the release.
        trust: `trusted` or `secure`: whether the curator sees exact sums.
        seed: seed of the split, the noise and the models.
        version: version of the entrant.
    """

    table: str
    entrant: str
    epsilon: float
    trust: str
    seed: int
    version: str

    @property
    def folder(self) -> str:
        """Name of the folder of its rows."""
        words = f"{self.table} {self.entrant} {self.epsilon:g} {self.trust} {self.seed} {self.version}"
        return "".join(x if x.isalnum() or x in ".+-" else "-" for x in words)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Attributes:
        run: whose it is.
        name: name of the figure.
        scored: version of the score.
        value: NaN where there is none.
        note: reason why there is none.
    """

    run: RunKey
    name: str
    scored: str
    value: float
    note: str = ""


_HEAD = (*(field.name for field in fields(RunKey)), "figure", "scored", "value", "note")


def read_figures(folder: Path) -> list[Figure]:
    """Read the lines of a folder; none where nothing was run.

    Raises:
        DataError: the file has another form.
    """
    path = folder / FILE
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))
    try:
        if tuple(lines[0]) != _HEAD:
            raise ValueError(lines[0])
        return [_figure(line) for line in lines[1:]]
    except (IndexError, ValueError):
        raise DataError(f"{path} is no file of figures", "Name another folder by --out.") from None


def _figure(line: list[str]) -> Figure:
    table, entrant, epsilon, trust, seed, version, name, scored, value, note = line
    run = RunKey(table, entrant, float(epsilon), trust, int(seed), version)
    return Figure(run, name, scored, float(value), note)


def append_figures(folder: Path, figures: Iterable[Figure]) -> None:
    """Append lines; the first line of a new file names the columns."""
    path = folder / FILE
    folder.mkdir(parents=True, exist_ok=True)
    begun = path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if not begun:
            writer.writerow(_HEAD)
        for figure in figures:
            value = "nan" if math.isnan(figure.value) else repr(float(figure.value))
            writer.writerow([*astuple(figure.run), figure.name, figure.scored, value, figure.note])
