"""Payouts: whole units of a currency for each owner, who may see the amounts, and what the amounts reveal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Literal

from fedkme.errors import ConfigError, PolicyError
from fedkme.privacy.events import Event

Audience = Literal["owners", "curator"]
"""Readers of the amounts: each owner reads its own amount (so a coalition reads its members'), or the curator
alone."""


@dataclass(frozen=True, slots=True)
class Payout:
    """Payment to every owner.

    Attributes:
        method: how the amounts were computed.
        total: sum of all amounts, in the smallest unit of the currency, >= 0.
        amounts: by owner, in the order of names, each >= 0; they add up to `total`.
        shares: by owner, proportional to the amounts before rounding; >= 0, adding up to 1.
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
            raise PolicyError(
                f"a payout by {self.method} tells owners {self.tells}", "Keep it, or release it with noise."
            )
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
