"""Subjects of `fedkme audit attack` by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from audit.attacks import auctions, cells, cells_run, clock, deployed, h2, joint, means, public
from audit.attacks.consumers import margins, picks, repeated_requests
from audit.attacks.curators import moments, pooled
from audit.attacks.finding import Subject
from audit.attacks.owners import budgets_and_ledgers, coalitions, limits, timing
from fedkme.errors import ConfigError

SUBJECTS: Mapping[str, Callable[[], Subject]] = {
    "h1-paired": lambda: public.h1("paired"),
    "h1-offset": lambda: public.h1("offset"),
    "encoding": public.schema_encoding,
    "simulated-noise": public.simulated_noise,
    "secure-noise": public.secure_noise,
    "h2": h2.h2,
    "h2-published": h2.h2_published,
    "gaussian": means.gaussian,
    "exact": means.exact,
    "clock": clock.clock,
    "clock-broadcasts": joint.clock_and_broadcasts,
    "clock-limits": limits.limited_clock,
    "cells-histogram": cells.owner_histogram,
    "cells-validation": cells.validation_histogram,
    "cells-asks": repeated_requests.often,
    "cells-picks": picks.picked,
    "margins": margins.margins,
    "cells-sketch": cells.sketched,
    "cells-joint": cells.joint,
    "cells-coalitions": coalitions.counted,
    "cells-orders": cells_run.orders,
    "cells-time": timing.answer_times,
    "pooled-sums": pooled.pooled_sums,
    "moments": moments.moments,
    "rounds": pooled.noisy_rounds,
    "distributed-noise": pooled.distributed_noise,
    "budgets": budgets_and_ledgers.budgets,
    "ledgers": budgets_and_ledgers.ledgers,
    "privauction-rule": auctions.privauction_rule,
    "privauction": auctions.privauction,
    "winner-only": auctions.winner_only,
    "ask-everyone": auctions.ask_everyone,
    "uniform": clock.uniform,
    "deployed-summary": deployed.deployed_summary,
    "deployed-release": deployed.deployed_release,
    "deployed-secure-release": lambda: deployed.deployed_release(secure=True),
}
"""Makers of the subjects, cheap foundations first."""


def chosen(name: str) -> list[Subject]:
    """Make the subject of a name, or all subjects.

    Raises:
        ConfigError: there is no such mechanism.
    """
    if name == "all":
        return [make() for make in SUBJECTS.values()]
    if name not in SUBJECTS:
        raise ConfigError(
            f"there is no mechanism '{name}' to attack", f"Choose one of: all, {', '.join(SUBJECTS)}."
        )
    return [SUBJECTS[name]()]
