"""Ranking of owners: whose rows are distributed most like D_v, and so who is worth a contract.

    d_j = ||c_j / m_j - v||^2 - B s_j^2 / m_j^2

with c_j an owner's noisy counts by cell, s_j^2 the variance of the noise on each, v the distribution over
cells that is nearest to D_v's noisy counts: without the noise on c_j, the squared distance of two
distributions over cells, which stands for the squared MMD of rows (lab/results/summaries.md has how well).

Everything read is public or the output of a private release that the run has paid for: **post-processing,
cost 0**, for every owner and for D_v. It may be told to anybody. Two owners whose intervals overlap cannot be
told apart by what was released, and who asks again, with a run of the same owners, pays again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedkme.cells.histogram import HistogramNoise, shares
from fedkme.errors import ConfigError

_FOURTH = 6.0
"""Fourth moment of Laplace noise over its squared variance; the discrete law's is close to it."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One owner's place.

    Attributes:
        owner: its name.
        distance: d_j; below 0 only by noise.
        margin: two standard deviations that the noise on its counts gives d_j.
    """

    owner: str
    distance: float
    margin: float


def rank_owners(
    histograms: Mapping[str, Sequence[int]],
    owner_rows: Mapping[str, int],
    target: Sequence[int],
    validation_rows: int,
    noise_scale: float,
) -> list[Standing]:
    """Rank owners by what a summary by cells released, the nearest to D_v first; without rows: left out.

    Args:
        histograms: noisy counts of each owner by cell, or by class and cell, class after class.
        owner_rows: m_j, public.
        target: noisy counts of D_v, by cell or as the owners'.
        validation_rows: m, public.
        noise_scale: b of the discrete Laplace noise on each count of an owner, public.

    Raises:
        ConfigError: the histograms do not fit together.
    """
    size = len(target)
    if not size or any(not len(counts) or len(counts) % size for counts in histograms.values()):
        raise ConfigError("histograms do not fit together", "Give those of one run.")
    wanted = shares(np.asarray(target, dtype=np.int64), validation_rows)
    variance = HistogramNoise(noise_scale).variance
    found = []
    for owner, counts in histograms.items():
        if rows := owner_rows[owner]:
            cells = np.asarray(counts, dtype=np.int64).reshape(-1, size)
            noise = len(cells) * variance / rows**2
            squared = float(np.square(cells.sum(axis=0) / rows - wanted).sum())
            distance = squared - size * noise
            spread = 4.0 * max(distance, 0.0) * noise + (_FOURTH - 1.0) * size * noise**2
            found.append(Standing(owner, distance, 2.0 * float(np.sqrt(spread))))
    return sorted(found, key=lambda standing: (standing.distance, standing.owner))
