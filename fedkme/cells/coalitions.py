"""Coalitions: owners whose rows are counted together, with one draw of noise (docs/decisions/007).

Relation: replace one row (with its label) of one owner, all m_j public. The vector has one block of counts
for each coalition, and the counts of an owner are 0 outside of its coalition's block. The row leaves one cell
and enters another cell of the same block, so the vector moves by sqrt 2 in L2, for any number of coalitions,
classes and cells.

Sketch and counts are two Gaussians of multipliers s and t; the cells that are counted follow from the sketch.
Both together are exactly one Gaussian of multiplier (1/s^2 + 1/t^2)^(-1/2): for any sketch, the privacy loss
of the counts is normal with mean 1/(2 t^2) and variance 1/t^2, so the sum of both losses is normal, too.
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
"""Fewest owners for which the rule makes coalitions."""
WEAK = 40.0
"""Rows times epsilon of the median owner below which an owner's histogram of 8 cells is mostly noise."""


@dataclass(frozen=True)
class CoalitionNoise:
    """Noise that protects an owner's row where owners count together.

    Attributes:
        sketch: deviation of the noise of the sketch over the sensitivity of the sketch.
        counts: deviation of the noise of the counts over the sensitivity of the counts.
    """

    sketch: float
    counts: float

    def for_group(self, rows: int) -> CoalitionNoise:
        """Multiply the noise, so that it protects `rows` rows like one (fedkme/privacy/events/groups.py)."""
        return replace(self, sketch=rows * self.sketch, counts=rows * self.counts)

    @property
    def events(self) -> tuple[Gaussian, Gaussian]:
        """Events of sketch and counts, for the ledger."""
        return Gaussian(self.sketch), Gaussian(self.counts)

    @property
    def deviation(self) -> float:
        """Deviation of the noise on one count."""
        return self.counts * L2_STEP

    @property
    def epsilon(self) -> float:
        """Epsilon of a histogram with discrete Laplace noise of about this deviation, for rules of sizes."""
        return rule_epsilon(self.deviation)


def coalition_noise(epsilon: float, delta: float, sketch_share: float) -> CoalitionNoise:
    """Choose the least noise for the counts with which sketch and counts together are (epsilon, delta)-DP.

    Args:
        epsilon: > 0.
        delta: in (0, 1).
        sketch_share: in (0, 1); the sketch by itself is (sketch_share epsilon, delta)-DP.

    Raises:
        ConfigError: a parameter is out of its range.
    """
    sketch = gaussian_sigma(sketch_share * epsilon, delta)
    together = gaussian_sigma(epsilon * (1.0 - SLACK), delta)
    return CoalitionNoise(sketch, (together**-2 - sketch**-2) ** -0.5)


def pools_help(sizes: Sequence[int], epsilon: float) -> bool:
    """Check whether coalitions help: owners are many, and their single histograms would be noise.

    Args:
        sizes: m_j of all owners, public.
        epsilon: epsilon of an owner's histogram.
    """
    return len(sizes) >= MANY and sorted(sizes)[len(sizes) // 2] * epsilon < WEAK


def coalition_rows(noise: CoalitionNoise, classes: int) -> int:
    """Rows of a coalition from which on `bits_for` no longer limits a code book of `classes` classes."""
    return math.ceil(MOST_CELLS_THAT_HELP * rows_a_cell(classes) / noise.epsilon)


def coalitions_of(sizes: Mapping[str, int], rows: int) -> tuple[tuple[str, ...], ...]:
    """Group owners in the order of their names, so that each group has about `rows` rows.

    Args:
        sizes: m_j by name, each 1 or more.
        rows: rows of a coalition; with fewer rows in all, there is one coalition.

    Returns:
        Names by coalition; none is empty.
    """
    total = sum(sizes.values())
    count = max(1, total // max(rows, 1))
    groups: list[list[str]] = [[] for _ in range(count)]
    before = 0.0
    for name in sorted(sizes):  # an owner's group is that in which the middle of its rows lies
        groups[min(count - 1, int((before + sizes[name] / 2.0) * count / total))].append(name)
        before += sizes[name]
    return tuple(tuple(group) for group in groups if group)
