"""Graphical models of a table of codes, fitted to noisy marginals by the package mbi (McKenna 2019).

mbi fits: `MirrorDescent` over the potentials of the measured cliques, the total being the public N. What is
asked of a fitted model afterwards is done here in numpy on its junction tree: mbi compiles a program for
every marginal that is not in the model (575 of them in a release of adult: minutes), and draws rows from
numpy's global generator. Everything is post-processing of noisy marginals and reads no row.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import ConfigError, MissingDependencyError
from fedkme.features.counts import Clique
from fedkme.releases.counts import Measurement

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

ITERATIONS = 500
"""Iterations of a fit, where nobody says otherwise."""
MODEL_CELLS = 1 << 21
"""Cells of all tables of a junction tree, at most: 16 MiB, and a few times that while fitting."""


class Model:
    """A distribution over rows of codes: the calibrated junction tree of a fitted graphical model."""

    def __init__(self, sizes: Sequence[int], potentials: dict[Clique, FloatArray]) -> None:
        """Calibrate logarithms, a table for each clique, over columns of these sizes."""
        self.sizes = tuple(sizes)
        self.cliques = tuple(potentials)
        self.potentials = potentials
        self._tree = _tree(self.sizes, self.cliques)
        self._beliefs = _calibrated(self._tree, self.sizes, potentials)

    def probabilities(self, clique: Clique) -> FloatArray:
        """Marginal of the columns in the order of `clique`, of shape their sizes; sums to 1."""
        nodes, edges = _needed(self._tree, set(clique))
        operands: list[Any] = []
        letters = {column: i for i, column in enumerate(sorted(set(clique).union(*nodes)))}
        for node in nodes:
            table = self._beliefs[node]
            if node in edges:  # given its separator from the part of the tree that stands before it
                table = _conditional(table, node, edges[node])
            operands += [table, [letters[c] for c in node]]
        einsum: Any = np.einsum
        result: FloatArray = einsum(*operands, [letters[c] for c in clique], optimize="greedy")
        return result

    def held(self, clique: Clique) -> FloatArray:
        """`probabilities` of columns that one table of the tree holds, such as a clique of the model."""
        node = _home(self._tree, self.sizes, clique)
        return _marginal(self._beliefs[node], node, clique)

    def sample(self, rows: int, generator: np.random.Generator) -> IntArray:
        """Rows whose counts follow the model as closely as whole numbers can, (rows, columns) in any order.

        A column is drawn given those before it that share a table with it; within a group of equal
        rows by systematic sampling, which keeps counts close to their expectation.
        """
        codes = np.zeros((rows, len(self.sizes)), dtype=np.int64)
        done: set[int] = set()
        for node in self._tree.order:
            table = self._beliefs[node]
            for column in node:
                if column in done:
                    continue
                given = tuple(c for c in node if c in done)
                kept = (*given, column)
                joint = _marginal(table, node, kept).reshape(-1, self.sizes[column])
                parent = _index(codes, given, self.sizes)
                codes[:, column] = _systematic(joint, parent, generator)
                done.add(column)
        return codes[generator.permutation(rows)]


def fit(
    sizes: Sequence[int],
    measurements: Sequence[Measurement],
    rows: int,
    iterations: int = ITERATIONS,
    start: Model | None = None,
    told: Callable[[float], None] = lambda _: None,
) -> Model:
    """The model of largest likelihood (and entropy) for noisy marginals.

    Args:
        sizes: codes of every column.
        measurements: at least one; every column that is in none is uniform.
        rows: N, public.
        iterations: of mirror descent.
        start: a model whose cliques the new ones contain; None: uniform.
        told: hears how far the descent is, 0 to 1; what it raises ends the fit.

    Raises:
        ConfigError: the junction tree would be larger than MODEL_CELLS.
        MissingDependencyError: no mbi.
    """
    cliques = [measurement.clique for measurement in measurements]
    check_size(sizes, cliques)
    jax, mbi = _library()
    domain = mbi.Domain(tuple(range(len(sizes))), tuple(sizes))
    with jax.enable_x64(True):
        pairs = [mbi.LinearMeasurement(m.values, m.clique, m.sigma) for m in measurements]
        warm = None
        if start is not None:
            tables = {
                c: mbi.Factor(domain.project(c), jax.numpy.asarray(table))
                for c, table in start.potentials.items()
            }
            warm = mbi.CliqueVector(domain, start.cliques, tables)
        blocks = itertools.count(1)
        share = mbi.estimation.CALLBACK_EVERY / iterations
        fitted = mbi.estimation.MirrorDescent().estimate(
            domain,
            pairs,
            known_total=float(rows),
            iters=iterations,
            warm_start=warm,
            callback_fn=lambda _: told(min(1.0, next(blocks) * share)),
        )
        potentials = {
            tuple(clique): np.asarray(factor.values, dtype=np.float64)
            for clique, factor in fitted.potentials.tables.items()
        }
    return Model(sizes, potentials)


def model_cells(sizes: Sequence[int], cliques: Iterable[Clique]) -> int:
    """Cells of a junction tree of these cliques: greedy elimination of the column with the smallest table.

    Quick, for weighing hundreds of candidates; mbi may find a tree of another size, which `check_size` sees.
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
    return sum(_cells(sizes, tuple(node)) for node in nodes)


def check_size(sizes: Sequence[int], cliques: Iterable[Clique]) -> None:
    """Refuse a model that does not fit into memory.

    Raises:
        ConfigError: it has more than MODEL_CELLS cells.
    """
    tree = _tree(tuple(sizes), tuple(cliques))
    cells = sum(_cells(sizes, node) for node in tree.order)
    if cells > MODEL_CELLS:
        raise ConfigError(
            f"the model of these marginals would have {cells} cells and {MODEL_CELLS} are the limit",
            "Ask for fewer or smaller marginals, or give numeric columns fewer bins.",
        )


@dataclass(frozen=True, eq=False)
class _Tree:
    """Cliques of a junction tree, each after its parent, and the separator from it."""

    order: tuple[Clique, ...]
    parents: dict[Clique, Clique]

    def separator(self, node: Clique) -> Clique:
        return tuple(c for c in node if c in self.parents[node])


@functools.lru_cache(maxsize=4096)
def _tree(sizes: tuple[int, ...], cliques: tuple[Clique, ...]) -> _Tree:
    _, mbi = _library()
    import networkx

    graph, _ = mbi.junction_tree.make_junction_tree(mbi.Domain(tuple(range(len(sizes))), sizes), cliques)
    order: list[Clique] = []
    parents: dict[Clique, Clique] = {}
    for part in networkx.connected_components(graph):
        root = min(part)
        order.append(root)
        for parent, child in networkx.bfs_edges(graph, root):
            order.append(child)
            parents[child] = parent
    return _Tree(tuple(order), parents)


def _calibrated(
    tree: _Tree, sizes: tuple[int, ...], potentials: dict[Clique, FloatArray]
) -> dict[Clique, FloatArray]:
    """Beliefs of all nodes, probabilities that agree on separators: sum-product in logarithms."""
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
    """The smallest node that holds a clique."""
    return min((n for n in tree.order if set(clique) <= set(n)), key=lambda n: _cells(sizes, n))


def _aligned(table: FloatArray, columns: Clique, node: Clique) -> FloatArray:
    """A table over some of a node's columns, with axes of length 1 for the others."""
    places = sorted(range(len(columns)), key=lambda i: node.index(columns[i]))
    shape = iter(np.transpose(table, places).shape)
    return np.transpose(table, places).reshape([next(shape) if c in columns else 1 for c in node])


def _marginal(table: FloatArray, node: Clique, kept: Clique) -> FloatArray:
    """Sums over the columns of a node that are not kept, with axes in the order of those that are."""
    left = [c for c in node if c in kept]
    summed = table.sum(axis=tuple(i for i, c in enumerate(node) if c not in kept))
    ordered: FloatArray = np.transpose(summed, [left.index(c) for c in kept])
    return ordered


def _log_marginal(table: FloatArray, node: Clique, kept: Clique) -> FloatArray:
    axes = tuple(i for i, c in enumerate(node) if c not in kept)
    largest = table.max(axis=axes, keepdims=True)
    summed: FloatArray = np.log(np.exp(table - largest).sum(axis=axes)) + largest.squeeze(axes)
    return summed


def _conditional(table: FloatArray, node: Clique, given: Clique) -> FloatArray:
    axes = tuple(i for i, c in enumerate(node) if c not in given)
    total = table.sum(axis=axes, keepdims=True)
    shares: FloatArray = np.divide(table, total, out=np.zeros_like(table), where=total > 0)
    return shares


def _needed(tree: _Tree, wanted: set[int]) -> tuple[list[Clique], dict[Clique, Clique]]:
    """Nodes that a marginal depends on, and the separators of those that have a parent among them.

    A leaf that holds no wanted column beyond its separator sums to 1 given it; a root with one child and
    no wanted column beyond that child's separator is in the child's belief.
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


def _systematic(joint: FloatArray, parent: IntArray, generator: np.random.Generator) -> IntArray:
    """A code for every row given its parent's index, (rows,)."""
    order = np.lexsort((generator.random(len(parent)), parent))
    groups = np.bincount(parent, minlength=len(joint))
    rank = np.arange(len(parent)) - (np.cumsum(groups) - groups)[parent[order]]
    place = (rank + generator.random(len(joint))[parent[order]]) / groups[parent[order]]
    total = joint.sum(axis=1, keepdims=True)
    shares = np.divide(joint, total, out=np.full_like(joint, 1.0 / joint.shape[1]), where=total > 0)
    above = np.cumsum(shares, axis=1)[:, :-1]
    drawn = np.zeros(len(parent), dtype=np.int64)
    for column in above.T:
        drawn[order] += place >= column[parent[order]]
    return drawn


def _index(codes: IntArray, columns: Clique, sizes: Sequence[int]) -> IntArray:
    index = np.zeros(len(codes), dtype=np.int64)
    for column in columns:
        index = index * sizes[column] + codes[:, column]
    return index


def _cells(sizes: Sequence[int], clique: Clique) -> int:
    cells = 1
    for column in clique:
        cells *= sizes[column]
    return cells


@functools.cache
def _library() -> tuple[Any, Any]:
    try:
        import jax

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about float32, which `fit` does not use, and about jax's cache
            import mbi
    except ImportError:
        raise MissingDependencyError(
            "a release of marginals needs the packages jax and mbi", "Run: pip install 'fedkme[release]'."
        ) from None
    return jax, mbi
