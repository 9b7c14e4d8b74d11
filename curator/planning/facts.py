"""Public facts before a run, from which a plan is made."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from curator.summary.settings import SummarySettings
from fedkme.cells.repeated_requests import rule_epsilon
from fedkme.errors import ConfigError, NotEnoughRowsError
from fedkme.tables.schema import Schema


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """Input of a plan.

    Attributes:
        validation_rows: m = |D_v|.
        owner_rows: all m_j, sorted; owners without rows left out.
        rows: p, rows of the summary.
        epsilon: epsilon of D_v towards everybody, and of each owner's rows towards other owners.
        delta: delta of both.
        seed_rows: public rows from which a code book is made; with 0 the code book costs owners a part of
            epsilon.
        labelled: True where the public schema has a label.
        width: columns of an encoded row.
        gamma: bandwidth of the kernel; None where it is not known before the run.
        counts_epsilon: epsilon of the noise on D_v's counts, which is smaller where the consumer means to ask
            often; None: equal to the owners'.
    """

    validation_rows: int
    owner_rows: tuple[int, ...]
    rows: int
    epsilon: float
    delta: float
    seed_rows: int = 0
    labelled: bool = False
    width: int = 60
    gamma: float | None = None
    counts_epsilon: float | None = None

    def __post_init__(self) -> None:
        if self.validation_rows < 1 or min(self.owner_rows, default=1) < 1:
            raise ConfigError("a plan needs a validation set and owners with rows", "Name their sizes.")
        if min(self.rows, self.width) < 1 or not (
            min(self.epsilon, self.of_target) > 0 and 0 < self.delta < 1 and (self.gamma or 1.0) > 0
        ):
            raise ConfigError("p, epsilon or delta of a plan is out of range", "Correct the scenario.")
        if self.rows > sum(self.owner_rows):
            raise NotEnoughRowsError(
                f"{self.rows} rows are asked for and the {self.owners} owners have {self.pool}",
                f"Ask for p <= {self.pool}.",
            )

    @property
    def of_target(self) -> float:
        """Epsilon of D_v's counts."""
        return self.epsilon if self.counts_epsilon is None else self.counts_epsilon

    @property
    def owners(self) -> int:
        """K."""
        return len(self.owner_rows)

    @property
    def pool(self) -> int:
        """N, rows of all owners."""
        return sum(self.owner_rows)


def held_rows(owners: Sequence[str], sizes: Mapping[str, int]) -> list[int]:
    """All m_j; an owner that gave none is assumed to have the others' median. Empty where no owner gave one.

    Args:
        owners: names of the owners.
        sizes: m_j of the owners that gave it.
    """
    given = [sizes[name] for name in owners if name in sizes]
    if not given:
        return []
    return given + [statistics.median_low(given)] * (len(owners) - len(given))


def run_facts(
    settings: SummarySettings,
    schema: Schema,
    rows: int,
    validation_rows: int,
    owner_rows: Iterable[int],
    seed_rows: int,
    gamma: float | None,
    count_deviation: float,
) -> PublicFacts:
    """Facts of a run for `rows` rows under a curator's settings.

    The curator does not know the consumer's epsilon. Where the consumer does not say how noisy its counts
    are, the owners' epsilon is assumed.

    Raises:
        NotEnoughRowsError: owners have fewer rows than are asked for.
    """
    sketched = settings.cells.code_book != "seeds"
    return PublicFacts(
        validation_rows=validation_rows,
        owner_rows=tuple(sorted(filter(None, owner_rows))),
        rows=rows,
        epsilon=settings.privacy.of_row,
        delta=settings.privacy.delta,
        seed_rows=0 if sketched else seed_rows,
        labelled=schema.label is not None,
        width=schema.encoded_width,
        gamma=gamma,
        counts_epsilon=validation_epsilon(settings, count_deviation) if count_deviation else None,
    )


def validation_epsilon(settings: SummarySettings, count_deviation: float) -> float:
    """Epsilon of D_v's histogram for rules of sizes; the owners' epsilon if no deviation is given."""
    return rule_epsilon(count_deviation) if count_deviation else settings.privacy.of_row
