"""Payment for every row sent, used or not: each owner's own ledger already has its count.

With a price per row, an owner's amount is a function of its own count, which the owner knows: it learns
nothing.

A fixed total that is divided by counts reveals more. From its own amount and count an owner can compute the
total number of rows that all owners sent.

- `uniform`: the counts are a function of p and all m_j, which are public. The amounts reveal nothing.
- `cells`: orders are functions of p, rho and private histograms, so counts of *ordered* rows are
  post-processing. Only the curator sees a short delivery, so divide a total by orders, not by deliveries.
- `algorithm3`: the clock's noise hides exactly the number of rows worth a price, and no other auction has a
  proof. So the division is for the curator alone, or the price is computed from a noised number of rows
  (`by_rows_noised`).
"""

from __future__ import annotations

from collections.abc import Mapping

from curator.payouts.payout import Payout, divide
from fedkme.errors import ConfigError
from fedkme.privacy.events import ExactStatistic, Laplace
from fedkme.privacy.noise import NoiseSource

NOISED = frozenset({"clock"})
"""Auctions under which a noised release is proven to add its own epsilon, and no more, to a run's cost."""


def by_price(counts: Mapping[str, int], price: int) -> Payout:
    """Pay a public price for every row; the total follows from the counts.

    Relation: replace one row of another owner. Sensitivity of an owner's amount: 0, given its own count.

    Raises:
        ConfigError: the price or a count is negative, or there is no owner.
    """
    if price < 0:
        raise ConfigError(f"a price of {price} for a row is negative", "Give whole units, 0 or more.")
    _check(counts)
    amounts = {name: counts[name] * price for name in sorted(counts)}
    _, shares = divide(0, counts)
    tells = "nothing: an owner's amount follows from the count in its own ledger and a public price"
    return Payout("rows", sum(amounts.values()), amounts, shares, "owners", tells)


def by_rows(counts: Mapping[str, int], total: int, public: bool) -> Payout:
    """Divide a fixed total by rows sent, or by rows ordered in runs by `cells`.

    `public` is true where the counts follow from public numbers and private releases; see the module's
    docstring.

    Raises:
        ConfigError: a count or the total is negative, or there is no owner.
    """
    _check(counts)
    amounts, shares = divide(total, counts)
    if public:
        tells = "nothing: these counts follow from public numbers and from private releases already paid for"
        return Payout("rows", total, amounts, shares, "owners", tells)
    tells = "the exact number of rows that all others sent, which nothing protects: use a price, or --epsilon"
    event = ExactStatistic("rows that all owners sent")
    return Payout("rows", total, amounts, shares, "curator", tells, event)


def by_rows_noised(counts: Mapping[str, int], total: int, epsilon: float, noise: NoiseSource) -> Payout:
    """Pay about a total, by a price per row from a noised number of rows; for runs with the clock.

    Relation: replace one row of one owner, seen by the others. With the transcript fixed, whether a row is
    sent depends on that row alone (curator/summary/auctions/clock.py), so the number of sent rows
    changes by at most 1. Laplace noise of scale 1/epsilon makes the number (epsilon, 0)-DP, and the price is
    post-processing.
    The transcript of another auction has no finite cost: there the payout adds epsilon to infinity.

    Args:
        counts: rows sent by owner.
        total: units to pay; the amounts differ from the total by the noise, and the curator bears the
            difference.
        epsilon: epsilon of the price, > 0.
        noise: source of the noise.

    Raises:
        ConfigError: a parameter is out of its range.
    """
    _check(counts)
    if not epsilon > 0:
        raise ConfigError(f"epsilon {epsilon} of a payout is not positive", "Take epsilon > 0.")
    rows = max(1.0, sum(counts.values()) + float(noise.laplace(1.0 / epsilon, 1)[0]))
    price = total / rows
    amounts = {name: int(counts[name] * price) for name in sorted(counts)}
    _, shares = divide(0, counts)
    tells = f"a price per row with noise: epsilon {epsilon:g} about the number of rows that all sent"
    return Payout("rows", sum(amounts.values()), amounts, shares, "owners", tells, Laplace(1.0 / epsilon))


def _check(counts: Mapping[str, int]) -> None:
    if not counts or any(count < 0 for count in counts.values()):
        raise ConfigError("rows sent are not counts of some owners", "Name a run that had owners.")
