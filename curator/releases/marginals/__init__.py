"""Marginals over pooled one-hot products: in rounds by noisy counts, AIM, and independent columns.

| method        | asks owners for                                  | curator                              |
|---------------|--------------------------------------------------|--------------------------------------|
| `rounds`      | noisy counts in six questions (NoisyOracle)      | need not be trusted                  |
| `aim`         | exact counts of the whole workload (CountOracle) | trusted: selects on exact errors     |
| `independent` | noisy counts of single columns (NoisyOracle)     | need not be trusted                  |

Sensitivities stand in fedkme.features.counts, the accounting in `budget`.
"""

from curator.releases.marginals.adaptive import aim
from curator.releases.marginals.oracles import CountOracle, NoisyOracle, PooledOracle, TrustedNoise
from curator.releases.marginals.pooled import independent
from curator.releases.marginals.release import MarginalRelease
from curator.releases.marginals.rounds import rounds

__all__ = [
    "CountOracle",
    "MarginalRelease",
    "NoisyOracle",
    "PooledOracle",
    "TrustedNoise",
    "aim",
    "independent",
    "rounds",
]
