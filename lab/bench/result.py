"""Result of a benchmark: its values, how it is shown and written down."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
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
SumOwners = Annotated[int, Field(ge=4)]
ScaleProtocol = Literal["cells", "uniform", "ask-everyone", "balog2"]


def timed(work: Callable[[], Found]) -> tuple[Found, float]:
    """Do work; its answer, and CPU seconds of this process."""
    began = time.process_time()
    return work(), time.process_time() - began


class BenchSettings(Settings):
    """Settings of the benchmarks: how much to measure. Descriptions are the help of options."""

    owners: tuple[Positive, ...] = Field((2, 10, 50), min_length=1, description="Numbers of owners.")
    rounds: int = Field(100, ge=2, lt=OWNER_ROWS, description="Rounds in a block.")
    """An owner loses at most one row a round."""
    blocks: int = Field(5, ge=1)
    """Blocks of real rounds, each followed by a block of the echo."""
    tls: bool = Field(True, description="Mutual TLS, on both sides.")
    cost_owners: int = Field(10, ge=1, description="Owners of the rounds.")
    cost_rows: tuple[Positive, ...] = Field(
        (12_000, 60_000), min_length=1, description="Rows of an owner; memory is measured with the first."
    )
    cost_rounds: int = Field(2_000, ge=2)
    """Rounds of the run in `costs` over which the curator's memory is measured."""
    start_owners: int = Field(10, ge=1, description="Number of owners.")
    scale_owners: tuple[Positive, ...] = Field((10, 100), min_length=1, description="Numbers of owners.")
    scale_protocols: tuple[ScaleProtocol, ...] = Field(
        get_args(ScaleProtocol), min_length=1, description="Summaries and a release."
    )
    scale_release: tuple[str, ...] = ()
    """Settings of the release, KEY=VALUE, such as fewer steps of the search for rows."""
    repeats: int = Field(5, ge=1, description="Repetitions.")
    """Launches of `startup`; takes, and cuts, of `costs`."""
    sum_owners: tuple[SumOwners, ...] = Field((50, 200), min_length=1, description="Numbers of owners.")
    secagg_owners: tuple[SumOwners, ...] = Field(
        (50, 200, 1_000), min_length=1, description="Numbers of owners."
    )
    secagg_length: int = Field(100_000, ge=1, description="Numbers in each owner's vector.")
    select_rows: int = Field(16_384, ge=4, description="Rows to select from.")
    select_p: int = Field(128, ge=4, description="Rows to select.")
    reading_rows: int = Field(1_000_000, ge=1, description="Rows of the table, of 20 columns.")
    soak_runs: int = Field(1_000, ge=2, description="Runs; of 10 rounds and .3 CPU seconds each in soak.")
    soak_consumers: int = Field(50, ge=1, description="Consumers that ask at once.")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: the module of its name has `measure`, which makes a result from settings.

    Attributes:
        help: help text of its verb.
        options: settings that are options of its verb.
        example: options in the help.
        quick: settings of `fedkme bench --quick`.
        apart: runs only when it is named.
    """

    help: str
    options: Sequence[str]
    example: str
    quick: Mapping[str, Any] = field(default_factory=dict)
    apart: bool = False


BENCHMARKS: Mapping[str, Benchmark] = {
    "rounds": Benchmark(
        "Rounds of real owners against a bare echo of the same messages.",
        ("owners", "rounds", "tls"),
        "--owners 10",
        {"owners": (2, 10), "rounds": 30, "blocks": 2},
    ),
    "costs": Benchmark(
        "What ledgers, journals, TLS and heads add to a round; bids, sums, and memory.",
        ("cost_owners", "cost_rows", "rounds", "tls"),
        "--rows 12000",
        {"cost_rows": (12_000,), "cost_rounds": 100},
    ),
    "startup": Benchmark(
        "From the launch of all parties to round 1; an owner's memory.",
        ("start_owners", "repeats", "tls"),
        "--owners 50",
        {"repeats": 2},
    ),
    "scale": Benchmark(
        "Runs over owners in one process, over mutual TLS.",
        ("scale_owners", "scale_protocols"),
        "--owners 10,100,1000 --protocols uniform",
        {"scale_owners": (10,)},
    ),
    "sums": Benchmark(
        "Runs of small owners that count in coalitions, trusted and secure.",
        ("sum_owners",),
        "--owners 50",
        {"sum_owners": (50,)},
    ),
    "select": Benchmark(
        "Rows that represent all rows, by fk.select and by greedy choice, ProtoDash and chance.",
        ("select_rows", "select_p"),
        "--rows 60000 --p 200",
        {"select_rows": 4_096, "select_p": 64},
    ),
    "reading": Benchmark(
        "Reading and checking a table as csv and Parquet, beside pyarrow alone.",
        ("reading_rows",),
        "--rows 200000",
        {"reading_rows": 20_000},
        apart=True,
    ),
    "secagg": Benchmark(
        "A secure sum over many owners in one process, a tenth of them lost.",
        ("secagg_owners", "secagg_length"),
        "--owners 1000",
        {"secagg_owners": (50, 200)},
        apart=True,
    ),
    "soak": Benchmark(
        "Growth of parties from run to run over the wire.",
        ("soak_runs", "soak_consumers", "tls"),
        "--runs 60 --consumers 10",
        {"soak_runs": 100, "soak_consumers": 5},
        apart=True,
    ),
    "journals": Benchmark(
        "Stores of parties after many runs: their sizes, and the CPU seconds of a start.",
        ("soak_runs",),
        "--runs 60",
        apart=True,
    ),
}
"""The benchmarks, in the order in which they run."""


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
