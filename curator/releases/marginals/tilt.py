"""Tilted chances: dependences for which the junction tree has no room.

**Labels** are drawn again. The columns x keep the model's law. The label's law given x becomes

    p(y | x)  proportional to  p_model(y | x) exp(sum_S w_S(g_S(x), y) + sum_c w_c(x_c, y)),

with weights w_S for each cell of the tables over groups that were asked again, and w_c for each code of each
column, by which the model's own tables of label and column stay as they are. The model is log-linear, so
log p_model(y | x) is the sum of its potentials with the label, up to a constant. Weights are fitted on rows
of the model by iterative scaling (Darroch and Ratcliff 1972), a table at a time. The target of a table over
groups is e + d, for cells e of the model and what noise does not explain, d, of the measured cells less e
(`descent.of_low_rank`). All of this is post-processing of noisy tables. Labels that no row of x has, by
public rules, keep no chance: their logarithm is far below any sum of weights.

**Codes of a column** (`Chances`) are tilted in the same way by sums of weights for pairs of codes and for
products of scores, while the column is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from curator.releases.marginals.descent import of_low_rank
from curator.releases.marginals.model import NEVER, Dealer, Model, cell_index
from fedkme.arrays import FloatArray, IntArray
from fedkme.features.counts import Clique, codes_with, sizes_with
from fedkme.releases.counts import Measurement, pooled

_SWEEPS = 10
_ROWS = (1 << 14, 1 << 17)  # fewest and most rows on which weights are fitted
_LEAST = 1e-6  # of a row, in a cell that is empty
_NO_WEIGHT = -1e6  # logarithm that no sum of weights makes a chance of
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0

_STEPS, _SCALINGS, _MOST_STEP, _CLOSE = 8, 4, 20.0, 1e-4
"""Steps of the search for chances, scalings to the model's table in the last, most change of a chance, and
gap of a product that is close enough."""
_LEAST_FREE = 0.02
"""Variance of a score among rows that are alike, added to steps: little can be coupled within such rows."""


class TiltedModel:
    """Model whose label is drawn again given the other columns.

    Attributes:
        model: law of the other columns.
    """

    def __init__(self, model: Model, label: int, weights: Mapping[Clique, FloatArray]) -> None:
        """Take the model, and a table of logarithms for each clique, whose last axis is the label."""
        self.model = model
        self._label = label
        self._weights = weights

    def sample(self, rows: int, generator: np.random.Generator, dealer: Dealer | None = None) -> IntArray:
        """Draw rows, (rows, columns), with labels spread evenly among rows that are alike."""
        codes = self.model.sample(rows, generator, dealer)
        whole = codes_with(self.model.groups, codes)
        sizes = sizes_with(self.model.groups, self.model.sizes)
        logits, cell = _logits(self.model, whole, self._label), np.zeros(rows, dtype=np.int64)
        for clique, table in self._weights.items():
            cell = cell_index(whole, clique, sizes)
            logits += table.reshape(-1, table.shape[-1])[cell]
        shares = _softmax(logits)
        order = np.lexsort((shares[:, 0], cell))
        level = (generator.random() + _GOLDEN * np.arange(rows)) % 1.0
        above = np.cumsum(shares[order], axis=1)[:, :-1]
        codes[order, self._label] = (level[:, None] >= above).sum(axis=1)
        return codes


def tilted(model: Model, label: int, measurements: Sequence[Measurement], rows: int) -> Model | TiltedModel:
    """Fit the weights to tables over groups; without tables the model stays as it is.

    Args:
        model: model, whose columns of groups the tables name.
        label: place of the label.
        measurements: tables with noise, over the label and other columns.
        rows: N.
    """
    if not measurements:
        return model
    count = int(np.clip(2 * rows, *_ROWS))
    codes = model.sample(count, np.random.default_rng(np.random.SeedSequence([rows, count, 7])))
    whole, sizes = codes_with(model.groups, codes), sizes_with(model.groups, model.sizes)
    logits = _logits(model, whole, label)
    targets: dict[Clique, FloatArray] = {}
    cells: dict[Clique, IntArray] = {}
    for column in range(len(model.sizes)):
        if column != label:
            cells[column,] = codes[:, column]
            targets[column,] = model.probabilities((column, label))
    for clique, (precision, values) in pooled(measurements).items():
        table = _label_last(values.reshape([sizes[c] for c in clique]), clique, label)
        others = tuple(c for c in clique if c != label)
        cells[others] = cell_index(whole, others, sizes)
        have = _sums(cells[others], _softmax(logits), len(table)) * (rows / count)
        shape = [*(sizes[c] for c in others), sizes[label]]
        excess = of_low_rank((table - have).reshape(shape), precision**-0.5)
        targets[others] = have + excess.reshape(have.shape)
    weights = {clique: np.zeros_like(target) for clique, target in targets.items()}
    for clique, target in targets.items():
        wanted = np.maximum(target, 0.0)
        mass = np.bincount(cells[clique], minlength=len(target))[:, None]
        total = wanted.sum(axis=1, keepdims=True)
        even = np.full_like(wanted, 1.0 / wanted.shape[1])
        targets[clique] = mass * np.divide(wanted, total, out=even, where=total > 0) + _LEAST
    for _ in range(_SWEEPS):
        for clique, target in targets.items():
            step = np.log(target / (_sums(cells[clique], _softmax(logits), len(target)) + _LEAST))
            weights[clique] += step
            logits += step[cells[clique]]
    return TiltedModel(model, label, weights)


def _logits(model: Model, whole: IntArray, label: int) -> FloatArray:
    """Logarithm of p_model(y | x) for rows of codes, up to a constant of each row, (rows, classes)."""
    sizes = sizes_with(model.groups, model.sizes)
    logits: FloatArray = np.zeros((len(whole), sizes[label]))
    for clique, logarithms in model.logarithms.items():
        if label in clique:
            table = np.where(logarithms <= NEVER, _NO_WEIGHT, logarithms)
            others = tuple(c for c in clique if c != label)
            logits += _label_last(table, clique, label)[cell_index(whole, others, sizes)]
    return logits


def _label_last(table: FloatArray, clique: Clique, label: int) -> FloatArray:
    """Put the label's axis last, and all others together."""
    axis = clique.index(label)
    turned: FloatArray = np.moveaxis(table, axis, -1).reshape(-1, table.shape[axis])
    return turned


def _softmax(logits: FloatArray) -> FloatArray:
    shares: FloatArray = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


def _sums(cells: IntArray, shares: FloatArray, count: int) -> FloatArray:
    """Add up each class's chances by cells, (cells, classes)."""
    return np.asarray(np.stack([np.bincount(cells, column, minlength=count) for column in shares.T], axis=1))


@dataclass(frozen=True, eq=False)
class Chances:
    """Chances of a column's codes for each row, which keep the counts of the column's table in the model.

    Attributes:
        parent: cell of each row in that table, from 0 without a gap.
        chances: chances of the codes, (rows, codes).
    """

    parent: IntArray
    chances: FloatArray

    @cached_property
    def _cells(self) -> sparse.csr_matrix:
        return one_hot(self.parent, int(self.parent.max()) + 1)

    def having(
        self, moments: Sequence[WantedProduct], tables: Sequence[WantedTable], score: FloatArray
    ) -> Chances:
        """Chances with these products and tables, as far as the table of the model allows.

        Args:
            moments: products of other numbers with this one.
            tables: counts by another column and the codes.
            score: score of each code.
        """
        chances, counts = self.chances.copy(), self._cells @ self.chances
        columns = (
            np.stack([each.column for each in moments], axis=1) if moments else np.zeros((len(chances), 1))
        )
        rows = np.maximum(np.bincount(self.parent), 1)[:, None]
        free = columns - (self._cells @ columns / rows)[self.parent]
        wanted = np.array([each.wanted for each in moments])
        for step in range(_STEPS):
            for table in tables:
                ratio = table.counts / np.maximum(table.cells @ chances, 1e-9)
                chances *= np.clip(ratio, 1.0 / _MOST_STEP, _MOST_STEP)[table.codes]
            if tables:
                _sum_to_one(chances)
            if moments:
                means = chances @ score
                spread = np.maximum(chances @ score**2 - means**2, 0.0)
                slope = (free * spread[:, None]).T @ free / len(free) + _LEAST_FREE * np.eye(len(wanted))
                gap = wanted - columns.T @ means / len(means)
                pull = np.clip(free @ np.linalg.solve(slope, gap), -_MOST_STEP, _MOST_STEP)
                chances *= np.exp(pull[:, None] * score)
                _sum_to_one(chances)
                if not tables and np.abs(gap).max() < _CLOSE:
                    break
            for _ in range(_SCALINGS if step == _STEPS - 1 else 1):
                chances *= (counts / np.maximum(self._cells @ chances, 1e-12))[self.parent]
                _sum_to_one(chances)
        return Chances(self.parent, chances)

    def drawn(self, others: Sequence[IntArray | FloatArray], generator: np.random.Generator) -> IntArray:
        """Draw a code for each row; counts by parent and by other columns are close to their expectations."""
        rows, last = len(self.parent), self.chances.shape[1] - 1
        order = np.lexsort((generator.random(rows), *others, self.parent))
        chances = self.chances[order]
        left = chances[:, ::-1].cumsum(axis=1)[:, ::-1]
        drawn, free = np.full(rows, last), np.ones(rows, dtype=np.bool_)
        for code in range(last):
            share = np.divide(
                chances[:, code], left[:, code], out=np.zeros(rows), where=left[:, code] > 1e-12
            )
            steps = np.floor(np.cumsum(np.where(free, share, 0.0)) + generator.random())
            taken = (np.diff(steps, prepend=0.0) > 0.0) & free
            drawn[taken] = code
            free &= ~taken
        codes = np.empty_like(drawn)
        codes[order] = drawn
        return codes


@dataclass(frozen=True, eq=False)
class WantedProduct:
    """Wanted mean product of a number's standardised score with the score of the codes that are drawn."""

    column: FloatArray
    wanted: float


@dataclass(frozen=True, eq=False)
class WantedTable:
    """Wanted counts by another column, whose codes the rows have, and by the codes that are drawn."""

    codes: IntArray
    cells: sparse.csr_matrix
    counts: FloatArray


def _sum_to_one(chances: FloatArray) -> None:
    chances /= np.maximum(chances.sum(axis=1, keepdims=True), 1e-300)


def one_hot(codes: IntArray, size: int) -> sparse.csr_matrix:
    """Matrix that sums the rows of each code, (codes, rows)."""
    return sparse.csr_matrix((np.ones(len(codes)), (codes, np.arange(len(codes)))), (size, len(codes)))
