"""Margins of D_v, picked one by one over a public model of the pool, and the density that follows from them.

The model is synthetic rows of a release of all owners' rows, which owners paid for. D_v picks the column in
which it is farthest from the model and releases a noisy margin of it; the model is tilted to all margins so
far, and D_v picks the next column by the tilted model: a column that says the same again has no score. The
density of the tilted model over the pool, a product of one factor for each picked column, is public
(fedkme.margins.density).

Relation: replace one row of D_v, m and the model public. Unit: rows. With counts h of a column and its law P
by the tilted model, the score is |h - m P|_1 / 2, in whole multiples of 2^-21.

**Sensitivity.** A replaced row moves h by 2 in L1 at most, so every score by 1: a pick's loss lies in an
interval of length epsilon_s (`BoundedRange`), for any model, even that of a lying curator. A margin is a
histogram: one row moves it by sqrt 2 in L2. P is a function of the model and of earlier margins. So k picks
and k margins, each a Gaussian of multiplier s / sqrt 2 for noise s on each count, compose adaptively;
`margin_noise` finds the least s at which all is (epsilon, delta)-DP.

**Shrinkage.** A margin t is replaced by P + a (t - P), a = max(0, 1 - DOUBT B V / |t - P|^2) for B bins with
noise of variance V: what noise explains of the distance is left to the model. In each block of at most BLOCK
bins, of names about as frequent, a is the larger of the whole margin's and of the block's own (block
James-Stein, Cai 1999): forty names that D_v has not do not hide the one that it has.

**Bins that the model nearly lacks.** The release's noise gives a name that no owner has half a per cent of
the model's rows, whose other columns are noise, too. If D_v has the name, the model would be tilted to these
rows. So a bin with a share s of the model gets (s / ENOUGH)^2 of D_v at most. What D_v has beyond is spread
over other bins by the law so far; rows of the bin that owners have get the full factor.

**Uniform rows.** Let D be the divergence of the tilted model from the model, in nats: exp(-D) is about the
share of the pool that is like D_v. Where D is at most NEAR, D_v is near the pool, and a density from noisy
margins leaves out rows that D_v has: a share exp(-D) of the rows, at most HALF, is uniform. D is a function
of what is released. Constants: lab/tried/summaries.md, "One engine".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray, IntArray, james_stein, whole
from fedkme.cells.codebook import BEYOND
from fedkme.cells.directions import PRESENT, choose_one
from fedkme.cells.histogram import GaussianNoise, IntegerNoise, counts
from fedkme.cells.repeated_requests import OFTEN, costs_of_asks
from fedkme.embeddings.weight_fit import project_to_simplex
from fedkme.errors import ProtocolError
from fedkme.margins.density import DensityBook
from fedkme.margins.model import MOST_BINS, PICK_SHARE, PICKS, PoolModel
from fedkme.privacy.events import BoundedRange, Event, repeated
from fedkme.privacy.events.groups import for_group
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.privacy.noise import NoiseSource
from fedkme.privacy.presets import PrivacyTarget
from fedkme.tables.schema import Schema

DOUBT = 2.0
"""Distances of a margin that are due to noise, which are taken out of it."""
BLOCK = 16
"""Most bins of a block of a margin."""
ENOUGH = 0.01
"""Share of the model from which on a bin may have all of D_v: smaller ones may be noise of the release."""
MOST_DENSITY = 20.0
"""Largest density over the model's mean: no single row stands for many of D_v."""
NEAR, HALF = 2.0, 0.5
"""Largest divergence of D_v from the pool at which some rows are uniform, and their largest share."""
_CYCLES = 15
_STEP, _FACTOR = 20.0, 1e3
_EMPTY = 1e-9
_STEPS = 2.0**20


@functools.lru_cache(maxsize=64)
def margin_noise(target: PrivacyTarget, picks: int, share: float) -> GaussianNoise:
    """The least noise on margins at which they and the picks are within the target, for a group of rows.

    Args:
        target: (epsilon, delta), for the rows of a group together.
        picks: k.
        share: share of epsilon for each pick.
    """
    from fedkme.privacy.accountants import Sound  # a plan without margins does not need this import

    def cost(deviation: float) -> float:
        events = margin_events(target, picks, share, GaussianNoise(deviation))
        return Sound().epsilon(for_group(events, target.group), target.delta).epsilon

    low = target.group * math.sqrt(2.0 * picks) * gaussian_sigma(target.epsilon, target.delta)
    high = 2.0 * low
    while cost(high) > target.epsilon:
        low, high = high, 2.0 * high
    while high - low > 1e-3 * low:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if cost(middle) <= target.epsilon else (middle, high)
    return GaussianNoise(high)


def margin_events(target: PrivacyTarget, picks: int, share: float, how: GaussianNoise) -> list[Event]:
    """Events of all picks and margins of one request; see `margin_noise` for the arguments."""
    return [BoundedRange(share * target.of_row, picks), repeated(how.event, picks)]


def words_of_asks(target: PrivacyTarget, asks: int, picks: int) -> str:
    """Cost of several requests over one D_v, in a line; that of one request names the cost of many, too.

    Args:
        target: (epsilon, delta) of each request, for the rows of a group together.
        asks: planned number of requests.
        picks: most picks that the consumer allows.
    """
    from fedkme.privacy.accountants import Sound

    many = asks if asks > 1 else OFTEN
    costs = costs_of_asks(target, many)
    least, by_margins = f"{min(costs.laplace, costs.gaussian):.3g}", ""
    if picks >= PICKS:
        each = margin_events(target, PICKS, PICK_SHARE, margin_noise(target, PICKS, PICK_SHARE))
        every = for_group([repeated(event, many) for event in each], target.group)
        by_margins = f" {Sound().epsilon(every, target.delta).epsilon:.3g} by margins,"
    if asks > 1:
        return (
            f"asks = {asks}: at delta {target.delta:g}, all of them cost D_v epsilon {least} by counts"
            f"{by_margins and ',' + by_margins[:-1]}"
        )
    return (
        f"asks = 1: each request is paid for anew; at delta {target.delta:g}, {OFTEN} of them cost D_v "
        f"epsilon {costs.laplace:.3g} by counts,{by_margins} and {least} by counts with asks = {OFTEN}"
    )


class Raked:
    """The model, tilted to the margins so far: the public state between two picks of D_v.

    Attributes:
        picks: picked columns, in order.
        factors: factors of the bins of each column.
        absent: largest share of D_v, over the picked columns, in bins where the model has no row.
    """

    def __init__(self, model: PoolModel, validation_rows: int, deviation: float) -> None:
        """Begin with no margin.

        Args:
            model: the model of the pool.
            validation_rows: m.
            deviation: of the noise on each count of a margin; 0 where none is declared.
        """
        self.picks: list[int] = []
        self.absent = 0.0
        self._model, self._rows, self._variance = model, max(validation_rows, 1), deviation**2
        self._margins, self._lacking = dict[int, FloatArray](), dict[int, FloatArray]()
        self.factors = [np.ones(size) for size in model.sizes]
        self._law = np.full(len(model.codes), 1.0 / len(model.codes))

    def law(self, column: int) -> FloatArray:
        """Law of a column by the tilted model, (bins,)."""
        law = np.bincount(self._model.codes[:, column], self._law, self._model.sizes[column])
        return np.asarray(law, np.float64)

    def scores(self, exact: Sequence[IntArray]) -> FloatArray:
        """Score of each column, (c,), by the counts of D_v in its bins; sensitivity 1."""
        apart = [
            np.abs(whole(np.rint(_STEPS * self._rows * self.law(column))) - int(_STEPS) * own).sum()
            for column, own in enumerate(exact)
        ]
        return np.array(apart, np.float64) / (2.0 * _STEPS)

    def add(self, column: int, noisy: IntArray) -> None:
        """Tilt the model to one more margin, noisy counts of D_v by the bins of a column, too."""
        law, seen = self.law(column), noisy / self._rows
        noise = DOUBT * self._variance / self._rows**2
        blocks = np.array_split(seen - law, -(-len(seen) // BLOCK))
        trusts = [
            james_stein(float(np.square(part).sum()), noise * len(part)) for part in (seen - law, *blocks)
        ]
        kept = [max(trusts[0], trust) * part for trust, part in zip(trusts[1:], blocks, strict=True)]
        margin = project_to_simplex(law + np.concatenate(kept), 1.0)
        rows, size = np.bincount(self._model.codes[:, column], minlength=len(margin)), len(self._model.codes)
        self.absent = max(self.absent, float(margin[rows == 0].sum()))
        most = np.minimum((rows / (ENOUGH * size)) ** 2, 1.0)
        others = np.where(margin > most, 0.0, law)
        held = np.minimum(margin, most)
        self.picks.append(column)
        self._lacking[column] = np.maximum(margin / np.maximum(most, 1.0 / size), 1.0)
        self._margins[column] = held + (1.0 - held.sum()) * others / max(float(others.sum()), _EMPTY)
        for _ in range(_CYCLES):
            for each, wanted in self._margins.items():
                now = self.law(each)
                step = np.where(now > _EMPTY, wanted / np.maximum(now, _EMPTY), 1.0)
                step = np.clip(step, 1.0 / _STEP, _STEP)
                self.factors[each] = np.clip(self.factors[each] * step, 1.0 / _FACTOR, _FACTOR)
                density, _ = self.density()
                self._law = density / density.sum()

    def factors_of_rows(self, column: int) -> FloatArray:
        """Factors of a picked column for owners' rows, with what its bins lack in the model."""
        return self.factors[column] * self._lacking[column]

    def density_of_rows(self) -> FloatArray:
        """Density of the model's rows by the factors for owners' rows, without a bound, (n,)."""
        factors = [self.factors_of_rows(column)[self._model.codes[:, column]] for column in self.picks]
        return np.asarray(np.prod(factors, axis=0), np.float64)

    def density(self) -> tuple[FloatArray, float]:
        """Density of the model's rows, (n,), and its bound: MOST_DENSITY times the mean without it."""
        density = np.ones(len(self._law))
        for column in self.picks:
            density *= self.factors[column][self._model.codes[:, column]]
        most = MOST_DENSITY * float(density.mean())
        return np.minimum(density, most), most


def picked_margins(
    model: PoolModel,
    codes: IntArray,
    how: GaussianNoise,
    event: BoundedRange,
    choices: NoiseSource,
    noise: IntegerNoise,
) -> dict[int, IntArray]:
    """Pick columns by D_v and release their margins: D_v's part of a summary by margins.

    Args:
        model: the public model.
        codes: bins of the rows of D_v, (m, c).
        how: noise of each margin.
        event: event of one pick.
        choices: source of the coins of picks.
        noise: source of the noise of margins.

    Returns:
        Noisy counts of the bins of each picked column, in the order of the picks.
    """
    exact = [counts(codes[:, column], size) for column, size in enumerate(model.sizes)]
    state, margins = Raked(model, len(codes), how.deviation), dict[int, IntArray]()
    while True:
        free = np.setdiff1d(np.arange(len(exact)), state.picks)
        column = int(free[choose_one(state.scores(exact)[free], event, choices)])
        margins[column] = exact[column] + how.draw(noise, len(exact[column]))
        if len(margins) == model.picks:
            return margins
        state.add(column, margins[column])


def margins_of(model: PoolModel, picks: Sequence[int], histogram: IntArray) -> dict[int, IntArray]:
    """Split what D_v released into one margin for each pick, in order.

    Raises:
        ProtocolError: the picks are no columns of the model, or the counts are not those of their bins.
    """
    sizes = model.sizes
    known = len(picks) == model.picks == len(set(picks)) and all(0 <= pick < len(sizes) for pick in picks)
    if not known or len(histogram) != sum(sizes[pick] for pick in picks):
        raise ProtocolError(
            "the peer picked margins that the model does not have", "Check the peer's software."
        )
    ends = np.cumsum([sizes[pick] for pick in picks])
    return dict(zip(picks, np.split(histogram, ends[:-1]), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Tilt:
    """Consequences of the margins of D_v.

    Attributes:
        book: the density, public.
        uniform: share of the rows that owners draw uniformly.
        absent: share of D_v in bins where the model has no row.
    """

    book: DensityBook
    uniform: float
    absent: float


def tilt_of(
    model: PoolModel,
    margins: Mapping[int, IntArray],
    validation_rows: int,
    deviation: float,
    schema: Schema,
    seed: int,
) -> Tilt:
    """Make the density of D_v over the pool from its margins: post-processing.

    Args:
        model: the model of the pool.
        margins: noisy counts by picked column, in the order of the picks.
        validation_rows: m.
        deviation: of the noise on each count; 0 where none is declared.
        schema: schema of the rows.
        seed: public seed of owners' choice among rows.
    """
    state = Raked(model, validation_rows, deviation)
    for column, noisy in margins.items():
        state.add(column, noisy)
    density, bound = state.density()
    density = np.sort(density)
    half = int(np.searchsorted(np.cumsum(density), 0.5 * density.sum()))
    share = uniform_share(state.density_of_rows())
    columns = [column for column in state.picks if column < len(model.groups)]
    most = max((model.sizes[column] for column in columns), default=1)
    count = max(1, len(columns))  # where D_v picked classes alone, a column of one bin
    along = np.zeros((schema.encoded_width, count))
    edges, factors = np.full((count, most - 1), BEYOND), np.ones((count, most))
    for place, column in enumerate(columns):
        group, size = list(model.groups[column]), model.sizes[column]
        along[group, place] = 1.0 if len(group) == 1 else np.minimum(np.arange(len(group)), MOST_BINS - 1)
        cuts = model.edges[column] if len(group) == 1 else PRESENT * (np.arange(size - 1) + 0.5)
        edges[place, : size - 1], factors[place, :size] = cuts, state.factors_of_rows(column)
    own = state.factors_of_rows(len(model.groups)) if len(columns) < len(state.picks) else np.zeros(0)
    arrays = {"along": along, "edges": edges, "factors": factors, "own": own}
    book = DensityBook(arrays, bound, float(density[half]), seed, schema)
    return Tilt(book, share, state.absent)


def uniform_share(density: FloatArray) -> float:
    """Share of rows to draw uniformly, by the public density of the model's rows."""
    relative = density / max(float(density.mean()), _EMPTY)
    divergence = float(np.mean(relative * np.log(np.maximum(relative, _EMPTY))))
    return min(HALF, math.exp(-divergence)) if divergence <= NEAR else 0.0
