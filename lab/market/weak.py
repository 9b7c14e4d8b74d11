"""Layouts on which summaries by cells were weak, by whole runs of the product over several draws of noise.

`python -m lab.market.weak OUT LAYOUT:SEED:NOISES[:BOOK] ...`: a line of JSON for each run, and a table of the
layouts, also of those of `lab.market.layouts`: MMD^2 to held-back rows over that of exact greedy's equal
weights, by geometric mean and worst draw.
Settings are the product's defaults, with its own gamma (`domain`), rho 2 and epsilon 1. Layouts:

| kind      | D_v                                                                            |
|-----------|--------------------------------------------------------------------------------|
| threshold | rows beyond a threshold on a number of two humps; eight owners alike           |
| images    | images of two classes; owners of groups of classes; no row has a label         |
| small     | sixty owners of 40 to 80 rows; |D_v| 60                                        |
| absent    | thirty-five sites, each with a kind of rows; D_v is of a further kind          |
| thirty    | |D_v| 30, on layouts of `lab.market.layouts`                                   |
| named     | rows of one, or of some, of the rarer names of a column of sixteen or more     |

Layouts of `CHOSEN` were in sight when constants were set. The others only show what the constants give.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.embeddings.kernels import domain_gamma
from fedkme.ops.threads import one_thread
from fedkme.tables.files import read_columns
from fedkme.tables.schema import Category, Label, Numeric, Schema
from lab.experiments.cells_data import layouts as experiments
from lab.experiments.cells_draw import Build, ExperimentDraw
from lab.experiments.cells_tables import sited
from lab.experiments.piece import data_folder
from lab.market.layouts import layouts, small
from lab.market.pool import PooledRows, SummaryQuestion
from lab.market.product import product
from lab.market.rivals import exact_greedy
from sim.scenarios.adult import public_schema
from sim.scenarios.base import domain, generator
from sim.scenarios.stand_ins import invented_columns

P = 100
OWNERS = 8
HELD = 0.5
"""Share of the sought rows that no owner has."""
SITES = 35
CHOSEN = ("humps-upper", "humps-between", "wine-sulphur", "mnist-bare5", "small-acs", "absent-wards")


@dataclass(frozen=True, slots=True)
class WeakLine:
    """One run: errors on held-back rows over exact greedy's, and what D_v picked."""

    layout: str
    seed: int
    noise: int
    validation: int
    greedy: float
    ours: float
    seconds: float
    book: str = "auto"


@dataclass(frozen=True, slots=True)
class HumpsTable:
    """A made table of which one number has two humps.

    Attributes:
        name: name of the layout.
        threshold: rows above it are sought.
        upper: share of rows in the upper hump.
        numbers: further numbers.
        names: categories of each column of names.
        lean: how much the other columns follow the number.
        labelled: whether rows have labels.
    """

    name: str
    threshold: float
    upper: float = 0.5
    numbers: int = 3
    names: tuple[int, ...] = (2, 4, 7)
    lean: float = 0.2
    labelled: bool = True


HUMPS = (
    HumpsTable("humps-upper", 0.80),
    HumpsTable("humps-between", 0.50),
    HumpsTable("humps-top", 0.86),
    HumpsTable("humps-hill", 0.68),
    HumpsTable("humps-plain", 0.80, names=()),
    HumpsTable("humps-few", 0.75, upper=0.1),
    HumpsTable("humps-most", 0.80, upper=0.85),
    HumpsTable("humps-wide", 0.80, numbers=12, names=(), lean=0.0),
    HumpsTable("humps-leaning", 0.80, numbers=6, lean=0.5),
    HumpsTable("humps-pair", 0.80, numbers=1, names=(), lean=0.0),
    HumpsTable("humps-rare", 0.6, upper=0.03),
    HumpsTable("humps-named", 0.8, names=(10, 10, 10, 5), lean=0.5),
    HumpsTable("humps-bare", 0.8, labelled=False),
    HumpsTable("humps-projected", 0.8, numbers=6, names=(40, 40, 40, 20)),
    HumpsTable("humps-many", 0.8, numbers=40, names=(60, 40, 3)),
    HumpsTable("humps-numbers", 0.8, numbers=60, names=(), labelled=False),
)


def weak_layouts() -> Mapping[str, tuple[Build, int]]:
    """Layouts by name, each with its |D_v|."""
    usual = layouts()
    return {
        **{made.name: (partial(_humps, made), 250) for made in HUMPS},
        "wine-sulphur": (partial(_wine, "wine-sulphur", "total_sulfur_dioxide", 180.0), 250),
        "wine-strong": (partial(_wine, "wine-strong", "alcohol", 12.3), 250),
        "air-damp": (partial(_air, "air-damp", "DEWP", 18.0), 250),
        "air-warm": (partial(_air, "air-warm", "TEMP", 22.0), 250),
        "covtype-low": (partial(_covtype, "covtype-low", 2300.0), 250),
        "mnist-bare5": (partial(_images, "mnist-group5"), 250),
        "mnist-bare50": (partial(_images, "mnist-mixed50"), 250),
        "fashion-bare5": (partial(_images, "fashion-mixed5"), 250),
        "fashion-bare50": (partial(_images, "fashion-mixed50"), 250),
        "digits-bare5": (partial(_images, "digits-mixed5"), 250),
        "digits-bare50": (partial(_images, "digits-mixed50"), 250),
        "small-acs": (partial(_small, "acs"), 60),
        "small-jobs": (partial(_small, "adult-jobs"), 60),
        "small-covtype": (partial(_small, "covtype-areas"), 60),
        "absent-wards": (_wards, 250),
        "absent-lands": (_lands, 250),
        "absent-kinds": (_kinds, 250),
        "named-lands": (partial(_named, "native-country", ("Philippines", "Germany", "India")), 250),
        "named-work": (partial(_named, "occupation", ("Protective-serv",)), 250),
        "named-towns": (partial(_towns, 48, (5, 17, 30)), 250),
        "named-invented": (_invented, 250),
        **{f"thirty-{name}": (usual[name], 30) for name in ("acs", "adult-codes", "air-winter", "isolet")},
    }


def _dealt(
    name: str,
    columns: Mapping[str, Any],
    schema: Schema,
    sought: NDArray[np.bool_],
    rows: int,
    seed: int,
    pool: int | None = None,
) -> ExperimentDraw:
    """Eight owners that look alike, with rows that are not held for D_v of the `pool` rows drawn first."""
    rng = generator(seed, "weak", name)
    used = np.zeros(len(sought), np.bool_)
    used[rng.permutation(len(sought))[:pool]] = True
    held = sought & (rng.random(len(sought)) < HELD)
    owner = rng.integers(0, OWNERS, len(sought))
    sites = {f"share-{n}": used & ~held & (owner == n) for n in range(OWNERS)}
    return sited(name, columns, schema, sites, held, rows, seed)


def _humps(made: HumpsTable, folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """A made table: a number with two humps, numbers and names that lean on it a little, and a label."""
    rng, n = generator(seed, "weak", "humps"), 24_000
    upper = rng.random(n) < made.upper
    level = np.where(upper, rng.normal(0.72, 0.07, n), rng.normal(0.28, 0.07, n))
    columns: dict[str, Any] = {"level": level}
    for place in range(made.numbers):
        columns[f"x{place}"] = made.lean * level + (1 - made.lean) * rng.beta(2 + place % 3, 3, n)
    for place, width in enumerate(made.names):
        lean = rng.random(n) < made.lean
        near = np.clip(level * width, 0, width - 1).astype(int)
        columns[f"name{place}"] = np.where(lean, near, rng.integers(0, width, n)).astype(str)
    wish = columns["x0"] + 0.3 * level + rng.normal(0, 0.1, n)
    columns["label"] = np.where(wish > np.median(wish), "yes", "no")
    numbers = [name for name in columns if name == "level" or name.startswith("x")]
    parts = (
        *(Numeric(name=each, bounds=(0, 1), clip=True) for each in numbers),
        *(
            Category(name=f"name{at}", categories=tuple(map(str, range(w))))
            for at, w in enumerate(made.names)
        ),
    )
    schema = Schema(columns=parts, label=Label(name="label", classes=("no", "yes")))
    draw = _dealt(made.name, columns, schema, level > made.threshold, rows, seed)
    return draw if made.labelled else _bare(draw)


def _wine(name: str, column: str, threshold: float, folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Red and white wines, whose sulphur has two humps. Label: grade."""
    columns = dict(read_columns(folder / "wine_quality.parquet", "wine"))
    columns["grade"] = np.where(np.asarray(columns["quality"]) > 5, "high", "low")
    base = domain("wine")
    remaining = tuple(each for each in base.columns if each.name != "quality")
    schema = Schema(columns=remaining, label=Label(name="grade", classes=("low", "high")))
    return _dealt(name, columns, schema, np.asarray(columns[column], float) > threshold, rows, seed)


def _air(name: str, column: str, threshold: float, folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Hours of a city with a monsoon, whose dew point has two humps. Label: dust."""
    columns = dict(read_columns(folder / "beijing_air_12stations.parquet", "air"))
    fine = np.asarray(columns["PM2.5"], float)
    columns["dust"] = np.where(fine > 75, "bad", "fair")
    bounds = {"PM10": (0, 600), "SO2": (0, 200), "NO2": (0, 250), "O3": (0, 350), "WSPM": (0, 10)}
    bounds |= {"TEMP": (-20, 45), "PRES": (980, 1050), "DEWP": (-40, 30)}
    parts = tuple(Numeric(name=n, bounds=b, clip=True, missing=b[0]) for n, b in bounds.items())
    schema = Schema(columns=parts, label=Label(name="dust", classes=("fair", "bad")))
    places = np.flatnonzero(np.isfinite(fine))
    columns = {each: np.asarray(columns[each])[places] for each in (*bounds, "dust")}
    return _dealt(name, columns, schema, np.asarray(columns[column], float) > threshold, rows, seed, 24_000)


def _covtype(name: str, threshold: float, folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Forest below a height; heights have three humps. Label: cover type."""
    columns = _forest(folder)
    schema = domain("covtype").model_copy(update={"ignore": ()})
    return _dealt(name, columns, schema, np.asarray(columns["Elevation"]) < threshold, rows, seed)


def _named(column: str, names: tuple[str, ...], folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """People of some names of a column of adult. Label: income."""
    columns = dict(read_columns(folder / "adult_raw.parquet", "adult"))
    schema = public_schema().model_copy(update={"ignore": ()})
    sought = np.isin(np.char.strip(np.asarray(columns[column]).astype(str)), names)
    return _dealt(f"named-{column}", columns, schema, sought, rows, seed)


def _invented(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Stand-in of adult, whose sixteen names of education are about equally frequent; D_v is of one."""
    schema = public_schema()
    columns = invented_columns(schema, {"": 12_000})
    return _dealt(
        "named-invented", columns, schema, np.asarray(columns["education"]) == "Masters", rows, seed
    )


def _towns(count: int, sought: tuple[int, ...], folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """A made table: equally frequent towns, which numbers and the label follow; D_v is of three."""
    rng, n = generator(seed, "weak", "towns"), 24_000
    town = rng.integers(0, count, n)
    factors = rng.normal(size=(count, 3))[town] + rng.normal(size=(n, 3))
    values = 0.5 + 0.12 * (factors @ rng.normal(size=(3, 5)))
    columns: dict[str, Any] = {f"x{place}": column for place, column in enumerate(values.T)}
    columns["town"] = town.astype(str)
    columns["label"] = np.where(factors[:, 0] + rng.normal(size=n) > 0, "yes", "no")
    numbers = (Numeric(name=f"x{place}", bounds=(-1, 2), clip=True) for place in range(5))
    parts = (*numbers, Category(name="town", categories=tuple(map(str, range(count)))))
    schema = Schema(columns=parts, label=Label(name="label", classes=("no", "yes")))
    return _dealt("named-towns", columns, schema, np.isin(town, sought), rows, seed)


def _forest(folder: Path) -> dict[str, Any]:
    columns: dict[str, Any] = dict(read_columns(folder / "covtype_kaggle15120.parquet", "covtype"))
    for kind, count in (("Soil_Type", 40), ("Wilderness_Area", 4)):
        parts = [np.asarray(columns[f"{kind}{code}"]) for code in range(1, count + 1)]
        columns[kind] = np.stack(parts, axis=1).argmax(axis=1) + 1
    return columns


def _images(base: str, folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """A layout of images without labels."""
    return _bare(experiments()[base](folder, rows, seed))


def _bare(draw: ExperimentDraw) -> ExperimentDraw:
    """Take the labels of all parties away."""
    scenario = draw.scenario
    schema = scenario.schema.model_copy(update={"label": None})
    owners = {name: replace(table, labels=None) for name, table in scenario.owners.items()}
    validation = replace(scenario.validation, labels=None)
    bare = replace(scenario, schema=schema, owners=owners, validation=validation)
    return replace(draw, schema=schema, validation_labels=None, scenario=bare)


def _small(base: str, folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Sixty owners of 40 to 80 neighbouring rows of a layout."""
    return small(layouts()[base](folder, rows, seed), f"small-{base}", 60, seed, mixed=False, span=(40, 80))


def _wards(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: wards of hospitals. D_v: children, of whom no ward of the others is. Label: came back."""
    columns: dict[str, Any] = dict(read_columns(folder / "diabetes130.parquet", "diabetes"))
    columns["age"] = [int(str(age)[1:].split("-")[0]) + 5 for age in columns["age"]]
    columns["readmitted"] = ["no" if str(when) == "NO" else "yes" for when in columns["readmitted"]]
    most = {"age": 100, "time_in_hospital": 14, "num_lab_procedures": 130, "num_procedures": 6}
    most |= {"num_medications": 80, "number_inpatient": 20, "number_diagnoses": 16}
    doses = ("No", "Steady", "Up", "Down")
    parts = (
        *(Numeric(name=name, bounds=(0, top), clip=True) for name, top in most.items()),
        Category(name="gender", categories=("Female", "Male", "Unknown/Invalid")),
        *(Category(name=drug, categories=doses) for drug in ("metformin", "glipizide", "insulin")),
    )
    schema = Schema(columns=parts, label=Label(name="readmitted", classes=("no", "yes")))
    ward = np.asarray(columns["medical_specialty"]).astype(str)
    return _sites("absent-wards", columns, schema, ward, "ObstetricsandGynecology", rows, seed)


def _lands(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: people born in a country each, without the column. D_v: Mexicans. Label: income."""
    columns = dict(read_columns(folder / "adult_raw.parquet", "adult"))
    base = domain("adult")
    remaining = tuple(column for column in base.columns if column.name != "native-country")
    schema = base.model_copy(update={"columns": remaining, "ignore": ()})
    return _sites(
        "absent-lands",
        columns,
        schema,
        np.asarray(columns["native-country"]).astype(str),
        "Mexico",
        rows,
        seed,
    )


def _kinds(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """A made table of thirty-six kinds of rows; D_v is of the last kind, near some others."""
    rng, columns = generator(seed, "weak", "kinds"), dict[str, Any]()
    kind = rng.integers(0, SITES + 1, 24_000)
    factors = rng.normal(size=(SITES + 1, 4))
    loads = rng.normal(size=(4, 12))
    values = (factors[kind] + 0.5 * rng.normal(size=(len(kind), 4))) @ loads / 3.0
    values += 0.3 * rng.normal(size=values.shape)
    for place in range(12):
        columns[f"x{place}"] = values[:, place]
    columns["label"] = np.where(values[:, 0] + values[:, 1] > 0, "yes", "no")
    parts = tuple(Numeric(name=f"x{place}", bounds=(-6, 6), clip=True) for place in range(12))
    schema = Schema(columns=parts, label=Label(name="label", classes=("no", "yes")))
    return _sites("absent-kinds", columns, schema, kind.astype(str), str(SITES), rows, seed)


def _sites(
    name: str,
    columns: Mapping[str, Any],
    schema: Schema,
    site: NDArray[np.str_],
    sought: str,
    rows: int,
    seed: int,
) -> ExperimentDraw:
    """The thirty-five largest sites but the sought one."""
    names, counts = np.unique(site, return_counts=True)
    largest = [each for each in names[np.argsort(-counts, kind="stable")].tolist() if each != sought][:SITES]
    sites = {f"site-{n:02}": site == each for n, each in enumerate(largest)}
    return sited(name, columns, schema, sites, site == sought, rows, seed)


def all_layouts() -> Mapping[str, tuple[Build, int]]:
    """Builds of all layouts with |D_v|, by name."""
    return {name: (each, 250) for name, each in layouts().items()} | {**weak_layouts()}


def measured(layout: str, seed: int, noises: Iterable[int], book: str = "auto") -> list[WeakLine]:
    """Run the product on a draw of a layout under several draws of its noise, with a kind of code book."""
    build, rows = all_layouts()[layout]
    draw = build(data_folder(), rows, seed)
    draw = replace(draw, gamma=domain_gamma(draw.schema.mean_squared_distance))
    market, lines = PooledRows(draw), list[WeakLine]()
    greedy = exact_greedy(market, SummaryQuestion(P, 2.0, 1.0, seed))["exact greedy"]
    base = draw.to_test.mmd2(greedy.rows, greedy.weights)
    for noise in noises:
        started = time.perf_counter()
        question = SummaryQuestion(P, 2.0, 1.0, 1000 * seed + noise)
        ours = product(market, question, book=book)["ours + weights"]
        error = draw.to_test.mmd2(ours.rows, ours.weights) / base
        seconds = time.perf_counter() - started
        lines.append(WeakLine(layout, seed, noise, len(draw.validation), base, error, seconds, book))
    return lines


def table(lines: Sequence[WeakLine]) -> str:
    """Markdown, one line a layout."""
    rows = ["| layout | runs | geometric mean | worst |", "|---|---|---|---|"]
    for name, book in dict.fromkeys((line.layout, line.book) for line in lines):
        errors = [line.ours for line in lines if (line.layout, line.book) == (name, book)]
        if errors:
            mean = math.exp(float(np.mean(np.log(errors))))
            rows.append(f"| {name}, {book} | {len(errors)} | {mean:.2f} | {max(errors):.2f} |")
    return "\n".join(rows) + "\n"


def main(words: Sequence[str]) -> None:
    """Measure LAYOUT:SEED:NOISES[:BOOK] ..., append lines of JSON to the first file; print its table."""
    file, pieces = Path(words[0]), words[1:]
    for piece in pieces:
        layout, seed, noises, *book = piece.split(":")
        with one_thread():
            lines = measured(layout, int(seed), range(int(noises)), *book)
        with file.open("a", encoding="utf-8") as out:
            out.writelines(json.dumps(asdict(line)) + "\n" for line in lines)
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    sys.stdout.write(table([WeakLine(**json.loads(line)) for line in text.splitlines()]))


if __name__ == "__main__":
    main(sys.argv[1:])
