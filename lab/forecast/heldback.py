"""Layouts built after the choice of decision 009's rules, to test the rules.

They have categories of a table too wide for a plain encoding, numbers that are 0 in most rows, and sites that
differ from D_v. No constant of the protocol was set on them. After a look at census-losses, numbers of wide
tables got cuts; the two layouts after census-losses were built to test the cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.tables.files import read_columns
from fedkme.tables.schema import Label
from lab.experiments.cells_draw import Build, ExperimentDraw
from lab.experiments.cells_tables import sited
from lab.forecast.thresholds import above
from sim.scenarios.base import domain

Columns = dict[str, Any]
Sought = Callable[[Columns], NDArray[np.bool_]]

_FILES = {"census": "census_income_kdd_test", "adult": "adult_raw", "intrusion": "kddcup99_10pct"}


def heldback() -> Mapping[str, Build]:
    """Layouts by name."""
    people: Mapping[str, Sought] = {
        "census-widows": lambda of: np.asarray(of["marital_stat"]) == "Widowed",
        "census-islanders": lambda of: np.asarray(of["hispanic_origin"]) == "Puerto Rican",
        "census-citizens": lambda of: np.char.find(_text(of, "citizenship"), "naturalization") >= 0,
        "census-doctors": lambda of: np.char.find(_text(of, "education"), "PhD") >= 0,
        "census-dividends": lambda of: np.asarray(of["dividends_from_stocks"], float) > 1500,
        "census-losses": lambda of: np.asarray(of["capital_losses"], float) > 1500,
        "census-gains": lambda of: np.asarray(of["capital_gains"], float) > 5000,
        "census-wages": lambda of: np.asarray(of["wage_per_hour"], float) > 1200,
        "adult-losses": lambda of: np.asarray(of["capital-loss"], float) > 1500,
        "intrusion-downloads": lambda of: np.asarray(of["dst_bytes"], float) > 12_000,
    }
    alike = {name: partial(_alike, name, sought) for name, sought in people.items()}
    return {
        **alike,
        "covtype-cache": partial(_areas, "covtype-cache", 4),
        "covtype-rawah": partial(_areas, "covtype-rawah", 1),
    }


def _text(columns: Columns, name: str) -> NDArray[np.str_]:
    return np.asarray(columns[name]).astype(str)


def _alike(name: str, sought: Sought, folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Eight owners that look alike. Label: that of the table's domain."""
    data = name.partition("-")[0]
    columns = dict(read_columns(folder / f"{_FILES[data]}.parquet", data))
    schema = domain(data)
    if data == "intrusion":
        columns["label"] = np.where(_text(columns, "label") == "normal", "normal", "attack")
        schema = schema.model_copy(update={"label": Label(name="label", classes=("normal", "attack"))})
    return above(name, columns, schema, sought(columns), rows, seed)


def _areas(name: str, wanted: int, folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: halves of three wilderness areas. D_v: the fourth. Label: cover type."""
    columns = dict(read_columns(folder / "covtype_kaggle15120.parquet", "covtype"))
    for kind, count in (("Soil_Type", 40), ("Wilderness_Area", 4)):
        parts = [np.asarray(columns[f"{kind}{code}"]) for code in range(1, count + 1)]
        columns[kind] = np.stack(parts, axis=1).argmax(axis=1) + 1
    base, area = domain("covtype"), np.asarray(columns["Wilderness_Area"])
    remaining = tuple(column for column in base.columns if column.name != "Wilderness_Area")
    schema = base.model_copy(update={"columns": remaining, "ignore": ()})
    half = np.arange(len(area)) % 2
    others = [other for other in (1, 2, 3, 4) if other != wanted]
    sites = {f"area-{a}-{part}": (area == a) & (half == part) for a in others for part in (0, 1)}
    return sited(name, columns, schema, sites, area == wanted, rows, seed)
