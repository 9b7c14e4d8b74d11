"""Coalitions: owners whose rows are counted together, with noise once for all of them (docs/decisions/007).

Relation: replace one row (with its label) of one owner, all m_j public. The vector has one block of counts
for each coalition, and an owner has zeros in all but its own: the row leaves one cell and enters another of
the same block, so the vector moves by sqrt 2 in L2, whatever the number of coalitions, classes and cells is.

Sketch and counts are two Gaussians of multipliers s and t; the question of the second follows from the first.
Together they are one Gaussian of multiplier (1/s^2 + 1/t^2)^(-1/2), exactly: for any answer to the first the
second's privacy loss is normal with mean 1/(2 t^2) and variance 1/t^2, so the sum of both is normal too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fedkme.cells.plan import MOST_CELLS_THAT_HELP, SLACK, rows_a_cell
from fedkme.cells.repeated_requests import rule_epsilon
from fedkme.features.counts import L2_STEP
from fedkme.privacy.events import Gaussian
from fedkme.privacy.gaussian import gaussian_sigma

MANY = 20
"""Fewest owners that count together by the rule."""
WEAK = 40.0
"""m_j epsilon of an owner of middle size below which its own histogram of 8 cells is noise."""


@dataclass(frozen=True)
class CoalitionNoise:
    """Noise that protects an owner's row where owners count together.

    Attributes:
        sketch: deviation of the sketch's noise over its sensitivity.
        counts: deviation of the counts' noise over theirs.
    """

    sketch: float
    counts: float

    def for_group(self, rows: int) -> CoalitionNoise:
        """Multiply the noise: what held for one row holds for so many (fedkme/privacy/events/groups.py)."""
        return replace(self, sketch=rows * self.sketch, counts=rows * self.counts)

    @property
    def events(self) -> tuple[Gaussian, Gaussian]:
        """Events of both for the ledger."""
        return Gaussian(self.sketch), Gaussian(self.counts)

    @property
    def deviation(self) -> float:
        """Deviation of the noise on one count."""
        return self.counts * L2_STEP

    @property
    def epsilon(self) -> float:
        """Epsilon of a histogram whose discrete Laplace noise deviates about as much, for rules of sizes."""
        return rule_epsilon(self.deviation)


def coalition_noise(epsilon: float, delta: float, sketch_share: float) -> CoalitionNoise:
    """The least noise of the counts with which sketch and counts together are (epsilon, delta)-DP.

    Args:
        epsilon: > 0.
        delta: in (0, 1).
        sketch_share: in (0, 1); the sketch by itself is (sketch_share epsilon, delta)-DP.

    Raises:
        ConfigError: a parameter is out of its range.
    """
    sketch = gaussian_sigma(sketch_share * epsilon, delta)
    both = gaussian_sigma(epsilon * (1.0 - SLACK), delta)
    return CoalitionNoise(sketch, (both**-2 - sketch**-2) ** -0.5)


def pools_help(sizes: Sequence[int], epsilon: float) -> bool:
    """Check whether owners are many, and their own histograms would be noise; public numbers alone.

    Args:
        sizes: all m_j.
        epsilon: of an owner's histogram.
    """
    return len(sizes) >= MANY and sorted(sizes)[len(sizes) // 2] * epsilon < WEAK


def coalition_rows(noise: CoalitionNoise, classes: int) -> int:
    """Rows of a coalition for which `bits_for` is not what limits a code book of so many classes."""
    return math.ceil(MOST_CELLS_THAT_HELP * rows_a_cell(classes) / noise.epsilon)


def coalitions_of(sizes: Mapping[str, int], rows: int) -> tuple[tuple[str, ...], ...]:
    """Group owners in the order of their names, so that each group has about so many rows, or all have.

    Args:
        sizes: m_j by name, each 1 or more.
        rows: of a coalition.

    Returns:
        Names by coalition; none is empty.
    """
    total = sum(sizes.values())
    count = max(1, total // max(rows, 1))
    groups: list[list[str]] = [[] for _ in range(count)]
    before = 0.0
    for name in sorted(sizes):  # by the middle of its rows on the line of all
        groups[min(count - 1, int((before + sizes[name] / 2.0) * count / total))].append(name)
        before += sizes[name]
    return tuple(tuple(group) for group in groups if group)
