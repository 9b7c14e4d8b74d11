"""Ranking of owners by how similar the distribution of their rows is to D_v's: whom a contract is worth most.

    d_j = ||c_j / m_j - v||^2 - B s_j^2 / m_j^2

with c_j an owner's noisy counts by cell, s_j^2 the variance of the noise on each count, and v the
distribution over cells that is nearest to D_v's noisy counts. Without the noise on c_j, d_j is the squared
distance of two distributions over cells, which approximates the squared MMD of rows (lab/results/summaries.md
says how well).

All inputs are public or outputs of private releases that the run has paid for: **post-processing, cost 0**,
for every owner and for D_v. The ranking may be told to anybody. The release cannot tell apart two owners
whose intervals overlap; another run over the same owners costs again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedkme.cells.histogram import HistogramNoise, shares
from fedkme.errors import ConfigError

_FOURTH = 6.0
"""Fourth moment of Laplace noise over its squared variance; the discrete law's ratio is close to 6."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Place of one owner in the ranking.

    Attributes:
        owner: the owner's name.
        distance: d_j; below 0 only by noise.
        margin: two standard deviations of d_j by the noise on the owner's counts.
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
    """Rank owners by the releases of a summary by cells, nearest to D_v first; owners need rows.

    Args:
        histograms: noisy counts of each owner by cell, or by class and cell, class after class.
        owner_rows: m_j, public.
        target: noisy counts of D_v, by cell or in the owners' layout.
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
    standings = []
    for owner, counts in histograms.items():
        if rows := owner_rows[owner]:
            cells = np.asarray(counts, dtype=np.int64).reshape(-1, size)
            noise = len(cells) * variance / rows**2
            squared = float(np.square(cells.sum(axis=0) / rows - wanted).sum())
            distance = squared - size * noise
            spread = 4.0 * max(distance, 0.0) * noise + (_FOURTH - 1.0) * size * noise**2
            standings.append(Standing(owner, distance, 2.0 * float(np.sqrt(spread))))
    return sorted(standings, key=lambda standing: (standing.distance, standing.owner))
