"""Margins of D_v, picked one by one, and the density by which owners' rows resemble D_v.

There is a public model of the pool: synthetic rows of a release that all owners' rows paid for. D_v picks the
column in which it is farthest from the model and releases a noisy margin of it; the model is tilted to all
margins so far, and D_v picks the next column by the tilted model. So a column that says the same again has no
score. The density of the tilted model over the pool, f(x) = product of one factor for each picked column, is
public. Owners weigh their rows by f and tell how many rows like D_v they have.

**D_v** (replace one row, m public). With counts h of a column and its law P by the tilted model, the score
is |h - m P|_1 / 2. A replaced row moves h by 2 in L1 at most, so all scores by 1: with the exponential
mechanism at exp(epsilon_s / 2 score) a pick's loss lies in an interval of length epsilon_s (`BoundedRange`).
A margin is a histogram: one row moves it by sqrt 2 in L2, and Gaussian noise of deviation s is a Gaussian of
multiplier s / sqrt 2. P is a function of the model and of earlier margins, so k picks and k margins compose
adaptively; `rules_for` finds the least s by the product's accountant.

**Owners** (replace one row, sizes public). The release is a Gaussian of mu_1. An owner's mass is the sum of
w(x) = min(1, f(x) / r) over its rows, for public f and r > 0. A replaced row moves it by 1 at most, as w is
in [0, 1] for any f that a peer names, so noise of deviation t is a Gaussian of multiplier t. An owner's row
is behind one mass: both together are a Gaussian of mu^2 = mu_1^2 + 1 / t^2.

**Shrinkage.** The released margin t is replaced by P + s (t - P), s = max(0, 1 - DOUBT B V / |t - P|^2) for B
bins with noise of variance V: what noise explains of the distance is left to the model.

**Uniform rows.** Let D be the divergence of the tilted model from the model, in nats: exp(-D) is about the
share of the pool that is like D_v. Where D is at most NEAR, D_v is near the pool, and a density from noisy
margins leaves out rows that D_v has. There a share exp(-D) of the density, at most HALF, is uniform. D is a
function of the public model and of released margins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray, IntArray
from fedkme.embeddings.weight_fit import project_to_simplex
from fedkme.privacy.accountants.sound import Sound
from fedkme.privacy.events import BoundedRange, Event, Gaussian
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.privacy.noise import SimulatedNoise, choose
from fedkme.tables.schema import Category, Schema
from fedkme.tables.table import Table

PICKS, PICK = 4, 0.1
"""Number of picked columns, and epsilon of a pick."""
RELEASE = 0.8
"""Epsilon of the release of the pool at the delta of both, of 1 in all."""
NAMES = 10
"""Most bins of a column of names: the most frequent ones and the rest."""
EDGES = (0.03, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97)
"""Shares of the pool below the edges of a number's bins: a target is often in a tail."""
DOUBT = 2.0
"""Distances of a margin that are due to noise, which are taken out of it."""
MOST_DENSITY = 20.0
"""Largest density over the model's mean: no single row stands for many of D_v."""
NEAR, HALF = 2.0, 0.5
"""Largest divergence of D_v from the pool at which some rows are uniform, and their largest share."""
CYCLES = 15
_STEP, _FACTOR = 20.0, 1e3
_EMPTY = 1e-9


@dataclass(frozen=True, slots=True)
class MarginRules:
    """Public parameters of D_v's part.

    Attributes:
        picks: k.
        pick: epsilon_s.
        deviation: s, of the noise on each count of a margin.
    """

    picks: int
    pick: float
    deviation: float

    @property
    def events(self) -> list[Event]:
        """Events of all picks and margins."""
        return [
            *[BoundedRange(self.pick)] * self.picks,
            *[Gaussian(self.deviation / math.sqrt(2.0))] * self.picks,
        ]


def rules_for(epsilon: float, delta: float, picks: int = PICKS, pick: float = PICK) -> MarginRules:
    """Find the least noise at which picks and margins together are (epsilon, delta)-DP."""
    low = math.sqrt(2.0 * picks) * gaussian_sigma(epsilon, delta)
    high = 4.0 * low
    while high - low > 1e-3 * low:
        middle = 0.5 * (low + high)
        cost = Sound().epsilon(MarginRules(picks, pick, middle).events, delta).epsilon
        low, high = (low, middle) if cost <= epsilon else (middle, high)
    return MarginRules(picks, pick, high)


def mass_deviation(epsilon: float, delta: float, release: float = RELEASE) -> float:
    """Deviation of the noise on an owner's mass beside a release of this epsilon, both within epsilon."""
    whole, part = gaussian_sigma(epsilon, delta), gaussian_sigma(release * epsilon, delta)
    return float((whole**-2 - part**-2) ** -0.5)


class ColumnBins:
    """Coarse bins of every column and of the label, by the rows of the public model."""

    def __init__(self, schema: Schema, model: Table, labelled: bool) -> None:
        self._places: list[IntArray | FloatArray] = []
        self.sizes: list[int] = []
        self._classes = len(schema.classes) if labelled else 0
        for values, column in zip(model.values.T, schema.columns, strict=True):
            if isinstance(column, Category):
                often = np.argsort(
                    -np.bincount(values.astype(int), minlength=len(column.categories)), kind="stable"
                )
                ranks = np.empty(len(often), np.int64)
                ranks[often] = np.arange(len(often))
                self._places.append(np.minimum(ranks, NAMES - 1))
                self.sizes.append(min(len(often), NAMES))
            else:
                edges = np.unique(np.quantile(values, EDGES))
                self._places.append(edges.astype(np.float64))
                self.sizes.append(len(edges) + 1)
        self._names = [isinstance(column, Category) for column in schema.columns]
        if self._classes:
            self.sizes.append(self._classes)

    def codes(self, table: Table) -> IntArray:
        """Bins of rows, (m, c) int64."""
        codes = [
            places[values.astype(int)] if names else np.searchsorted(places, values)
            for values, places, names in zip(table.values.T, self._places, self._names, strict=True)
        ]
        if self._classes:
            assert table.labels is not None, "rows of all parties have labels"
            codes.append(table.labels)
        return np.stack(codes, axis=1).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Tilt:
    """Public density f of D_v over the pool.

    Attributes:
        columns: picked columns.
        factors: factor of each bin of these columns.
        most: bound of f.
        reference: r: half of the tilted model's mass is where f exceeds it.
        uniform: share of the rows that follow the pool.
        level: density of these rows, added to f: this share of f's mean over the model.
    """

    columns: Sequence[int]
    factors: Sequence[FloatArray]
    most: float
    reference: float
    uniform: float = 0.0
    level: float = 0.0

    def density(self, codes: IntArray) -> FloatArray:
        """Density f of rows by their codes, (m,)."""
        density = np.ones(len(codes))
        for column, factors in zip(self.columns, self.factors, strict=True):
            density *= factors[codes[:, column]]
        return np.minimum(density, self.most)

    def weights(self, codes: IntArray) -> FloatArray:
        """Weights by which owners pick rows, (m,): the density and the uniform level."""
        return self.density(codes) + self.level

    def mass(self, codes: IntArray) -> float:
        """Sum of w over rows: about how many rows like D_v there are."""
        return float(np.minimum(1.0, self.density(codes) / self.reference).sum())


def picked_margins(
    model: IntArray, sizes: Sequence[int], target: IntArray, rules: MarginRules, noise: SimulatedNoise
) -> Tilt:
    """Pick columns by D_v, release their margins and tilt the model to them.

    Args:
        model: codes of the public model's rows, (n, c).
        sizes: bins of every column.
        target: codes of D_v, (m, c).
        rules: noise of picks and margins.
        noise: source of D_v's noise.
    """
    m, n = len(target), len(model)
    counts = [np.bincount(target[:, c], minlength=size).astype(np.float64) for c, size in enumerate(sizes)]
    margins, factors = dict[int, FloatArray](), [np.ones(size) for size in sizes]
    law = np.full(n, 1.0 / n)
    for _ in range(min(rules.picks, len(sizes))):
        laws = [np.bincount(model[:, c], law, size).astype(np.float64) for c, size in enumerate(sizes)]
        scores = np.array([0.5 * np.abs(h - m * p).sum() for h, p in zip(counts, laws, strict=True)])
        free = np.setdiff1d(np.arange(len(sizes)), list(margins))
        pick = int(free[choose(rules.pick * scores[free] / 2.0, float(noise.uniform(1)[0]), noise)])
        seen = (counts[pick] + noise.gaussian(rules.deviation, sizes[pick])) / m
        margins[pick] = _shrunk(seen, laws[pick], rules.deviation / m)
        law = _raked(model, margins, factors)
    picks = list(margins)
    density = _density(model, picks, factors)
    most = MOST_DENSITY * float(density.mean())
    ordered = np.sort(np.minimum(density, most))
    half = int(np.searchsorted(np.cumsum(ordered), 0.5 * ordered.sum()))
    uniform = uniform_share(ordered)
    level = uniform * float(ordered.mean())
    return Tilt(picks, [factors[c] for c in picks], most, float(ordered[half]), uniform, level)


def uniform_share(density: FloatArray) -> float:
    """Share of rows to draw uniformly, by the public density of the model's rows."""
    relative = density / max(float(density.mean()), _EMPTY)
    divergence = float(np.mean(relative * np.log(np.maximum(relative, _EMPTY))))
    return min(HALF, math.exp(-divergence)) if divergence <= NEAR else 0.0


def _shrunk(seen: FloatArray, law: FloatArray, deviation: float) -> FloatArray:
    """Margin without what noise explains of its distance from the model's law."""
    distance = float(np.square(seen - law).sum())
    trust = max(0.0, 1.0 - DOUBT * len(seen) * deviation**2 / max(distance, _EMPTY))
    return project_to_simplex(law + trust * (seen - law), 1.0)


def _raked(model: IntArray, margins: dict[int, FloatArray], factors: list[FloatArray]) -> FloatArray:
    """Rake the model to all margins in turn; updates the factors and returns the tilted law, (n,)."""
    law = _law(model, list(margins), factors)
    for _ in range(CYCLES):
        for column, margin in margins.items():
            now = np.bincount(model[:, column], law, len(margin))
            step = np.where(now > _EMPTY, margin / np.maximum(now, _EMPTY), 1.0)
            step = np.clip(step, 1.0 / _STEP, _STEP)
            factors[column] = np.clip(factors[column] * step, 1.0 / _FACTOR, _FACTOR)
            law = _law(model, list(margins), factors)
    return law


def _law(model: IntArray, columns: Sequence[int], factors: Sequence[FloatArray]) -> FloatArray:
    density = _density(model, columns, factors)
    bounded = np.minimum(density, MOST_DENSITY * density.mean())
    law: FloatArray = bounded / bounded.sum()
    return law


def _density(codes: IntArray, columns: Sequence[int], factors: Sequence[FloatArray]) -> FloatArray:
    density = np.ones(len(codes))
    for column in columns:
        density *= factors[column][codes[:, column]]
    return density
