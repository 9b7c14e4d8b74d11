"""Marginals over pooled one-hot products: in rounds by noisy counts, or independent columns.

`rounds` asks owners for noisy sums in seven questions, `independent` for noisy counts of single columns; the
curator need not be trusted with any other.

Sensitivities are in fedkme.features.counts, the accounting is in `budget`.
"""
