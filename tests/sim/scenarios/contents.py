"""Contents of a scenario, to compare it with another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedkme.tables.table import Table
from sim.scenarios.base import Scenario
from tests.places import DATA


def data(name: str) -> Path:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"{name} is not there: set FEDKME_DATA to the folder of the data sets")
    return path


def tables(scenario: Scenario) -> dict[str, Table]:
    extra = {"D_v": scenario.validation, "test": scenario.test}
    return {**scenario.owners, **extra, **({"seeds": scenario.seeds} if scenario.seeds else {})}


def content(table: Table) -> list[bytes]:
    return [row.tobytes() for row in np.ascontiguousarray(table.values)]


def classes(table: Table) -> dict[int, int]:
    assert table.labels is not None
    values, counts = np.unique(table.labels, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def same(first: Scenario, second: Scenario) -> bool:
    a, b = tables(first), tables(second)
    return a.keys() == b.keys() and all(
        content(a[name]) == content(b[name])
        and np.asarray(a[name].labels).tolist() == np.asarray(b[name].labels).tolist()
        for name in a
    )
