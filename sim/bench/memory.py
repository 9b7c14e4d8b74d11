"""`memory`: what an owner's process grows by when it loads its rows and prepares a run.

Measured against the rows as they are stored and their features in int16, which no owner can do without.
Twice: by the resident set, where the system tells it (Linux), and by what Python allocated. Besides, seconds
of CPU for the hash of every row, which the owner's store keeps of each file (docs/decisions/024).
"""

from __future__ import annotations

import contextlib
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

from curator.runs.public_draws import draw_features
from curator.summary.settings import FeatureSettings
from fedkme.ledgers.data_files import DataFiles, units_of
from fedkme.party import noise_for
from fedkme.protocol import AuctionTerms, Invitation
from fedkme.store import open_store
from fedkme.tables.files import load_rows, load_table, save_table
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from owner.consent.gate import OwnerGate
from owner.summary.bidder import Bidder
from sim.bench.result import BenchSettings, Cell, Result, timed
from sim.bench.synthetic import synthetic_schema

COLUMNS = 784
_GAMMA = 1 / 104  # the median heuristic on MNIST pixels / 255
_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_MIB = 2**20


def measure_memory(settings: BenchSettings) -> Result:
    """A table of one row."""
    schema = synthetic_schema(COLUMNS, largest=255.0)
    dimension = FeatureSettings().dimension
    needed = settings.memory_rows * (COLUMNS + 2 * dimension)
    with tempfile.TemporaryDirectory(prefix="fedkme-bench-") as folder:
        file = Path(folder) / "rows.npz"
        _write(file, settings.memory_rows)
        resident, kept = _resident(lambda: _owner(file, schema)) if _STATUS.exists() else (None, None)
        traced, traced_kept = _traced(lambda: _owner(file, schema))
        hashed = _hashed(file, schema)
    row: dict[str, Cell] = {"rows": settings.memory_rows, "rows + features MiB": needed / _MIB}
    for what, size in (
        ("peak resident", resident),
        ("kept resident", kept),
        ("peak allocated", traced),
        ("kept allocated", traced_kept),
    ):
        row[f"{what} MiB"] = "-" if size is None else size / _MIB
        row[f"{what} ratio"] = "-" if size is None else size / needed
    row["hashes, CPU s a million rows"] = hashed / settings.memory_rows * 10**6
    return Result("memory", f"an owner's memory, {COLUMNS} columns of uint8, d = {dimension}", [row])


def _write(file: Path, rows: int) -> None:
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(0)))
    save_table(file, Table(rng.integers(0, 256, (rows, COLUMNS), dtype=np.uint8)))


def _owner(file: Path, schema: Schema) -> Bidder:
    """Do what an owner's process does before round 1."""
    table = load_table(file, schema, "owner")
    bidder = Bidder("owner", table, schema, noise_for(0, "owner")("draw"), OwnerGate("owner"))
    features = draw_features(FeatureSettings(), _GAMMA, schema.encoded_width, seed=0)
    target = np.zeros(features.dimension, dtype=np.int32)
    terms = AuctionTerms(features, target)
    bidder.invite(Invitation("bench", schema.digest(), "consumer", "ask-everyone", (), terms))
    return bidder


def _hashed(file: Path, schema: Schema) -> float:
    """Seconds of CPU in which the rows of a file are hashed and kept."""
    found = load_rows(file, schema, "owner", of_persons=True)
    with contextlib.closing(open_store(file.with_suffix(".db"), "owner", "process")) as store:
        return timed(lambda: DataFiles(store).take(units_of(found, schema), ()))[1]


def _resident(work: Callable[[], object]) -> tuple[int, int]:
    """Bytes by which the resident set grew: at most, and for as long as the result is held."""
    _RESET.write_text("5", encoding="ascii")  # forget the largest resident set so far
    before = status("VmRSS")
    held = work()
    peak, after = status("VmHWM"), status("VmRSS")
    del held
    return peak - before, after - before


def status(key: str) -> int:
    """Bytes that the system says of this process, by the name of the line."""
    line = next(line for line in _STATUS.read_text(encoding="ascii").splitlines() if line.startswith(key))
    return 1024 * int(line.split()[1])


def _traced(work: Callable[[], object]) -> tuple[int, int]:
    """Bytes that Python allocated: at most, and for as long as the result is held."""
    tracemalloc.start()
    held = work()
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del held
    return peak, kept
