"""Layouts of the table of summaries by cells that no constant of the protocol was set on.

Owners are natural sites, or shares of a table that look alike; D_v and the rows that score are of people,
places or things that owners have few of. Owners are cut to MOST rows, by seed. Bounds are round numbers
beyond which values are clipped; none is learnt from rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.tables.files import read_columns, table_from_columns
from fedkme.tables.schema import Category, Label, Numeric, Schema
from fedkme.tables.table import Table
from lab.experiments.cells_draw import SEEDS, Build, ExperimentDraw, draw_of
from sim.scenarios.base import Scenario, domain, generator, random_rows

Columns = Mapping[str, Any]
Mask = NDArray[np.bool_]

MOST = 1500
"""Rows of an owner."""
_HELD_BACK = 500
"""Rows that score, at most."""


def tables() -> Mapping[str, Build]:
    """Layouts by name."""
    return {
        "adult-jobs": _adult,
        "covtype-areas": _covtype,
        "diabetes-wards": _diabetes,
        "wine-alike": _wine,
        "air-winter": _air,
    }


_JOBS = (
    "Adm-clerical Craft-repair Exec-managerial Machine-op-inspct Other-service Prof-specialty "
    "Protective-serv Sales Transport-moving"
)


def _adult(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: people of one occupation each. D_v: technical support. Label: income."""
    columns = read_columns(folder / "adult_raw.parquet", "adult")
    base = domain("adult")
    schema = _without(base, "occupation")
    jobs = np.asarray(columns["occupation"])
    sites = {name: jobs == name for name in _JOBS.split()}
    return sited("adult-jobs", columns, schema, sites, jobs == "Tech-support", rows, seed)


def _covtype(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: shares of three wilderness areas. D_v: the fourth. Label: cover type."""
    columns: dict[str, Any] = dict(read_columns(folder / "covtype_kaggle15120.parquet", "covtype"))
    soil = np.stack([np.asarray(columns[f"Soil_Type{code}"]) for code in range(1, 41)], axis=1)
    columns["Soil_Type"] = soil.argmax(axis=1) + 1
    area = np.stack([np.asarray(columns[f"Wilderness_Area{a}"]) for a in (1, 2, 3, 4)], axis=1).argmax(1) + 1
    share = np.arange(len(area)) % 2
    sites = {f"area-{a}-{s}": (area == a) & (share == s) for a in (1, 3, 4) for s in (0, 1)}
    schema = _without(domain("covtype"), "Wilderness_Area")
    return sited("covtype-areas", columns, schema, sites, area == 2, rows, seed)


_DRUGS = ("metformin", "glipizide", "glyburide", "pioglitazone", "rosiglitazone", "insulin")
_WARDS = "InternalMedicine Emergency/Trauma Family/GeneralPractice Surgery-General Nephrology Orthopedics"


def _diabetes(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: six wards of hospitals. D_v: patients of cardiologists. Label: whether they came back."""
    columns = read_diabetes(folder / "diabetes130.parquet")
    ward = np.asarray(columns["medical_specialty"])
    sites = {name: ward == name for name in _WARDS.split()}
    return sited("diabetes-wards", columns, diabetes_schema(), sites, ward == "Cardiology", rows, seed)


def read_diabetes(path: Path) -> Columns:
    """Read patients with diabetes, labelled by whether they came back to hospital."""
    columns: dict[str, Any] = dict(read_columns(path, "diabetes"))
    columns["age"] = [int(str(age)[1:].split("-")[0]) + 5 for age in columns["age"]]
    columns["readmitted"] = ["no" if str(when) == "NO" else "yes" for when in columns["readmitted"]]
    return columns


def diabetes_schema() -> Schema:
    """Public schema of patients with diabetes."""
    numbers = {
        **{"age": 100, "time_in_hospital": 14, "num_lab_procedures": 130, "num_procedures": 6},
        **{"num_medications": 80, "number_inpatient": 20, "number_diagnoses": 16},
    }
    doses = ("No", "Steady", "Up", "Down")
    parts = [
        *(Numeric(name=name, bounds=(0, most), clip=True) for name, most in numbers.items()),
        Category(name="gender", categories=("Female", "Male", "Unknown/Invalid")),
        *(Category(name=drug, categories=doses) for drug in _DRUGS),
    ]
    return Schema(columns=tuple(parts), label=Label(name="readmitted", classes=("no", "yes")))


_WINE = {
    **{"fixed_acidity": 16, "volatile_acidity": 1.6, "citric_acid": 1.7, "residual_sugar": 66},
    **{"chlorides": 0.7, "free_sulfur_dioxide": 290, "total_sulfur_dioxide": 440},
    **{"pH": 4.5, "sulphates": 2, "alcohol": 15},
}


def _wine(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: six that look alike, with shares of all wines but D_v's. D_v: red ones of quality 6 or more."""
    columns: dict[str, Any] = dict(read_columns(folder / "wine_quality.parquet", "wine"))
    quality = np.asarray(columns["quality"])
    columns["grade"] = np.where(quality > 6, "high", np.where(quality == 6, "middle", "low"))
    parts = tuple(Numeric(name=name, bounds=(0, most), clip=True) for name, most in _WINE.items())
    schema = Schema(columns=parts, label=Label(name="grade", classes=("low", "middle", "high")))
    coins = generator(seed, "cells", "wine").integers(0, 12, len(quality))
    sought = (np.asarray(columns["colour"]) == "red") & (quality >= 6) & (coins < 7)
    sites = {f"cellar-{s}": ~sought & (coins % 6 == s) for s in range(6)}
    return sited("wine-alike", columns, schema, sites, sought, rows, seed)


_AIR = {"SO2": (0, 200), "NO2": (0, 250), "CO": (0, 8000), "O3": (0, 350), "PM10": (0, 600)}
_SKY = {"TEMP": (-20, 45), "PRES": (980, 1050), "DEWP": (-40, 30), "RAIN": (0, 20), "WSPM": (0, 10)}


def _air(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: eleven stations, all seasons. D_v: the twelfth in winter. Label: PM2.5 above 75."""
    columns = read_air(folder / "beijing_air_12stations.parquet")
    measured, station = np.isfinite(np.asarray(columns["PM2.5"], np.float64)), np.asarray(columns["station"])
    winter = np.isin(np.asarray(columns["month"]), (12, 1, 2))
    names = sorted(set(station.tolist()))
    sites = {name: measured & (station == name) for name in names[1:]}
    sought = measured & winter & (station == names[0])
    return sited("air-winter", columns, air_schema(), sites, sought, rows, seed)


def read_air(path: Path) -> Columns:
    """Read hours of Beijing's air, labelled by fine dust; where PM2.5 is not a number, the label is void."""
    columns: dict[str, Any] = dict(read_columns(path, "air"))
    fine = np.asarray(columns["PM2.5"], np.float64)
    columns["dust"] = np.where(fine > 75, "bad", "fair")
    return columns


def air_schema() -> Schema:
    """Public schema of hours of air."""
    bounds = {**_AIR, **_SKY}
    parts = tuple(
        Numeric(name=name, bounds=range_, clip=True, missing=range_[0]) for name, range_ in bounds.items()
    )
    return Schema(columns=parts, label=Label(name="dust", classes=("fair", "bad")))


def sited(
    name: str, columns: Columns, schema: Schema, sites: Mapping[str, Mask], sought: Mask, rows: int, seed: int
) -> ExperimentDraw:
    """Rows of each site to its owner; half of `sought`, at most `rows`, to D_v, and others score."""
    rng = generator(seed, "cells", name)

    def drawn(mask: Mask, most: int) -> NDArray[np.int64]:
        return rng.permutation(np.flatnonzero(mask))[:most]

    wanted = drawn(sought, len(sought))
    held = min(rows, len(wanted) // 2)
    places = {"": wanted[: held + _HELD_BACK]} | {site: drawn(mask, MOST) for site, mask in sites.items()}
    used = {column for column in (*schema.names, schema.label.name if schema.label else "") if column}
    parts: dict[str, Table] = {}
    for site, rows_of in places.items():
        cut = {column: np.asarray(columns[column])[rows_of] for column in sorted(used)}
        parts[site] = table_from_columns(cut, schema, name)
    looked_for = parts.pop("")
    validation, test = looked_for.take(np.arange(held)), looked_for.take(np.arange(held, len(looked_for)))
    seeds = random_rows(schema, SEEDS, rng)
    return draw_of(name, Scenario(name, schema, parts, validation, test, seeds), None)


def _without(schema: Schema, *names: str) -> Schema:
    columns = tuple(column for column in schema.columns if column.name not in names)
    return schema.model_copy(update={"columns": columns, "ignore": ()})
