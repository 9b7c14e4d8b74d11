"""Rows in few coordinates, for kernels of all their pairs: products in float32 that are exponents already.

Write a row as x = c + V z + r, with c the mean of all rows, V the k leading directions of their covariance
and r what these leave. Then ||x - y||^2 = ||z_x - z_y||^2 + ||r_x||^2 + ||r_y||^2 - 2 <r_x, r_y>. All of it
is kept but the last product, so that a kernel is off by the factor exp(2 gamma <r_x, r_y>). Over all pairs of
rows the mean square of that exponent is 4 gamma^2 sum_{i > k} lambda_i^2 exactly, lambda the eigenvalues of
the covariance (E <r_x, r_y>^2 = tr C_r^2), and its mean is 0: k is the least for which its root is below
DROPPED. The kernel of a row and itself, whose exponent is not small, is put right.

With -gamma ||x||^2 and 1 as further coordinates a matrix product gives exponents, which exp then replaces in
place: a kernel of two rows costs a product of k + 2 numbers, and one exp.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray, Rows

DROPPED = 1.5e-3
"""Root mean square of the exponents that are left out. On MNIST it gives k = 257 of 784, means of kernels
that are off by 4e-7 of .37, and the MMD^2 of a summary to 6e-4 of itself."""
NARROW = 64
"""Columns up to which rows stay as they are: there is nothing to gain."""
_BLOCK = 1024


@dataclass(frozen=True, eq=False, slots=True)
class ShortRows:
    """Rows of which `left @ right.T` has the exponents -gamma ||x - y||^2, but for what was dropped.

    Attributes:
        left: (N, k + 2) float32.
        right: the same.
        lacking: 1 - k(x, x) as these coordinates have it, (N,).
    """

    left: NDArray[np.float32]
    right: NDArray[np.float32]
    lacking: FloatArray

    def __len__(self) -> int:
        return len(self.left)

    def column(self, row: int) -> NDArray[np.float32]:
        """Kernel of a row with every row, (N,)."""
        values: NDArray[np.float32] = np.exp(self.left @ self.right[row])
        values[row] = 1.0
        return values

    def means(self) -> FloatArray:
        """Mean kernel of each row with all rows, itself among them, (N,): their mean embedding at each.

        A block of pairs is computed once, for its rows and for its columns; sums of a block are in float32,
        those of blocks in float64. Time N^2 k / 2; memory a block of 1024 x 1024.
        """
        size = len(self)
        sums, room = np.zeros(size), np.empty((_BLOCK, _BLOCK), np.float32)
        ones = np.ones(_BLOCK, np.float32)
        for top in range(0, size, _BLOCK):
            above = self.left[top : top + _BLOCK]
            for first in range(top, size, _BLOCK):
                beside = self.right[first : first + _BLOCK]
                block = room[: len(above), : len(beside)]
                np.matmul(above, beside.T, out=block)
                np.exp(block, out=block)
                sums[top : top + len(above)] += block @ ones[: len(beside)]
                if first > top:
                    sums[first : first + len(beside)] += ones[: len(above)] @ block
        means: FloatArray = (sums + self.lacking) / size
        return means

    def first(self, count: int) -> tuple[FirstRows, FloatArray]:
        """The first rows alone, and the mean kernel of each with all rows, (count,), in blocks as `means`."""
        gram, sums = np.empty((count, count), np.float32), np.zeros(count)
        for first in range(0, len(self), _BLOCK):
            block = self.left[:count] @ self.right[first : first + _BLOCK].T
            np.exp(block, out=block)
            sums += block.sum(axis=1)
            gram[:, first : first + _BLOCK] = block[:, : max(count - first, 0)]
        np.fill_diagonal(gram, 1.0)
        means: FloatArray = (sums + self.lacking[:count]) / len(self)
        return FirstRows(gram), means


@dataclass(frozen=True, eq=False, slots=True)
class FirstRows:
    """Rows of which the kernel of each with each is held, (C, C) float32."""

    gram: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.gram)

    def column(self, row: int) -> NDArray[np.float32]:
        """Kernel of a row with every row, (C,)."""
        column: NDArray[np.float32] = self.gram[row]
        return column


def shorten(rows: Rows, gamma: float, whole: bool = False) -> ShortRows:
    """Make the coordinates; rows (N, n), gamma in units of 1 / squared distance; `whole` drops nothing."""
    centred = np.asarray(rows, np.float32) - np.asarray(rows, np.float64).mean(axis=0).astype(np.float32)
    squares = np.einsum("ij,ij->i", centred, centred, dtype=np.float64)
    whole = whole or centred.shape[1] <= NARROW or len(centred) <= centred.shape[1]
    leading = centred if whole else centred @ _directions(centred, gamma)
    rest = np.maximum(squares - np.einsum("ij,ij->i", leading, leading, dtype=np.float64), 0.0)
    if leading.shape == centred.shape:
        rest[:] = 0.0  # what is there is rounding
    left = np.empty((len(rows), leading.shape[1] + 2), np.float32)
    left[:, :-2] = leading * np.float32(np.sqrt(2.0 * gamma))
    left[:, -2] = -gamma * squares
    left[:, -1] = 1.0
    right = left.copy()
    right[:, -2], right[:, -1] = 1.0, left[:, -2]
    return ShortRows(left, right, -np.expm1(-2.0 * gamma * rest))


def _directions(centred: NDArray[np.float32], gamma: float) -> NDArray[np.float32]:
    """Leading directions of rows around 0, (n, k)."""
    eigenvalues, directions = np.linalg.eigh((centred.T @ centred).astype(np.float64) / len(centred))
    dropped = 2.0 * gamma * np.sqrt(np.cumsum(np.maximum(eigenvalues, 0.0) ** 2))  # of the smallest, so many
    return np.ascontiguousarray(directions[:, dropped > DROPPED], np.float32)
