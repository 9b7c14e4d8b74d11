"""Public facts before a run, and forecasts from them: rows accessed, and the MMD^2 to D_v of the best form.

The best form has weights over all rows that came (consumer/summary/forms.py). The unit is the MMD^2 of p
uniform rows of equal weight. With n = rho p rows accessed, w columns of an encoded row and the kernel
exp(-gamma r^2):

    narrow     (min(w, 60) / 60)^1.62 (gamma w / 6)^.45
    uniform    .075 narrow (200 / n)^.85 (250 / m)^.35
    cells      .023 narrow (200 / n)^.55 (250 / m)^.8 eps^-.05, 1.7 times that in coalitions
    clock      uniform of p rows: at epsilon 1 to 10 it was no better

Weights fit D_v in as many directions as there are rows; a table of ten numbers has few directions that
matter, and fewer the wider the kernel is. w / 6 is the mean squared distance of uniform rows of the unit
cube. All constants are fitted to measurements (`python -m lab.forecast.fit` fits them again);
docs/planning.md has their errors.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from curator.summary.auctions.clock import ClockSettings
from curator.summary.auctions.privauction import PrivAuctionSettings
from curator.summary.settings import SummarySettings
from fedkme.cells.coalitions import pools_help
from fedkme.cells.plan import SKETCH_SHARE
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
            cause = f"{self.rows} rows are asked for and the {self.owners} owners have {self.pool}"
            raise NotEnoughRowsError(cause, f"Ask for at most {self.pool} rows.")

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


CELLS, UNIFORM = 0.023, 0.075
"""Estimates for 200 rows accessed, m = 250 and epsilon 1, where a table has 60 columns or more."""
COLUMNS = 60
"""Encoded columns beyond which further columns make no difference."""
COLUMNS_POWER, SCALE_POWER = 1.62, 0.45
CELLS_ROWS_POWER, UNIFORM_ROWS_POWER = 0.55, 0.85
CELLS_TARGET_POWER, UNIFORM_TARGET_POWER = 0.8, 0.35
EPSILON_POWER = 0.05
COALITIONS = 1.7
"""Factor for owners that count together, over owners with the same rows that count by themselves."""
ROWS, TARGET = 200, 250
UNKNOWN_SCALE = 3.0
"""gamma w / 6 where gamma is unknown: the median over tables of gammas by the median heuristic on D_v."""
OVERSHOOT = 5.0
"""Rows that a clock sells beyond its threshold, and half of its patience; fitted."""


def narrow(facts: PublicFacts) -> float:
    """Factor by which a table of few columns, under a wide kernel, is easier to match."""
    scale = UNKNOWN_SCALE if facts.gamma is None else facts.gamma * facts.width / 6.0
    shape: float = (min(facts.width, COLUMNS) / COLUMNS) ** COLUMNS_POWER * scale**SCALE_POWER
    return shape


def uniform(facts: PublicFacts, rho: float) -> float:
    """Estimate for rho p uniform rows with weights."""
    rows: float = (ROWS / (rho * facts.rows)) ** UNIFORM_ROWS_POWER
    target: float = (TARGET / facts.validation_rows) ** UNIFORM_TARGET_POWER
    return min(1.0, UNIFORM * narrow(facts) * rows * target)


def cells(facts: PublicFacts, rho: float) -> float:
    """Estimate for a summary by cells with weights over rho p rows."""
    rows: float = (ROWS / (rho * facts.rows)) ** CELLS_ROWS_POWER
    target: float = (TARGET / facts.validation_rows) ** CELLS_TARGET_POWER * _least_epsilon(
        facts
    ) ** -EPSILON_POWER
    together = COALITIONS if in_coalitions(facts) else 1.0
    return min(1.0, CELLS * narrow(facts) * rows * target * together)


def _least_epsilon(facts: PublicFacts) -> float:
    """The smaller epsilon of the two kinds of counts; they were measured equal."""
    return min(facts.epsilon, facts.of_target)


def in_coalitions(facts: PublicFacts) -> bool:
    """Check whether owners will count together, because they are many and small."""
    share = 1.0 if facts.seed_rows else 1.0 - SKETCH_SHARE
    return not facts.seed_rows and pools_help(facts.owner_rows, share * facts.epsilon)


def clock_rows(facts: PublicFacts) -> float:
    """Rows accessed under the clock for any K: every clock sells about its threshold T = 5/e + B - 1.

    The clock has half of epsilon, and replacing a row costs twice the clock's own epsilon.
    """
    settings = ClockSettings(epsilon=facts.epsilon / 4.0)
    clocks = math.ceil(facts.rows / settings.block)
    sold = clocks * (settings.threshold() + 0.5 / settings.epsilon + OVERSHOOT)
    return min(max(sold, float(facts.rows)), float(facts.pool))


def privauction_rows(facts: PublicFacts) -> float:
    """Rows accessed under PRIVAUCTION: p sum over ranks r < K of exp(-eps_auc r).

    The paper claims K^(1/3) owners a round: 1.7 and 3.7 at K = 5 and 50; its own parameters ask 4.8 and 40.
    """
    rate, _ = PrivAuctionSettings().parameters(facts.owners)
    asked_per_round = math.fsum(math.exp(-rate * rank) for rank in range(facts.owners))
    return min(facts.rows * asked_per_round, float(facts.pool))
