"""Layouts of the table of summaries by cells: images in four of them, and data with real sites.

Layouts of images: `group`, each owner has the paper's groups of classes; `mixed`, each owner has classes in
proportions from Dirichlet(.5). Sites: four hospitals; speakers of ISOLET, whose fifth group looks for the
letters that rhyme with E; 19 areas of the American Community Survey, and a twentieth that looks for people
like its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from fedkme.tables.files import read_arrays
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table
from lab.experiments.cells_draw import SEEDS, Build, ExperimentDraw, draw_of, labels_of
from lab.experiments.cells_tables import tables
from sim.scenarios.base import Scenario, generator, random_rows
from sim.scenarios.hospitals import Hospitals
from sim.scenarios.images import Digits, Mnist
from sim.scenarios.states import read_acs

ROWS = 12_000
"""Training images of MNIST and Fashion that owners share out."""
_E_SET = "BCDEGPTVZ"
_AREA = "29-01901"


def layouts() -> Mapping[str, Build]:
    """All layouts by name."""
    images: dict[str, Build] = {
        f"{data}-{kind}{owners}": partial(_images, data, kind, owners)
        for data in ("mnist", "fashion", "digits")
        for kind in ("group", "mixed")
        for owners in (5, 50)
    }
    return {**images, "isolet": _isolet, "acs": _acs, "hospitals": _hospitals, **tables()}


def _images(
    data: str, kind: str, owners: int, folder: Path, rows: int, seed: int, pool: int = ROWS
) -> ExperimentDraw:
    if data == "digits":
        config = Digits(copies=10, owners=owners, validation_fraction=0.25)
        scenario = config.build(seed)
    else:
        file = folder / ("mnist.npz" if data == "mnist" else "fashion_mnist.npz")
        total = 1443 if data == "mnist" else 1429  # target rows of the test part in the ratio 70/30
        settings = Mnist(path=file, rows=pool, owners=owners, validation_fraction=rows / total)
        scenario = settings.build(seed)
    if kind == "mixed":
        scenario = _mixed(scenario, seed)
    return draw_of(f"{data}-{kind}{owners}", scenario, 0.0103 if data == "mnist" else None)


def mixed_images(folder: Path, rows: int, seed: int, pool: int) -> ExperimentDraw:
    """MNIST's mixed layout of fifty owners with another number of rows in all."""
    return _images("mnist", "mixed", 50, folder, rows, seed, pool)


def _mixed(scenario: Scenario, seed: int) -> Scenario:
    """Deal rows again: even shares, each of classes in proportions from Dirichlet(.5)."""
    rng = generator(seed, "cells", "mixed")
    values = np.concatenate([table.values for table in scenario.owners.values()])
    labels = np.concatenate([labels_of(table) for table in scenario.owners.values()])
    pools = [list(rng.permutation(np.flatnonzero(labels == c))) for c in range(10)]
    owners: dict[str, Table] = {}
    share = len(labels) // len(scenario.owners)
    for name in scenario.owners:
        wish = rng.dirichlet(np.full(10, 0.5))
        chosen: list[int] = []
        while len(chosen) < share:
            remaining = np.array([len(pool) for pool in pools])
            chance = np.where(remaining > 0, wish + 1e-9, 0.0)
            counts = rng.multinomial(share - len(chosen), chance / chance.sum())
            for pool, count in zip(pools, np.minimum(counts, remaining).tolist(), strict=True):
                chosen += [int(pool.pop()) for _ in range(count)]
        rows = np.sort(np.array(chosen))
        owners[name] = Table(values[rows], labels[rows])
    return Scenario(
        scenario.name, scenario.schema, owners, scenario.validation, scenario.test, scenario.seeds
    )


def _hospitals(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """D_v is half of the Hungarian hospital's patients but for those it owns; `rows` is not used."""
    file = folder / "heart_disease_4hospitals.parquet"
    config = Hospitals(path=file, validation_fraction=0.5, test_fraction=0.25)
    return draw_of("hospitals", config.build(seed), None)


def _isolet(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: speakers of groups 1 to 4, all letters. D_v and test: letters of the E set, group 5."""
    arrays = read_arrays(folder / "isolet.npz", "isolet")
    letters = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    x = next(array for array in arrays.values() if array.ndim == 2)
    y, site = arrays["y"].astype(np.int64) - 1, arrays["site"]
    schema = Schema(
        columns=(Numeric(name="feature", bounds=(-1, 1), count=x.shape[1], clip=True),),
        label=Label(name="letter", classes=letters),
    )
    wanted = np.isin(y, [letters.index(letter) for letter in _E_SET])
    rng = generator(seed, "cells", "isolet")
    looked_for = rng.permutation(np.flatnonzero((site == 5) & wanted))
    rows = min(rows, len(looked_for) // 2)
    public = rng.permutation(np.flatnonzero((site == 5) & ~wanted))[:SEEDS]
    parts = {f"speakers-{s}": Table(x[site == s], y[site == s]) for s in (1, 2, 3, 4)}
    held, scored = looked_for[:rows], looked_for[rows:]
    scenario = Scenario(
        "isolet", schema, parts, Table(x[held], y[held]), Table(x[scored], y[scored]), Table(x[public])
    )
    return draw_of("isolet", scenario, None)


def _acs(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Owners: 19 areas. D_v and test: the twentieth. Label: personal income in the upper half of deciles."""
    people, area, schema = read_acs(folder / "acs_national2019_sdnist.parquet")
    own = generator(seed, "cells", "acs").permutation(np.flatnonzero(area == _AREA))
    rows = min(rows, len(own) // 2)
    parts = {name: people.take(area == name) for name in sorted(set(area.tolist())) if name != _AREA}
    held, scored = people.take(own[:rows]), people.take(own[rows:])
    seeds = random_rows(schema, SEEDS, generator(seed, "cells", "acs", "seeds"))
    return draw_of("acs", Scenario("acs", schema, parts, held, scored, seeds), None)
