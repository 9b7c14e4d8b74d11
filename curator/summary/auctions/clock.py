"""The descending clock: an auction whose privacy is paid for once, whatever p and K are.

Every B rounds a public price z falls along a public grid. At each price v the curator knows N(v), the
number of unsent rows of all owners that are worth at least v; owners count, no row is touched. It stops at v
with probability min(1, exp(-eps (T + xi - N(v)))), where xi ~ Exp(mean 1/eps) is drawn once per clock. The
price is told to every owner and every unsent row that is worth it is sent. The rounds until the next clock
take rows from the pool.

**Worth** of a row: its marginal gain, plus the public spread times a constant of its own. Rows of tables
with few columns have equal gains by the thousand, and a price that is worth one of them is worth them
all; the constant spreads them (`fedkme/embeddings/tie_breaks.py`), so that N(v) grows between two prices
as among rows that differ. An owner derives constants from its store's secret, the run's name and the
row's place in the file (`owner/consent/pools.py`): not from what rows hold, and the same after a restart.
The pool is scored by gains alone. The curator checks of a row that was sold that its gain is at least the
price less the largest constant's share, which is what an owner can lie by.

**Neighbouring relation** add or remove one row x of one owner, seen by the others. **Claim** all clocks
of a run together are eps-DP (2 eps for replacing a row), whatever the number of rounds, owners and rows,
and whatever coalition of the others looks.

*Proof.* Draw the constants alike for two neighbours, x having one of its own, and fix them: what holds
for all of them holds for their mean. Fix the transcript: broadcast means, prices, spreads. Whether a row
is unsent depends on it, the row and the row's constant alone, so with x added N'(v) = N(v) + [x unsent
and worth v]. A clock that stops above x's worth used only counts that agree: ratio 1. The first clock to
stop at or below it sends x; afterwards all counts agree: ratio 1 ever after. For that clock, stopping at
price k: (i) P(k) <= e^eps P'(k): substitute xi -> xi + 1 in P'. Survival at earlier prices under D' with
xi + 1 is at least that under D with xi, because N' <= N + 1; the factor of stopping is equal because N'_k
= N_k + 1; the density of xi + 1 is e^-eps that of xi. (ii) P'(k) <= e^eps P(k): survival under D is at
least that under D', and min(1, e^-c) >= e^-eps min(1, e^-(c - eps)) with c = eps (T + xi - N_k). QED.
Coins are compared exactly (`is_below`), with as many bits as it takes, so that no rounding is left to charge.

A clock is held again in its round when an owner sold less than it had counted: what made it stop were rows
that nobody has. The proof is for any number of clocks at any time that the transcript says, and this one is
said by who left; rows of an owner that is out are in no later count, in either world, as if they were sent.

*What it rests on*: prices, spreads, T, B and the number of rounds are public (a round that finds the pool
empty adds a zero row); constants say nothing of what rows hold; every row worth the price is sent, with no
cap; nothing tells an owner which of its rows were used; the pool is scored with what was broadcast; whether
an owner takes part, and with which rows, is decided before the run by nothing that rows say: limits on rows
are pools drawn by coins (owner/consent/pools.py has the proof, docs/decisions/014 the list of all that an
owner decides by). The curator, who is trusted, learns N(v) of each owner exactly.

**What the broadcasts cost** (one-exchange lemma). With the transcript fixed, rows in the summary and the pool
together are those of the other world plus x, once x is sent. Selection takes the best of the pool (of equals
the first that came or the last, as the round says: an order of rows that no other row changes): by
induction the two summaries differ at any time by one exchanged row at most (x in, one row out that x
displaced, not always the same). So one row added or removed at an owner is one row of the summary replaced,
and one row replaced at an owner is two: `EXCHANGED_ROWS`, by which sensitivities of broadcasts are
multiplied. Tests replay both.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from curator.summary.auctions.base import AuctionSettings
from curator.summary.market import Market, Prices
from fedkme.privacy import events
from fedkme.privacy.noise import NoiseSource, words_of
from fedkme.privacy.samplers import UniformReal, is_below

_MOST_EXPONENT = 700.0
"""Exponent from which on a clock stops all the same, and whose power is a number."""
EXCHANGED_ROWS = 2
"""Rows of the summary that one replaced row of an owner may exchange."""


class ClockSettings(AuctionSettings):
    """Parameters of the clock; all public."""

    exchanged_rows: ClassVar[int] = EXCHANGED_ROWS
    kind: Literal["clock"] = "clock"
    epsilon: float = Field(0.25, gt=0)
    """Epsilon of all clocks of the run together, add or remove one row; twice that for replacing one."""
    block: int = Field(20, ge=1)
    """B, rounds between two clocks."""
    highest: float = 8.0
    """The first price, in standard deviations of the scores of public rows above their mean."""
    lowest: float = -4.0
    """The last price, likewise; there the clock stops."""
    step: float = Field(0.1, gt=0)
    """Distance of prices, likewise."""
    spread: float = Field(0.1, ge=0)
    """Spread of rows with equal gains, likewise: when the price falls by it, twice as many are worth it."""

    def threshold(self) -> float:
        """T = 5 / eps + B - 1: below T rows or so the clock rarely stops."""
        return 5.0 / self.epsilon + self.block - 1

    def make(self, owners: int, noise: NoiseSource) -> Clock:
        """The auction of one run."""
        return Clock(self, noise)

    def event(self, rows: int, owners: int) -> events.Clock:
        """The claim above, for replacing a row."""
        return events.Clock(self.epsilon, "replace-one")

    def access_bound(self, rows: int, owners: int) -> None:
        """Bound on rows accessed: none is proven; docs/decisions/003 has measurements."""


class Clock:
    """One run's clocks."""

    public_rounds: ClassVar[bool] = True

    def __init__(self, settings: ClockSettings, noise: NoiseSource) -> None:
        self._settings = settings
        self._noise = noise

    async def hold(self, market: Market) -> None:
        """Let the clock run in the first round of every block."""
        if (market.broadcast.round - 1) % self._settings.block:
            return
        prices, spread = self.prices(market)
        while not await market.buy(prices, self.stop(await market.quote(prices, spread))):
            pass  # it stopped where rows were counted that nobody has, by an owner that is out now

    def prices(self, market: Market) -> tuple[Prices, float]:
        """The grid, falling, (k,), and the spread of equal rows: public scores set their place and unit."""
        scores = market.reference_scores()
        settings = self._settings
        steps = round((settings.highest - settings.lowest) / settings.step)
        z = settings.highest - settings.step * np.arange(steps + 1)
        mean = math.fsum(scores) / len(scores)
        deviation = math.sqrt(math.fsum(np.square(scores - mean)) / len(scores))
        unit = deviation or 1.0
        return np.asarray(mean + unit * z, dtype=np.float64), settings.spread * unit

    def stop(self, counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> int:
        """Index of the price at which the clock stops, given N(v) at each; the last one if at none before.

        With xi = -log(V) / eps, V uniform, the rule is U < V exp(eps (N - T)) for a uniform U at each price.
        """
        epsilon, threshold = self._settings.epsilon, self._settings.threshold()
        first, coins = float(self._noise.uniform(1)[0]), self._noise.uniform(len(counts))
        exponents = np.minimum(epsilon * (counts - threshold), _MOST_EXPONENT)
        powers = np.exp(exponents)
        edges = (1.0 - first) * powers
        blur = 2.0**-52 * ((np.abs(exponents) + 8.0) * edges + powers + 1.0)
        words, known = partial(words_of, self._noise), (coins * 2.0**53).astype(np.int64)
        survival = UniformReal(2**53 - 1 - int(first * 2.0**53), words)
        for place in np.flatnonzero(coins < edges + blur).tolist():
            exponent = Fraction(epsilon) * (int(counts[place]) - Fraction(threshold))
            clear = coins[place] < edges[place] - blur[place]
            if clear or is_below(UniformReal(int(known[place]), words), survival, exponent):
                return int(place)
        return len(counts) - 1
