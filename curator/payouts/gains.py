"""Payment by the worth of rows: winning marginal gains of Algorithm 3, exactly or with noise.

Exact values reveal the winners, which no owner may learn: exact values are for the curator alone (epsilon =
inf).

**With noise** (`by_noised_gains`, `by_noised_wins`). Relation: replace one row of one owner, seen by any
coalition of the others. The release is a function V of the rows and the run's transcript (broadcast means,
prices), and the transcript is paid for by its own events. V's noise is drawn afresh, so the costs compose
adaptively, and V's sensitivity is needed for a fixed transcript only. This argument holds for the clock. The
transcript of another auction costs infinity, and no added release makes that cost finite.

*One row z added, transcript fixed* (the one-exchange lemma of curator/summary/auctions/clock.py). Until z is
sent both worlds agree. From then on the pools are P and P + z, every row is scored in round l by s_l(x), a
function of the transcript and the row, and the best leaves. While the winners agree, so do the credits.
When they differ, P + z gives z and P gives w: afterwards the pools are P - w and (P - w) + w, the same
situation with w for z. So the extra row is z_1 = z, z_2, ..., z_n, z_(n+1), exchanged in rounds l_1 < ... <
l_n. With f_k = s_(l_k) clipped to [0, c], and e(x) the unit vector of x's owner,

    V' - V = f_1(z_1) e(z_1) + sum over k = 2..n of (f_k(z_k) - f_(k-1)(z_k)) e(z_k) - f_n(z_(n+1)) e(z_(n+1))

(an empty pool's zero row is worth 0 to nobody).

- *Wins*, f = 1: the sum vanishes. V' - V = e(z_1) - e(z_(n+1)). One row replaced, x by y at owner j, is one
  removal and one addition: e(y)[y used] - e(x)[x used] + e(a) - e(b), where a replaces x only if x was used,
  and b leaves only if y is; x and y have the same owner. L1 sensitivity **2** in every case.
- *Gains*: L1 of one addition <= 2c + sum of min(c, |s_(l_k) - s_(l_(k-1))|). Gains are g~ . h - a_l . h with
  a_l = q/(q+1) g_l and ||h|| <= B, so each step is at most B ||a_(l_k) - a_(l_(k-1))||: a number of the
  transcript, hence public. By the triangle inequality the steps are together at most those of consecutive
  rounds. Replacing doubles: 2 (2c + sum over l of min(c, B ||a_l - a_(l-1)||)). Every step counts c here:
  **2 c (p + 1)**. No clip, no bound: broadcast means carry Gaussian noise.

The path of the broadcasts decides the cost: with exact means a step is about 2/q and the sum is logarithmic
in p, but private broadcasts jump by their noise in every round, and the bound is near 2 c (p + 1), twice all
that there is to divide. Wins are the private form that is useful: noise of scale 2/epsilon rows against p/K
rows of an owner.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from curator.payouts.payout import Payout, check_epsilon, divide
from fedkme.errors import ConfigError
from fedkme.privacy.events import ExactStatistic, Laplace
from fedkme.privacy.noise import NoiseSource

UNITS = 4096
"""Steps in which clipped gains are counted: noise is added to whole numbers (see SecureNoise)."""
WIN_SENSITIVITY = 2
"""L1, replace-one, of the numbers of winning rows."""


@dataclass(frozen=True)
class WinRelease:
    """Release of the numbers of winning rows, with Laplace noise on each.

    Epsilon is pure, replace-one, of all numbers together.
    """

    epsilon: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    @property
    def scale(self) -> float:
        """Scale of the noise, in rows."""
        return WIN_SENSITIVITY / self.epsilon

    @property
    def event(self) -> Laplace:
        """Event of the release for the ledger."""
        return Laplace(1.0 / self.epsilon)


@dataclass(frozen=True)
class GainRelease:
    """Release of winning gains: each clipped to [0, clip], sums per owner with Laplace noise.

    Attributes:
        epsilon: pure, replace-one, of all sums together.
        clip: c, public; never from the gains themselves.
        rounds: p, the rounds of the run, public.
    """

    epsilon: float
    clip: float
    rounds: int

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        _ = self.sensitivity

    @property
    def sensitivity(self) -> float:
        """L1, replace-one, of the sums, in units of clip / UNITS, with the rounding of gains to units."""
        return gain_sensitivity(self.clip, self.rounds) / self.clip * UNITS

    @property
    def event(self) -> Laplace:
        """Event of the release for the ledger."""
        return Laplace(1.0 / self.epsilon)


def gain_sensitivity(clip: float, rounds: int) -> float:
    """L1 sensitivity of the sums of clipped winning gains, replace-one; proof in the module's docstring.

    Args:
        clip: c, finite; without a clip there is no bound.
        rounds: p.

    Raises:
        ConfigError: no clip bounds the gains.
    """
    if not (0 < clip < math.inf) or rounds < 1:
        cause = "winning gains without a clip have no sensitivity: epsilon would be infinite"
        raise ConfigError(cause, "Name a positive, finite clip that does not come from the gains.")
    return 2.0 * clip * (rounds + 1)


def by_exact_gains(value_by_owner: Mapping[str, float], total: int) -> Payout:
    """Pay a total by exact sums of winning gains, for the curator alone: epsilon towards owners is infinite.

    Raises:
        ConfigError: the total cannot be divided.
    """
    amounts, shares = divide(total, value_by_owner)
    tells = "who won, without protection: curator only"
    event = ExactStatistic("winning marginal gains of every owner")
    return Payout("gains", total, amounts, shares, "curator", tells, event)


def by_noised_gains(
    gains: Mapping[str, Sequence[float]], total: int, release: GainRelease, noise: NoiseSource
) -> Payout:
    """Pay a total by sums of clipped winning gains with noise; proof in the module's docstring.

    A row that was not chosen by its gain has the gain NaN and counts as 0. The division is post-processing.

    Raises:
        ConfigError: more rows than rounds, or the total cannot be divided.
    """
    if sum(map(len, gains.values())) > release.rounds:
        raise ConfigError("a run has more winning rows than rounds", "Give the run's own p.")
    exact = np.array([_units(gains[name], release.clip) for name in sorted(gains)], dtype=np.float64)
    values = exact + noise.laplace(release.sensitivity / release.epsilon, len(exact))
    amounts, shares = divide(total, dict(zip(sorted(gains), values.tolist(), strict=True)))
    tells = f"sums of winning gains with noise: epsilon {release.epsilon:g}"
    return Payout("gains", total, amounts, shares, "owners", tells, release.event)


def by_noised_wins(wins: Mapping[str, int], total: int, release: WinRelease, noise: NoiseSource) -> Payout:
    """Pay a total by numbers of winning rows with noise; proof in the module's docstring.

    Raises:
        ConfigError: the total cannot be divided.
    """
    names = sorted(wins)
    values = np.array([wins[name] for name in names], dtype=np.float64)
    values += noise.laplace(release.scale, len(names))
    amounts, shares = divide(total, dict(zip(names, values.tolist(), strict=True)))
    tells = f"numbers of winning rows with noise of {release.scale:.3g} rows: epsilon {release.epsilon:g}"
    return Payout("wins", total, amounts, shares, "owners", tells, release.event)


def _units(gains: Sequence[float], clip: float) -> int:
    clipped = [0.0 if math.isnan(gain) else min(max(gain, 0.0), clip) for gain in gains]
    return sum(round(gain / clip * UNITS) for gain in clipped)
