"""Marginals under secure aggregation beside those of a trusted curator.

Boosted trees are trained on as many rows as were released and scored on real test rows; the two-way error is
the mean total variation of all pairs of columns by 16 bins. `secure`: noisy rounds with the noise of five
owners of whom one may be lost, sqrt(5 / 4) of a trusted curator's where none is. Wine and hearts decided a
constant (docs/decisions/021). Bounds of numbers are round ones; air's label is the daily limit of PM2.5.
"""

from __future__ import annotations

import asyncio
import io
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from audit.in_memory import FreshNoise
from curator.releases.method import make_method
from fedkme.config import Settings
from fedkme.features.binning import Binning
from fedkme.releases.settings import release_settings
from fedkme.tables.files import read_columns, table_from_columns
from fedkme.tables.schema import Schema, schema_from
from fedkme.tables.table import Table
from lab.experiments import marginals
from lab.experiments.curves import CurveValue
from lab.experiments.piece import Piece, data_folder
from sim.evaluation.classifiers import columns
from sim.scenarios.base import domain

FILES = {
    "air": "beijing_air_12stations.parquet",
    "wine": "wine_quality.parquet",
    "hearts": "heart_disease_4hospitals.parquet",
}
Way = Literal["aim", "rounds", "secure"]
MOST = 20_000
"""Rows of a table, drawn by the seed."""
_AIR = {
    "SO2": (0, 500), "NO2": (0, 300), "CO": (0, 10_000), "O3": (0, 450), "WSPM": (0, 14), "TEMP": (-25, 45),
    "PRES": (975, 1045), "DEWP": (-40, 30), "month": (1, 12), "hour": (0, 23),
}  # fmt: skip
_WINDS = ["N", "NNE", "NE", "ENE", "E", "ESE", "SE", "SSE", "S", "SSW", "SW", "WSW", "W", "WNW", "NW", "NNW"]
_HEARTS = {"age": (25, 80), "trestbps": (80, 200), "chol": (0, 600), "thalach": (60, 210), "oldpeak": (-3, 7)}
_CODES = {"sex": 1, "cp": 4, "fbs": 1, "exang": 1, "restecg": 2}
Cells = dict[str, NDArray[Any]]
Read = tuple[list[dict[str, Any]], NDArray[np.bool_], NDArray[np.bool_]]
"""Columns, which rows are positive, and which are whole."""


class SecureEffort(Settings):
    """Number of seeds."""

    seeds: int = 3


class SecurePiece(Piece):
    """One release of one table."""

    data: str
    way: Way
    epsilon: float

    def measure(self) -> Iterator[CurveValue]:
        """Yield CPU seconds of the release and its rows, the two-way error and the AUC of boosted trees."""
        schema, train, test = parts(self.data, self.seed)
        began = time.process_time()
        synthetic = self._made(schema, train)
        cpu = time.process_time() - began
        for panel, value in (("cpu", cpu), *scored(schema, train, test, synthetic, self.seed)):
            yield CurveValue(panel, self.way, f"{self.data} {self.epsilon:g}", self.seed, value)

    def _made(self, schema: Schema, train: Table) -> Table:
        """Rows of a release, as many as it is of."""
        settings = {"kind": "marginals", "epsilon": self.epsilon, "seed": self.seed}
        settings["mechanism"] = "aim" if self.way == "aim" else "rounds"
        method = make_method(release_settings(settings), schema, None, 1)
        ratio = math.sqrt(5 / 4) if self.way == "secure" else 1.0
        release = asyncio.run(method.ask(FreshNoise(train, schema, self.seed, ratio)))
        with np.load(io.BytesIO(method.finish(release, lambda *_: None).files["synthetic.npz"])) as arrays:
            return Table(arrays["x"], arrays["y"])


def pieces(effort: SecureEffort) -> list[SecurePiece]:
    """Pieces: each table, at each epsilon, each way, under every seed."""
    return [
        SecurePiece(data=data, way=way, epsilon=epsilon, seed=seed)
        for seed in range(effort.seeds)
        for data in reversed(FILES)
        for epsilon in (1.0, 0.3)
        for way in ("secure", "rounds", "aim")
    ]


def parts(data: str, seed: int) -> tuple[Schema, Table, Table]:
    """Schema of a table, its rows to release and those to test."""
    schema, table = _table(data)
    order = np.random.default_rng(np.random.SeedSequence([seed, 6])).permutation(len(table))[:MOST]
    test, train = (table.take(part) for part in np.split(order, [len(order) // 5]))
    return schema, train, test


def scored(
    schema: Schema, train: Table, test: Table, synthetic: Table, seed: int
) -> Iterator[tuple[str, float]]:
    """Two-way error of made rows, and AUC of boosted trees that are trained on them."""
    binning = Binning(schema)
    codes = [binning.encode(table, "rows").astype(np.int64) for table in (train, synthetic)]
    yield "two-way", marginals.exact(codes[0], codes[1], 2)
    yield "auc", _auc(synthetic, test, schema, seed)


def _auc(synthetic: Table, test: Table, schema: Schema, seed: int) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    assert synthetic.labels is not None
    if len(np.unique(synthetic.labels)) < 2:
        return 0.5
    trees = HistGradientBoostingClassifier(max_iter=60, random_state=seed)
    trees.fit(columns(synthetic, schema), synthetic.labels)
    return float(roc_auc_score(test.labels, trees.predict_proba(columns(test, schema))[:, 1]))


def _table(name: str) -> tuple[Schema, Table]:
    """Read a table, with a label of two classes."""
    cells = {n: np.asarray(v) for n, v in read_columns(data_folder() / FILES[name], name).items()}
    listed, positive, whole = _READERS[name](cells)
    schema = schema_from({"columns": listed, "label": {"name": "positive", "classes": ["no", "yes"]}})
    shown = {column["name"]: cells[column["name"]][whole] for column in listed}
    shown["positive"] = np.where(positive, "yes", "no")[whole]
    return schema, table_from_columns(shown, schema, name)


def _wine(cells: Cells) -> Read:
    listed = [c.model_dump(mode="json") for c in domain("wine").columns if c.name != "quality"]
    return listed, cells["quality"] >= 6, np.full(len(cells["quality"]), True)


def _air(cells: Cells) -> Read:
    whole = ~np.isnan([cells[n] for n in (*_AIR, "PM2.5")]).any(axis=0) & np.isin(cells["wd"], _WINDS)
    return [*_numbers(_AIR), _category("wd", _WINDS)], cells["PM2.5"] > 75, whole


def _hearts(cells: Cells) -> Read:
    """Missing cells are a category of their own, or the least number."""
    for name, (low, _) in _HEARTS.items():
        cells[name] = np.nan_to_num(cells[name], nan=low)
    for name in _CODES:
        cells[name] = np.nan_to_num(cells[name], nan=-1).astype(int).astype(str)
    named = [_category(name, list(map(str, range(-1, most + 1)))) for name, most in _CODES.items()]
    return [*_numbers(_HEARTS), *named], cells["num"] > 0, np.full(len(cells["num"]), True)


_READERS: Mapping[str, Callable[[Cells], Read]] = {"air": _air, "wine": _wine, "hearts": _hearts}


def _numbers(bounds: Mapping[str, tuple[float, float]]) -> list[dict[str, Any]]:
    return [{"name": n, "kind": "numeric", "bounds": both, "clip": True} for n, both in bounds.items()]


def _category(name: str, levels: list[str]) -> dict[str, Any]:
    return {"name": name, "kind": "category", "categories": levels}
