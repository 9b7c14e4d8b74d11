"""Presets: the parameters of every mechanism, from a total (epsilon, delta) per pair of parties.

`sound`, the default: one exact Gaussian release of D_v at (epsilon, delta); towards other owners the
descending clock and jointly calibrated Gaussian broadcasts, which share epsilon. Replacing one row of an
owner costs a clock of parameter e 2 e, and exchanges up to two rows of the summary
(curator/summary/auctions/clock.py), so that the noise of the broadcasts is twice what one exchanged row
would need.

`published`: the paper's h1, h2, PRIVAUCTION and parameters, for which no finite guarantee exists; what is not
as printed is in docs/errata.md.

Whatever a configuration says by hand stays as it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field

from fedkme.config import Settings
from fedkme.privacy.gaussian import row_epsilon

Preset = Literal["sound", "published"]
PUBLISHED_GAMMA = 0.1
"""Width of the paper's kernel, whatever the columns are."""
LARGE = 10.0
"""Epsilon above which every party that sets one is warned: a likelihood ratio of 22,000."""


class PrivacyTarget(Settings):
    """Limit on a run's cost: of D_v towards everybody, of each owner's rows towards other owners."""

    epsilon: float = Field(1.0, gt=0, allow_inf_nan=False)
    """Bound of the total loss."""
    delta: float = Field(1e-5, gt=0, lt=1)
    """Probability at which epsilon is stated."""
    group: int = Field(1, ge=1)
    """Rows that epsilon holds for together, such as those of one person (docs/decisions/017)."""
    clock_share: float = Field(0.5, gt=0, lt=1)
    """Part of epsilon that the auction gets; the rest is for the broadcasts. Measured: docs/decisions/003."""

    @property
    def of_row(self) -> float:
        """Pure epsilon that one row of a group may cost."""
        return self.epsilon / self.group


class _Written(BaseModel):
    """The part of a table of settings that a preset reads, so that what is wrong in it has its whole path."""

    privacy: PrivacyTarget = PrivacyTarget()
    payouts: float = Field(0.0, ge=0, allow_inf_nan=False)

    @property
    def of_summary(self) -> float:
        """Part of epsilon that is left for the summary itself.

        Raises:
            ValueError: payouts get all of it.
        """
        if self.payouts and self.payouts >= self.privacy.epsilon:
            raise ValueError(f"payouts = {self.payouts:g} leaves nothing of privacy.epsilon for the summary")
        return self.privacy.epsilon - self.payouts


def large_epsilons(settings: object, within: str = "") -> list[str]:
    """Epsilons of settings over LARGE, as `key = value`: their promise is next to nothing."""
    lines = []
    for name, value in settings if isinstance(settings, BaseModel) else ():
        for inner in value if isinstance(value, tuple) else (value,):
            lines += large_epsilons(inner, f"{within}{name}.")
        if name in ("epsilon", "most_epsilon") and isinstance(value, float) and value > LARGE:
            lines.append(f"{within}{name} = {value:g}")
    return lines


def warn_of_large(settings: object, say: Callable[[str], None]) -> None:
    """Say in a line which epsilons of a party's settings are so large, if some are."""
    if epsilons := large_epsilons(settings):
        say(f"an epsilon over {LARGE:g} promises next to nothing: {', '.join(epsilons)}")


def with_preset(values: Mapping[str, Any]) -> dict[str, Any]:
    """A table of summary settings with the mechanisms that its preset and privacy target ask for.

    Args:
        values: the table as it was written; mechanisms that it names are left alone, and a table that changes
            parameters of the preset's own mechanism need not name it.
    """
    filled = dict(values)
    written_target = _Written.model_validate(filled)
    target, of_summary = written_target.privacy, written_target.of_summary
    if filled.get("preset", "sound") == "published":
        defaults: dict[str, dict[str, Any]] = {
            "target": {"mechanism": "mwem", "estimate": "average"},
            "broadcast": {"mechanism": "mwem", "estimate": "average"},
            "auction": {"kind": "privauction"},
            "features": {"kind": "offset"},
        }
        seed_set = "counted"
        if isinstance(kernel := filled.get("kernel", {}), Mapping):
            filled["kernel"] = {"gamma": PUBLISHED_GAMMA} | dict(kernel)
    else:
        defaults = {
            "target": {
                "mechanism": "gaussian",
                "epsilon": row_epsilon(target.epsilon, target.delta, target.group),
                "delta": target.delta,
            },
            "broadcast": {
                "mechanism": "gaussian",
                "epsilon": row_epsilon(
                    of_summary * (1.0 - target.clock_share), target.delta, 2 * target.group
                ),
                "delta": target.delta,
            },
            "auction": {"kind": "clock", "epsilon": of_summary * target.clock_share / (2.0 * target.group)},
        }
        seed_set = "subtracted"
    filled.setdefault("seed_set", seed_set)
    for key, default in defaults.items():
        written = filled.get(key, {})
        if isinstance(written, Mapping):
            discriminator = "kind" if "kind" in default else "mechanism"
            same = written.get(discriminator, default[discriminator]) == default[discriminator]
            filled[key] = default | dict(written) if same else dict(written)
    return filled
