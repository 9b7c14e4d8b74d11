"""Graphical models of a table of codes (McKenna 2019): marginals and rows, in numpy on a junction tree.

`descent` fits the models. All functions are post-processing of noisy marginals and read no row.
"""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedkme.answers.rules import RowRules
from fedkme.arrays import FloatArray, IntArray
from fedkme.errors import ConfigError
from fedkme.features.binning import Binning
from fedkme.features.counts import Clique, Groups, sizes_with

MODEL_CELLS = 1 << 21
"""Most cells of all tables of a junction tree: 16 MiB, and a few times as much while fitting."""
NEVER = -100.0
"""Logarithm of a chance that is none."""
RULE_CELLS = 1 << 15
"""Most cells of a model of fixed pairs and rules: half of what the tables of the rounds may have."""
_MOST_PLACE = 1.0 - 1e-9
"""Largest place of a row among those of its parent: rounding must not give it a code behind the last one."""

Zeros = Mapping[Clique, NDArray[np.bool_]]
"""Cells that no row has, by columns."""
_NO_ZEROS: Zeros = MappingProxyType({})


class Dealer(Protocol):
    """Rule by which codes are dealt to rows that are alike in the other columns of a table."""

    def draw(
        self,
        column: int,
        earlier: Sequence[int],
        codes: IntArray,
        joint: FloatArray,
        parent: IntArray,
        generator: np.random.Generator,
    ) -> IntArray | None:
        """Draw a column's codes, or None for any order; see `curator.releases.marginals.coupling`."""


class Model:
    """Distribution over rows of codes: the calibrated junction tree of a fitted graphical model.

    Columns of groups are columns of the model, behind the schema's. A table over a column and its groups has
    no chance for a code with another group, so a clique of groups ties the columns as its table says at a
    fraction of the cells that the codes would take.

    Cells that no row has, by the schema's public rules, have no chance either: they are zeros of the model,
    whatever its potentials are (`fedkme.answers.rules`).
    """

    def __init__(
        self,
        sizes: Sequence[int],
        potentials: dict[Clique, FloatArray],
        groups: Sequence[Groups] = (),
        zeros: Zeros = _NO_ZEROS,
    ) -> None:
        """Calibrate potentials, a table of logarithms for each clique, over columns of these sizes."""
        self.sizes = tuple(sizes)
        self.groups = tuple(groups)
        self.zeros = zeros
        self.cliques = (*potentials, *(clique for clique in zeros if clique not in potentials))
        self.potentials = potentials
        self._sizes = sizes_with(groups, sizes)
        self.logarithms = dict(potentials)
        """Potentials with the zeros in them."""
        for clique, impossible in zeros.items():
            table = potentials.get(clique, np.zeros(impossible.shape))
            self.logarithms[clique] = np.where(impossible, NEVER, table)
        tables = self.logarithms | _links(groups, len(self.sizes))
        self._tree = _tree(self._sizes, tuple(tables))
        self._beliefs = _calibrated(self._tree, self._sizes, tables)

    def probabilities(self, clique: Clique) -> FloatArray:
        """Marginal of the columns in the order of `clique`, of shape their sizes; sums to 1."""
        nodes, edges = _needed(self._tree, set(clique))
        operands: list[Any] = []
        letters = {column: i for i, column in enumerate(sorted(set(clique).union(*nodes)))}
        for node in nodes:
            table = self._beliefs[node]
            if node in edges:  # conditional on the separator from its parent
                table = _conditional(table, node, edges[node])
            operands += [table, [letters[c] for c in node]]
        einsum: Any = np.einsum
        result: FloatArray = einsum(*operands, [letters[c] for c in clique], optimize="greedy")
        return result

    def holds(self, clique: Clique) -> bool:
        """Check whether one table of the tree has these columns."""
        return any(set(clique) <= set(node) for node in self._tree.order)

    def held(self, clique: Clique) -> FloatArray:
        """`probabilities` of columns that are in one table of the tree, such as a clique of the model."""
        node = _home(self._tree, self._sizes, clique)
        return _marginal(self._beliefs[node], node, clique)

    def sample(self, rows: int, generator: np.random.Generator, dealer: Dealer | None = None) -> IntArray:
        """Draw rows whose counts follow the model as closely as whole numbers can, (rows, columns).

        A column is drawn given the earlier columns of the same table. Within a group of equal rows systematic
        sampling keeps counts close to their expectation, whichever of the rows a dealer gives each code.
        """
        codes = np.zeros((rows, len(self._sizes)), dtype=np.int64)
        drawn: set[int] = set()
        for node in self._tree.order:
            table = self._beliefs[node]
            for column in node:
                if column in drawn:
                    continue
                given = tuple(c for c in node if c in drawn)
                columns = (*given, column)
                joint = _marginal(table, node, columns).reshape(-1, self._sizes[column])
                parent = cell_index(codes, given, self._sizes)
                dealt: IntArray | None = None
                if dealer is not None:
                    apart = sorted(c for c in drawn if not self.holds((column, c)))
                    dealt = dealer.draw(column, apart, codes, joint, parent, generator)
                if dealt is None:
                    key, levels = generator.random(rows), generator.random(len(joint))
                    dealt = systematic(joint, parent, key, levels)
                codes[:, column] = dealt
                drawn.add(column)
        return codes[generator.permutation(rows), : len(self.sizes)]


def _links(groups: Sequence[Groups], width: int) -> dict[Clique, FloatArray]:
    """Tables of logarithms over each column of groups and the column that it groups."""
    links: dict[Clique, FloatArray] = {}
    for place, each in enumerate(groups):
        table = np.full((len(each.of), each.size), NEVER)
        table[np.arange(len(each.of)), each.of] = 0.0
        links[each.column, width + place] = table
    return links


def without_zeros(table: FloatArray, clique: Clique, zeros: Zeros) -> FloatArray:
    """Table over a clique with 0 in the cells that no row has by rules about columns of the clique."""
    for columns, impossible in zeros.items():
        if set(columns) <= set(clique):
            table = table * (1.0 - _aligned(impossible.astype(np.float64), columns, clique))
    return table


def start_with_zeros(
    rules: RowRules, binning: Binning, fixed_pairs: Sequence[Clique]
) -> tuple[Model | None, tuple[str, ...]]:
    """Make a model that has the zeros of public rules alone (`fedkme.answers.rules`); None without any.

    A rule adds a clique to the junction tree. A rule whose clique would make the tree too large, and one
    without a table, is kept by drawing rows again: its text comes with the model.

    Args:
        rules: rules of the schema.
        binning: coding of rows.
        fixed_pairs: pairs that the model will always have.
    """
    zeros, left = dict[Clique, NDArray[np.bool_]](), list[str]()
    for rule, clique, impossible in rules.impossible(binning):
        cliques = {*fixed_pairs, *zeros, clique}
        if impossible is None or impossible.all() or model_cells(binning.sizes, cliques) > RULE_CELLS:
            left.append(rule.text)
        elif impossible.any():
            zeros[clique] = zeros[clique] | impossible if clique in zeros else impossible
    return (Model(binning.sizes, {}, zeros=zeros) if zeros else None), tuple(left)


def model_cells(sizes: Sequence[int], cliques: Iterable[Clique], groups: Sequence[Groups] = ()) -> int:
    """Cells of all tables of the junction tree of these cliques."""
    whole, links = sizes_with(groups, sizes), [(g.column, len(sizes) + i) for i, g in enumerate(groups)]
    return sum(_cells(whole, node) for node in _eliminated(whole, [*cliques, *links]))


def check_size(sizes: Sequence[int], cliques: Iterable[Clique], groups: Sequence[Groups] = ()) -> None:
    """Refuse a model that does not fit into memory.

    Raises:
        ConfigError: the model has more than MODEL_CELLS cells.
    """
    cells = model_cells(sizes, cliques, groups)
    if cells > MODEL_CELLS:
        cause = f"the model of these marginals would have {cells} cells and {MODEL_CELLS} are the limit"
        raise ConfigError(cause, "Ask for fewer or smaller marginals, or give numeric columns fewer bins.")


@dataclass(frozen=True, eq=False)
class _Tree:
    """Cliques of a junction tree, each after its parent."""

    order: tuple[Clique, ...]
    parents: dict[Clique, Clique]

    def separator(self, node: Clique) -> Clique:
        return self._separators[node]

    @functools.cached_property
    def _separators(self) -> dict[Clique, Clique]:
        return {node: tuple(c for c in node if c in of) for node, of in self.parents.items()}


@functools.lru_cache(maxsize=4096)
def _tree(sizes: tuple[int, ...], cliques: tuple[Clique, ...]) -> _Tree:
    """Build the tree of largest separators (Prim); columns that no clique connects are separate trees."""
    remaining = _eliminated(sizes, cliques)
    order: list[Clique] = []
    parents: dict[Clique, Clique] = {}
    while remaining:
        near = [(len(set(node) & set(other)), node, other) for node in remaining for other in order]
        shared, node, parent = max(near, default=(0, min(remaining), ()))
        if shared:
            parents[node] = parent
        else:
            node = min(remaining)
        order.append(node)
        remaining.remove(node)
    return _Tree(tuple(order), parents)


def _eliminated(sizes: Sequence[int], cliques: Iterable[Clique]) -> list[Clique]:
    """Nodes of a junction tree, by greedy elimination of the column with the smallest table.

    The function is fast enough to compare hundreds of candidates.
    """
    near: dict[int, set[int]] = {column: {column} for column in range(len(sizes))}
    for clique in cliques:
        for column in clique:
            near[column].update(clique)
    size = {column: _cells(sizes, tuple(around)) for column, around in near.items()}
    nodes: list[set[int]] = []
    while near:
        column = min(size, key=lambda c: (size[c], c))
        node = near.pop(column)
        del size[column]
        if not any(node <= other for other in nodes):
            nodes.append(node)
        for other in node - {column}:
            near[other] = (near[other] | node) - {column}
            size[other] = _cells(sizes, tuple(near[other]))
    return [tuple(sorted(node)) for node in nodes]


def _calibrated(
    tree: _Tree, sizes: tuple[int, ...], potentials: dict[Clique, FloatArray]
) -> dict[Clique, FloatArray]:
    """Compute beliefs of all nodes by sum-product in logarithms: probabilities that agree on separators."""
    logs = {node: np.zeros([sizes[c] for c in node]) for node in tree.order}
    for clique, table in potentials.items():
        home = _home(tree, sizes, clique)
        logs[home] = logs[home] + _aligned(table, clique, home)
    sent: dict[Clique, FloatArray] = {}
    for node in reversed(tree.order):
        if node in tree.parents:
            sent[node] = _log_marginal(logs[node], node, tree.separator(node))
            parent = tree.parents[node]
            logs[parent] = logs[parent] + _aligned(sent[node], tree.separator(node), parent)
    for node in tree.order:
        if node in tree.parents:
            separator, parent = tree.separator(node), tree.parents[node]
            back = _log_marginal(logs[parent], parent, separator) - sent[node]
            logs[node] = logs[node] + _aligned(back, separator, node)
    beliefs = {}
    for node, table in logs.items():
        weights = np.exp(table - table.max())
        beliefs[node] = weights / weights.sum()
    return beliefs


@functools.lru_cache(maxsize=4096)
def _home(tree: _Tree, sizes: tuple[int, ...], clique: Clique) -> Clique:
    """Find the smallest node that contains a clique."""
    return min((n for n in tree.order if set(clique) <= set(n)), key=lambda n: _cells(sizes, n))


def _aligned(table: FloatArray, columns: Clique, node: Clique) -> FloatArray:
    """Align a table over some of a node's columns to the node: axes of length 1 for the other columns."""
    places, index = _alignment(columns, node)
    return (table if places is None else np.transpose(table, places))[index]


@functools.lru_cache(maxsize=4096)
def _alignment(columns: Clique, node: Clique) -> tuple[tuple[int, ...] | None, tuple[slice | None, ...]]:
    """Order of a table's axes in a node, None for their own, and an index with an axis for each column."""
    places = tuple(sorted(range(len(columns)), key=lambda i: node.index(columns[i])))
    in_order = places == tuple(range(len(columns)))
    return None if in_order else places, tuple(slice(None) if c in columns else None for c in node)


@functools.lru_cache(maxsize=4096)
def _axes(node: Clique, columns: Clique) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Axes of a node's table that are not of these columns, and the order of the others; None: their own."""
    present = [c for c in node if c in columns]
    order = tuple(present.index(c) for c in columns)
    in_order = order == tuple(range(len(columns)))
    return tuple(i for i, c in enumerate(node) if c not in columns), None if in_order else order


def _marginal(table: FloatArray, node: Clique, columns: Clique) -> FloatArray:
    """Sum a node's table over all other columns; axes are in the order of `columns`."""
    axes, order = _axes(node, columns)
    summed: FloatArray = np.add.reduce(table, axes)
    return summed if order is None else np.transpose(summed, order)


def _log_marginal(table: FloatArray, node: Clique, columns: Clique) -> FloatArray:
    axes, _ = _axes(node, columns)
    largest = np.maximum.reduce(table, axes, keepdims=True)
    summed: FloatArray = np.log(np.add.reduce(np.exp(table - largest), axes)) + largest.squeeze(axes)
    return summed


def _conditional(table: FloatArray, node: Clique, given: Clique) -> FloatArray:
    axes = tuple(i for i, c in enumerate(node) if c not in given)
    total = table.sum(axis=axes, keepdims=True)
    shares: FloatArray = np.divide(table, total, out=np.zeros_like(table), where=total > 0)
    return shares


def _needed(tree: _Tree, wanted: set[int]) -> tuple[list[Clique], dict[Clique, Clique]]:
    """Nodes that a marginal depends on, and the separators of the nodes that have a parent among them.

    A leaf without a wanted column beyond its separator sums to 1 given the separator; the child's belief
    contains a root that has one child and no wanted column beyond that child's separator.
    """
    nodes = list(tree.order)
    parents = dict(tree.parents)
    children = {node: {child for child, parent in parents.items() if parent == node} for node in nodes}
    for node in reversed(tree.order):
        if not children[node] and wanted.isdisjoint(
            set(node) - set(tree.separator(node) if node in parents else ())
        ):
            nodes.remove(node)
            if node in parents:
                children[parents.pop(node)].discard(node)
    for node in tree.order:
        if node in nodes and node not in parents and len(children[node]) == 1:
            (child,) = children[node]
            if wanted.isdisjoint(set(node) - set(child)):
                nodes.remove(node)
                del parents[child]
    return nodes, {node: tree.separator(node) for node in nodes if node in parents}


def systematic(joint: FloatArray, parent: IntArray, key: FloatArray, levels: FloatArray) -> IntArray:
    """Draw a code for every row given its parent's index, (rows,); rows of one parent get codes by key.

    Args:
        joint: weights of the codes for each parent, (parents, codes).
        parent: parent of each row.
        key: order of the rows of a parent.
        levels: random number of each parent, uniform in [0, 1).
    """
    order = np.lexsort((key, parent))
    groups = np.bincount(parent, minlength=len(joint))
    rank = np.arange(len(parent)) - (np.cumsum(groups) - groups)[parent[order]]
    place = np.minimum((rank + levels[parent[order]]) / groups[parent[order]], _MOST_PLACE)
    total = joint.sum(axis=1, keepdims=True)
    shares = np.divide(joint, total, out=np.full_like(joint, 1.0 / joint.shape[1]), where=total > 0)
    above = np.minimum(np.cumsum(shares, axis=1)[:, :-1], 1.0) + np.arange(len(joint))[:, None]
    drawn = np.empty(len(parent), dtype=np.int64)
    before = np.searchsorted(above.ravel(), place + parent[order], side="right")
    drawn[order] = before - parent[order] * above.shape[1]
    return drawn


def cell_index(codes: IntArray, columns: Clique, sizes: Sequence[int]) -> IntArray:
    """Cell of each row in the table over some columns, in C order, (rows,)."""
    index = np.zeros(len(codes), dtype=np.int64)
    for column in columns:
        index = index * sizes[column] + codes[:, column]
    return index


def _cells(sizes: Sequence[int], clique: Clique) -> int:
    return math.prod(sizes[column] for column in clique)
