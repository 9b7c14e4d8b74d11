"""Faults of counts, sketches, sums and budgets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.attacks import cells, h2
from audit.attacks.consumers import repeated_requests
from audit.attacks.curators import pooled
from audit.attacks.finding import Claim, Subject
from audit.attacks.owners import coalitions
from audit.attacks.scripted import TalliedNoise
from audit.planted_faults.parts.mean_faults import ScaledNoise
from curator.releases import joint as joint_release
from curator.releases.marginals.adaptive import aim
from curator.releases.marginals.release import MarginalRelease
from curator.releases.marginals.rounds import rounds
from fedkme.arrays import FloatArray
from fedkme.cells import sketch
from fedkme.cells.histogram import CountNoise, GaussianNoise, IntegerNoise, noisy_counts
from fedkme.cells.repeated_requests import costs_of_asks
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import Laplace
from fedkme.privacy.landmarks import Landmarks
from fedkme.privacy.presets import PrivacyTarget
from fedkme.protocol import Bid
from fedkme.secagg.noise import NoisePlan, plan_noise
from fedkme.tables.table import Table
from owner.cells.responder import HistogramResponder
from owner.party import OwnerParty
from owner.runs import RunManager
from owner.settings import PolicySettings


class SkipsLast:
    """Asks everyone but the last in rank."""

    def open_round(self, bids: Mapping[str, Bid]) -> None:
        pass

    def asked(self, bids: Mapping[str, Bid]) -> list[str]:
        return sorted(bids, key=lambda name: -bids[name].value)[:-1]


def half_counted() -> Subject:
    """A claim that counts one release for each of T iterations, the value, and forgets the selection."""
    epsilon = Sound().epsilon([Laplace(1.0 / (2.0 * 0.01), 100)], 1e-5).epsilon
    return h2.h2(run_claim=Claim(epsilon, 1e-5, "replace one row"))


class ScaledIntegers:
    """A source whose discrete Laplace scale is wrong by a factor."""

    def __init__(self, source: Any, factor: float) -> None:
        self._source = source
        self._factor = factor

    def discrete_laplace(self, scale: float, size: int) -> NDArray[np.int64]:
        draw: NDArray[np.int64] = self._source.discrete_laplace(self._factor * scale, size)
        return draw

    def gaussian(self, scale: float, size: int) -> FloatArray:
        draw: FloatArray = self._source.gaussian(self._factor * scale, size)
        return draw


class FirstIsExact:
    """A source that leaves the first count without noise."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def discrete_laplace(self, scale: float, size: int) -> NDArray[np.int64]:
        draw: NDArray[np.int64] = self._source.discrete_laplace(scale, size)
        draw[0] = 0
        return draw

    def gaussian(self, scale: float, size: int) -> FloatArray:
        draw: FloatArray = self._source.gaussian(scale, size)
        draw[0] = 0
        return draw


def responder_with(wrap: Callable[[Any], Any]) -> type[HistogramResponder]:
    class Faulty(HistogramResponder):
        def __init__(self, name: str, table: Any, schema: Any, noise: Any, gate: Any) -> None:
            super().__init__(name, table, schema, wrap(noise), gate)

    return Faulty


class CountsAgain(HistogramResponder):
    """Answers every request for a histogram anew."""

    def histogram(self, round_number: int) -> NDArray[np.int64]:
        self._counted = False
        return super().histogram(round_number)


def in_two_cells(
    rows: NDArray[np.int64], size: int, how: CountNoise | None, noise: IntegerNoise
) -> NDArray[np.int64]:
    """Each row counts in its cell and in the next."""
    return noisy_counts(np.concatenate([rows, (rows + 1) % size]), size, how, noise)


def often_deviation() -> float:
    noise = costs_of_asks(PrivacyTarget(), repeated_requests.ASKS).noise
    assert isinstance(noise, GaussianNoise)
    return noise.deviation


def counted_twice(
    rows: NDArray[np.int64], size: int, how: CountNoise | None, noise: IntegerNoise
) -> NDArray[np.int64]:
    """Draw a histogram twice, and release the second."""
    noisy_counts(rows, size, how, noise)
    return noisy_counts(rows, size, how, noise)


def doubled_steps(*arguments: Any) -> NDArray[np.int64]:
    """Off-diagonals as if 41/29 were 2 sqrt 2."""
    steps = sketch.coordinates(*arguments)
    steps[2] *= 2
    return steps


def in_both_coalitions(table: Table, owner: str) -> NDArray[np.int64]:
    """Counts in the own coalition's block, and in the other's."""
    vector = coalitions.honest(table, owner)
    return vector + np.roll(vector, len(vector) // 2)


class WeakerCounts(TalliedNoise):
    """Noise on counts, which is small beside a sketch's, with 5 % too little deviation."""

    def gaussian(self, scale: float, size: int) -> FloatArray:
        return super().gaussian(scale if scale > 1e4 else 0.95 * scale, size)


def sketched_with(factor: float) -> Subject:
    def release(*arguments: Any) -> sketch.Sketch:
        total, rows, dimension, classes, multiplier, noise = arguments
        return sketch.release(total, rows, dimension, classes, multiplier, ScaledNoise(noise, factor))

    return cells.sketched(cells.SketchParts(release=release))


def sketched_cheaply() -> Subject:
    """Sketch with less noise than its joint plan says."""

    def release(*arguments: Any) -> sketch.Sketch:
        total, rows, dimension, classes, multiplier, noise = arguments
        return sketch.release(total, rows, dimension, classes, 0.8 * multiplier, noise)

    return cells.joint(parts=cells.SketchParts(release=release))


def release_with(factor: float) -> pooled.Release:
    """A joint release whose noise is wrong by a factor."""

    def release(*args: Any) -> joint_release.JointRelease:
        maps, totals, layout, rows, plan, noise, counts = args
        noise = ScaledNoise(noise, factor)
        return joint_release.release(maps, totals, layout, rows, plan, noise, counts)

    return release


async def hasty_aim(*args: Any, **how: Any) -> MarginalRelease:
    """AIM that measures with half of its noise."""
    oracle, sizes, rows, epsilon, delta, noise = args
    return await aim(oracle, sizes, rows, epsilon, delta, ScaledNoise(noise, 0.5), **how)


async def hasty_rounds(*args: Any) -> MarginalRelease:
    """Rounds of double the epsilon."""
    oracle, sizes, rows, epsilon, *rest = args
    return await rounds(oracle, sizes, rows, 2.0 * epsilon, *rest)


def planned_for_all(*args: Any, **given: Any) -> NoisePlan:
    """Plan noise for n honest parties in place of n - D - T."""
    return plan_noise(*args, **(given | {"dropouts": 0, "colluders": 0}))


class OfOneLandmark(Landmarks):
    """Understates the change by a row, as if only one kernel function moved."""

    @property
    def sensitivity(self) -> float:
        return super().sensitivity / math.sqrt(2.0)


def unbudgeted(party: OwnerParty, make: type[RunManager]) -> RunManager:
    """Open an owner that does not check its budget before its bytes leave."""
    return replace(party, policy=PolicySettings()).open(make=make)
