"""The labelled tables of DP-MERF and DP-HP: public schemas, rows split over simulated owners.

Everything that turns rows into model space is written down: bounds and names in sim.scenarios.base,
logarithms of columns with a long tail and the rates at which rows of a class are kept here. None is learnt
from rows when an experiment runs.

Rows of a frequent class are left out at a public rate, by a coin for each row that its owner throws; test
rows are thinned alike, as in the papers' code. Of Adult, DP-MERF and DP-HP keep 40 % of the rows with income
<= 50K, before they split into training and test rows. Choosing that rate, and dividing by the rows that are
left, uses the class counts of private rows. Here the rate is a public constant, and the release divides by
all rows, whose number is public, and replace-one is about all rows: a replaced row that a coin drops
contributes nothing, which moves the sum by less than a row that stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import DataError
from fedkme.tables.files import load_table, read_arrays, read_columns, table_from_columns
from fedkme.tables.schema import Category, Label, Schema
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


Groups = NDArray[Any] | None
"""Groups of rows that must not be on both sides of a split; None: rows are apart."""
Read = Callable[[Path, Schema], tuple[Table, Groups]]


@dataclass(frozen=True)
class Source:
    """One data set of the papers.

    Attributes:
        file: name in the data folder.
        schema: public domain of its rows.
        read: rows that take part and their groups; rows that a public rule excludes are left out.
        kept: rate at which rows of each class are kept.
        test_share: share of the rows that are held back.
        one_hot: categories that classifiers see as 0/1 columns, as they stand in the file; others by index.
    """

    file: str
    schema: Schema
    read: Read
    kept: tuple[float, ...]
    test_share: float
    one_hot: tuple[str, ...] = ()


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


def load(source: Source, folder: Path, owners: int, seed: int) -> Split:
    """Rows of a data set: part to test, the others to owners, at random by seed.

    Raises:
        DataError: the file is missing or of another form.
    """
    table, groups = source.read(folder / source.file, source.schema)
    source.schema.check(table, source.file)
    if table.labels is None:
        raise DataError(f"{source.file} has no labels", "Take the file of the data folder.")
    generator = np.random.default_rng(np.random.SeedSequence([seed, 1]))
    if groups is None:
        groups = np.arange(len(table))
    names = np.unique(groups)
    tested = generator.permutation(names)[: round(source.test_share * len(names))]
    is_test = np.isin(groups, tested)
    order = generator.permutation(len(table))
    mask = generator.random(len(table)) < np.asarray(source.kept)[table.labels]
    test, training = order[is_test[order]], order[~is_test[order]]
    parts = tuple(table.take(part[mask[part]]) for part in np.array_split(training, owners))
    return Split(parts, len(training), table.take(test[mask[test]]))


def _source(
    name: str,
    file: str,
    read: Read,
    kept: tuple[float, ...],
    test_share: float,
    one_hot: tuple[str, ...] = (),
) -> Source:
    return Source(file, domain(name), read, kept, test_share, one_hot)


def _census(path: Path, schema: Schema) -> tuple[Table, Groups]:
    return table_from_columns(read_columns(path, path.name), schema, path.name), None


def _credit(path: Path, schema: Schema) -> tuple[Table, Groups]:
    """DP-HP keeps 1 % of the 284,315 normal transactions; the file has 4,920 of them."""
    cells = read_columns(path, path.name)
    names = [f"V{i}" for i in range(1, 29)]
    _need(path, cells, "column", "Amount", "Class", *names)
    values = [*(np.asarray(cells[name], np.float64) for name in names), _logged(cells["Amount"])]
    return Table(np.stack(values, axis=1), np.asarray(cells["Class"], np.int64)), None


def _cervical(path: Path, schema: Schema) -> tuple[Table, Groups]:
    """Rows with ten missing cells or more are left out, as in the papers; public numbers fill other cells."""
    cells = read_columns(path, path.name)
    table = table_from_columns(cells, schema, path.name)
    numbers = [np.asarray(column, np.float64) for column in cells.values()]
    return table.take(np.isnan(np.stack(numbers, axis=1)).sum(axis=1) < 10), None


def _epileptic(path: Path, schema: Schema) -> tuple[Table, Groups]:
    """EEG of 500 recordings; chunks of one recording stay on one side of the split."""
    arrays = read_arrays(path, path.name)
    _need(path, arrays, "array", "x", "y", "recording")
    return Table(arrays["x"], (arrays["y"] == 1).astype(np.int64)), arrays["recording"]


def _isolet(path: Path, schema: Schema) -> tuple[Table, Groups]:
    """Spoken letters, vowels against the others; sites 1 to 4, as DP-HP's label file has them."""
    arrays = read_arrays(path, path.name)
    _need(path, arrays, "array", "x", "y", "site")
    mine = arrays["site"] <= 4
    vowel = np.isin(arrays["y"], [1, 5, 9, 15, 21])
    return Table(arrays["x"][mine], vowel[mine].astype(np.int64)), None


_INTRUSION_LOGS = (
    "duration src_bytes dst_bytes hot num_failed_logins num_compromised num_root num_file_creations "
    "num_shells num_access_files wrong_fragment urgent su_attempted"
)
_ATTACKS: Mapping[str, str] = {
    "normal": "normal",
    **dict.fromkeys(["back", "land", "neptune", "pod", "smurf", "teardrop"], "dos"),
    **dict.fromkeys(["ipsweep", "nmap", "portsweep", "satan"], "probe"),
    **dict.fromkeys(
        ["ftp_write", "guess_passwd", "imap", "multihop", "phf", "spy", "warezclient", "warezmaster"], "r2l"
    ),
    **dict.fromkeys(["buffer_overflow", "loadmodule", "perl", "rootkit"], "u2r"),
}


def _intrusion(path: Path, schema: Schema) -> tuple[Table, Groups]:
    """KDD Cup 1999: logarithms of counts without a bound; the smallest class, u2r, is left out."""
    cells: dict[str, Any] = dict(read_columns(path, path.name))
    cells |= {name: _logged(cells[name]) for name in _INTRUSION_LOGS.split() if name in cells}
    if "label" in cells:
        cells["label"] = [_ATTACKS.get(str(cell), str(cell)) for cell in cells["label"]]
    label = Label(name="label", classes=(*schema.classes, "u2r"))
    table = table_from_columns(cells, schema.model_copy(update={"label": label}), path.name)
    assert table.labels is not None
    return table.take(table.labels < 4), None


_COVTYPE_BLOCKS = {"Wilderness_Area": 4, "Soil_Type": 40}


def _covtype(path: Path, schema: Schema) -> tuple[Table, Groups]:
    """Forest cover: the 4 and the 40 columns of 0 and 1 are the codes of two categories."""
    cells: dict[str, Any] = dict(read_columns(path, path.name))
    for name, codes in _COVTYPE_BLOCKS.items():
        columns = [f"{name}{code}" for code in range(1, codes + 1)]
        _need(path, cells, "column", *columns)
        hot = np.stack([np.asarray(cells[column], np.int64) for column in columns], axis=1)
        cells[name] = hot.argmax(axis=1) + 1
    needed = {name: cells[name] for name in (*schema.names, "Cover_Type") if name in cells}
    return table_from_columns(needed, schema, path.name), None


def _logged(cells: Any) -> Any:
    return np.log1p(np.asarray(cells, dtype=np.float64))


def _need(path: Path, columns: Mapping[str, Any], kind: str, *names: str) -> None:
    if missing := set(names) - set(columns):
        raise DataError(f"{path} has no {kind} '{min(missing)}'", "Take the file of the data folder.")


SOURCES: Mapping[str, Callable[[], Source]] = {
    "census": partial(_source, "census", "census_income_kdd_test.parquet", _census, (0.4, 1.0), 0.2),
    "credit": partial(_source, "credit", "creditcard_5412.parquet", _credit, (2843 / 4920, 1.0), 0.2),
    "cervical": partial(_source, "cervical", "cervical_cancer.parquet", _cervical, (0.5, 1.0), 0.2),
    "epileptic": partial(_source, "epileptic", "epileptic_bonn.npz", _epileptic, (1.0, 1.0), 0.3),
    "isolet": partial(_source, "isolet", "isolet.npz", _isolet, (1.0, 1.0), 0.3),
    "intrusion": partial(
        _source, "intrusion", "kddcup99_10pct.parquet", _intrusion, (1.0, 0.3, 1.0, 1.0), 0.2
    ),
    "covtype": partial(
        _source, "covtype", "covtype_kaggle15120.parquet", _covtype, (1.0,) * 7, 0.3, tuple(_COVTYPE_BLOCKS)
    ),
}
"""Sources by the papers' names."""
