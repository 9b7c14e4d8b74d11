"""Payouts: whole units of a currency for each owner, viewers of the amounts, and what amounts reveal.

**Payment by mixture weights**: how much of D_v each owner's rows can explain, as the orders used it.

The weights are computed from noised histograms (curator/cells/mixture.py), each the output of a private
release that the run has paid for: **post-processing, cost 0** towards owners, for D_v and for every owner.
The weights say nothing about which rows were sent or kept; owners whose histograms differ by noise alone get
about the same amount.

**Ranking** of owners by how similar the distribution of their rows is to D_v's: who to contract first.

    d_j = |c_j / m_j|^2 - B s_j^2 / m_j^2 - 2 (c_j / m_j)'(nu / m) + |v|^2
    |x|^2 = (sum_b x_b^2 + sum_a y_a^2) / 2

with c_j an owner's noisy counts by cell, s_j^2 the variance of the noise on each count, nu D_v's noisy
counts, and v the distribution over cells that is nearest to nu / m. y are the sums of x over classes, where
cells tell classes apart: rows of one part of two classes are half as far apart as rows of two parts, as rows
have no class in the MMD. The product x'z belongs to this norm. Without noise, d_j is the squared distance of
two distributions over cells, which approximates the squared MMD of rows (lab/results/summaries.md says how
well). nu / m itself, which may be negative, is in the product, as its noise has mean 0 there; in |v|^2, which
is the same for all owners, it would have a mean.

All inputs are public or outputs of private releases that the run has paid for: **post-processing, cost 0**,
for every owner and for D_v. The ranking may be told to anybody. The release cannot tell apart two owners
whose intervals overlap; another run over the same owners costs again.

**Payment for every row sent**, used or not: each owner's own ledger already has its count.

With a price per row, an owner's amount is a function of its own count, which the owner knows: it learns
nothing.

A fixed total that is divided by counts reveals more. From its own amount and count an owner can compute the
total number of rows that all owners sent.

- `uniform`: the counts are a function of p and all m_j, which are public. The amounts reveal nothing.
- `cells`: orders are functions of p, rho and private histograms, so counts of *ordered* rows are
  post-processing. Only the curator sees a short delivery, so divide a total by orders, not by deliveries.
- `algorithm3`: the clock's noise hides exactly the number of rows worth a price, and no other auction has a
  proof. So the division is for the curator alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.cells.histogram import HistogramNoise
from fedkme.embeddings.weight_fit import project
from fedkme.errors import ConfigError, PolicyError
from fedkme.privacy.events import Event, ExactStatistic


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
    tells = "the exact number of rows that all others sent, which nothing protects: use a price"
    event = ExactStatistic("rows that all owners sent")
    return Payout("rows", total, amounts, shares, "curator", tells, event)


def by_gains(value_by_owner: Mapping[str, float], total: int) -> Payout:
    """Pay a total by exact sums of winning gains, for the curator alone: epsilon towards owners is infinite.

    Raises:
        ConfigError: the total cannot be divided.
    """
    amounts, shares = divide(total, value_by_owner)
    tells = "who won, without protection: curator only"
    event = ExactStatistic("winning marginal gains of every owner")
    return Payout("gains", total, amounts, shares, "curator", tells, event)


def _check(counts: Mapping[str, int]) -> None:
    if not counts or any(count < 0 for count in counts.values()):
        raise ConfigError("rows sent are not counts of some owners", "Name a run that had owners.")


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
    classes: int = 1,
) -> list[Standing]:
    """Rank owners by the releases of a summary by cells, nearest to D_v first; owners need rows.

    Args:
        histograms: noisy counts of each owner by cell, or by class and cell, class after class.
        owner_rows: m_j, public.
        target: noisy counts of D_v, by cell or in the owners' layout.
        validation_rows: m, public.
        noise_scale: b of the discrete Laplace noise on each count of an owner, public.
        classes: classes that cells tell apart (`CodeBook.classes`).

    Raises:
        ConfigError: the histograms do not fit together.
    """
    size = len(target)
    fits = all(len(counts) and not len(counts) % size for counts in histograms.values()) if size else False
    if not fits or classes < 1 or size % classes:
        raise ConfigError("histograms do not fit together", "Give those of one run.")
    wanted = np.asarray(target, dtype=np.int64) / max(validation_rows, 1)
    nearest, trace = project(wanted, "simplex"), size * (classes + 3.0) / 4.0
    variance = HistogramNoise(noise_scale).variance
    standings = []
    for owner, counts in histograms.items():
        if rows := owner_rows[owner]:
            cells = np.asarray(counts, dtype=np.int64).reshape(-1, size)
            noise = len(cells) * variance / rows**2
            shares = cells.sum(axis=0) / rows
            squared = shares @ _blurred(shares - 2.0 * wanted, classes) + nearest @ _blurred(nearest, classes)
            distance = float(squared) - size * noise
            slope = float(np.square(_blurred(shares - nearest, classes)).sum()) - trace * noise
            spread = 4.0 * max(slope, 0.0) * noise + (2.0 * trace + (_FOURTH - 3.0) * size) * noise**2
            standings.append(Standing(owner, distance, 2.0 * float(np.sqrt(spread))))
    return sorted(standings, key=lambda standing: (standing.distance, standing.owner))


def _blurred(shares: FloatArray, classes: int) -> FloatArray:
    """K x, (B,), with |x|^2 = x'K x: K is 1 in a cell, 1/2 between the same parts of two classes, else 0."""
    by_class = shares.reshape(classes, -1)
    blurred: FloatArray = (0.5 * (by_class + by_class.sum(axis=0))).ravel()
    return blurred


def by_mixture(weights: Mapping[str, float], total: int) -> Payout:
    """Divide a total by the mixture weights of a run's owners, which add up to 1.

    Raises:
        ConfigError: the total cannot be divided.
    """
    amounts, shares = divide(total, weights)
    tells = "nothing new: weights are computed from private histograms already paid for"
    return Payout("mixture", total, amounts, shares, "owners", tells)


Audience = Literal["owners", "curator"]
"""Readers of the amounts: each owner reads its own amount (so a coalition reads its members'), or the curator
alone."""


@dataclass(frozen=True, slots=True)
class Payout:
    """Payment to every owner.

    Attributes:
        method: how the amounts were computed.
        total: sum of all amounts, in the smallest unit of the currency, >= 0.
        amounts: amounts by owner, in the order of names, each >= 0; they add up to `total`.
        shares: shares by owner, proportional to the amounts before rounding; >= 0, adding up to 1.
        audience: who may see the amounts.
        tells: one sentence that says what an owner learns of other owners' rows.
        event: cost to every owner's rows of telling owners, beyond the run's own events; None for no cost.
    """

    method: str
    total: int
    amounts: Mapping[str, int]
    shares: Mapping[str, float]
    audience: Audience
    tells: str
    event: Event | None = None

    def __post_init__(self) -> None:
        if sum(self.amounts.values()) != self.total or any(amount < 0 for amount in self.amounts.values()):
            raise ConfigError("amounts do not add up to their total", "Divide the total with `divide`.")

    def statement(self, owner: str) -> dict[str, Any]:
        """Statement to an owner: its own amount and the method; never shares, sum or others' amounts.

        Raises:
            PolicyError: the amounts are for the curator alone.
            ConfigError: there is no such owner.
        """
        if self.audience != "owners":
            cause = f"a payout by {self.method} tells owners {self.tells}"
            raise PolicyError(cause, "Keep it, or pay a price per row.")
        if owner not in self.amounts:
            raise ConfigError(f"no owner {owner!r} is in this payout", "Name one of the run's owners.")
        return {"owner": owner, "method": self.method, "amount": self.amounts[owner]}

    def to_json(self) -> dict[str, Any]:
        """All fields, for the curator's files."""
        return asdict(self) | {"event": None if self.event is None else self.event.to_json()}


def divide(total: int, values: Mapping[str, float]) -> tuple[dict[str, int], dict[str, float]]:
    """Split a total in proportion to values, by largest remainder; the amounts add up to the total.

    Arithmetic on the floats is exact, hence equal on every host. Of equal remainders the first name gets the
    unit. Values below 0 count as 0. Where no value is above 0, all owners get equal amounts.

    Returns:
        Amounts and shares by owner, in the order of names.

    Raises:
        ConfigError: there is no owner, the total is negative, or a value is not a finite number.
    """
    if isinstance(total, bool) or not isinstance(total, int) or total < 0:
        raise ConfigError(f"a total of {total} cannot be divided", "Give whole units, 0 or more.")
    if not values:
        raise ConfigError("a total cannot be divided among no owners", "Name a run that had owners.")
    if not all(math.isfinite(value) for value in values.values()):
        raise ConfigError("an owner's value is not a finite number", "Use another method for this run.")
    exact = {name: Fraction(max(0.0, float(values[name]))) for name in sorted(values)}
    mass = sum(exact.values(), Fraction(0))
    if not mass:
        exact, mass = dict.fromkeys(exact, Fraction(1)), Fraction(len(exact))
    quotas = {name: total * value / mass for name, value in exact.items()}
    amounts = {name: math.floor(quota) for name, quota in quotas.items()}
    remaining = total - sum(amounts.values())
    for name in sorted(quotas, key=lambda name: (amounts[name] - quotas[name], name))[:remaining]:
        amounts[name] += 1
    return amounts, {name: float(value / mass) for name, value in exact.items()}
