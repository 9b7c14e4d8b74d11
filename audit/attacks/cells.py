"""Audit of summaries by cells: histograms, the sketch, and both together.

Neighbouring: one row, with its label, replaced; the number of rows public.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from audit.attacks.black_box import Experiment
from audit.attacks.confidence import Scores
from audit.attacks.finding import Check, CheckResult, Claim, Effort, Subject
from audit.attacks.law import outcome_finding, scale_finding
from audit.attacks.recount import gaussian_events, recount
from audit.attacks.scripted import ScriptedNoise, TalliedNoise
from fedkme.arrays import FloatArray, IntArray
from fedkme.cells import sketch
from fedkme.cells.codebook import kmeans_book
from fedkme.cells.histogram import HistogramNoise, histogram_noise, noisy_counts, on_integers
from fedkme.cells.plan import OwnerNoise, owner_noise
from fedkme.cells.projection import Projection, spec_for
from fedkme.errors import ProtocolError
from fedkme.privacy.events import Event, Gaussian, PureDp
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.privacy.noise import NoiseSource, SimulatedNoise, simulated
from fedkme.protocol import CellTerms, Invitation
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table
from owner.cells.responder import HistogramResponder
from owner.consent.gate import OwnerGate

Rows = tuple[FloatArray, IntArray]
"""Rows, (m, 2), and their labels, (m,)."""

SCHEMA = Schema(
    columns=(Numeric(name="x", bounds=(0.0, 1.0)), Numeric(name="y", bounds=(0.0, 1.0))),
    label=Label(name="c", classes=("no", "yes")),
)
SPEC = spec_for(SCHEMA, 3)
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
BOOK = kmeans_book(CORNERS, 4, SPEC, SCHEMA, 0)
_RELATION = "replace one row"
_EPSILON, _DELTA = 1.0, 1e-5
Count = Callable[[Rows, NoiseSource], IntArray]
"""Makes the histogram that leaves."""


def counting_responder(how: HistogramNoise, rows: Rows, noise: NoiseSource) -> HistogramResponder:
    """Make an owner that has an invitation to count, with a source of noise."""
    responder = HistogramResponder("audit", Table(*rows), SCHEMA, noise, OwnerGate("audit"))
    book = BOOK.to_json()
    terms = CellTerms(book, 1.0, how, 1, classes=2)
    responder.invite(Invitation("audit", SCHEMA.digest(), "c", "cells", (how.event,), terms))
    return responder


def owner_histogram() -> Subject:
    """An owner's histogram by class and cell at epsilon = 1, made by the code of its process."""
    claim = Claim(_EPSILON, 0.0, _RELATION)
    how = histogram_noise(claim.epsilon)

    def count(rows: Rows, noise: NoiseSource) -> IntArray:
        return counting_responder(how, rows, noise).histogram(1)

    def spent(effort: Effort) -> CheckResult:
        """Cost of the noise drawn for a curator that asks twice."""
        noise = Integers(simulated(effort.seed, "audit", "histogram"))
        responder = counting_responder(how, (CORNERS[:1], np.zeros(1, np.int64)), noise)
        for _ in range(2):
            try:
                responder.histogram(1)
            except ProtocolError:
                continue
        events = [HistogramNoise(scale).event for scale in noise.scales]
        return recount(claim, events, [PureDp], "histograms that left a run")

    return Subject("cells-histogram", "sound", claim, (*_of_counts(count, how, claim, 8), spent))


def validation_histogram() -> Subject:
    """D_v's histogram by cell at epsilon = 1, made by the consumer's code."""
    claim = Claim(_EPSILON, 0.0, _RELATION)
    how = histogram_noise(claim.epsilon)

    def count(rows: Rows, noise: NoiseSource) -> IntArray:
        return noisy_counts(BOOK.cells_of(SCHEMA.encode(rows[0])), BOOK.cells, how, on_integers(noise))

    def spent(effort: Effort) -> CheckResult:
        noise = Integers(simulated(effort.seed, "audit", "validation"))
        count((CORNERS, np.zeros(4, np.int64)), noise)
        events = [HistogramNoise(scale).event for scale in noise.scales]
        return recount(claim, events, [PureDp], "a histogram of D_v")

    return Subject("cells-validation", "sound", claim, (*_of_counts(count, how, claim, 4), spent))


class Integers(ScriptedNoise):
    """Integer noise from a source, or `units` times the scale without a source; records the scales."""

    def __init__(self, source: SimulatedNoise | None = None, units: float = 0.0) -> None:
        super().__init__(units)
        self.scales: list[float] = []
        self._integer_units = units
        self._source = source

    def discrete_laplace(self, scale: float, size: int) -> IntArray:
        """Draw integers, (size,) int64."""
        self.scales.append(scale)
        if self._source is not None:
            return self._source.discrete_laplace(scale, size)
        return np.full(size, round(1000 * self._integer_units * scale), dtype=np.int64)


def _of_counts(count: Count, how: HistogramNoise, claim: Claim, size: int) -> tuple[Check, ...]:
    return (
        partial(_units, count, claim),
        partial(_law, count, how, size),
        Experiment(claim, "log likelihood ratio of the two counts", partial(_play, count, how, size), 8_000),
    )


def _pairs(effort: Effort) -> list[tuple[Rows, Rows]]:
    """Data sets that differ in one row: in its values, in its label, or in both."""
    random = np.random.default_rng([effort.seed, 7])
    pairs = []
    for _ in range(effort.trials(30)):
        rest = random.integers(0, 5)
        rows, labels = random.integers(0, 2, (rest + 1, 2)).astype(float), random.integers(0, 2, rest + 1)
        other, kind = rows.copy(), labels.copy()
        other[0], kind[0] = random.integers(0, 2, 2), random.integers(0, 2)
        pairs.append(((rows, labels), (other, kind)))
    return pairs


def _units(count: Count, claim: Claim, effort: Effort) -> CheckResult:
    """Sum of the counts' changes in scales of their noise: pure epsilon of the worst pair."""
    worst = 0.0
    for first, second in _pairs(effort):
        base, moved = (count(rows, Integers()) for rows in (first, second))
        unit = (count(first, Integers(units=1.0)) - base) / 1000.0
        change = np.abs(moved - base)
        if np.any((unit == 0) & (change > 0)):
            worst = math.inf
        else:
            worst = max(worst, float((change / np.where(unit == 0, 1.0, unit)).sum()))
    what = "change of counts in scales of their noise"
    return CheckResult("sensitivity", what, worst > claim.epsilon * (1 + 1e-3), claim.epsilon, worst)


def _log_law(how: HistogramNoise, values: IntArray | FloatArray) -> FloatArray:
    """Log P(k) of the declared discrete Laplace law."""
    stay = math.exp(-1.0 / how.scale)
    return np.asarray(math.log((1.0 - stay) / (1.0 + stay)) - np.abs(values) / how.scale)


def _law(count: Count, how: HistogramNoise, size: int, effort: Effort) -> CheckResult:
    """Noise on the counts of one row, against the declared law."""
    noise = simulated(effort.seed, "audit", "law of counts")
    row = (CORNERS[:1], np.zeros(1, np.int64))
    exact = count(row, Integers())
    trials = effort.trials(2_500)
    drawn = np.concatenate([count(row, noise) - exact for _ in range(trials)])
    reach = 8 * math.ceil(how.scale)
    values = np.arange(-reach, reach + 1)
    chances = np.exp(_log_law(how, values))
    chances[[0, -1]] += (1.0 - chances.sum()) / 2.0
    observed = np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=len(values))
    return outcome_finding(observed, chances, effort.alpha, f"noise on {size} counts")


def _play(
    count: Count, how: HistogramNoise, size: int, second: bool, trials: int, random: np.random.Generator
) -> Scores:
    """One row in the first cell or in the last; score: by the counts of these two cells."""
    rows = (CORNERS[-1:] if second else CORNERS[:1], np.full(1, int(second), np.int64))
    noise = SimulatedNoise(random)
    histograms = np.array([count(rows, noise) for _ in range(trials)])
    first = int(count((CORNERS[:1], np.zeros(1, np.int64)), Integers()).argmax())
    last = int(count((CORNERS[-1:], np.ones(1, np.int64)), Integers()).argmax())
    scores = np.zeros(trials)
    for place, sign in ((last, 1.0), (first, -1.0)):
        counts = histograms[:, place]
        scores += sign * (_log_law(how, counts - 1) - _log_law(how, counts))
    return scores


# The sketch.


def sketched() -> Subject:
    """The sketch alone, at its share of (1, 1e-5)."""
    claim = Claim(0.3, _DELTA, _RELATION)
    multiplier = gaussian_sigma(claim.epsilon, claim.delta)
    checks = (
        partial(_sketch_units, multiplier),
        partial(_sketch_law, multiplier),
        partial(_sketch_recount, claim, multiplier),
    )
    return Subject("cells-sketch", "sound", claim, checks)


def _steps(rows: Rows) -> IntArray:
    return sketch.coordinates(SCHEMA.encode(rows[0]).astype(np.float64), rows[1], Projection(SPEC, SCHEMA), 2)


def _sketch_units(multiplier: float, effort: Effort) -> CheckResult:
    """L2 change of the sums, in deviations of the sums' noise."""
    noise = TalliedNoise(ScriptedNoise())
    sketch.release(np.zeros(sketch.length(2, 2), np.int64), 1, 2, 2, multiplier, noise)
    deviation = min(noise.gaussian_calls, default=0.0)
    random = np.random.default_rng([effort.seed, 8])
    near = np.clip(0.5 + 0.5 * random.normal(size=(effort.trials(1_000), 2)), 0.0, 1.0)
    angles = np.linspace(0.0, 2.0 * math.pi, 721)[:-1]
    circle = 0.5 + 0.5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rows = np.concatenate([circle, near, np.full((1, 2), 0.5)])
    first = _steps((circle[:1], np.zeros(1, np.int64)))
    worst = 0.0
    for label in (0, 1):
        moved = [_steps((row[np.newaxis], np.full(1, label, np.int64))) for row in rows]
        worst = max(worst, float(np.linalg.norm(np.array(moved) - first, axis=1).max()))
    units = worst / deviation if deviation else math.inf
    what = "change of the sketch in deviations of its noise"
    return CheckResult("sensitivity", what, units > (1 + 1e-9) / multiplier, 1 / multiplier, units)


def _steps_of(release: sketch.Sketch) -> FloatArray:
    """Recover the coordinates, in steps, from a release's moments."""
    one = sketch.from_coordinates(np.ones(sketch.length(2, 2)), release.rows, 2, 2, 0.0)
    return np.concatenate(
        [
            np.diagonal(release.second) / np.diagonal(one.second),
            [release.second[0, 1] / one.second[0, 1]],
            (release.sums / one.sums).ravel(),
            release.counts / one.counts,
        ]
    )


def _sketch_law(multiplier: float, effort: Effort) -> CheckResult:
    noise, zeros = simulated(effort.seed, "audit", "sketch"), np.zeros(sketch.length(2, 2), np.int64)
    drawn = [
        _steps_of(sketch.release(zeros, 1, 2, 2, multiplier, noise)) for _ in range(effort.trials(5_000))
    ]
    over = np.concatenate(drawn) / (multiplier * sketch.DIAMETER_STEPS)
    return scale_finding(over, "norm", 1.0, effort.alpha, "a sketch's noise, over the declared one")


def _sketch_events(multiplier: float, seed: int) -> list[Event]:
    noise = TalliedNoise(simulated(seed, "audit", "sketch"))
    sketch.release(np.zeros(sketch.length(2, 2), np.int64), 1, 2, 2, multiplier, noise)
    return gaussian_events(noise, sketch.DIAMETER_STEPS)


def _sketch_recount(claim: Claim, multiplier: float, effort: Effort) -> CheckResult:
    events = _sketch_events(multiplier, effort.seed)
    return recount(claim, events, [Gaussian], "the noise that a sketch drew")


# Both together.


def joint() -> Subject:
    """Sketch and histogram of an owner's rows together, at (1, 1e-5)."""
    claim = Claim(_EPSILON, _DELTA, f"{_RELATION}; everybody looks")
    plan = owner_noise(_EPSILON, _DELTA)

    def spent(effort: Effort) -> CheckResult:
        noise = Integers(simulated(effort.seed, "audit", "joint"))
        counting_responder(plan.histogram, (CORNERS[:1], np.zeros(1, np.int64)), noise).histogram(1)
        events = _sketch_events(plan.multiplier or 0.0, effort.seed)
        events += [HistogramNoise(scale).event for scale in noise.scales]
        return recount(claim, events, [Gaussian, PureDp])

    what = "log likelihood ratio of sketch and histogram"
    game = Experiment(claim, what, partial(_play_joint, plan), 5_000)
    return Subject("cells-joint", "sound", claim, (spent, game))


def _play_joint(plan: OwnerNoise, second: bool, trials: int, random: np.random.Generator) -> Scores:
    """A row of one class or of the other; score: from the sketch along its diameter, and two counts."""
    multiplier = plan.multiplier or 0.0

    def count(rows: Rows, noise: NoiseSource) -> IntArray:
        return counting_responder(plan.histogram, rows, noise).histogram(1)

    ends = [(CORNERS[:1], np.zeros(1, np.int64)), (CORNERS[-1:], np.ones(1, np.int64))]
    near, far = (_steps(rows).astype(np.float64) for rows in ends)
    noise = SimulatedNoise(random)
    total = _steps(ends[int(second)])
    seen = (
        np.array([_steps_of(sketch.release(total, 1, 2, 2, multiplier, noise)) for _ in range(trials)])
        - (near + far) / 2.0
    )
    gaussian = seen @ (far - near) / (multiplier * sketch.DIAMETER_STEPS) ** 2
    return np.asarray(gaussian + _play(count, plan.histogram, 8, second, trials, random))
