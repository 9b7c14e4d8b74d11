"""Layer 1: adversarial neighbours against the declared bound. Exact, no chance of a false alarm.

A mechanism is run on both neighbours with scripted noise. The change by a row is measured in units of the
noise that the mechanism asks for. A sensitivity or scale that is too small, and a mean divided by the wrong
number, all show as too many units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from audit.attacks.finding import CheckResult, Effort
from audit.attacks.scripted import ScriptedNoise
from fedkme.arrays import FloatArray
from fedkme.errors import DataError
from fedkme.features.fixed_point import FEATURE_UNIT
from fedkme.features.fourier import RandomFourier
from fedkme.privacy.means import MeanRelease
from fedkme.privacy.noise import NoiseSource
from fedkme.tables.schema import Schema

Batches = Sequence[FloatArray]
"""Rows in the batches in which they were added, (k, d) each."""
MakeMean = Callable[[int, NoiseSource], MeanRelease]
"""A fresh mechanism for d coordinates."""

_SLACK = 1.0 + 1e-9  # rounding of the search itself
_MOST_UNITS = 1e6


def feature_norm(h1: RandomFourier, width: int, effort: Effort) -> CheckResult:
    """No row, however odd, has features longer than the bound behind every sensitivity."""
    random = np.random.default_rng([effort.seed, 1])
    rows = np.concatenate(
        [
            np.zeros((1, width)),
            random.integers(0, 2, (effort.trials(2000), width)).astype(np.float64),  # corners
            random.random((effort.trials(2000), width)),
            1e3 * random.normal(size=(effort.trials(500), width)),  # what no schema admits
        ]
    )
    for _ in range(6):  # climb from the longest
        longest = rows[np.argsort(_norms(h1, rows))[-20:]]
        rows = np.concatenate([longest, np.repeat(longest, 50, 0) + random.normal(0, 0.2, (1000, width))])
    norm = float(_norms(h1, rows).max())
    violated = norm > h1.norm_bound * (1.0 + 1e-12)
    return CheckResult("sensitivity", "largest norm of h1 in fixed point", violated, h1.norm_bound, norm)


def _norms(h1: RandomFourier, rows: FloatArray) -> FloatArray:
    features = h1.fixed_point(rows).astype(np.float64)
    return np.asarray(FEATURE_UNIT * np.linalg.norm(features, axis=1) * math.sqrt(2.0 / features.shape[1]))


def gaussian_units(make: MakeMean, norm_bound: float, multiplier: float, effort: Effort) -> CheckResult:
    """L2 distance of two neighbours' releases, in standard deviations of the noise, at most 1/multiplier."""
    dimension, worst = 16, 0.0
    length = norm_bound * math.sqrt(dimension / 2.0)
    for first, second in neighbours(dimension, length, effort):
        base, moved = (_release(make, dimension, batches, 0.0) for batches in (first, second))
        unit = _release(make, dimension, first, 1.0) - base
        change = np.abs(moved - base)
        if np.any((unit == 0) & (change > 1e-12)):
            worst = math.inf
        else:
            worst = max(worst, float(np.linalg.norm(change / np.where(unit == 0, 1.0, unit))))
    violated = worst > _SLACK * (1 + 1e-4) / multiplier  # rows are cut to steps of 2^-14
    return CheckResult(
        "sensitivity", "change of a release in deviations of its noise", violated, 1 / multiplier, worst
    )


def laplace_units(make: MakeMean, cost: float, effort: Effort) -> CheckResult:
    """The change of a value that h2 measures, in scales of its Laplace noise: its pure epsilon."""
    worst = 0.0
    for first, second in neighbours(1, 1.0, effort):
        base, moved = (float(_release(make, 1, batches, 0.0)[0]) for batches in (first, second))
        if base == moved:
            continue

        def gap(units: float, data: Batches = first, aim: float = moved) -> float:
            return float(_release(make, 1, data, units)[0]) - aim

        # The release grows with the noise, so exactly one amount of it makes one world look like the other.
        low = high = 0.0
        while gap(low) > 0 and low > -_MOST_UNITS:
            low = 4.0 * low - 1.0
        while gap(high) < 0 and high < _MOST_UNITS:
            high = 4.0 * high + 1.0
        units = brentq(gap, low, high, xtol=1e-12, rtol=1e-12) if gap(low) <= 0 <= gap(high) else math.inf
        worst = max(worst, abs(float(units)))
    violated = worst > cost * (1 + 1e-6)
    return CheckResult(
        "sensitivity", "change of a measured value in scales of its noise", violated, cost, worst
    )


def selection_loss(make: MakeMean, cost: float, effort: Effort) -> CheckResult:
    """The log ratio of the probabilities with which two neighbours select a coordinate."""
    worst = 0.0
    for first, second in [*_selection_pairs(), *neighbours(12, math.sqrt(12.0), effort, corners=True)]:
        first_chance, second_chance = (_first_selected(make, batches) for batches in (first, second))
        worst = max(
            worst,
            abs(math.log(first_chance / second_chance)) if min(first_chance, second_chance) > 0 else math.inf,
        )
    violated = worst > cost * (1 + 1e-6)
    return CheckResult("sensitivity", "log ratio of selecting the first coordinate", violated, cost, worst)


def _selection_pairs() -> Iterator[tuple[Batches, Batches]]:
    """Neighbours with one negated row: one coordinate's error rises by 2, all others fall by 2."""
    row, ones = -np.ones((1, 12)), np.ones((1, 12))
    row[0, 0] = 1.0
    yield [np.concatenate([row, ones])], [np.concatenate([row, -ones])]


def _first_selected(make: MakeMean, batches: Batches) -> float:
    """Probability that coordinate 0, first in the order of coins, is the one that moves."""
    low, high = 0.0, 1.0
    for _ in range(45):
        coin = 0.5 * (low + high)
        mechanism = make(batches[0].shape[1], ScriptedNoise(units=0.37, coin=coin))
        for rows in batches:
            mechanism.add(rows)
        low, high = (coin, high) if mechanism.release()[0] != 0 else (low, coin)
    return low


def neighbours(
    dimension: int, length: float, effort: Effort, *, corners: bool = False
) -> Iterator[tuple[Batches, Batches]]:
    """Pairs of data sets that differ in one row; rows have the greatest norm, batches different sizes."""
    random = np.random.default_rng([effort.seed, 2])

    def row() -> FloatArray:
        direction = random.normal(size=dimension)
        if corners or random.random() < 0.5:
            direction = np.sign(direction)
        scaled = direction * length / np.linalg.norm(direction)
        return np.asarray(np.clip(scaled / max(1.0, float(np.abs(scaled).max())), -1, 1))

    for trial in range(effort.trials(20)):
        x = row()
        others = [x, -x, np.zeros(dimension) if not corners else -x, row()][trial % 4]  # repeated rows too
        rest = np.tile(others, (trial % 5, 1))
        split = trial % (len(rest) + 1)
        batches = [part for part in (rest[:split], rest[split:]) if len(part)]
        yield [x[np.newaxis], *batches], [-x[np.newaxis], *batches]


def _release(make: MakeMean, dimension: int, batches: Batches, units: float) -> FloatArray:
    mechanism = make(dimension, ScriptedNoise(units))
    for rows in batches:
        mechanism.add(rows)
    return mechanism.release()


def empty_release(make: MakeMean, effort: Effort) -> CheckResult:
    """Check that the release of an empty set is zero for any noise."""
    largest = float(np.abs(_release(make, 12, [], 1.0)).max())
    return CheckResult("sensitivity", "release of an empty set", largest > 0, 0.0, largest, power=None)


def encoding(schema: Schema, rows: NDArray[Any], effort: Effort) -> CheckResult:
    """The code of a row depends on the row alone, lies in [0, 1], and categories are equally far apart.

    Args:
        schema: schema of the rows.
        rows: (m, 1) category indices and 1 numeric column, (m, 2).
        effort: unused, the check is exact.
    """
    whole, worst = schema.encode(rows), 0.0
    for k in range(1, len(rows) + 1):
        code = schema.encode(rows[:k])
        same = code.shape[1] == whole.shape[1] and np.array_equal(code, whole[:k])
        worst = worst if same else math.inf
    if np.any((whole < 0) | (whole > 1)):
        worst = math.inf
    like = [np.array([[category, 0.0]]) for category in np.unique(rows[:, 0])]
    codes = schema.encode(np.concatenate(like)).astype(np.float64)
    distances = [np.linalg.norm(a - b) for i, a in enumerate(codes) for b in codes[:i]]
    worst = max(worst, float(np.abs(np.array(distances) - 1.0).max()) if distances else 0.0)
    what = "a row's code depends on others, leaves [0, 1], or ranks categories"
    return CheckResult("sensitivity", what, worst > 1e-6, 0.0, worst, power=None)


def refusal(
    check: Callable[[NDArray[Any]], None], odd: Sequence[NDArray[Any]], effort: Effort
) -> CheckResult:
    """Rows outside the public domain are refused: unknown codes, NaN, infinity, out of range."""
    taken = 0
    for rows in odd:
        try:
            check(rows)
        except DataError:
            continue
        taken += 1
    return CheckResult(
        "sensitivity", "rows outside the public domain let in", taken > 0, 0.0, float(taken), power=None
    )
