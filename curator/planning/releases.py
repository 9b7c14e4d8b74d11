"""Choice of a release's method where nobody names one: `auto`, by public facts alone (docs/decisions/021).

The rule looks at the schema and at what is asked; sizes, epsilon and trust tell the error to expect. Nothing
private is read, so a plan may be told to everybody.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fedkme.errors import ConfigError
from fedkme.moments.scales import affordable_width, reach_of
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.releases.choice import Task, method_for
from fedkme.tables.schema import Schema

_BINS = 16
"""Bins of a number in a release of marginals."""
_WITHIN = 1.5
"""Variance of a coordinate of all rows over that of rows of one class, clipped."""
_POINTS = 1000
"""Random features that stand for those of a kernel method."""


@dataclass(frozen=True, slots=True)
class ReleaseFacts:
    """Facts that everybody may know before a release.

    Attributes:
        schema: of all rows.
        rows: N, of all owners.
        epsilon: of the release; inf without noise.
        delta: of that epsilon.
        noise_ratio: deviation of the noise over that of a trusted curator's.
        task: what the release is for.
    """

    schema: Schema
    rows: int
    epsilon: float
    delta: float
    noise_ratio: float = 1.0
    task: Task = "rows"

    def __post_init__(self) -> None:
        if self.rows < 1 or not self.epsilon > 0 or not 0 < self.delta < 1:
            raise ConfigError("rows, epsilon or delta of a release are out of range", "Correct them.")

    @property
    def multiplier(self) -> float:
        """Noise over sensitivity, as it arrives."""
        if math.isinf(self.epsilon):
            return 0.0
        return self.noise_ratio * gaussian_sigma(self.epsilon, self.delta)


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """Method that is taken.

    Attributes:
        method: its name.
        why: reason in words.
        errors: deviation that noise alone is expected to cause, by candidate: in the correlation of two
            columns (`marginals`, of those that it counts together; `moments`, within classes), in the mean
            embedding over its longest (`balog2`). They measure unlike things and do not choose.
    """

    method: str
    why: str
    errors: dict[str, float]

    @property
    def line(self) -> str:
        """The plan for a person."""
        told = ", ".join(
            f"{name} {self.errors[name]:.2g} {_UNITS[name]}" for name in ("marginals", "moments", "balog2")
        )
        return f"plan: {self.method}; {self.why} (expected error from noise alone: {told})"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"method": self.method, "why": self.why, "errors": self.errors, "line": self.line}


_UNITS = {
    "marginals": "in a correlation that it counts",
    "moments": "in one within classes",
    "balog2": "of a kernel embedding",
}


def plan_release(facts: ReleaseFacts) -> ReleasePlan:
    """Choose a method by the schema and the task, and say what error noise alone will cause."""
    method, why = method_for(facts.schema, facts.task)
    errors = {
        "marginals": _marginals_error(facts),
        "moments": _moments_error(facts),
        "balog2": 2.0 * facts.multiplier * math.sqrt(_POINTS) / facts.rows,
    }
    return ReleasePlan(method, why, errors)


def _marginals_error(facts: ReleaseFacts) -> float:
    """A table of 16 by 16 cells, of as many as single columns and a tree of pairs are, in equal shares.

    The correlation of two columns of unit variance is sum x_i y_j p_ij; noise sigma in each cell moves it by
    sigma sqrt(sum x_i^2 y_j^2), about 16 sigma. A row moves each table by sqrt 2.
    """
    columns = facts.schema.width + bool(facts.schema.classes)
    return _BINS * facts.multiplier * math.sqrt(2.0 * (2 * columns - 1)) / facts.rows


def _moments_error(facts: ReleaseFacts) -> float:
    """The noise of z_i z_j, 3/2 m for each class, over its variance within classes, 1/(k reach) or less.

    `_WITHIN` is how much less: 1.3 to 2.5 on six tables (docs/decisions/021).
    """
    classes, multiplier = len(facts.schema.classes) or 1, facts.multiplier
    if not multiplier:
        return 0.0
    affordable = affordable_width(facts.rows, multiplier, classes)
    width = max(1.0, min(facts.schema.encoded_width, affordable))
    noise = _WITHIN * 1.5 * multiplier * math.sqrt(classes)
    return noise * width * reach_of(affordable / width) / facts.rows
