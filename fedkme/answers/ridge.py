"""Ridge regressions of functions on released features, over public rows alone."""

import math
from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray

RIDGES: FloatArray = np.logspace(4, -12, 33)


@dataclass(frozen=True, eq=False, slots=True)
class Basis:
    """Features in units of their noise, turned so that they are uncorrelated over the public rows.

    Attributes:
        spectrum: mean squares of the turned features, (J,).
        turn: (J, J) orthogonal.
        middle: means of the turned features over the public rows, (J,).
        at: features of the rows that are fitted, (K, J), not turned.
        test: turned features of the test rows, which are not fitted, (L, J).
    """

    spectrum: FloatArray
    turn: FloatArray
    middle: FloatArray
    at: FloatArray
    test: FloatArray


@dataclass(frozen=True, eq=False, slots=True)
class RegressedFunction:
    """A function on the public rows.

    Attributes:
        against: mean products of the function with the turned features, (J, C).
        mean: mean over the fitted rows and classes.
        fitted: values at the rows that are fitted, (K, C).
        test: values at the test rows, (L, C).
    """

    against: FloatArray
    mean: float
    fitted: FloatArray
    test: FloatArray


@dataclass(frozen=True, eq=False, slots=True)
class RidgePath:
    """Regressions of a function with each of R penalties.

    Attributes:
        weights: weights of the turned features, (R, J, C).
        constants: constant terms, (R,).
        missed: residuals at the test rows, (R, L, C).
    """

    weights: FloatArray
    constants: FloatArray
    missed: FloatArray

    @property
    def noise(self) -> FloatArray:
        """Standard deviation of the noise in each estimate, (R,)."""
        deviations: FloatArray = np.sqrt(np.einsum("rjc,rjc->r", self.weights, self.weights))
        return deviations


def regressed(fitted: FloatArray, test: FloatArray, basis: Basis) -> RegressedFunction:
    """Prepare a function for regression.

    Args:
        fitted: values at the rows that are fitted, (K, C).
        test: values at the test rows, (L, C).
        basis: the features.
    """
    against = basis.turn.T @ (basis.at.T @ fitted) / len(fitted)
    return RegressedFunction(against, float(fitted.mean()), fitted, test)


def ridge_path(target: RegressedFunction, basis: Basis) -> RidgePath:
    """Ridge regressions of a function, one for each penalty, each with a constant that is not penalised."""
    shrunk = 1.0 / (basis.spectrum + RIDGES[:, None] + 1e-14 * basis.spectrum[-1])
    free = 1.0 - shrunk @ basis.middle**2
    rest = target.mean - ((shrunk * basis.middle) @ target.against).mean(axis=1)
    constants = np.divide(rest, free, out=np.zeros_like(rest), where=free > 1e-9)
    own = target.against - constants[:, None, None] * basis.middle[:, None]
    weights: FloatArray = own * shrunk[:, :, None]
    reached = basis.test @ weights.transpose(1, 0, 2).reshape(len(basis.spectrum), -1)
    reached = reached.reshape(len(basis.test), len(RIDGES), -1).transpose(1, 0, 2)
    return RidgePath(weights, constants, target.test - constants[:, None, None] - reached)


def best_mean(target: RegressedFunction, basis: Basis, released: FloatArray) -> tuple[float, float]:
    """Mean of a function by the penalty of least error, and the root mean squared error."""
    path, place, risk = surest_path(target, basis)
    return within(float(estimates(path, released)[place]), target), risk


def surest_path(target: RegressedFunction, basis: Basis) -> tuple[RidgePath, int, float]:
    """Path of a function, the place of the penalty of least mean squared error, and the root of that error.

    The error is that of the noise plus that at the test rows.
    """
    path = ridge_path(target, basis)
    risks = np.square(path.missed).mean(axis=(1, 2)) + path.noise**2
    place = int(risks.argmin())
    return path, place, math.sqrt(float(risks[place]))


def within(value: float, target: RegressedFunction) -> float:
    """Cut a mean to the range of its function at the test rows."""
    return min(max(value, float(target.test.min())), float(target.test.max()))


def estimates(path: RidgePath, released: FloatArray) -> FloatArray:
    """Estimated means of a function, one for each penalty, (R,)."""
    means: FloatArray = path.constants + np.einsum("rjc,jc->r", path.weights, released)
    return means
