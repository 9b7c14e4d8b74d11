"""Marginals over pooled one-hot products: AIM and MST through mbi, and independent columns.

| method        | asks owners for                                  | curator                              |
|---------------|--------------------------------------------------|--------------------------------------|
| `aim`         | exact counts of the whole workload (CountOracle) | trusted: selects on exact errors     |
| `mst`         | noisy counts in three queries (NoisyOracle)      | need not be: it sees noisy sums only |
| `independent` | noisy counts of single columns (NoisyOracle)     | need not be                          |

Sensitivities stand in fedkme.features.counts, the accounting in `budget`.
"""

from curator.releases.marginals.adaptive import AimSettings, aim
from curator.releases.marginals.oracles import (
    CountOracle,
    NoisyOracle,
    PooledOracle,
    TrustedNoise,
)
from curator.releases.marginals.pooled import MstSettings, independent, mst
from curator.releases.marginals.release import MarginalRelease

__all__ = [
    "AimSettings",
    "CountOracle",
    "MarginalRelease",
    "MstSettings",
    "NoisyOracle",
    "PooledOracle",
    "TrustedNoise",
    "aim",
    "independent",
    "mst",
]
