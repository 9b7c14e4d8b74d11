"""Adult (UCI): its rows split over simulated owners.

DP-MERF and DP-HP keep 40 % of the rows with income <= 50K, before they split into training and test rows.
Choosing that rate, and dividing by the rows that are left, uses the class counts of private rows. Here the
rate is a public constant that each owner applies to its own rows with a coin per row; the release divides by
all rows, whose number is public, and replace-one is about all rows: a replaced row that a coin drops
contributes nothing, which moves the sum by less than a row that stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedkme.errors import DataError
from fedkme.tables.files import load_table
from fedkme.tables.schema import Category, Schema
from fedkme.tables.table import Table
from sim.scenarios.base import domain

KEPT_NEGATIVES = 0.4
TEST_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Split:
    """One draw of an experiment.

    Attributes:
        owners: rows that each owner's coins kept.
        rows: N, all training rows of all owners, those that coins dropped included; public.
        test: test rows, thinned at the same rate so that PRC has the papers' prevalence.
    """

    owners: tuple[Table, ...]
    rows: int
    test: Table


def load_adult(path: Path, owners: int, seed: int) -> tuple[Schema, Split]:
    """Read adult_raw.parquet: 90 % to the owners, 10 % to test, at random by seed.

    Raises:
        DataError: the file is missing or of another form.
    """
    schema = domain("adult")
    table = load_table(path, schema, "adult")
    if table.labels is None:
        raise DataError(f"{path} has no column 'income'", "Take the file with labels.")
    generator = np.random.default_rng(np.random.SeedSequence([seed, 1]))
    order = generator.permutation(len(table))
    test, training = np.split(order, [round(TEST_SHARE * len(table))])
    mask = (table.labels == 1) | (generator.random(len(table)) < KEPT_NEGATIVES)
    parts = tuple(table.take(part[mask[part]]) for part in np.array_split(training, owners))
    return schema, Split(parts, len(training), table.take(test[mask[test]]))


def load_codes(path: Path) -> tuple[Schema, Table]:
    """Read a discretised Adult of DP-HP (.npz with `data`), every column a category of its range of codes.

    The range of codes is taken from the file, which stands for a public code book here.

    Raises:
        DataError: the file is missing or of another form.
    """
    try:
        with np.load(path) as archive:
            codes = archive["data"].astype(np.int64)
    except (OSError, KeyError, ValueError):
        raise DataError(f"{path} is no discretised table", "Take a file that holds 'data'.") from None
    low, high = codes.min(axis=0), codes.max(axis=0)
    columns = [
        Category(name=f"c{i}", categories=tuple(str(code) for code in range(a, b + 1)))
        for i, (a, b) in enumerate(zip(low.tolist(), high.tolist(), strict=True))
    ]
    return Schema(columns=tuple(columns)), Table(codes - low)
