"""Quality of a release by the owners' rows, which only a simulation sees, and of a summary by D_v.

A deployment has no such figures: utility on private rows would be one more disclosure. Its card gives the
distance of the rows to the released numbers, which reads no owner's row.
"""

import importlib.util
import json
import math
from collections.abc import Sequence
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumer.results import EVALUATION, SUMMARY, place_of
from consumer.summary.forms import REPEATS, WEIGHTED
from fedkme.embeddings.weighted_points import WeightedPoints, distance_to_rows
from fedkme.features.domain import Domain
from fedkme.inputs import read_bytes
from fedkme.tables.cells import date_of
from fedkme.tables.files import read_arrays
from fedkme.tables.numbers import Numeric
from fedkme.tables.schema import Category, Schema
from fedkme.tables.table import Table, table_from_arrays
from fedkme.verdict import GRADES

MOST_ROWS = 20_000
"""Most rows of a table that are evaluated: its first rows."""
_BLOCK_ROWS = 2_000
IMAGE_SIDES = {64: 8, 784: 28}
"""Width of a table -> side of the square image that its rows are."""
SHOWN = 6
"""Number of columns with shares by value."""
_FORMS = {"weighted": WEIGHTED, "alike": SUMMARY, "repeats": REPEATS}
"""Files of a summary's forms, the one that is advised first among equally good ones first."""
_DRAWS = 10
"""Number of draws of fresh rows whose distances are averaged."""


def can_train() -> bool:
    """Check for scikit-learn, which trains the models; without it there are no figures of models."""
    return importlib.util.find_spec("sklearn") is not None


def evaluate_rows(synthetic: Table, real: Table, test: Table, schema: Schema, seed: int) -> dict[str, Any]:
    """Evaluate synthetic rows.

    Args:
        synthetic: the synthetic rows.
        real: all owners' rows.
        test: held-back rows; may be empty.
        schema: schema of all three tables.
        seed: seed of the models.

    Returns:
        `columns`: mean and largest distance of a column's distribution from the real distribution (total
        variation for categories, Kolmogorov's distance for numbers), and each column's distance `by_name`.
        `pairs`: total variation of the tables of two columns, in the same form, numbers in eight bins.
        `real_halves` and `real_halves_pairs`: the same distances between two halves of the real rows.
        `means`: distance of each number's mean, in standard deviations of the real rows, in the same form.
        `shares`: shares of rows by value, for the label and the columns with the largest distances. With
        labels, `noise_of_auc`: deviation of an AUC at chance, by the number of test rows; and
        `trained_on_synthetic` and `trained_on_real`: of models trained on these rows, `roc` and `prc` by
        predicted classes, as in the papers, and with two classes `auc` by scores; `boosted`: the same of
        boosted trees, unless they would take minutes.
    """
    synthetic, real = _cut(synthetic), _as_seen(_cut(real), schema)
    results = compare_columns(synthetic, real, schema)
    if len(test) and test.labels is not None and synthetic.labels is not None and can_train():
        from sim.evaluation import classifiers

        results["noise_of_auc"] = _noise_of_auc(test.labels[:MOST_ROWS])
        for name, rows in (("synthetic", synthetic), ("real", real)):
            scores = classifiers.evaluate(rows, _cut(test), schema, classifiers.quick_models(), seed)
            average = classifiers.mean(scores)
            boosted = classifiers.boosted_score(rows, _cut(test), schema, seed)
            figures = {"auc": average.auc, "roc": average.roc, "prc": average.prc, "boosted": boosted}
            results[f"trained_on_{name}"] = {key: x for key, x in figures.items() if math.isfinite(x)}
    return results


def compare_columns(rows: Table, real: Table, schema: Schema, fresh: int | None = None) -> dict[str, Any]:
    """Compare rows with real ones by column and by pair of columns, as `evaluate_rows` says.

    Args:
        rows: the rows to compare.
        real: real rows.
        schema: schema of both.
        fresh: in place of two halves of the real rows, the yardstick is the distance of so many of them,
            drawn at random, from the others, on average over some draws; at most half of them.
    """
    draws = _draws(real, fresh)
    distances = column_distances(rows, real, schema)
    columns = np.mean([column_distances(a, b, schema) for a, b in draws], axis=0)
    pairs = [pair_distances(a, b, real, schema) for a, b in draws]
    means = _mean_distances(rows, real, schema)
    return {
        "columns": {"mean": float(distances.mean()), "largest": float(distances.max())}
        | {"by_name": _by_name(schema, distances)},
        "real_halves": {"mean": float(columns.mean()), "by_name": _by_name(schema, columns)},
        "pairs": _summarised(pair_distances(rows, real, real, schema)),
        "real_halves_pairs": _summarised({k: float(np.mean([each[k] for each in pairs])) for k in pairs[0]}),
        "shares": shares(rows, real, schema, np.argsort(-distances, kind="stable")[:SHOWN]),
        **({"means": _summarised(means)} if means else {}),
    }


def compare_with_validation(folder: Path, validation: Table, schema: Schema) -> dict[str, Any]:
    """Compare a received summary with D_v; nothing for images, whose columns are pixels.

    The rows are those of the form that the verdict advises, `form`, with their weights; the yardstick is that
    of the verdict, as many fresh rows of D_v as the summary has, `fresh`.

    Args:
        folder: the consumer's folder, which has the rows.
        validation: D_v.
        schema: schema of both.
    """
    form = _advised_form(folder)
    if form is None or not len(validation) or schema.width in IMAGE_SIDES:
        return {}
    arrays, alike = (read_arrays(place_of(folder, name), "consumer") for name in (_FORMS[form], SUMMARY))
    rows, seen = table_from_arrays(arrays["x"], arrays.get("y")), _as_seen(_cut(validation), schema)
    if not len(rows):
        return {}
    if (weights := arrays.get("w")) is not None:  # as often among MOST_ROWS rows as the weights say
        ends = np.rint(np.cumsum(weights) / weights.sum() * MOST_ROWS).astype(np.int64)
        rows = rows.take(np.repeat(np.arange(len(rows)), np.diff(ends, prepend=0)))
    fresh = min(len(alike["x"]), max(len(seen) // 2, 1))
    return {"form": form, "fresh": fresh} | compare_columns(rows, seen, schema, fresh)


def _advised_form(folder: Path) -> str | None:
    """Name of the form of a summary that the consumer's verdict advises; None without rows."""
    grades: dict[str, str] = {}
    if (evaluation := place_of(folder, EVALUATION)).exists():
        grades = (json.loads(read_bytes(evaluation)).get("verdict") or {}).get("grades") or {}
    there = [form for form, name in _FORMS.items() if place_of(folder, name).exists()]
    if not place_of(folder, SUMMARY).exists():
        return None
    return min(there, key=lambda form: GRADES.index(grades[form]) if form in grades else len(GRADES))


def evaluate_points(points: WeightedPoints, gamma: float, real: NDArray[np.float64]) -> dict[str, Any]:
    """Evaluate weighted points by their RKHS distance from the mean embedding of the real rows.

    Args:
        points: (M, n) in the units of gamma, with weights.
        gamma: gamma of the kernel.
        real: all owners' rows in the same units, (N, n).
    """
    return {
        "rkhs_distance": distance_to_rows(points, real[:MOST_ROWS], gamma),
        "weights_l1": points.l1,
        "points": len(points),
    }


def column_distances(left: Table, right: Table, schema: Schema) -> NDArray[np.float64]:
    """Distance between two tables' distributions of each of the c columns, 0 to 1, (c,)."""
    distances = []
    for place, (_, column) in enumerate(_named(schema)):
        a, b = left.values[:, place], right.values[:, place]
        if isinstance(column, Category):
            levels = len(column.categories)
            parts = [np.bincount(x.astype(np.int64), minlength=levels) / len(x) for x in (a, b)]
            distances.append(0.5 * float(np.abs(parts[0] - parts[1]).sum()))
        else:
            distances.append(_kolmogorov(a, b))
    return np.array(distances)


def _mean_distances(left: Table, right: Table, schema: Schema) -> dict[str, float]:
    """Distance between two tables' means of each number, in standard deviations among the right rows."""
    off = dict[str, float]()
    for place, (name, column) in enumerate(_named(schema)):
        if isinstance(column, Numeric):
            a, b = (x[np.isfinite(x)] for x in (left.values[:, place], right.values[:, place]))
            if not len(a) or not len(b):
                continue  # all are missing
            spread = max(float(b.std()), _LEAST_SPREAD * (column.limits[1] - column.limits[0]))
            off[name] = abs(float(a.mean() - b.mean())) / max(spread, 1e-300)
    return off


def _named(schema: Schema) -> list[tuple[str, Numeric | Category]]:
    """Name and column of each place in a row."""
    return [(name, column) for column in schema.columns for name in column.names]


def _kolmogorov(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """The largest difference of two empirical distribution functions."""
    places = np.union1d(a, b)
    left = np.searchsorted(np.sort(a), places, side="right") / len(a)
    right = np.searchsorted(np.sort(b), places, side="right") / len(b)
    return float(np.abs(left - right).max())


_LEAST_SPREAD = 1e-3
"""Least standard deviation of a number that its mean is compared with, over the column's range."""
MOST_PAIRED = 30
"""Columns whose pairs are compared, evenly spaced; the label is one more."""


def pair_distances(left: Table, right: Table, real: Table, schema: Schema) -> dict[str, float]:
    """Total variation between two tables' joint distributions of each two columns, by both names.

    Args:
        left: one table.
        right: the other table.
        real: rows whose quantiles are the edges of numbers' bins.
        schema: schema of all three.
    """
    names = _named(schema)
    places = np.unique(np.linspace(0, len(names) - 1, MOST_PAIRED).round().astype(np.int64))
    coded: list[tuple[str, int, NDArray[np.int64], NDArray[np.int64]]] = []
    for place in places.tolist():
        name, column = names[place]
        a, b = left.values[:, place], right.values[:, place]
        if isinstance(column, Category):
            coded.append((name, len(column.categories), a.astype(np.int64), b.astype(np.int64)))
        else:
            edges = np.unique(np.quantile(real.values[:, place], np.arange(1, BINS) / BINS))
            coded.append((name, len(edges) + 1, np.searchsorted(edges, a), np.searchsorted(edges, b)))
    if schema.label is not None and left.labels is not None and right.labels is not None:
        coded.append((schema.label.name, len(schema.label.classes), left.labels, right.labels))
    return {
        f"{name} x {other}": 0.5 * float(np.abs(_shares_of(a, c, cells) - _shares_of(b, d, cells)).sum())
        for (name, one, a, b), (other, two, c, d) in combinations(coded, 2)
        for cells in [(one, two)]
    }


def _shares_of(
    first: NDArray[np.int64], second: NDArray[np.int64], cells: tuple[int, int]
) -> NDArray[np.float64]:
    return np.bincount(first * cells[1] + second, minlength=cells[0] * cells[1]) / len(first)


def _summarised(by_name: dict[str, float]) -> dict[str, Any]:
    values = list(by_name.values())
    return {"mean": float(np.mean(values)), "largest": max(values), "by_name": by_name} if values else {}


def _draws(real: Table, fresh: int | None) -> list[tuple[Table, Table]]:
    """Pairs of disjoint parts of the real rows, the yardstick of distances: two halves, or random draws."""
    size = min(len(real) // 2 if fresh is None else fresh, len(real) // 2)
    if not size:
        return [(real, real)]
    draws = np.random.default_rng(0)
    orders = [draws.permutation(len(real)) for _ in range(1 if fresh is None else _DRAWS)]
    return [(real.take(order[:size]), real.take(order[size:])) for order in orders]


def _noise_of_auc(labels: NDArray[np.int64]) -> float:
    """Deviation of an AUC at chance: of the rarest class against the rest (Mann and Whitney)."""
    counts = np.bincount(labels)
    rarest = int(counts[counts > 0].min())
    rest = len(labels) - rarest
    return math.sqrt((len(labels) + 1) / (12 * rarest * rest)) if rest else 0.5


def _by_name(schema: Schema, distances: NDArray[np.float64]) -> dict[str, float]:
    return {name: far for (name, _), far in zip(_named(schema), distances.tolist(), strict=True)}


def _as_seen(table: Table, schema: Schema) -> Table:
    """Replace missing values by the schema's public values, as all releases see rows."""
    space = Domain(schema)
    blocks = np.array_split(table.values, len(table) // _BLOCK_ROWS + 1)  # model space is wide
    seen = np.concatenate([schema.decode(space.encode(block)) for block in blocks])
    # Present values stay exactly: scaling to and fro would break ties with synthetic rows.
    return Table(np.where(np.isclose(table.values, seen), table.values, seen), table.labels)


def _cut(table: Table) -> Table:
    return table.take(np.arange(min(len(table), MOST_ROWS)))


MOST_VALUES = 10
"""Most bars of a category; the values that are rarest among real rows share the last bar."""
BINS = 8
"""Bins of a numeric column."""


def shares(synthetic: Table, real: Table, schema: Schema, chosen: NDArray[np.intp]) -> list[dict[str, Any]]:
    """Shares by value of the label, if both tables have labels, and of some columns.

    Args:
        synthetic: the synthetic rows, at least one.
        real: all owners' rows, at least one.
        schema: schema of both.
        chosen: positions of columns, in order.

    Returns:
        For each column: `name`, `values` as text, and the shares of `synthetic` and `real` rows by value.
    """
    entries = []
    if schema.label is not None and synthetic.labels is not None and real.labels is not None:
        entries.append(_of_levels(schema.label.name, schema.label.classes, synthetic.labels, real.labels))
    for position in chosen.tolist():
        name, column = _named(schema)[position]
        ours, held = synthetic.values[:, position], real.values[:, position]
        if isinstance(column, Category):
            entries.append(_of_levels(name, column.categories, ours, held))
        else:
            entries.append(_of_numbers(column, name, ours, held))
    return entries


def _of_levels(
    name: str, levels: Sequence[str], synthetic: NDArray[Any], real: NDArray[Any]
) -> dict[str, Any]:
    counts = [np.bincount(x.astype(np.int64), minlength=len(levels)) / len(x) for x in (synthetic, real)]
    if len(levels) <= MOST_VALUES:
        return _entry(name, levels, *counts)
    order = np.argsort(-counts[1], kind="stable")
    frequent, rest = np.sort(order[: MOST_VALUES - 1]), order[MOST_VALUES - 1 :]
    shown = [np.append(count[frequent], count[rest].sum()) for count in counts]
    return _entry(name, [*(levels[at] for at in frequent), f"{len(rest)} others"], *shown)


def _of_numbers(column: Numeric, name: str, synthetic: NDArray[Any], real: NDArray[Any]) -> dict[str, Any]:
    """Shares in equal intervals between the 1st and the 99th percentile of real rows; the outer are open.

    Intervals of dates and of whole numbers begin at a date or a whole number.
    """
    whole, dated = column.integer or column.kind == "date", column.kind == "date"
    text = date_of if dated else partial(_number, whole)
    low, high = (float(edge) for edge in np.percentile(real, (1, 99)))
    if low == high:
        low, high = float(real.min()), float(real.max())
    if low == high:
        sides = [np.array([np.mean(x < low), np.mean(x == low), np.mean(x > low)]) for x in (synthetic, real)]
        return _entry(name, [f"< {text(low)}", text(low), f"> {text(low)}"], *sides)
    inner = np.linspace(low, high, BINS + 1)[1:-1]
    if whole:
        inner = np.unique(np.ceil(inner))
    bins = len(inner) + 1
    counts = [
        np.bincount(np.searchsorted(inner, x, "right"), minlength=bins) / len(x) for x in (synthetic, real)
    ]
    middle = [f"from {text(a)}" if dated else f"{text(a)} to {text(b)}" for a, b in pairwise(inner)]
    return _entry(name, [f"< {text(inner[0])}", *middle, f"≥ {text(inner[-1])}"], *counts)


def _number(whole: bool, value: float) -> str:
    return f"{value:,.0f}" if whole or abs(value) >= 1000 else f"{value:.4g}"


def _entry(
    name: str, values: Sequence[str], synthetic: NDArray[np.float64], real: NDArray[np.float64]
) -> dict[str, Any]:
    return {"name": name, "values": list(values), "synthetic": synthetic.tolist(), "real": real.tolist()}
