"""Means from released sums of features: a projection on the features, with the exact law of the noise.

Let phi be the released features and y = mean of phi over the rows + noise of covariance Sigma. Everything
but the rows is public. For a function h and any w, k

    mean h = k + w . mean phi + mean r,    r = h - k - w . phi,

so k + w . y estimates mean h with noise N(0, w' Sigma w) and bias - mean r. w is a ridge regression of h on
phi over rows of the public domain (`PublicRows`); its penalty is the one that gives the shortest interval.
Neither private rows nor noise enter either choice, so both are constants and the law is exact. k has no
noise, as N is public.

**Bias.** All private rows may lie where r is largest. So mean r is bounded by the least and the most value of
r over test rows of the domain, which the regression has not seen; more of them lie where h may jump. This is
no proof: rows between the test rows may have a larger r. Where r may span more than half of the range of h,
the release does not give the mean of h.

Moments clip far rows, and with many columns nearly all rows of the domain. There, for a function without
jumps, |mean r| is assumed to be at most twice the mean of |r| over the domain, and the answer states the
assumption. Features by class have a column for each class, so h may depend on the label, too.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedkme.answers.evidence import Law, ScoredPair, Spread, outside, rows_together
from fedkme.answers.functions import Function, columns_of, combined, tests_of, values_of
from fedkme.answers.intervals import Between, DoubtfulBound, ReleasedFigure, critical
from fedkme.answers.ridge import (
    RIDGES,
    Basis,
    RegressedFunction,
    RidgePath,
    best_mean,
    estimates,
    regressed,
    ridge_path,
    surest_path,
    within,
)
from fedkme.arrays import FloatArray
from fedkme.errors import ConfigError
from fedkme.features.domain import Domain
from fedkme.features.maps import MapSpec
from fedkme.features.sums import Layout, ReleasedEmbedding
from fedkme.releases.file import StoredRelease
from fedkme.releases.max_entropy import max_entropy_weights
from fedkme.tables.schema import Category, Numeric, Schema
from fedkme.tables.table import Table

IntArray = NDArray[np.intp]
MOST_FEATURES = 2500
"""Most features in a regression: of more, constants, and those that vary most over the domain over their
noise."""
_OUTSIDE = 0.5
"""Largest part of a function's range over the domain that the features may miss."""
_ASSUMPTION = "; assumes that few rows are so far out that the moments clip them"
_OUT = "not in the span of what was released"
_TAILS = 4.0
"""Factor on the sampling variance of a variance or a correlation where the release does not give it.

It is the ratio of that of a law with exponential tails to that of a normal law: 8 against 2 sigma^4."""
_LEAST_SIGMA, _LEAST_ERROR, _NOTHING = 1e-9, 1e-3, 1e-12
_TEST_ROWS, _AT_EDGES, _MOST_REGRESSIONS = 1000, 300, 16
_BLOCK = 200
_EVEN, _LOW, _HIGH = 0.6, 0.15, 0.05
"""Parts of the values of a number that are spread evenly, at the lower bound, and at the upper bound. The
other values are near the lower bound, as those of skewed columns are."""
_NEAR, _NEAREST = 0.5, 0.02  # part of the rows that move towards a centre; least factor on their distance


@dataclass(frozen=True, eq=False, slots=True)
class PublicRows:
    """Rows as in a table of the schema, (k, c), and their columns by name."""

    table: FloatArray
    values: Mapping[str, FloatArray]


def public_rows(schema: Schema, count: int, stream: int, centre: FloatArray | None = None) -> PublicRows:
    """Draw rows from the domain, each column by itself; equal arguments give equal rows.

    The numbers of half of the rows move towards `centre`, (n,) in model space, by factors of all scales:
    private rows often lie close together, where features that clip far rows have other values than elsewhere.
    """
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([0xA5, stream])))
    scales = np.random.Generator(np.random.Philox(np.random.SeedSequence([0xA6, stream])))
    reach = np.where(scales.random(count) < _NEAR, _NEAREST ** scales.random(count), 1.0)
    drawn: list[FloatArray] = []
    start = 0
    for column in schema.columns:
        for at in range(start, start + column.count):
            if isinstance(column, Category):
                drawn.append(rng.integers(0, len(column.categories), count).astype(np.float64))
                continue
            kind, place = rng.random(count), rng.random(count)
            place = np.where(kind < _EVEN, place, place**3)
            place = np.where((kind >= _EVEN) & (kind < _EVEN + _LOW), 0.0, place)
            place = np.where((kind >= _EVEN + _LOW) & (kind < _EVEN + _LOW + _HIGH), 1.0, place)
            if centre is not None:
                place = np.clip(centre[at] + reach * (place - centre[at]), 0.0, 1.0)
            values = column.rounded(column.axis.value(place))
            if column.atoms:
                level = rng.integers(0, len(column.atoms) + 1, count)
                values = np.where(level, np.array([0.0, *column.atoms])[level], values)
            drawn.append(values)
        start += column.encoded_width
    table = np.column_stack(drawn)
    return PublicRows(table, values_of(Table(table), schema))


@dataclass(frozen=True, eq=False, slots=True)
class _Regression:
    """Regressions of a function, and its values at the test rows.

    Attributes:
        values: values of the function at the test rows, (L, C).
        path: regressions, one for each penalty.
    """

    values: FloatArray
    path: RidgePath


class SumEvidence:
    """`Evidence` from a release of embeddings."""

    def __init__(self, release: StoredRelease) -> None:
        self._release = release
        self._maps = [each.map_spec.make(release.schema) for each in release.embeddings]
        self._centre = next((phi.centre for phi in self._maps if phi.centre is not None), None)
        self._classes = release.embeddings[0].layout.columns
        self._tests: dict[
            tuple[tuple[str, ...], int], tuple[RegressedFunction, FloatArray, float, float]
        ] = {}
        self._regressions: dict[tuple[Function, frozenset[tuple[str, float]]], _Regression] = {}
        self._products: dict[tuple[Function, Function], tuple[Function, Function, Function]] = {}
        self._guesses: dict[tuple[Function, Function], float] = {}
        self._at_edges: tuple[frozenset[tuple[str, float]], PublicRows, FloatArray] | None = None
        self._features = min(sum(phi.dimension for phi in self._maps), MOST_FEATURES)

    def with_release(self, release: StoredRelease) -> SumEvidence:
        """Evidence from another release with the same maps and noise, which reuses the regressions.

        Raises:
            ConfigError: the other release has different maps or different noise.
        """
        if [_public(each) for each in release.embeddings] != [_public(e) for e in self._release.embeddings]:
            raise ConfigError("a release has other features or other noise", "Read that release by itself.")
        evidence = copy.copy(self)
        evidence._release = release
        evidence.__dict__.pop("_released", None)
        evidence._guesses, evidence._products = {}, {}
        return evidence

    @property
    def schema(self) -> Schema:
        """Schema of the rows."""
        return self._release.schema

    @property
    def rows(self) -> int:
        """N, public."""
        return self._release.rows

    @property
    def method(self) -> str:
        """Way in which answers are computed."""
        return f"projection on {self._features} released features"

    @property
    def together(self) -> int:
        """Largest number of rows of one person, or of one group."""
        return rows_together(self.schema, self._release.settings)

    def law(self, functions: Sequence[Function], coefficients: Sequence[float]) -> Law:
        """Estimate means of functions; see `Evidence.law`."""
        label, count = self.schema.label, len(functions)
        if label is not None and self._classes == 1 and any(label.name in f.columns for f in functions):
            return outside(count, f"{_OUT}: '{label.name}', the label, was left out")
        cuts = frozenset((name, each) for f in functions for name, own in f.cuts.items() for each in own)
        regressions = [self._regression(function, cuts) for function in functions]
        weights = np.array(coefficients)
        values = np.tensordot(weights, np.array([each.values for each in regressions]), 1)
        least, most = float(values.min()), float(values.max())
        reach = max(-least, most)
        if most - least <= _NOTHING * max(reach, 1e-300):  # a constant
            same = ReleasedFigure(float(values.mean()))
            means = np.array([float(each.values.mean()) for each in regressions])
            return Law(means, np.zeros((count, count)), Between(same, same, same, ReleasedFigure(0.0)), reach)
        missed = np.tensordot(weights, np.array([each.path.missed for each in regressions]), 1)
        flat = np.array([each.path.weights.reshape(len(RIDGES), -1) for each in regressions])
        noise = np.linalg.norm(np.tensordot(weights, flat, 1), axis=1)
        below, above = missed.min(axis=(1, 2)), missed.max(axis=(1, 2))
        ridge, assumption = int((critical(0.0) * noise + (above - below) / 2.0).argmin()), ""
        if self._centre is not None and not cuts and above[ridge] - below[ridge] > _OUTSIDE * (most - least):
            typical = 2.0 * np.abs(missed).mean(axis=(1, 2))
            ridge, assumption = int((critical(0.0) * noise + typical).argmin()), _ASSUMPTION
            above, below = typical, -typical
        gap = float(above[ridge] - below[ridge])
        if gap > _OUTSIDE * (most - least):
            part = min(gap / (most - least), 1.0)
            why = f"{_OUT}: its features miss {part:.0%} of what the question varies by"
            return replace(outside(count, why), reach=reach)
        means = np.array([estimates(each.path, self._released)[ridge] for each in regressions])
        value, deviation = float(weights @ means), float(noise[ridge])
        low, middle, high = (
            ReleasedFigure(value + away, deviation)
            for away in (float(below[ridge]), 0.0, float(above[ridge]))
        )
        own = flat[:, ridge]
        return Law(
            means, own @ own.T, Between(middle, low, high, ReleasedFigure(gap)), reach, assumption=assumption
        )

    def untold(self, functions: Sequence[Function]) -> str:
        """Reason why the release does not give means of functions; empty: it does."""
        return self.law(functions, [1.0] * len(functions)).reason

    def scored(self, one: str, two: str) -> ScoredPair | None:
        """No products of scores are in sums of features."""
        return None

    def spread(self, functions: tuple[Function, Function], coefficients: tuple[float, float]) -> Spread:
        """Mean square of a combination; see `Evidence.spread`.

        Where the release does not give the mean square, it is assumed to be that of the law of most entropy,
        times a factor for the tails. The coefficients of the first call stand for all later ones.
        """
        if functions not in self._products:
            one, other = functions
            self._products = {functions: (one.square, one * other, other.square)}
            self._guesses = {}
        a, b = coefficients
        law = self.law(self._products[functions], (a * a, 2.0 * a * b, b * b))
        if law.reason:
            if functions not in self._guesses:
                square = combined(coefficients, functions).square
                self._guesses[functions] = max(_TAILS * self._guess(square), 0.0)
            value = min(self._guesses[functions], law.reach)
            return Spread(value, DoubtfulBound(value), measured=False)
        most, middle = law.whole.most.most(), law.whole.middle.estimate
        bound = DoubtfulBound(min(max(most.value, 0.0), law.reach), most.doubt)
        return Spread(max(middle, 0.0), bound, measured=True)

    def _regression(self, function: Function, cuts: frozenset[tuple[str, float]]) -> _Regression:
        """Regressions of a function on the features, with test rows where the question may jump."""
        if (function, cuts) not in self._regressions:
            if len(self._regressions) >= _MOST_REGRESSIONS:
                self._regressions.clear()
            table, at = self._edges(cuts)
            values = np.concatenate([self._values(function, self._test_rows), self._values(function, table)])
            target = regressed(self._values(function, self._public), values, self._basis)
            path = ridge_path(target, replace(self._basis, test=at))
            self._regressions[function, cuts] = _Regression(values, path)
        return self._regressions[function, cuts]

    def _edges(self, cuts: frozenset[tuple[str, float]]) -> tuple[PublicRows, FloatArray]:
        """Test rows next to the values where functions may jump, and turned features of all test rows."""
        if self._at_edges is None or self._at_edges[0] != cuts:
            rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([0xA7])))
            table = self._test_rows.table[: _AT_EDGES if cuts else 0].copy()
            for name in sorted({name for name, _ in cuts}):
                column, at = columns_of(self.schema)[name], self.schema.names.index(name)
                assert isinstance(column, Numeric)
                step = 1.0 if column.integer else (column.limits[1] - column.limits[0]) * 1e-9
                own = sorted(each for other, each in cuts if other == name)
                places = np.array([each + way * step for each in own for way in (-1.0, 0.0, 1.0)])
                # between the bounds and an atom beyond them no row can be
                places = np.where(np.isin(places, column.singles), places, np.clip(places, *column.bounds))
                places = np.array(column.values) if column.values else places
                drawn = places[rng.integers(0, len(places), len(table))]
                table[:, at] = np.where(rng.random(len(table)) < 0.75, drawn, table[:, at])
            rows = PublicRows(table, values_of(Table(table), self.schema))
            more = self._features_of(rows) @ self._basis.turn if cuts else self._basis.test[:0]
            self._at_edges = cuts, rows, np.concatenate([self._basis.test, more])
        return self._at_edges[1:]

    def _guess(self, function: Function) -> float:
        """Mean of a function by the law of most entropy of its columns.

        That law matches what the release gives of the means, squares and products of the columns, and of the
        function itself, each up to its noise and the error of its regression. So a function that the features
        miss gets its mean from the others, and a function that is never below 0 has no mean below 0.
        """
        names = sorted(function.columns)
        columns = columns_of(self.schema)
        tests = tests_of([columns[name] for name in names], names)
        constraints = [self._constraint(test, (tuple(names), place)) for place, test in enumerate(tests)]
        own = self._target(function)
        constraints.append((own.fitted, *best_mean(own, self._basis, self._released)))
        at = np.column_stack([fitted.ravel() for fitted, _, _ in constraints])
        middle, scale = at.mean(axis=0), np.maximum(at.std(axis=0), _NOTHING)
        means, errors = (np.array(each) for each in zip(*(part[1:] for part in constraints), strict=True))
        weights = max_entropy_weights(
            (at - middle) / scale, (means - middle) / scale, np.maximum(errors / scale, _LEAST_ERROR)
        )
        return float(weights @ at[:, -1])

    def _constraint(
        self, test: Function, key: tuple[tuple[str, ...], int]
    ) -> tuple[FloatArray, float, float]:
        """Values of a function at public rows, its mean by the release, and the error of that mean.

        Everything but the mean is public, and cached.
        """
        if key not in self._tests:
            target = self._target(test)
            path, place, risk = surest_path(target, self._basis)
            self._tests[key] = target, path.weights[place], float(path.constants[place]), risk
        target, weights, constant, risk = self._tests[key]
        value = constant + float((weights * self._released).sum())
        return target.fitted, within(value, target), risk

    def _target(self, function: Function) -> RegressedFunction:
        return regressed(
            self._values(function, self._public), self._values(function, self._test_rows), self._basis
        )

    def _values(self, function: Function, rows: PublicRows) -> FloatArray:
        """Values of a function at public rows, for each class, (k, C)."""
        label, count = self.schema.label, len(rows.table)
        by_class = np.empty((count, self._classes))
        for code in range(self._classes):
            values = rows.values
            if label is not None and self._classes > 1:
                values = {**values, label.name: np.full(count, float(code))}
            by_class[:, code] = function.of(values)
        return by_class

    @cached_property
    def _basis(self) -> Basis:
        at = self._features_of(self._public)
        spectrum, turn = np.linalg.eigh(at.T @ at / len(at))
        middle, test = turn.T @ at.mean(axis=0), self._features_of(self._test_rows) @ turn
        return Basis(np.maximum(spectrum, 0.0), turn, middle, at, test)

    @cached_property
    def _released(self) -> FloatArray:
        """Released features in units of their noise, turned, (J, C)."""
        parts = [each.mean / max(each.sigma, _LEAST_SIGMA) for each in self._release.embeddings]
        turned: FloatArray = self._basis.turn.T @ np.concatenate(parts)[self._selected]
        return turned

    @cached_property
    def _public(self) -> PublicRows:
        return public_rows(self.schema, max(2000, 2 * self._features), 0, self._centre)

    @cached_property
    def _test_rows(self) -> PublicRows:
        return public_rows(self.schema, _TEST_ROWS, 1, self._centre)

    def _features_of(self, rows: PublicRows) -> FloatArray:
        """Selected features of public rows, in units of their noise, (k, J)."""
        points = Domain(self.schema).encode(rows.table)
        parts = [
            self._all_features(points[start : start + _BLOCK])[:, self._selected]
            for start in range(0, len(points), _BLOCK)
        ]
        return np.concatenate(parts)

    def _all_features(self, points: FloatArray) -> FloatArray:
        blocks = [
            phi.of_model(points) / max(each.sigma, _LEAST_SIGMA)
            for phi, each in zip(self._maps, self._release.embeddings, strict=True)
        ]
        return np.concatenate(blocks, axis=1)

    @cached_property
    def _selected(self) -> IntArray:
        """Places of the selected features: of too many, those that vary most over their noise."""
        count = sum(phi.dimension for phi in self._maps)
        if count <= MOST_FEATURES:
            return np.arange(count)
        points = Domain(self.schema).encode(self._test_rows.table[:_BLOCK])
        varies = self._all_features(points).var(axis=0)
        varies[varies <= _NOTHING * varies.max()] = np.inf  # constants count the rows of each class
        return np.sort(np.argsort(-varies, kind="stable")[:MOST_FEATURES])


def _public(each: ReleasedEmbedding) -> tuple[MapSpec, Layout, float, int]:
    return each.map_spec, each.layout, each.sigma, each.rows
