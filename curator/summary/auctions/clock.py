"""Descending clock: an auction whose privacy cost is paid once, for any p and K.

Every B rounds a public price z falls along a public grid. At each price v the curator knows N(v), the number
of unsent rows of all owners that are worth at least v; owners count, and no row moves. The clock stops at v
with probability min(1, exp(-eps (T + xi - N(v)))), where xi ~ Exp(mean 1/eps) is drawn once per clock. Every
owner is told the price, and every unsent row that is worth the price is sent. The rounds until the next clock
take rows from the pool.

**Worth** of a row: its marginal gain, plus the public spread times the row's own constant. In tables with few
columns thousands of rows have equal gains, and if one of them is worth a price, all are.
The constants spread such rows (`fedkme/embeddings/tie_breaks.py`), so that N(v) grows between two prices as
it does among rows that differ. An owner derives constants from its store's secret, the run's name and the
row's place in the file (`owner/consent/pools.py`), not from the rows' contents; a restart gives the same
constants. The pool is scored by gains alone. The curator checks that the gain of a sold row is at least the
price less the largest constant's share; an owner can lie by that share.

**Neighbouring relation** add or remove one row x of one owner, seen by the others. **Claim** all clocks of a
run together are eps-DP (2 eps for replacing a row), for any number of rounds, owners and rows, and for any
coalition of the others.

*Proof.* Draw the same constants for two neighbours, with one more for x, and fix them: a bound for all fixed
constants holds for their mean. Fix the transcript: broadcast means, prices, spreads. Whether a row is unsent
depends on the transcript, the row and the row's constant alone, so with x added N'(v) = N(v) + [x unsent and
worth v]. A clock that stops above x's worth has used only counts that agree: ratio 1. The first clock to stop
at or below x's worth sends x; afterwards all counts agree: ratio 1 ever after. For that clock, stopping at
price k: (i) P(k) <= e^eps P'(k): substitute xi -> xi + 1 in P'. Survival at earlier prices under D' with xi +
1 is at least that under D with xi, because N' <= N + 1; the factor of stopping is equal because N'_k = N_k +
1; the density of xi + 1 is e^-eps that of xi. (ii) P'(k) <= e^eps P(k): survival under D is at least that
under D', and min(1, e^-c) >= e^-eps min(1, e^-(c - eps)) with c = eps (T + xi - N_k). QED. Coins are compared
exactly (`is_below`), with as many bits as needed, so no rounding error has to be charged.

A clock is held again in its round when an owner sold fewer rows than it had counted, because rows that do not
exist made the clock stop. The proof covers any number of clocks at any times that follow from the transcript,
and the departure of the owner is in the transcript; rows of an owner that is out are in no later count, in
either world, as if they were sent.

*Assumptions*: prices, spreads, T, B and the number of rounds are public (a round that finds the pool empty
adds a zero row); constants are independent of the rows' contents; every row worth the price is sent, with no
cap; no message tells an owner which of its rows were used; the pool is scored with the broadcast means;
whether an owner takes part, and with which rows, is decided before the run and independently of the rows'
contents: limits on rows are pools drawn by coins (owner/consent/pools.py has the proof, docs/decisions/014
lists all inputs of an owner's decision). The curator, who is trusted, learns N(v) of each owner exactly.

**Cost of the broadcasts** (one-exchange lemma). With the transcript fixed, summary and pool together hold the
rows of the other world plus x, once x is sent. Selection takes the best row of the pool (among equals the
first or the last that came, depending on the round: an order of rows that no other row changes). By induction
the two summaries differ at any time by at most one exchanged row (x in, and out a row that x displaced, not
always the same row). So one row added or removed at an owner replaces one row of the summary, and one row
replaced at an owner replaces two rows: `EXCHANGED_ROWS`, the factor on the broadcasts' sensitivities. Tests
replay both cases.
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
"""Cap on exponents: a clock stops with certainty at this exponent, and its power is still a finite float."""
EXCHANGED_ROWS = 2
"""Rows of the summary that one replaced row of an owner may exchange."""


class ClockSettings(AuctionSettings):
    """Parameters of the clock, all of them public."""

    exchanged_rows: ClassVar[int] = EXCHANGED_ROWS
    kind: Literal["clock"] = "clock"
    epsilon: float = Field(0.25, gt=0)
    """Epsilon of all clocks of the run together, add or remove one row; replacing a row costs twice as
    much."""
    block: int = Field(20, ge=1)
    """B, rounds between two clocks."""
    highest: float = 8.0
    """The first price, in standard deviations of the scores of public rows, above the mean of these
    scores."""
    lowest: float = -4.0
    """The last price, in the same unit; the clock stops there at the latest."""
    step: float = Field(0.1, gt=0)
    """Distance of two prices, in the same unit."""
    spread: float = Field(0.1, ge=0)
    """Spread of rows with equal gains, in the same unit: when the price falls by one spread, twice as many
    rows are worth the price."""

    def threshold(self) -> float:
        """T = 5 / eps + B - 1: below about T rows the clock rarely stops."""
        return 5.0 / self.epsilon + self.block - 1

    def make(self, owners: int, noise: NoiseSource) -> Clock:
        """Make the auction of one run."""
        return Clock(self, noise)

    def event(self, rows: int, owners: int) -> events.Clock:
        """Event of the module's claim, for replacing a row."""
        return events.Clock(self.epsilon, "replace-one")

    def access_bound(self, rows: int, owners: int) -> None:
        """Return None: no bound on rows accessed is proven; docs/decisions/003 has measurements."""


class Clock:
    """Clocks of one run."""

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
            pass  # an owner that is out now had counted rows that it does not have: hold the clock again

    def prices(self, market: Market) -> tuple[Prices, float]:
        """Falling grid of prices, (k,), and the spread of equal rows; public scores give origin and unit."""
        scores = market.reference_scores()
        settings = self._settings
        steps = round((settings.highest - settings.lowest) / settings.step)
        z = settings.highest - settings.step * np.arange(steps + 1)
        mean = math.fsum(scores) / len(scores)
        deviation = math.sqrt(math.fsum(np.square(scores - mean)) / len(scores))
        unit = deviation or 1.0
        return np.asarray(mean + unit * z, dtype=np.float64), settings.spread * unit

    def stop(self, counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> int:
        """Index of the price at which the clock stops, given N(v) at each price; at the last it always stops.

        With xi = -log(V) / eps, V uniform, the rule is U < V exp(eps (N - T)) for a uniform U at each price.
        """
        epsilon, threshold = self._settings.epsilon, self._settings.threshold()
        first, coins = float(self._noise.uniform(1)[0]), self._noise.uniform(len(counts))
        exponents = np.minimum(epsilon * (counts - threshold), _MOST_EXPONENT)
        powers = np.exp(exponents)
        edges = (1.0 - first) * powers
        blur = 2.0**-52 * ((np.abs(exponents) + 8.0) * edges + powers + 1.0)
        words, leading = partial(words_of, self._noise), (coins * 2.0**53).astype(np.int64)
        survival = UniformReal(2**53 - 1 - int(first * 2.0**53), words)
        for place in np.flatnonzero(coins < edges + blur).tolist():
            exponent = Fraction(epsilon) * (int(counts[place]) - Fraction(threshold))
            clear = coins[place] < edges[place] - blur[place]
            if clear or is_below(UniformReal(int(leading[place]), words), survival, exponent):
                return int(place)
        return len(counts) - 1
