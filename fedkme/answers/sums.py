"""Means from released sums of features: a projection on them, with the exact law of their noise.

Let phi be the released features, y = mean of phi over the rows + noise of covariance Sigma, all public but
the rows. For a function h and any w, k

    mean h = k + w . mean phi + mean r,    r = h - k - w . phi,

so k + w . y estimates it with noise N(0, w' Sigma w) and bias - mean r. w is a ridge regression of h on phi
over rows of the public domain (`PublicRows`), which no private row and no noise has touched, and its penalty
the one with the shortest interval: both are constants, and the law is exact. All private rows may lie where r
is most: mean r is between the least and the most of r over rows of the domain which the regression has not
seen, with more of them where h may jump. That these rows are so many is no proof for those between them.
Where r may be more than half of what h varies by, h is not in the span of what was released.

Moments clip far rows, and of many columns nearly all rows of the domain: of a function without jumps, r
is taken to be twice its mean over the domain in size, and the answer says what it supposes. Features by
class have a column for each class: h may be of the label, too. The constant k has no noise, N being public.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedkme.answers.evidence import Law, Spread, outside, rows_together
from fedkme.answers.functions import Function, columns_of, combined, tests_of, values_of
from fedkme.answers.intervals import Between, Bound, Released, critical
from fedkme.arrays import FloatArray
from fedkme.errors import ConfigError
from fedkme.features.domain import Domain
from fedkme.features.maps import MapSpec
from fedkme.features.sums import Layout, ReleasedEmbedding
from fedkme.releases.file import StoredRelease
from fedkme.releases.tilted import tilted
from fedkme.tables.schema import Category, Numeric, Schema
from fedkme.tables.table import Table

IntArray = NDArray[np.intp]
MOST_FEATURES = 2500
"""Features that take part; of more, those that vary most over the domain beside their noise."""
_OUTSIDE = 0.5
"""Part of a question's range over the domain that may be unseen; with more it is outside the span."""
_SUPPOSED = "; supposes that few rows are as far out as its moments clip"
_OUT = "not in the span of what was released"
_RIDGES: FloatArray = np.logspace(4, -12, 33)
_TAILS = 4.0
"""Factor of the sampling variance of a variance or a correlation that the release does not tell.

A law of exponential tails has it over a normal one: 8 against 2 sigma^4."""
_LEAST_SIGMA, _LEAST_ERROR, _NOTHING = 1e-9, 1e-3, 1e-12
_HELD, _AT_EDGES, _MOST_REGRESSIONS = 1000, 300, 16
_BLOCK = 200
_EVEN, _LOW, _HIGH = 0.6, 0.15, 0.05
"""Parts of the values of a number that lie evenly, at the lower bound, at the upper; the rest is near the
lower, as skewed columns are."""
_NEAR, _NEAREST = 0.5, 0.02  # part of the rows drawn to a centre, least part of their distance that is left


@dataclass(frozen=True, eq=False, slots=True)
class PublicRows:
    """Rows as a table of the schema has them, (k, c), and their columns by name."""

    table: FloatArray
    values: Mapping[str, FloatArray]


def public_rows(schema: Schema, count: int, stream: int, centre: FloatArray | None = None) -> PublicRows:
    """Draw rows from the domain, each column by itself: the same for the same arguments.

    Numbers of half of the rows are drawn to `centre`, (n,) in model space, at all scales: private rows often
    lie close together in their domain, where features that clip far rows say other things than elsewhere.
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
class _Basis:
    """Features in units of their noise, turned so that those of the public rows are uncorrelated.

    Attributes:
        spectrum: mean squares of the turned features, (J,).
        turn: (J, J) orthogonal.
        middle: means of the turned features over the public rows, (J,).
        at: features of the rows that are fitted, (K, J), not turned.
        held: turned features of rows that are not fitted, (L, J).
    """

    spectrum: FloatArray
    turn: FloatArray
    middle: FloatArray
    at: FloatArray
    held: FloatArray


@dataclass(frozen=True, eq=False, slots=True)
class _Target:
    """A function on the public rows.

    Attributes:
        against: its products with the turned features, (J, C).
        mean: over rows and classes.
        fitted: its values at rows that are fitted, (K, C).
        held: its values at rows that are not, (L, C).
    """

    against: FloatArray
    mean: float
    fitted: FloatArray
    held: FloatArray


@dataclass(frozen=True, eq=False, slots=True)
class _Path:
    """Regressions of a function with each of R penalties.

    Attributes:
        weights: of the turned features, (R, J, C).
        constants: (R,).
        missed: what is left at rows that are not fitted, (R, L, C).
    """

    weights: FloatArray
    constants: FloatArray
    missed: FloatArray

    @property
    def noise(self) -> FloatArray:
        """Standard deviation of the noise in each estimate, (R,)."""
        found: FloatArray = np.sqrt(np.einsum("rjc,rjc->r", self.weights, self.weights))
        return found


@dataclass(frozen=True, eq=False, slots=True)
class _Regression:
    """A function at rows of the domain that no regression was fitted to, and its regressions.

    Attributes:
        values: of the function, (L, C).
        path: regressions with each penalty.
    """

    values: FloatArray
    path: _Path


class SumEvidence:
    """The `Evidence` of a release of embeddings."""

    def __init__(self, release: StoredRelease) -> None:
        self._release = release
        self._maps = [each.map_spec.make(release.schema) for each in release.embeddings]
        self._centre = next((phi.centre for phi in self._maps if phi.centre is not None), None)
        self._classes = release.embeddings[0].layout.columns
        self._tests: dict[tuple[tuple[str, ...], int], tuple[_Target, FloatArray, float, float]] = {}
        self._regressions: dict[tuple[Function, frozenset[tuple[str, float]]], _Regression] = {}
        self._products: dict[tuple[Function, Function], tuple[Function, Function, Function]] = {}
        self._guesses: dict[tuple[Function, Function], float] = {}
        self._at_edges: tuple[frozenset[tuple[str, float]], PublicRows, FloatArray] | None = None
        self._features = min(sum(phi.dimension for phi in self._maps), MOST_FEATURES)

    def beside(self, release: StoredRelease) -> SumEvidence:
        """Evidence of another release by the same maps and with the same noise, which saves computing.

        Raises:
            ConfigError: its maps or its noise are others.
        """
        if [_public(each) for each in release.embeddings] != [_public(e) for e in self._release.embeddings]:
            raise ConfigError("a release has other features or other noise", "Read it by itself.")
        found = copy.copy(self)
        found._release = release
        found.__dict__.pop("_released", None)
        found._guesses, found._products = {}, {}
        return found

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
        """Rows of one person, or group, at most."""
        return rows_together(self.schema, self._release.settings)

    def law(self, functions: Sequence[Function], coefficients: Sequence[float]) -> Law:
        """Means of functions with their noise; see `Evidence.law`."""
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
            same = Released(float(values.mean()))
            means = np.array([float(each.values.mean()) for each in regressions])
            return Law(means, np.zeros((count, count)), Between(same, same, same, Released(0.0)), reach)
        missed = np.tensordot(weights, np.array([each.path.missed for each in regressions]), 1)
        flat = np.array([each.path.weights.reshape(len(_RIDGES), -1) for each in regressions])
        noise = np.linalg.norm(np.tensordot(weights, flat, 1), axis=1)
        below, above = missed.min(axis=(1, 2)), missed.max(axis=(1, 2))
        ridge, supposed = int((critical(0.0) * noise + (above - below) / 2.0).argmin()), ""
        if self._centre is not None and not cuts and above[ridge] - below[ridge] > _OUTSIDE * (most - least):
            typical = 2.0 * np.abs(missed).mean(axis=(1, 2))
            ridge, supposed = int((critical(0.0) * noise + typical).argmin()), _SUPPOSED
            above, below = typical, -typical
        gap = float(above[ridge] - below[ridge])
        if gap > _OUTSIDE * (most - least):
            part = min(gap / (most - least), 1.0)
            why = f"{_OUT}: its features miss {part:.0%} of what the question varies by"
            return replace(outside(count, why), reach=reach)
        means = np.array([_estimates(each.path, self._released)[ridge] for each in regressions])
        value, deviation = float(weights @ means), float(noise[ridge])
        low, middle, high = (
            Released(value + away, deviation) for away in (float(below[ridge]), 0.0, float(above[ridge]))
        )
        own = flat[:, ridge]
        return Law(means, own @ own.T, Between(middle, low, high, Released(gap)), reach, supposed=supposed)

    def spread(self, functions: tuple[Function, Function], coefficients: tuple[float, float]) -> Spread:
        """Mean square of a combination; see `Evidence.spread`.

        One that is not in the span is supposed to be as the law of most entropy has it, but for its tails,
        and for other coefficients as for the first that were asked for.
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
            return Spread(value, Bound(value), told=False)
        most, middle = law.whole.most.most(), law.whole.middle.estimate
        return Spread(max(middle, 0.0), Bound(min(max(most.value, 0.0), law.reach), most.doubt), told=True)

    def _regression(self, function: Function, cuts: frozenset[tuple[str, float]]) -> _Regression:
        """Function and its regressions on the features, over the domain and where a question may jump."""
        if (function, cuts) not in self._regressions:
            if len(self._regressions) >= _MOST_REGRESSIONS:
                self._regressions.clear()
            table, at = self._edges(cuts)
            values = np.concatenate([self._on(function, self._held), self._on(function, table)])
            target = _target(self._on(function, self._public), values, self._basis)
            path = _path(target, replace(self._basis, held=at))
            self._regressions[function, cuts] = _Regression(values, path)
        return self._regressions[function, cuts]

    def _edges(self, cuts: frozenset[tuple[str, float]]) -> tuple[PublicRows, FloatArray]:
        """Rows of the domain where functions may jump and right beside, and features of all rows held."""
        if self._at_edges is None or self._at_edges[0] != cuts:
            rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([0xA7])))
            table = self._held.table[: _AT_EDGES if cuts else 0].copy()
            for name in sorted({name for name, _ in cuts}):
                column, at = columns_of(self.schema)[name], self.schema.names.index(name)
                assert isinstance(column, Numeric)
                step = 1.0 if column.integer else (column.limits[1] - column.limits[0]) * 1e-9
                own = sorted(each for other, each in cuts if other == name)
                places = np.array([each + way * step for each in own for way in (-1.0, 0.0, 1.0)])
                drawn = np.clip(places[rng.integers(0, len(places), len(table))], *column.limits)
                table[:, at] = np.where(rng.random(len(table)) < 0.75, drawn, table[:, at])
            rows = PublicRows(table, values_of(Table(table), self.schema))
            more = self._at(rows) @ self._basis.turn if cuts else self._basis.held[:0]
            self._at_edges = cuts, rows, np.concatenate([self._basis.held, more])
        return self._at_edges[1:]

    def _guess(self, function: Function) -> float:
        """Mean of a function by the law of most entropy of its columns.

        That law has what the release tells of means, squares and products of the columns, and of the function
        itself, each within its noise and what the features miss of it. So a function that they miss has the
        mean that it has under the rest, and none below 0 if it is nowhere.
        """
        names = sorted(function.columns)
        columns = columns_of(self.schema)
        tests = tests_of([columns[name] for name in names], names)
        known = [self._known(test, (tuple(names), place)) for place, test in enumerate(tests)]
        own = self._target(function, self._basis)
        known.append((own.fitted, *_best(own, self._basis, self._released)))
        at = np.column_stack([fitted.ravel() for fitted, _, _ in known])
        middle, scale = at.mean(axis=0), np.maximum(at.std(axis=0), _NOTHING)
        means, errors = (np.array(each) for each in zip(*(part[1:] for part in known), strict=True))
        weights = tilted(
            (at - middle) / scale, (means - middle) / scale, np.maximum(errors / scale, _LEAST_ERROR)
        )
        return float(weights @ at[:, -1])

    def _known(self, test: Function, key: tuple[tuple[str, ...], int]) -> tuple[FloatArray, float, float]:
        """Values of a function at public rows, its mean by the release, and how far that may be off.

        All but the mean is public, and kept.
        """
        if key not in self._tests:
            target = self._target(test, self._basis)
            path, place, risk = _surest(target, self._basis)
            self._tests[key] = target, path.weights[place], float(path.constants[place]), risk
        target, weights, constant, risk = self._tests[key]
        value = constant + float((weights * self._released).sum())
        return target.fitted, _within(value, target), risk

    def _target(self, function: Function, basis: _Basis) -> _Target:
        return _target(self._on(function, self._public), self._on(function, self._held), basis)

    def _on(self, function: Function, rows: PublicRows) -> FloatArray:
        """Values of a function at public rows, for each class, (k, C)."""
        label, count = self.schema.label, len(rows.table)
        found = np.empty((count, self._classes))
        for code in range(self._classes):
            values = rows.values
            if label is not None and self._classes > 1:
                values = {**values, label.name: np.full(count, float(code))}
            found[:, code] = function.of(values)
        return found

    @cached_property
    def _basis(self) -> _Basis:
        at = self._at(self._public)
        spectrum, turn = np.linalg.eigh(at.T @ at / len(at))
        middle, held = turn.T @ at.mean(axis=0), self._at(self._held) @ turn
        return _Basis(np.maximum(spectrum, 0.0), turn, middle, at, held)

    @cached_property
    def _released(self) -> FloatArray:
        """Released features in units of their noise, turned, (J, C)."""
        parts = [each.mean / max(each.sigma, _LEAST_SIGMA) for each in self._release.embeddings]
        found: FloatArray = self._basis.turn.T @ np.concatenate(parts)[self._taken]
        return found

    @cached_property
    def _public(self) -> PublicRows:
        return public_rows(self.schema, max(2000, 2 * self._features), 0, self._centre)

    @cached_property
    def _held(self) -> PublicRows:
        return public_rows(self.schema, _HELD, 1, self._centre)

    def _at(self, rows: PublicRows) -> FloatArray:
        """Features of public rows in units of their noise, (k, J), those that take part."""
        points = Domain(self.schema).encode(rows.table)
        parts = [
            self._all(points[start : start + _BLOCK])[:, self._taken]
            for start in range(0, len(points), _BLOCK)
        ]
        return np.concatenate(parts)

    def _all(self, points: FloatArray) -> FloatArray:
        blocks = [
            phi.of_model(points) / max(each.sigma, _LEAST_SIGMA)
            for phi, each in zip(self._maps, self._release.embeddings, strict=True)
        ]
        return np.concatenate(blocks, axis=1)

    @cached_property
    def _taken(self) -> IntArray:
        """Places of the features that take part: of many, those that vary most beside their noise."""
        count = sum(phi.dimension for phi in self._maps)
        if count <= MOST_FEATURES:
            return np.arange(count)
        points = Domain(self.schema).encode(self._held.table[:_BLOCK])
        return np.sort(np.argsort(-self._all(points).var(axis=0), kind="stable")[:MOST_FEATURES])


def _public(each: ReleasedEmbedding) -> tuple[MapSpec, Layout, float, int]:
    return each.map_spec, each.layout, each.sigma, each.rows


def _target(fitted: FloatArray, held: FloatArray, basis: _Basis) -> _Target:
    against = basis.turn.T @ (basis.at.T @ fitted) / len(fitted)
    return _Target(against, float(fitted.mean()), fitted, held)


def _path(target: _Target, basis: _Basis, ridges: FloatArray = _RIDGES) -> _Path:
    """Ridge regressions of a function, each with a constant that is not penalised."""
    shrunk = 1.0 / (basis.spectrum + ridges[:, None] + 1e-14 * basis.spectrum[-1])
    free = 1.0 - shrunk @ basis.middle**2
    left = target.mean - ((shrunk * basis.middle) @ target.against).mean(axis=1)
    constants = np.divide(left, free, out=np.zeros_like(left), where=free > 1e-9)
    own = target.against - constants[:, None, None] * basis.middle[:, None]
    weights: FloatArray = own * shrunk[:, :, None]
    reached = basis.held @ weights.transpose(1, 0, 2).reshape(len(basis.spectrum), -1)
    reached = reached.reshape(len(basis.held), len(ridges), -1).transpose(1, 0, 2)
    return _Path(weights, constants, target.held - constants[:, None, None] - reached)


def _best(target: _Target, basis: _Basis, released: FloatArray) -> tuple[float, float]:
    """Mean of a function where noise and what the features miss are least, and what it may be off by."""
    path, place, risk = _surest(target, basis)
    return _within(float(_estimates(path, released)[place]), target), risk


def _surest(target: _Target, basis: _Basis) -> tuple[_Path, int, float]:
    """Path of a function, and the penalty with the least mean squared error over the domain, and its root."""
    path = _path(target, basis)
    risks = np.square(path.missed).mean(axis=(1, 2)) + path.noise**2
    place = int(risks.argmin())
    return path, place, math.sqrt(float(risks[place]))


def _within(value: float, target: _Target) -> float:
    return min(max(value, float(target.held.min())), float(target.held.max()))


def _estimates(path: _Path, released: FloatArray) -> FloatArray:
    found: FloatArray = path.constants + np.einsum("rjc,jc->r", path.weights, released)
    return found
