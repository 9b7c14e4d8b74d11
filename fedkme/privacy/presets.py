"""Presets: the parameters of every mechanism, from a total (epsilon, delta) per pair of parties.

`sound`, the default: one exact Gaussian release of D_v at (epsilon, delta). Towards other owners, the
descending clock and jointly calibrated Gaussian broadcasts share epsilon. A clock of parameter e costs 2 e
when one row of an owner is replaced. The replaced row may exchange up to two rows of the summary
(curator/summary/auctions/clock.py), so the broadcasts have twice the noise that one exchanged row needs.

`published`: the paper's h1, h2, PRIVAUCTION and parameters, for which no finite guarantee exists;
docs/errata.md lists the differences from the printed paper.

A preset never changes a value that a configuration names.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fedkme.config import Settings
from fedkme.errors import ConfigError
from fedkme.privacy.gaussian import row_epsilon

Preset = Literal["sound", "published"]
PUBLISHED_GAMMA = 0.1
"""Gamma of the paper's kernel, for any columns."""
LARGE = 10.0
"""Epsilon above which the party that set it gets a warning: a likelihood ratio of 22,000."""
LEAST = 0.01
"""Epsilon that messages recommend where a smaller one is refused: no part of it rounds to 0."""


class PrivacyTarget(Settings):
    """Limit on a run's cost: to D_v towards everybody, and to each owner's rows towards other owners."""

    epsilon: float = Field(1.0, gt=0)
    """Bound of the total loss."""
    delta: float = Field(1e-5, gt=0, lt=1)
    """Probability at which epsilon is stated."""
    group: int = Field(1, ge=1)
    """Rows that epsilon protects together, such as all rows of one person (docs/decisions/017)."""
    clock_share: float = Field(0.5, gt=0, lt=1)
    """Part of epsilon for the auction; the rest is for the broadcasts. Measured: docs/decisions/003."""

    @property
    def of_row(self) -> float:
        """Pure epsilon that one row of a group may cost."""
        return self.epsilon / self.group


class _Written(Settings):
    """The settings that a preset reads, in a model of their own, so that errors name the whole path."""

    model_config = ConfigDict(extra="ignore")

    privacy: PrivacyTarget = PrivacyTarget()


def large_epsilons(settings: object, within: str = "") -> list[str]:
    """Epsilons over LARGE in settings, as `key = value`: such an epsilon promises next to nothing."""
    lines = []
    for name, value in settings if isinstance(settings, BaseModel) else ():
        for inner in value if isinstance(value, tuple) else (value,):
            lines += large_epsilons(inner, f"{within}{name}.")
        if name in ("epsilon", "most_epsilon") and isinstance(value, float) and value > LARGE:
            lines.append(f"{within}{name} = {value:g}")
    return lines


def warn_of_large(settings: object, say: Callable[[str], None]) -> None:
    """Warn of the epsilons over LARGE in a party's settings, in one line; `say` receives it."""
    if epsilons := large_epsilons(settings):
        say(f"an epsilon over {LARGE:g} promises next to nothing: {', '.join(epsilons)}")


def with_preset(values: Mapping[str, Any]) -> dict[str, Any]:
    """Complete a table of summary settings by the mechanisms of its preset and privacy target.

    Args:
        values: the table as its user wrote it. Mechanisms that the table names stay as they are; a table that
            changes parameters of the preset's own mechanism need not name that mechanism.
    """
    filled = dict(values)
    target = _Written.model_validate(filled).privacy
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
        try:
            of_target = row_epsilon(target.epsilon, target.delta, target.group)
            left = target.epsilon * (1.0 - target.clock_share)
            of_broadcast = row_epsilon(left, target.delta, 2 * target.group)
        except ConfigError:
            raise ValueError(
                f"privacy.epsilon = {target.epsilon:g} at delta {target.delta:g} is too small to be shared "
                f"by the parts of a summary: take {LEAST:g} or more"
            ) from None
        defaults = {
            "target": {"mechanism": "gaussian", "epsilon": of_target, "delta": target.delta},
            "broadcast": {"mechanism": "gaussian", "epsilon": of_broadcast, "delta": target.delta},
            "auction": {
                "kind": "clock",
                "epsilon": target.epsilon * target.clock_share / (2.0 * target.group),
            },
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
