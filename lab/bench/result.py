"""Result of a benchmark: its values, how it is shown and written down."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import Field
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from fedkme.config import Settings
from lab.bench.synthetic import OWNER_ROWS

Cell = str | int | float
Found = TypeVar("Found")
Positive = Annotated[int, Field(ge=1)]
ScaleProtocol = Literal["cells", "uniform", "ask-everyone", "balog2"]


def timed(work: Callable[[], Found]) -> tuple[Found, float]:
    """Do work; its answer, and CPU seconds of this process."""
    began = time.process_time()
    return work(), time.process_time() - began


class BenchSettings(Settings):
    """Settings of a benchmark: how much to measure."""

    owners: tuple[Positive, ...] = Field((2, 10, 50), min_length=1)
    """Numbers of owners K of `rounds`."""
    rounds: int = Field(100, ge=2, lt=OWNER_ROWS)
    """Rounds in a block; an owner loses at most one row a round."""
    blocks: int = Field(5, ge=1)
    """Blocks of real rounds, each followed by a block of the echo."""
    tls: bool = True
    """Mutual TLS, on both sides of the comparison."""
    cost_owners: int = Field(10, ge=1)
    """K of rounds in `costs`."""
    cost_rows: tuple[Positive, ...] = Field((12_000, 60_000), min_length=1)
    """Rows of an owner in `costs`; its memory is measured with the first."""
    cost_rounds: int = Field(2_000, ge=2)
    """Rounds of the run in `costs` over which the curator's memory is measured."""
    start_owners: int = Field(10, ge=1)
    """K of `startup`."""
    scale_owners: tuple[Positive, ...] = Field((10, 100), min_length=1)
    """K of `scale`."""
    scale_protocols: tuple[ScaleProtocol, ...] = Field(get_args(ScaleProtocol), min_length=1)
    """Summaries and releases of `scale`."""
    repeats: int = Field(5, ge=1)
    """Launches of `startup`; takes, and cuts, of `costs`."""
    sum_owners: tuple[Annotated[int, Field(ge=4)], ...] = Field((50, 200), min_length=1)
    """K of `sums`."""
    secagg_owners: tuple[Annotated[int, Field(ge=4)], ...] = Field((50, 200, 1_000), min_length=1)
    """K of `secagg`."""
    secagg_length: int = Field(100_000, ge=1)
    """Numbers of each owner's vector in `secagg`."""
    select_rows: int = Field(16_384, ge=4)
    """Rows N of `select`; of a power of 4 Compress++ uses every row, and takes the root."""
    select_p: int = Field(128, ge=4)
    """Rows that `select` takes."""
    soak_runs: int = Field(1_000, ge=1)
    """Runs of `soak`, over the wire and in journals."""
    soak_consumers: int = Field(50, ge=1)
    """Consumers of `soak`, who ask at once."""
    training_steps: int = Field(200, ge=1)
    """Steps of `releases` that are timed, in a block; as many before them."""
    ray_owners: int = Field(2_000, ge=1)
    """K of `ray`."""
    ray_actors: int = Field(20, ge=1)
    """Actors of `ray`."""
    ray_address: str | None = None
    """The cluster of `ray`, as `cluster.address` of a simulation."""


_MOST_COLUMNS = 6


@dataclass(frozen=True, slots=True)
class Result:
    """One benchmark's table; its rows have equal keys, in the order of the columns."""

    name: str
    title: str
    rows: Sequence[Mapping[str, Cell]]

    def show(self, console: Console) -> None:
        """Print a column for each row, as names are longer than numbers, unless there are too many."""
        first, *others = self.rows[0]
        table = Table(box=SIMPLE)
        table.add_column(first, no_wrap=len(self.rows) <= _MOST_COLUMNS)  # a name is found as it is written
        if len(self.rows) > _MOST_COLUMNS:
            for name in others:
                table.add_column(name, justify="right")
            for row in self.rows:
                table.add_row(*(_text(cell) for cell in row.values()))
        else:
            for row in self.rows:
                table.add_column(_text(row[first]), justify="right")
            for name in others:
                table.add_row(name, *(_text(row[name]) for row in self.rows))
        console.print(f"{self.name}: {self.title}", table, highlight=False)


def _text(cell: Cell) -> str:
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)


def to_json(settings: BenchSettings, results: Sequence[Result]) -> dict[str, Any]:
    """Results with all that a later reader needs to judge the numbers."""
    return {
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "settings": settings.model_dump(mode="json"),
        "results": [asdict(result) for result in results],
    }
