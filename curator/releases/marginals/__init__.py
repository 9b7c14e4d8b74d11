"""Marginals over pooled one-hot products: in rounds by noisy counts, by AIM, or independent columns.

| method        | asks owners for                                  | curator                              |
|---------------|--------------------------------------------------|--------------------------------------|
| `rounds`      | noisy sums in seven questions (NoisyOracle)      | need not be trusted                  |
| `aim`         | exact counts of the whole workload (CountOracle) | trusted: selects on exact errors     |
| `independent` | noisy counts of single columns (NoisyOracle)     | need not be trusted                  |

Sensitivities are in fedkme.features.counts, the accounting is in `budget`.
"""
