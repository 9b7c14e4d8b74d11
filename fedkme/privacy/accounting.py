"""Privacy figures of Sarpatwar 2019: the paper's own arithmetic, and the proven figures of h2.

Where the two differ, `published` has the paper's figure, to reproduce the paper. Only the figure under
`sound` is called a guarantee.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal


def published_epsilon(epsilon: float, iterations: int, delta: float) -> float:
    """Epsilon of h2 by the arithmetic of Sarpatwar 2019, section 4 (their 1.4 and 0.043).

    The middle form of Kairouz et al.'s theorem 7 with e^2 for e (e^e - 1)/(e^e + 1), and one release
    of cost e per iteration. This figure is no guarantee: an iteration releases twice, a selection and a
    value, and the selection costs more than e under every neighbouring relation.

    Args:
        epsilon: parameter e of every iteration.
        iterations: number of iterations of all calls together.
        delta: the paper's delta tilde.
    """
    squares = iterations * epsilon**2
    return squares + math.sqrt(2.0 * squares * math.log(1.0 / delta))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Epsilon at delta of any rho-zCDP mechanism.

    The least over orders a > 1 of  a rho + log(1/(a delta))/(a - 1) + log(1 - 1/a)
    (Canonne, Kamath, Steinke 2020, section 2.3). Every order gives a valid bound, so an inexact minimum is
    less tight but still valid.

    Args:
        rho: >= 0.
        delta: in (0, 1).
    """
    if rho == 0:
        return 0.0

    def bound(log_excess: float) -> float:
        excess = math.exp(log_excess)  # a - 1
        order = 1.0 + excess
        return order * rho - (math.log(order) + math.log(delta)) / excess + math.log(excess / order)

    # The simpler bound a rho + log(1/delta)/(a - 1) is least at a - 1 = centre; the sharper one nearby.
    centre = 0.5 * math.log(math.log(1.0 / delta) / rho)
    from scipy.optimize import minimize_scalar  # takes half a second: not at the command line's start

    best = minimize_scalar(bound, bounds=(centre - 4.0, centre + 4.0), method="bounded")
    return max(0.0, float(best.fun))


def privauction_rate(epsilon: float, delta: float, owners: int) -> float:
    """epsilon_auc, the decay of the probability of being asked from one rank to the next.

    Sarpatwar 2019, Algorithm 3: epsilon / (3 sqrt(2) log(1/delta)) K^(-1/3).
    """
    return epsilon / (3.0 * math.sqrt(2.0) * math.log(1.0 / delta)) * math.pow(owners, -1.0 / 3.0)


def privauction_patience(owners: int) -> float:
    """Tau = K^(2/3): rounds in which a point may be an owner's best before the curator asks for it anyway."""
    return math.pow(owners, 2.0 / 3.0)


def lemma5_bound(picks: int, owners: int, rate: float, patience: float) -> float:
    """Expected number of points that PRIVAUCTION accesses, at most: p (K/tau + 1 + 1/epsilon_auc).

    Sarpatwar 2019, lemma 5, corrected. The paper prints p (K tau + 1/epsilon_auc); a point asked for
    out of patience costs tau rounds of an owner, hence K/tau a round, and the sum over ranks of
    e^(-(i-1) epsilon_auc) is at most 1/(1 - e^(-epsilon_auc)) <= 1 + 1/epsilon_auc.

    Args:
        picks: size p of the summary.
        owners: K.
        rate: epsilon_auc.
        patience: tau.
    """
    return picks * (owners / patience + 1.0 + 1.0 / rate)


ONE_ROW = "one row"
"""The unit of statements about a row."""


def person_of(group: int) -> str:
    """The unit of statements about a person who has at most `group` rows."""
    return f"one person, at most {group} rows"


def with_help(method: str, colluders: int | None) -> str:
    """The method of a figure; where it depends on colluders, `HELP` and their number follow.

    Colluders are owners that tell the observer all they know. Every reader of statements shows these words.
    """
    if colluders is None:
        return method
    whose = "no owner's" if not colluders else f"at most {colluders} owner{'s' * (colluders > 1)}'"
    return f"{method}, {HELP}{whose}{'s' * (colluders == 1)} noise"


HELP = "if it knows "
"""Beginning of the words that say how many owners' noise the observer may know; an owner knows its own."""


@dataclass(frozen=True)
class PrivacyStatement:
    """One entry of the privacy matrix: a bound on what an observer can learn of a protected data set."""

    protected: str
    """The data set, for example the name of an owner or "D_v"."""
    observer: str
    """Party that learns: another owner, the consumer, the curator, the public."""
    accountant: Literal["published", "sound"]
    """`published` is the paper's arithmetic; only `sound` is a guarantee."""
    epsilon: float
    """math.inf where nothing can be proven."""
    delta: float
    """0 for pure differential privacy."""
    neighbouring: str
    """The neighbouring relation that the figures assume."""
    raw_points: int
    """Rows that the observer sees as they are."""
    reason: str
    """Source of the figure, or the reason why there is no figure."""
    unit: str = ONE_ROW
    """Unit that a neighbouring data set replaces: a row, or all rows of a person."""

    @property
    def whole(self) -> str:
        """Bound for all rows of an owner, or of D_v, at once: `finite` or `inf`, as for a row."""
        return "inf" if math.isinf(self.epsilon) else "finite"

    def to_json(self) -> dict[str, Any]:
        """Plain values for metrics.json; JSON has no infinity, so an infinite epsilon is "inf"."""
        epsilon = "inf" if math.isinf(self.epsilon) else self.epsilon
        return {**asdict(self), "epsilon": epsilon, "whole_set": self.whole}
