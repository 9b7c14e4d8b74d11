"""Audit of clock and broadcasts together: all messages of a run to another owner.

Neighbouring: one row x added to another owner, which the clock pays for once. By the one-exchange lemma x
takes the place of one row of the summary at any time, and the broadcasts pay for this exchange: their
sensitivity is the sensitivity of one replaced row. The claim is the `Sound` epsilon of the clock together
with all broadcasts that read a row.

The worlds are a worst case of both at once. One clock matters, with T - 1 or T rows worth its first price.
Any stop sells every row, so x is in the summary from then on, in place of a row whose features are as far
from the features of x as features can be.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from functools import partial

import numpy as np

from audit.attacks.clock import stop_law
from audit.attacks.finding import CheckResult, Claim, Effort, Subject
from audit.attacks.recount import gaussian_events, recount
from audit.attacks.runs import OBSERVER, SCHEMA, OwnerView, RunGame, first_scores
from audit.attacks.scripted import TalliedNoise
from audit.attacks.wire import GRPC, LOOPBACK, looped
from curator.run.summary_record import SummaryRecord
from curator.summary.auctions.clock import Clock, ClockSettings
from curator.summary.task import SummaryTask
from fedkme.arrays import FloatArray
from fedkme.features.fixed_point import FEATURE_UNIT, normalised_features, normalised_mean, quantize_mean
from fedkme.features.fourier import FourierSpec, RandomFourier
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import Clock as ClockEvent
from fedkme.privacy.events import Gaussian
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.privacy.means import GaussianMean, MeanRelease
from fedkme.privacy.noise import NoiseSource, simulated

_RELATION = "add or remove a row of another owner, hence one row of the summary exchanged; an owner looks"
_CLOCK = 1.0  # epsilon of the clock
_EPSILON, _DELTA = 1.0, 1e-5  # budget of the broadcasts
_ROUNDS = 3
_RELEASES = _ROUNDS - 1  # the first broadcast reads no row


def clock_and_broadcasts() -> Subject:
    """Clock at epsilon = 1 and Gaussian broadcasts at (1, 1e-5), together."""
    multiplier = gaussian_sigma(_EPSILON, _DELTA, _RELEASES)
    events = [ClockEvent(_CLOCK, "add-remove"), Gaussian(multiplier, _RELEASES)]
    claim = Claim(Sound().epsilon(events, _DELTA).epsilon, _DELTA, _RELATION)
    game = joint_game(claim)
    return Subject(
        "clock-broadcasts",
        "sound",
        claim,
        (partial(_recount_run, game), game.over(LOOPBACK, 4_000), game.over(GRPC, 1_500)),
    )


def joint_game(claim: Claim) -> RunGame:
    """One run; score: log likelihood ratio of the first stop and of all broadcasts, by the declared laws."""
    settings = ClockSettings(epsilon=_CLOCK, block=1, highest=-2.0, lowest=-4.0, step=2.0)
    task, x, other = _opposites()
    worth = round(settings.threshold()) - 1
    counts = np.array([worth, worth])
    stops = np.log(stop_law(settings, counts + 1)) - np.log(stop_law(settings, counts))
    scores = first_scores(task, np.stack([other, x]))
    between = float(scores.mean() - 3.0 * scores.std())  # the two prices
    first, second_features = normalised_features(task.h1.fixed_point(SCHEMA.encode(np.stack([other, x]))))
    scale = 2.0 * task.h1.norm_bound * math.sqrt(task.h1.spec.dimension / 2.0)
    scale *= gaussian_sigma(_EPSILON, _DELTA, _RELEASES)

    def held(second: bool) -> Mapping[str, FloatArray]:
        others = np.tile(other, (worth - 1, 1))
        rows = np.concatenate([others, x[np.newaxis]]) if second else others
        return {"holder": rows, OBSERVER: other[np.newaxis]}

    def score(view: OwnerView) -> float:
        ratio = float(stops[0 if view.prices[0] > between else 1])
        for broadcast in view.broadcasts:
            if broadcast.size:
                # the sum of the summary is q times `other`, or once x and q - 1 times `other`
                rest = broadcast.size * normalised_mean(broadcast.mean) - (broadcast.size - 1) * first
                ratio += (
                    float((rest - (first + second_features) / 2.0) @ (second_features - first)) / scale**2
                )
        return ratio

    def release(noise: NoiseSource) -> MeanRelease:
        return GaussianMean(
            task.h1.spec.dimension,
            noise,
            norm_bound=task.h1.norm_bound,
            epsilon=_EPSILON,
            delta=_DELTA,
            releases=_RELEASES,
        )

    what = "likelihood ratio of a run's first stop and all its broadcasts"
    return RunGame(claim, what, task, held, lambda noise: Clock(settings, noise), score, release)


def _opposites() -> tuple[SummaryTask, FloatArray, FloatArray]:
    """A task, the row x and another row: their features are nearly opposite, and x is a little better."""
    h1 = RandomFourier(FourierSpec("paired", 2, 40.0, 2, 1))
    rows = np.random.default_rng(0).random((2_000, 2))
    features = h1.normalised(SCHEMA.encode(rows))
    x = features[0]
    other = int((features @ x).argmin())
    target = quantize_mean(np.array([-x[1], x[0]]) + 0.1 * x)
    reference = h1.fixed_point(SCHEMA.encode(rows[[0, other]]))
    none = h1.fixed_point(np.empty((0, 2)))
    task = SummaryTask("audit", _ROUNDS, SCHEMA, h1, target, none, reference=reference)
    return task, rows[0], rows[other]


def _recount_run(game: RunGame, effort: Effort) -> CheckResult:
    """Compare a run's claim with the cost of its clock and its broadcasts' noise."""
    noise = TalliedNoise(simulated(effort.seed, "audit", "run"))
    ports = looped(game.owners(True, noise, OwnerView()), SCHEMA.encoded_width)
    asyncio.run(game.play(ports, noise, SummaryRecord()))
    h1 = game.task.h1
    sensitivity = 2.0 * h1.norm_bound * math.sqrt(h1.spec.dimension / 2.0) / FEATURE_UNIT
    events = [ClockEvent(_CLOCK, "add-remove"), *gaussian_events(noise, sensitivity)]
    return recount(game.claim, events, [ClockEvent, Gaussian], "the clock and the noise drawn in a run")
