"""Groups of a column's codes, cut by a model's noisy columns: the signs and tables of a screen.

A column in two groups of about equal mass is a sign. Further signs are Walsh functions of a few groups of
about equal mass: with the first, nearly a basis of the functions of these groups, so that what hides within
halves shows. Numbers are cut in order, categories in the order of their part in each class. All of this is
post-processing of noisy sums.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from curator.releases.marginals.model import Model
from fedkme.arrays import FloatArray, IntArray
from fedkme.features.counts import Groups

NUMBER_GROUPS, NAME_GROUPS, LEAST_NEW = 4, 8, 0.1
"""Most groups of a number and of a category in finer signs; least part of a sign's mass that those before
lack."""


@dataclass(frozen=True)
class Codes:
    """Columns of codes as the screen sees them.

    Attributes:
        sizes: codes of every column.
        label: place of the label, the last column; None without one.
        orders: the codes of each numeric column, in the order of their numbers.
    """

    sizes: Sequence[int]
    label: int | None = None
    orders: Mapping[int, Sequence[int]] = field(default_factory=dict)


def label_signs(codes: Codes) -> Iterator[Groups]:
    """Pairs of groups of the label's Hadamard code."""
    if (label := codes.label) is not None and (size := codes.sizes[label]) > 1:
        for mask in range(1, 1 << max(1, (size - 1).bit_length())):
            yield Groups(label, tuple((c & mask).bit_count() & 1 for c in range(size)))


def finer_signs(codes: Codes, model: Model, halves: Groups) -> Iterator[Groups]:
    """Further pairs of groups of a column: with its halves, nearly a basis of the functions of its groups.

    The groups are of about equal mass. Of their Walsh functions the one follows that differs most, by the
    model's mass, from a combination of those before; of a number the middle against both ends comes first.
    """
    ordered = halves.column in codes.orders
    group_of = of_equal_mass(codes, model, halves.column, NUMBER_GROUPS if ordered else NAME_GROUPS)
    masks = range(1, 1 << max(group_of).bit_length())
    root = np.sqrt(np.maximum(model.probabilities((halves.column,)), 0.0))
    walsh = [
        tuple((group & mask).bit_count() & 1 for group in group_of)
        for mask in (reversed(masks) if ordered else masks)
    ]
    known = root[:, None] / np.linalg.norm(root)
    rest = root * (1.0 - 2.0 * np.array(halves.of))
    for _ in range(max(group_of) - 1):
        rest = rest - known @ (known.T @ rest)
        known = np.column_stack([known, rest / max(float(np.linalg.norm(rest)), 1e-12)])
        signs = root[:, None] * (1.0 - 2.0 * np.array(walsh).T)
        lengths = np.linalg.norm(signs - known @ (known.T @ signs), axis=0)
        best = int(lengths.argmax())
        if lengths[best] ** 2 < LEAST_NEW:
            return
        yield Groups(halves.column, walsh[best])
        rest = signs[:, best]


def halves_of(codes: Codes, model: Model, column: int) -> tuple[int, ...]:
    """Groups 0 and 1 of the codes of a column, cut where the mass is nearest to even."""
    order, mass = _ordered(codes, model, column)
    cut = 1 + int(np.argmin(np.abs(np.cumsum(mass)[:-1] - 0.5)))
    groups = np.zeros(len(order), dtype=np.int64)
    groups[order[cut:]] = 1
    return tuple(groups.tolist())


def of_equal_mass(codes: Codes, model: Model, column: int, count: int) -> tuple[int, ...]:
    """Groups of the codes of a column, of about equal mass, at most so many."""
    order, mass = _ordered(codes, model, column)
    middle = np.clip((np.cumsum(mass) - mass / 2.0) * count, 0.0, count - 1)
    groups = np.zeros(len(order), dtype=np.int64)
    groups[order] = np.unique(middle.astype(np.int64), return_inverse=True)[1].reshape(-1)
    return tuple(groups.tolist())


def _ordered(codes: Codes, model: Model, column: int) -> tuple[IntArray, FloatArray]:
    """Codes of a column in order, and the model's mass of each."""
    shares = model.probabilities((column,))
    if column in codes.orders:
        order = np.asarray(codes.orders[column], dtype=np.int64)
    elif codes.label is None:
        order = np.argsort(-shares, kind="stable")
    else:
        order = np.argsort(_first_axis(model.probabilities((column, codes.label))), kind="stable")
    return order, shares[order]


def _first_axis(joint: FloatArray) -> FloatArray:
    """Scores of codes on the first axis of their table with the label, by correspondence analysis.

    For two classes they have the order of P(y | code).
    """
    codes, classes = joint.sum(axis=1), joint.sum(axis=0)
    expected = np.maximum(np.outer(codes, classes), 1e-300)
    left = np.linalg.svd((joint - expected) / np.sqrt(expected), full_matrices=False)[0][:, 0]
    return np.asarray(left / np.sqrt(np.maximum(codes, 1e-300)))
