"""Measures layouts for measured.toml: `python -m sim.planning.measure DATA [--layouts air] [--seeds 2]`.

Whole runs of the protocols in this process, as `fedkme sim run --engine inprocess` makes them, over tables
with real sites that no constant was fitted to: stations that measure air, forest in four wilderness areas,
patients by medical specialty, people by occupation. Each line is one for `sites` of measured.toml: MMD^2 to
D_v over that of uniform sampling at the same p, a mean over seeds of both, of rows without weights.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumer.summary.offers import pruned
from fedkme.embeddings.mmd import mmd2
from fedkme.tables.files import read_columns
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Table
from sim.config import SummaryTable
from sim.engines.inprocess import KeptRecords, market_of, run_in_process
from sim.planning.measured import P
from sim.scenarios.base import Scenario, generator

FloatArray = NDArray[np.float64]

MOST = 2000
"""Rows of one site that are used."""
_AIR = ("PM2.5", "PM10", "SO2", "NO2", "CO", "O3", "TEMP", "PRES", "DEWP", "WSPM")
_FOREST = (
    *("Elevation", "Aspect", "Slope", "Hillshade_9am", "Hillshade_Noon", "Hillshade_3pm"),
    *("Horizontal_Distance_To_Hydrology", "Vertical_Distance_To_Hydrology"),
    *("Horizontal_Distance_To_Roadways", "Horizontal_Distance_To_Fire_Points"),
)
_PATIENTS = (
    *("time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "number_outpatient"),
    *("number_emergency", "number_inpatient", "number_diagnoses"),
)
_PEOPLE = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
LAYOUTS: Mapping[str, tuple[str, Sequence[str], str, str]] = {
    "air": ("beijing_air_12stations.parquet", _AIR, "station", "Huairou"),
    "forest": ("covtype_kaggle15120.parquet", _FOREST, "area", "1"),
    "patients": ("diabetes130.parquet", _PATIENTS, "medical_specialty", "Cardiology"),
    "people": ("adult_raw.parquet", _PEOPLE, "occupation", "Exec-managerial"),
}
"""File, columns, the column of the site, and the site that is looked for; it owns no rows in `air`."""
METHODS: Mapping[str, Sequence[tuple[str, float]]] = {
    "cells": [("cells", 1.0), ("cells", 2.0)],
    "uniform": [("uniform", 2.0), ("uniform", 5.0)],
}


def scenario_of(name: str, folder: Path, validation: int, seed: int) -> Scenario:
    """Sites as owners, and a sample of one site's rows as D_v; half of those are for it and the test.

    Args:
        name: of a layout.
        folder: of the data.
        validation: |D_v|.
        seed: draws the rows.
    """
    file, names, column, wanted = LAYOUTS[name]
    columns: dict[str, Any] = dict(read_columns(folder / file, name))
    if column == "area":
        one_hot = np.stack([np.asarray(columns[f"Wilderness_Area{n}"], float) for n in (1, 2, 3, 4)])
        columns[column] = (one_hot.argmax(axis=0) + 1).astype(str)
    values = np.stack([np.asarray(columns[each], float) for each in names], axis=1)
    whole = np.isfinite(values).all(axis=1)
    values, site = values[whole], np.asarray(columns[column]).astype(str)[whole]
    low, high = np.quantile(values, [0.01, 0.99], axis=0)
    schema = Schema(
        columns=tuple(
            Numeric(name=each, bounds=(float(a), float(max(b, a + 1.0))), clip=True)
            for each, a, b in zip(names, low, high, strict=True)
        )
    )
    return _dealt(name, schema, values, site, wanted, validation, generator(seed, "measure", name))


def _dealt(
    name: str,
    schema: Schema,
    values: FloatArray,
    site: NDArray[np.str_],
    wanted: str,
    validation: int,
    rng: np.random.Generator,
) -> Scenario:
    rows = {each: rng.permutation(np.flatnonzero(site == each)) for each in np.unique(site).tolist()}
    own = rows[wanted]
    test = own[validation : len(own) // 2][:MOST]
    rows[wanted] = own[len(own) // 2 :] if name != "air" else own[:0]
    held = [places for places in rows.values() if len(places) >= 50]
    owners = {f"site-{n}": Table(values[places[:MOST]]) for n, places in enumerate(held, 1)}
    return Scenario(name, schema, owners, Table(values[own[:validation]]), Table(values[test]), None)


def measured(scenario: Scenario, protocol: str, ratio: float, p: int, seed: int) -> float:
    """MMD^2 to D_v of one run."""
    summary = SummaryTable.model_validate(
        {"p": p, "protocol": protocol, "uniform_ratio": ratio, "cells": {"rho": max(1.0, ratio)}}
    )
    parts, records = (summary.curator_part(), summary.consumer_part()), KeptRecords()
    made = asyncio.run(run_in_process(market_of(scenario, seed), scenario.validation, *parts, records))
    if made.outcome.prune:
        made = pruned(made, p, scenario.schema, scenario.validation)
    gamma = made.plan.features.gamma
    rows, validation = (scenario.schema.encode(of.values) for of in (made.table, scenario.validation))
    return mmd2(rows, validation, gamma)


def main() -> None:
    """Print a line for each layout and method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS), choices=list(LAYOUTS))
    parser.add_argument("--rows", type=int, default=250)
    parser.add_argument("--seeds", type=int, default=1)
    chosen = parser.parse_args()
    for name in chosen.layouts:
        drawn = [scenario_of(name, chosen.data, chosen.rows, seed) for seed in range(chosen.seeds)]
        sizes = sorted(len(table) for table in drawn[0].owners.values())
        about = [len(sizes), round(statistics.mean(sizes)), sizes[(len(sizes) - 1) // 2]]

        def mean(protocol: str, ratio: float, p: int, drawn: Sequence[Scenario] = drawn) -> float:
            return statistics.mean(measured(each, protocol, ratio, p, n) for n, each in enumerate(drawn))

        base = {p: mean("uniform", 1.0, p) for p in P}
        for protocol, ratio in [pair for pairs in METHODS.values() for pair in pairs]:
            values = [float(f"{mean(protocol, ratio, p) / base[p]:.2g}") for p in P]
            about_run = ", ".join(map(str, (chosen.rows, *about)))
            print(f'["{name}", {about_run}, "{protocol}", {ratio}, {values}],', flush=True)


if __name__ == "__main__":
    main()
