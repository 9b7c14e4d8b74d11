"""Layouts whose D_v is what lies beyond a threshold on a number: people over 65, long weeks, high forests.

No category tells such rows, and few principal directions do. Owners are eight shares that look alike of all
rows but those held for D_v; of the pool one row in ten to one in a hundred is sought. Those of `CHOSEN` were
looked at when the cuts of fedkme/cells/menu.py were chosen (docs/decisions/009); the others were not.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.tables.files import read_columns
from fedkme.tables.schema import Category, Label, Numeric, Schema
from lab.experiments.cells_draw import Build, ExperimentDraw
from lab.experiments.cells_tables import sited
from sim.scenarios.base import domain, generator

Columns = dict[str, Any]

CHOSEN = ("adult-elders", "wine-sweet", "diabetes-drugs")
"""Layouts in sight when cuts of numbers were made."""
_OWNERS = 8
_HELD = 0.5
"""Share of the sought rows that no owner has."""


def thresholds() -> Mapping[str, Build]:
    """Layouts by name."""
    return {
        "adult-elders": partial(_adult, "adult-elders", "age", 65.0),
        "adult-hours": partial(_adult, "adult-hours", "hours-per-week", 60.0),
        "adult-gains": partial(_adult, "adult-gains", "capital-gain", 7000.0),
        "acs-eighties": _eighties,
        "air-hot": _hot,
        "covtype-high": _high,
        "diabetes-drugs": _drugs,
        "student-absent": _absent,
        "wine-sweet": _sweet,
    }


def _adult(name: str, column: str, most: float, folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """People whose age, hours or gains are above a number. Label: income."""
    columns = dict(read_columns(folder / "adult_raw.parquet", "adult"))
    return above(name, columns, domain("adult"), np.asarray(columns[column], float) > most, rows, seed)


def _eighties(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """People of eighty and more in a survey. Label: income."""
    from sim.scenarios.states import read_acs

    people, _, schema = read_acs(folder / "acs_national2019_sdnist.parquet")
    columns: Columns = {}
    for place, column in enumerate(schema.columns):
        values = people.values[:, place]
        if isinstance(column, Category):
            values = np.asarray(column.categories)[values.astype(int)]
        columns[column.name] = values
    assert schema.label is not None
    assert people.labels is not None
    columns[schema.label.name] = np.asarray(schema.label.classes)[people.labels]
    return above("acs-eighties", columns, schema, columns["AGEP"] >= 80, rows, seed)


def _hot(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Hours above 32 degrees; numbers alone. Label: dust."""
    columns = dict(read_columns(folder / "beijing_air_12stations.parquet", "air"))
    fine = np.asarray(columns["PM2.5"], float)
    columns["dust"] = np.where(fine > 75, "bad", "fair")
    bounds = {"PM10": (0, 600), "SO2": (0, 200), "NO2": (0, 250), "O3": (0, 350), "WSPM": (0, 10)}
    bounds |= {"TEMP": (-20, 45), "PRES": (980, 1050), "DEWP": (-40, 30)}
    parts = tuple(Numeric(name=n, bounds=b, clip=True, missing=b[0]) for n, b in bounds.items())
    schema = Schema(columns=parts, label=Label(name="dust", classes=("fair", "bad")))
    places = np.flatnonzero(np.isfinite(fine))
    columns = {name: np.asarray(columns[name])[places] for name in (*bounds, "dust")}
    return above("air-hot", columns, schema, np.asarray(columns["TEMP"], float) > 32, rows, seed)


def _high(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Forest above 3,300 m. Label: cover type."""
    columns = dict(read_columns(folder / "covtype_kaggle15120.parquet", "covtype"))
    for name, count in (("Soil_Type", 40), ("Wilderness_Area", 4)):
        parts = [np.asarray(columns[f"{name}{code}"]) for code in range(1, count + 1)]
        columns[name] = np.stack(parts, axis=1).argmax(axis=1) + 1
    schema = domain("covtype").model_copy(update={"ignore": ()})
    return above("covtype-high", columns, schema, np.asarray(columns["Elevation"]) > 3300, rows, seed)


def _drugs(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Patients of thirty drugs and more. Label: whether they came back."""
    columns: Columns = dict(read_columns(folder / "diabetes130.parquet", "diabetes"))
    columns["age"] = [int(str(age)[1:].split("-")[0]) + 5 for age in columns["age"]]
    columns["readmitted"] = ["no" if str(when) == "NO" else "yes" for when in columns["readmitted"]]
    most = {"age": 100, "time_in_hospital": 14, "num_lab_procedures": 130, "num_procedures": 6}
    most |= {"num_medications": 80, "number_inpatient": 20, "number_diagnoses": 16}
    numbers = tuple(Numeric(name=name, bounds=(0, top), clip=True) for name, top in most.items())
    gender = Category(name="gender", categories=("Female", "Male", "Unknown/Invalid"))
    insulin = Category(name="insulin", categories=("No", "Steady", "Up", "Down"))
    label = Label(name="readmitted", classes=("no", "yes"))
    schema = Schema(columns=(*numbers, gender, insulin), label=label)
    sought = np.asarray(columns["num_medications"]) >= 30
    return above("diabetes-drugs", columns, schema, sought, rows, seed)


def _absent(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Pupils who missed more than ten lessons. Label: whether they passed."""
    columns = dict(read_columns(folder / "student_performance.parquet", "student"))
    columns["passed"] = np.where(np.asarray(columns["G3"]).astype(int) >= 10, "yes", "no")
    base = domain("student")
    remaining = tuple(c for c in base.columns if c.name not in ("G1", "G2", "G3"))
    schema = Schema(columns=remaining, label=Label(name="passed", classes=("no", "yes")))
    return above("student-absent", columns, schema, np.asarray(columns["absences"]) > 10, rows, seed)


def _sweet(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Wines with more than 14 g of sugar. Label: grade."""
    columns = dict(read_columns(folder / "wine_quality.parquet", "wine"))
    columns["grade"] = np.where(np.asarray(columns["quality"]) > 5, "high", "low")
    base = domain("wine")
    remaining = tuple(c for c in base.columns if c.name != "quality")
    schema = Schema(columns=remaining, label=Label(name="grade", classes=("low", "high")))
    return above("wine-sweet", columns, schema, np.asarray(columns["residual_sugar"]) > 14, rows, seed)


def above(
    name: str, columns: Columns, schema: Schema, sought: NDArray[np.bool_], rows: int, seed: int
) -> ExperimentDraw:
    """Deal the rows that are not held for D_v to owners at random."""
    rng = generator(seed, "thresholds", name)
    held = sought & (rng.random(len(sought)) < _HELD)
    dealt = rng.integers(0, _OWNERS, len(sought))
    sites = {f"share-{n}": ~held & (dealt == n) for n in range(_OWNERS)}
    return sited(name, columns, schema, sites, held, rows, seed)
