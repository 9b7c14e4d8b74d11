"""Choice of a release's method where the consumer names none: `auto`, by public facts (docs/decisions/021).

The rule looks at the schema and at the task; sizes, epsilon and trust give the expected error. The plan reads
nothing private, so everybody may know it.
"""

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
"""Variance of a coordinate over all rows, relative to its variance over the rows of one class, clipped."""
_POINTS = 1000
"""Assumed random features of a kernel method."""


@dataclass(frozen=True, slots=True)
class ReleaseFacts:
    """Public facts before a release.

    Attributes:
        schema: schema of all rows.
        rows: N, rows of all owners.
        epsilon: epsilon of the release; inf without noise.
        delta: delta of the release.
        noise_ratio: deviation of the noise, relative to the noise of a trusted curator.
        task: purpose of the release.
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
        """Deviation of the received noise over the sensitivity."""
        if math.isinf(self.epsilon):
            return 0.0
        return self.noise_ratio * gaussian_sigma(self.epsilon, self.delta)


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """Method of a release, and why it was chosen.

    Attributes:
        method: name of the method.
        why: reason in words.
        errors: deviation that noise alone is expected to cause, by candidate: in the correlation of two
            columns (`marginals`: columns counted together; `moments`: within classes), or in the mean
            embedding relative to its largest norm (`balog2`). The errors measure different things and do not
            decide the choice.
    """

    method: str
    why: str
    errors: dict[str, float]

    @property
    def line(self) -> str:
        """The plan for a person."""
        errors = "; ".join(
            f"{name} {self.errors[name]:.2g} {_UNITS[name]}" for name in ("marginals", "moments", "balog2")
        )
        return f"plan: {self.method}; {self.why} (noise alone, each by its own measure: {errors})"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"method": self.method, "why": self.why, "errors": self.errors, "line": self.line}


_UNITS = {
    "marginals": "in a correlation that it counts",
    "moments": "in one within classes",
    "balog2": "of a kernel embedding",
}


def plan_release(facts: ReleaseFacts) -> ReleasePlan:
    """Choose a method by the schema and the task, and compute the error that noise alone will cause."""
    method, why = method_for(facts.schema, facts.task)
    errors = {
        "marginals": _marginals_error(facts),
        "moments": _moments_error(facts),
        "balog2": 2.0 * facts.multiplier * math.sqrt(_POINTS) / facts.rows,
    }
    return ReleasePlan(method, why, errors)


def _marginals_error(facts: ReleaseFacts) -> float:
    """Error of a table of 16 by 16 cells, where all single columns and a tree of pairs share epsilon equally.

    The correlation of two columns of unit variance is sum x_i y_j p_ij; noise sigma in each cell moves the
    correlation by sigma sqrt(sum x_i^2 y_j^2), about 16 sigma. A row moves each table by sqrt 2.
    """
    columns = facts.schema.width + bool(facts.schema.classes)
    return _BINS * facts.multiplier * math.sqrt(2.0 * (2 * columns - 1)) / facts.rows


def _moments_error(facts: ReleaseFacts) -> float:
    """Noise of z_i z_j, 3/2 m for each class, over its variance within classes, at most 1/(k reach).

    `_WITHIN` is the factor by which that variance is smaller: 1.3 to 2.5 on six tables (docs/decisions/021).
    """
    classes, multiplier = len(facts.schema.classes) or 1, facts.multiplier
    if not multiplier:
        return 0.0
    affordable = affordable_width(facts.rows, multiplier, classes)
    width = max(1.0, min(facts.schema.encoded_width, affordable))
    noise = _WITHIN * 1.5 * multiplier * math.sqrt(classes)
    return noise * width * reach_of(affordable / width) / facts.rows
