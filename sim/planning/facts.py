"""Facts that everybody may know before a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fedkme.errors import ConfigError, NotEnoughRowsError
from sim.config import SummaryTable
from sim.scenarios import Scenario


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """The input of a plan.

    Attributes:
        validation_rows: m = |D_v|.
        owner_rows: all m_j, sorted; owners without rows left out.
        rows: p, of the summary.
        epsilon: of D_v towards everybody, and of each owner's rows towards others.
        delta: likewise.
        dimension: d of h1, for Algorithm 3.
        seed_rows: size of the public seed set; 0: none, and a code book costs owners a part of epsilon.
        labelled: whether the public schema has a label.
    """

    validation_rows: int
    owner_rows: tuple[int, ...]
    rows: int
    epsilon: float
    delta: float
    dimension: int = 140
    seed_rows: int = 0
    labelled: bool = False

    def __post_init__(self) -> None:
        if self.validation_rows < 1 or not self.owner_rows or min(self.owner_rows) < 1:
            raise ConfigError("a plan needs a validation set and owners with rows", "Name their sizes.")
        if self.rows < 1 or not (self.epsilon > 0 and 0 < self.delta < 1 and self.dimension >= 1):
            raise ConfigError("p, epsilon or delta of a plan is out of range", "Correct the scenario.")
        if self.rows > sum(self.owner_rows):
            raise NotEnoughRowsError(
                f"a summary of {self.rows} rows was asked for and owners have {sum(self.owner_rows)}",
                "Ask for a smaller summary.",
            )

    @property
    def owners(self) -> int:
        """K."""
        return len(self.owner_rows)

    @property
    def pool(self) -> int:
        """N, rows of all owners."""
        return sum(self.owner_rows)

    @property
    def median_owner(self) -> int:
        """The lower median of the m_j."""
        return self.owner_rows[(self.owners - 1) // 2]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def facts_of(scenario: Scenario, summary: SummaryTable) -> PublicFacts:
    """The sizes of a scenario and the public settings of its summary; reads `len` of tables and no row."""
    return PublicFacts(
        validation_rows=len(scenario.validation),
        owner_rows=tuple(sorted(len(table) for table in scenario.owners.values() if len(table))),
        rows=summary.p,
        epsilon=summary.privacy.of_row,
        delta=summary.privacy.delta,
        dimension=summary.features.dimension,
        seed_rows=0 if scenario.seeds is None else len(scenario.seeds),
        labelled=scenario.schema.label is not None,
    )
