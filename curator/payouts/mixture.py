"""Payment by mixture weights: how much of D_v each owner's rows can explain, as the orders used it.

The weights are computed from noised histograms (curator/cells/mixture.py), each the output of a private
release that the run has paid for: **post-processing, cost 0** towards owners, for D_v and for every owner.
The weights say nothing about which rows were sent or kept; owners whose histograms differ by noise alone get
about the same amount.
"""

from __future__ import annotations

from collections.abc import Mapping

from curator.payouts.payout import Payout, divide


def by_mixture(weights: Mapping[str, float], total: int) -> Payout:
    """Divide a total by the mixture weights of a run's owners, which add up to 1.

    Raises:
        ConfigError: the total cannot be divided.
    """
    amounts, shares = divide(total, weights)
    tells = "nothing new: weights are computed from private histograms already paid for"
    return Payout("mixture", total, amounts, shares, "owners", tells)
