"""Ridge regressions of functions on released features, over public rows alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray

RIDGES: FloatArray = np.logspace(4, -12, 33)


@dataclass(frozen=True, eq=False, slots=True)
class Basis:
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
class RegressedFunction:
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
class RidgePath:
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


def regressed(fitted: FloatArray, held: FloatArray, basis: Basis) -> RegressedFunction:
    """Values of a function at public rows, with what a regression needs of them."""
    against = basis.turn.T @ (basis.at.T @ fitted) / len(fitted)
    return RegressedFunction(against, float(fitted.mean()), fitted, held)


def ridge_path(target: RegressedFunction, basis: Basis, ridges: FloatArray = RIDGES) -> RidgePath:
    """Ridge regressions of a function, each with a constant that is not penalised."""
    shrunk = 1.0 / (basis.spectrum + ridges[:, None] + 1e-14 * basis.spectrum[-1])
    free = 1.0 - shrunk @ basis.middle**2
    left = target.mean - ((shrunk * basis.middle) @ target.against).mean(axis=1)
    constants = np.divide(left, free, out=np.zeros_like(left), where=free > 1e-9)
    own = target.against - constants[:, None, None] * basis.middle[:, None]
    weights: FloatArray = own * shrunk[:, :, None]
    reached = basis.held @ weights.transpose(1, 0, 2).reshape(len(basis.spectrum), -1)
    reached = reached.reshape(len(basis.held), len(ridges), -1).transpose(1, 0, 2)
    return RidgePath(weights, constants, target.held - constants[:, None, None] - reached)


def best_mean(target: RegressedFunction, basis: Basis, released: FloatArray) -> tuple[float, float]:
    """Mean of a function where noise and what the features miss are least, and what it may be off by."""
    path, place, risk = surest_path(target, basis)
    return within(float(estimates(path, released)[place]), target), risk


def surest_path(target: RegressedFunction, basis: Basis) -> tuple[RidgePath, int, float]:
    """Path of a function, and the penalty with the least mean squared error over the domain, and its root."""
    path = ridge_path(target, basis)
    risks = np.square(path.missed).mean(axis=(1, 2)) + path.noise**2
    place = int(risks.argmin())
    return path, place, math.sqrt(float(risks[place]))


def within(value: float, target: RegressedFunction) -> float:
    """Cut a mean to the range of its function."""
    return min(max(value, float(target.held.min())), float(target.held.max()))


def estimates(path: RidgePath, released: FloatArray) -> FloatArray:
    """Means of a function by each penalty, (R,)."""
    means: FloatArray = path.constants + np.einsum("rjc,jc->r", path.weights, released)
    return means
