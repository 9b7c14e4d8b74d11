"""Amount of noise that the two private parts of a summary by cells need: owners' rows, and D_v.

Relation: replace one row of one owner, or one row of D_v; all m_j and m public.

**Owners.** One row is behind a sketch (Gaussian, multiplier s) and one owner's histogram (discrete Laplace
of scale b), which may depend on the sketch. The losses of the two compose exactly. With c = 1/b the
histogram's loss is l = +2c, 0 or -2c with probabilities p^2, 2p(1-p), (1-p)^2, p = 1/(1 + e^-c)
(fedkme.cells.histogram): `responses_delta` of fedkme.privacy.gaussian has the formula and its proof.

**D_v.** One histogram: (epsilon_v, 0).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedkme.cells import sketch
from fedkme.cells.codebook import LEADING
from fedkme.cells.histogram import HistogramNoise, histogram_noise
from fedkme.errors import ConfigError
from fedkme.privacy.events import Composed, Event, Gaussian
from fedkme.privacy.gaussian import gaussian_sigma, responses_delta

SLACK = 1e-5
"""Relative; epsilon left unused, so that accountants on a grid, which round up, stay within it too."""
SKETCH_SHARE = 0.3
"""Share of an owner's epsilon for the sketch alone; the histogram gets the rest of the joint
budget."""
SMALL_SHARE = 0.15
"""The share where rows say their class: a few directions are all that the sketch is for."""
RELEASE_SHARE = 0.9
"""The share for a release in the sketch's place; with one that exists nobody pays this share again."""
LARGE_SHARE = 0.7
"""The share where the sketch would else be too noisy to tell classes apart."""
CLASS_NOISE = 0.15
"""Length of the noise on a class mean of z, where z has length 1, beyond which a sketch gets LARGE_SHARE."""
MOST_CELLS_THAT_HELP = 104.0
"""A larger book is no better (lab/results/summaries.md, "Larger code books")."""
ROWS_OF_TARGET = 2.4
"""Rows of a cell of D_v at epsilon 1."""
LABELLED_ROWS = 84.0
"""Rows for each unit of the sketch's deviation from which on classes are used: 2,000 rows at epsilon 1."""


def joint_delta(multiplier: float, scale: float, epsilon: float) -> float:
    """Smallest delta of sketch and histogram together at epsilon, over adaptive choices.

    Args:
        multiplier: s of the sketch's Gaussian, > 0.
        scale: b of the histogram's discrete Laplace, > 0.
        epsilon: any real number.
    """
    step = 1.0 / scale
    up = 1.0 / (1.0 + math.exp(-step))
    down = math.exp(-step) * up
    responses = [(up * up, 2.0 * step), (2.0 * up * down, 0.0), (down * down, -2.0 * step)]
    return responses_delta(multiplier, responses, epsilon)


@dataclass(frozen=True)
class OwnerNoise:
    """Noise that protects an owner's row.

    Attributes:
        multiplier: deviation of the sketch's noise over its sensitivity; None without a sketch.
        histogram: noise of the owner's histogram.
        epsilon: epsilon of both together, for a row or for the group, at
        delta: 0 without a sketch.
    """

    multiplier: float | None
    histogram: HistogramNoise
    epsilon: float
    delta: float

    def for_group(self, rows: int) -> OwnerNoise:
        """Multiply the noise: what held for one row holds for so many (fedkme/privacy/events/groups.py)."""
        multiplier = None if self.multiplier is None else rows * self.multiplier
        return replace(self, multiplier=multiplier, histogram=HistogramNoise(rows * self.histogram.scale))

    @property
    def sketch_event(self) -> Gaussian | None:
        """Event of the sketch for the ledger; the sensitivity of the query is sketch.SENSITIVITY."""
        return None if self.multiplier is None else Gaussian(self.multiplier)

    @property
    def sketch_deviation(self) -> float:
        """Deviation of the sketch's noise in units of the query, 0 without a sketch."""
        return 0.0 if self.multiplier is None else self.multiplier * sketch.SENSITIVITY

    @property
    def event(self) -> Event:
        """Event of all that is released about an owner's row."""
        gaussian = self.sketch_event
        return self.histogram.event if gaussian is None else Composed((gaussian, self.histogram.event))


@functools.lru_cache(64)
def owner_noise(epsilon: float, delta: float, sketch_share: float = SKETCH_SHARE) -> OwnerNoise:
    """The least noise at which sketch and histogram together are (epsilon, delta)-DP.

    The sketch gets the Gaussian of (sketch_share epsilon, delta), the histogram the least scale that the
    joint loss allows: never more noise than (1 - sketch_share) epsilon, which basic composition would leave.

    Args:
        epsilon: > 0.
        delta: in (0, 1); not used with a share of 0.
        sketch_share: in [0, 1); 0 for a public code book, where the histogram has all of epsilon.

    Raises:
        ConfigError: a parameter is out of its range.
    """
    if not (epsilon > 0.0 and 0.0 <= sketch_share < 1.0):
        cause = f"no plan of epsilon {epsilon} with {sketch_share} of it for the sketch"
        raise ConfigError(cause, "Take epsilon > 0 and a share of at least 0 and below 1.")
    if sketch_share == 0.0:
        return OwnerNoise(None, histogram_noise(epsilon), epsilon, 0.0)
    multiplier = gaussian_sigma(sketch_share * epsilon, delta)
    # Basic composition holds at the low end; beyond epsilon the histogram alone breaks the bound.
    low, high = (1.0 - sketch_share) * epsilon * (1.0 - SLACK), epsilon + 1.0
    while high - low > 1e-9 * low:
        middle = 0.5 * (low + high)
        if joint_delta(multiplier, 2.0 / middle, epsilon * (1.0 - SLACK)) <= delta:
            low = middle
        else:
            high = middle
    return OwnerNoise(multiplier, histogram_noise(low), epsilon, delta)


def rows_a_cell(classes: int) -> float:
    """Rows of an owner's cell at epsilon 1 that stay above its noise; more where classes are cut first."""
    return 5.0 if classes == 1 else 8.0


def target_cells(validation_rows: int, epsilon_v: float) -> float:
    """Cells that D_v's counts carry, from public numbers: m rows, counted at epsilon_v in all."""
    return min(validation_rows * epsilon_v / ROWS_OF_TARGET, MOST_CELLS_THAT_HELP)


def bits_for(
    validation_rows: int, owner_rows: Sequence[int], epsilon_v: float, epsilon_owner: float, classes: int = 1
) -> int:
    """Sign bits of a code book, from public numbers: so many that noise stays below counts.

    A cell of D_v has ROWS_OF_TARGET rows at epsilon 1, one of an owner of middle size `rows_a_cell`.

    Args:
        validation_rows: m.
        owner_rows: all m_j.
        epsilon_v: epsilon of the histogram of D_v.
        epsilon_owner: epsilon of an owner's histogram.
        classes: C, parts that the code book makes before it takes bits; 1 without labels.
    """
    middle = sorted(owner_rows)[len(owner_rows) // 2]
    held = middle * epsilon_owner / rows_a_cell(classes)
    most = min(target_cells(validation_rows, epsilon_v), held)
    least = 3 - math.ceil(math.log2(classes))
    return max(0, least, math.floor(math.log2(max(most, 1.0) / classes)))


def labels_help(rows: int, classes: int, deviation: float) -> bool:
    """Check whether the sketch can tell classes apart under its noise, from public numbers.

    Args:
        rows: N of all owners.
        classes: C.
        deviation: deviation of the noise of a sketch with SKETCH_SHARE (`OwnerNoise.sketch_deviation`).
    """
    return classes > 1 and rows >= LABELLED_ROWS * deviation


def share_for(rows: int | None, classes: int, deviation: float, own_class: bool) -> float:
    """Share of an owner's epsilon for the sketch, from public numbers alone: it is said before the sketch.

    Args:
        rows: N of all owners; None where none has said its size.
        classes: C of the schema.
        deviation: deviation of the noise of a sketch with SKETCH_SHARE.
        own_class: rows of D_v have classes: all rows will be counted by their own, where N is enough.
    """
    if classes < 2 or (rows is not None and not labels_help(rows, classes, deviation)):
        return SKETCH_SHARE
    if own_class:
        return SMALL_SHARE
    noise = 0.0 if rows is None else deviation * math.sqrt(LEADING) * classes / rows
    return LARGE_SHARE if noise > CLASS_NOISE else SKETCH_SHARE
