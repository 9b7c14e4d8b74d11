"""Layouts besides MarketBench's: other tables, or other owners, labels and targets.

No constant of the protocol was set on these layouts. Owners are trades, payers, soils, stations by year,
recordings, or random shares; four to sixty owners, with 25 to 1,500 rows. D_v: 45 to 250 rows of people or
things that are rare, or different, among the owners' rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.tables.files import read_arrays, read_columns
from fedkme.tables.schema import Label, Numeric, Schema
from lab.experiments.cells_draw import Build, ExperimentDraw
from lab.experiments.cells_tables import sited
from lab.market.layouts import small
from sim.scenarios.base import domain, generator

Sites = Mapping[str, NDArray[np.bool_]]


def fresh() -> Mapping[str, Build]:
    """Layouts by name."""
    return {
        "census-trades": _trades,
        "census-small60": _small_trades,
        "census-federal": _federal,
        "credit-fraud": _fraud,
        "epileptic-eyes": _eyes,
        "intrusion-mail": _mail,
        "cervical-smokers": _smokers,
        "student-teachers": _teachers,
        "diabetes-payers": _payers,
        "covtype-soils": _soils,
        "wine-many50": _wines,
        "air-years55": _years,
        "fashion-shoes20": _shoes,
    }


_TRADES = (
    "Retail trade",
    "Manufacturing-durable goods",
    "Construction",
    "Finance insurance and real estate",
    "Business and repair services",
    "Transportation",
    "Public administration",
    "Wholesale trade",
)


def _census(folder: Path) -> tuple[dict[str, Any], Schema]:
    columns = dict(read_columns(folder / "census_income_kdd_test.parquet", "census"))
    return columns, domain("census")


def _trades(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: people of eight trades. D_v: people who teach. Label: income."""
    columns, schema = _census(folder)
    trade = np.asarray(columns["major_industry_code"])
    remaining = tuple(
        c for c in schema.columns if c.name not in ("major_industry_code", "detailed_industry_recode")
    )
    schema = schema.model_copy(update={"columns": remaining, "ignore": ()})
    sites = {f"trade-{n}": trade == name for n, name in enumerate(_TRADES)}
    return sited("census-trades", columns, schema, sites, trade == "Education", rows, seed)


def _small_trades(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Sixty small owners of the same people, each of one trade."""
    return small(_trades(folder, rows, seed), "census-small60", 60, seed, mixed=False)


def _federal(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: twelve alike, of people with work. D_v: a part of those who work for a government."""
    columns, schema = _census(folder)
    work = np.asarray(columns["class_of_worker"])
    coins = generator(seed, "fresh", "federal").random(len(work))
    sought = (work == "Federal government") & (coins < 0.5)
    pool = (work != "Not in universe") & ~sought
    return sited("census-federal", columns, schema, _shares(pool, 12, seed), sought, rows, seed)


def _fraud(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: six alike. D_v: frauds, 3 % of the pool. Label: an amount above 50."""
    columns = dict(read_columns(folder / "creditcard_5412.parquet", "credit"))
    columns |= {f"V{n}": columns[f"V{n + 1}"] for n in range(28)}
    columns["size"] = np.where(np.asarray(columns["Amount"], float) > 50, "large", "small")
    fraud = np.asarray(columns["Class"]).astype(str) == "1"
    coins = generator(seed, "fresh", "fraud").random(len(fraud))
    base = domain("credit")
    remaining = tuple(column for column in base.columns if column.name != "Amount")
    schema = base.model_copy(
        update={"columns": remaining, "label": Label(name="size", classes=("small", "large")), "ignore": ()}
    )
    sought = fraud & (coins < 0.7)
    return sited("credit-fraud", columns, schema, _shares(~sought, 6, seed), sought, rows, seed)


def _eyes(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: twenty groups of recordings. D_v: brains of other people with open eyes. Label: seizure."""
    arrays = read_arrays(folder / "epileptic_bonn.npz", "epileptic")
    x, y = np.asarray(arrays["x"], float), arrays["y"]
    columns: dict[str, Any] = {f"x{n}": x[:, n] for n in range(x.shape[1])}
    columns["y"] = np.where(y == 1, "seizure", "other")
    parts = tuple(Numeric(name=f"x{n}", bounds=(-800, 800), clip=True) for n in range(x.shape[1]))
    schema = Schema(columns=parts, label=Label(name="y", classes=("other", "seizure")))
    group = np.unique(arrays["recording"], return_inverse=True)[1] % 22
    sites = {f"clinic-{n}": group == n for n in range(20)}
    return sited("epileptic-eyes", columns, schema, sites, (group >= 20) & (y == 5), rows, seed)


_SERVICES = ("http", "private", "ecr_i", "domain_u", "ftp_data", "other", "telnet")


def _mail(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: sessions of seven services. D_v: sessions with servers of mail. Label: kind of attack."""
    columns = dict(read_columns(folder / "kddcup99_10pct.parquet", "intrusion"))
    service = np.asarray(columns["service"]).astype(str)
    columns["label"] = np.where(np.asarray(columns["label"]).astype(str) == "normal", "normal", "attack")
    base = domain("intrusion")
    remaining = tuple(column for column in base.columns if column.name != "service")
    schema = base.model_copy(
        update={
            "columns": remaining,
            "label": Label(name="label", classes=("normal", "attack")),
            "ignore": (),
        }
    )
    sites = {name: service == name for name in _SERVICES}
    return sited("intrusion-mail", columns, schema, sites, np.isin(service, ("smtp", "pop_3")), rows, seed)


def _smokers(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: five alike of 140 patients. D_v: a part of those who smoke. Label: test of Schiller."""
    columns = dict(read_columns(folder / "cervical_cancer.parquet", "cervical"))
    columns["Schiller"] = np.where(np.asarray(columns["Schiller"], float) > 0, "yes", "no")
    smokes = np.nan_to_num(np.asarray(columns["Smokes"], float)) > 0
    coins = generator(seed, "fresh", "smokers").random(len(smokes))
    base = domain("cervical")
    numbers = tuple(column for column in base.columns if column.kind == "numeric")
    schema = Schema(columns=numbers, label=Label(name="Schiller", classes=("no", "yes")))
    sought = smokes & (coins < 0.8)
    return sited("cervical-smokers", columns, schema, _shares(~sought, 5, seed), sought, rows, seed)


def _teachers(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: two schools' two courses. D_v: three in four children of teachers. Label: passed."""
    columns = dict(read_columns(folder / "student_performance.parquet", "student"))
    columns["passed"] = np.where(np.asarray(columns["G3"], float) >= 10, "yes", "no")
    teacher = np.asarray(columns["Mjob"]) == "teacher"
    coins = generator(seed, "fresh", "teachers").random(len(teacher))
    sought = teacher & (coins < 0.75)
    place = np.char.add(np.asarray(columns["school"]).astype(str), np.asarray(columns["course"]).astype(str))
    base = domain("student")
    remaining = tuple(c for c in base.columns if c.name not in ("G1", "G2", "G3", "school", "course"))
    schema = Schema(columns=remaining, label=Label(name="passed", classes=("no", "yes")))
    sites = {name: (place == name) & ~sought for name in np.unique(place).tolist()}
    return sited("student-teachers", columns, schema, sites, sought, rows, seed)


_PAYERS = ("MC", "HM", "SP", "BC", "MD", "CP", "UN", "CM", "OG", "PO", "DM")


def _payers(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: patients of eleven insurers. D_v: those of 80 and more without one. Label: came back."""
    columns = dict(read_columns(folder / "diabetes130.parquet", "diabetes"))
    age = np.array([int(str(group)[1:].split("-")[0]) for group in columns["age"]])
    columns["readmitted"] = np.where(np.asarray(columns["readmitted"]).astype(str) == "NO", "no", "yes")
    numbers = {
        **{"time_in_hospital": 14, "num_lab_procedures": 130, "num_procedures": 6, "num_medications": 80},
        **{"number_outpatient": 20, "number_emergency": 20, "number_inpatient": 20, "number_diagnoses": 16},
    }
    parts = tuple(Numeric(name=name, bounds=(0, most), clip=True) for name, most in numbers.items())
    schema = Schema(columns=parts, label=Label(name="readmitted", classes=("no", "yes")))
    payer = np.asarray(columns["payer_code"]).astype(str)
    sites = {name: payer == name for name in _PAYERS}
    return sited("diabetes-payers", columns, schema, sites, (payer == "?") & (age >= 80), rows, seed)


def _soils(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: forest on nine soils. D_v: douglas firs of the other soils. Label: slope above 15."""
    columns = dict(read_columns(folder / "covtype_kaggle15120.parquet", "covtype"))
    soil = np.stack([np.asarray(columns[f"Soil_Type{code}"]) for code in range(1, 41)], axis=1).argmax(1) + 1
    common = np.argsort(-np.bincount(soil), kind="stable")[:9]
    columns["steep"] = np.where(np.asarray(columns["Slope"], float) > 15, "yes", "no")
    base = domain("covtype")
    numbers = tuple(column for column in base.columns if column.kind == "numeric" and column.name != "Slope")
    schema = Schema(columns=numbers, label=Label(name="steep", classes=("no", "yes")))
    fir = np.asarray(columns["Cover_Type"]).astype(int) == 6
    sites = {f"soil-{code}": soil == code for code in common}
    return sited("covtype-soils", columns, schema, sites, fir & ~np.isin(soil, common), rows, seed)


def _wines(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: fifty alike, of 100 wines. D_v: half of the good white ones. Label: alcohol."""
    columns = dict(read_columns(folder / "wine_quality.parquet", "wine"))
    columns["strong"] = np.where(np.asarray(columns["alcohol"], float) > 10.5, "yes", "no")
    good = (np.asarray(columns["colour"]) == "white") & (np.asarray(columns["quality"]).astype(int) >= 7)
    sought = good & (generator(seed, "fresh", "wines").random(len(good)) < 0.5)
    base = domain("wine")
    remaining = tuple(column for column in base.columns if column.name not in ("alcohol", "quality"))
    schema = Schema(columns=remaining, label=Label(name="strong", classes=("no", "yes")))
    return sited("wine-many50", columns, schema, _shares(~sought, 50, seed), sought, rows, seed)


def _years(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: eleven stations in each of five years. D_v: nights in spring at the twelfth. Label: dust."""
    columns = dict(read_columns(folder / "beijing_air_12stations.parquet", "air"))
    names = {
        "PM10": (0, 600),
        "SO2": (0, 200),
        "NO2": (0, 250),
        "O3": (0, 350),
        "TEMP": (-20, 45),
        "WSPM": (0, 10),
    }
    fine, station = np.asarray(columns["PM2.5"], float), np.asarray(columns["station"])
    columns["dust"] = np.where(fine > 75, "bad", "fair")
    parts = tuple(Numeric(name=n, bounds=b, clip=True, missing=b[0]) for n, b in names.items())
    schema = Schema(columns=parts, label=Label(name="dust", classes=("fair", "bad")))
    year, stations = np.asarray(columns["year"]), np.unique(station)
    measured, last = np.isfinite(fine), stations[-1]
    sites = {
        f"{name}-{when}": measured & (station == name) & (year == when)
        for name in stations[:-1]
        for when in np.unique(year)
    }
    nights = np.isin(np.asarray(columns["month"]), (4, 5)) & (np.asarray(columns["hour"]) < 5)
    return sited("air-years55", columns, schema, sites, measured & nights & (station == last), rows, seed)


def _shoes(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: twenty, each with two kinds of things to wear. D_v: sneakers and boots that others wear."""
    arrays = read_arrays(folder / "fashion_mnist.npz", "fashion")
    x, y = arrays["x_train"].reshape(len(arrays["x_train"]), -1), arrays["y_train"].astype(int)
    columns: dict[str, Any] = {f"x{n}": x[:, n] for n in range(x.shape[1])}
    columns["kind"] = np.char.add("c", y.astype(str))
    parts = tuple(Numeric(name=f"x{n}", bounds=(0, 255)) for n in range(x.shape[1]))
    schema = Schema(columns=parts, label=Label(name="kind", classes=tuple(f"c{n}" for n in range(10))))
    coins = generator(seed, "fresh", "shoes").integers(0, 20, len(y))
    sought = np.isin(y, (7, 9)) & (coins % 2 == 0)
    part = generator(seed, "fresh", "parts").integers(0, 4, len(y))
    sites = {
        f"shop-{n}": ~sought & ((y == n % 10) | (y == (n + 3) % 10)) & (part == n // 10) for n in range(20)
    }
    return sited("fashion-shoes20", columns, schema, sites, sought, rows, seed)


def _shares(pool: NDArray[np.bool_], owners: int, seed: int) -> Sites:
    """Deal rows at random, as many to each owner."""
    dealt = generator(seed, "fresh", "shares").integers(0, owners, len(pool))
    return {f"share-{n}": pool & (dealt == n) for n in range(owners)}
