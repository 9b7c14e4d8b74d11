"""`reading`: CPU seconds to read and check a table of 20 columns, beside those of pyarrow alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from fedkme.tables.files import load_table
from fedkme.tables.schema import Schema, schema_from
from lab.bench.result import BenchSettings, Cell, Result, timed

NUMBERS, NAMES = 14, 4
_WORDS = ("no", "yes", "unknown")


def measure(settings: BenchSettings) -> Result:
    """A line for each kind of file."""
    table = _table(settings.reading_rows)
    lines: list[dict[str, Cell]] = []
    with tempfile.TemporaryDirectory() as folder:
        places = {"csv": Path(folder) / "rows.csv", "Parquet": Path(folder) / "rows.parquet"}
        csv.write_csv(table, places["csv"])
        parquet.write_table(table, places["Parquet"])
        parse: dict[str, Callable[[Path], Any]] = {
            "csv": csv.read_csv,
            "Parquet": lambda path: parquet.read_table(path, use_threads=False),
        }
        for kind, path in places.items():
            _, ours = timed(lambda path=path: load_table(path, _schema(), "bench"))  # type: ignore[misc]
            _, alone = timed(lambda kind=kind, path=path: parse[kind](path))  # type: ignore[misc]
            lines.append(
                {
                    "file": kind,
                    "read and checked, CPU s": ours,
                    "pyarrow alone, CPU s": alone,
                    "ratio": ours / alone,
                }
            )
    return Result("reading", f"{settings.reading_rows:,} rows of {len(table.column_names)} columns", lines)


def _table(rows: int) -> pa.Table:
    random = np.random.default_rng(0)
    columns: dict[str, Any] = {
        f"x{place}": random.normal(50.0, 9.0, rows).round(2) for place in range(NUMBERS)
    }
    columns |= {f"k{place}": random.choice(_WORDS, rows) for place in range(NAMES)}
    gaps = random.random(rows) < 0.1
    columns["gaps"] = pa.array(random.integers(0, 90, rows), mask=gaps)
    columns["day"] = pa.array(random.integers(15_000, 20_000, rows).astype("int32"), pa.date32())
    return pa.table(columns)


def _schema() -> Schema:
    number = {"kind": "numeric", "bounds": [0, 100], "clip": True}
    columns: list[dict[str, Any]] = [number | {"name": f"x{place}"} for place in range(NUMBERS)]
    columns += [{"kind": "category", "name": f"k{place}", "categories": _WORDS} for place in range(NAMES)]
    columns.append(number | {"name": "gaps", "integer": True, "nullable": True})
    columns.append({"kind": "date", "name": "day", "bounds": ["2010-01-01", "2026-01-01"]})
    return schema_from({"columns": columns})
