"""Audit of g~ by landmarks.

Neighbouring: one row of D_v replaced, |D_v| public. The curator names the landmarks, so the audit tries odd
landmarks too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from audit.attacks.black_box import Experiment
from audit.attacks.confidence import Scores
from audit.attacks.finding import CheckResult, Claim, Effort, Subject
from audit.attacks.scripted import ScriptedNoise
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.privacy.landmarks import Landmarks
from fedkme.privacy.noise import simulated
from fedkme.tables.schema import Category, Numeric, Schema

Encoded = NDArray[np.float32]

_CLAIM = Claim(1.0, 1e-5, "replace one row of D_v; owners and the curator look")
_SCHEMA = Schema(
    columns=(Numeric(name="a", bounds=(0, 1), count=2), Category(name="b", categories=("x", "y", "z")))
)
_REST = 3
"""Rows of D_v that both worlds share."""


def by_landmarks() -> Subject:
    """One Gaussian on D_v's mean in the span of landmarks' kernels, at (1, 1e-5)."""
    what = "projection of the release on the neighbours' difference, as a Gaussian"
    game = Experiment(_CLAIM, what, _play, 20_000, gaussian=True)
    return Subject("landmarks", "sound", _CLAIM, (_units, game))


def _rows(random: np.random.Generator, count: int) -> Encoded:
    """Corners of the domain and rows within it."""
    numbers = random.random((count, 2))
    corners = random.random(count) < 0.5
    numbers[corners] = numbers[corners].round()
    return _SCHEMA.encode(np.column_stack([numbers, random.integers(0, 3, count)]))


def _landmarks(random: np.random.Generator) -> Iterator[Encoded]:
    """Ordinary landmarks; a single one; copies of two; three close together; landmarks outside the domain."""
    rows = _rows(random, 12)
    yield rows
    yield rows[:1]
    yield np.repeat(rows[:2], 3, axis=0)
    yield np.concatenate([rows[:1], rows[:1] + np.float32(1e-4), rows[:1] - np.float32(1e-4)])
    yield 40.0 * rows - 20.0


def _units(effort: Effort) -> CheckResult:
    """L2 change of a release, in deviations of the release's noise."""
    random, worst = np.random.default_rng([effort.seed, 11]), 0.0
    for gamma in (0.05, 1.0, 300.0):
        for rows in _landmarks(random):
            marks = Landmarks(rows, gamma, _SCHEMA)
            for one, other in _pairs(marks, random, effort.trials(30)):
                base, moved = _release(marks, one, 0.0), _release(marks, other, 0.0)
                unit = _release(marks, one, 1.0) - base
                worst = max(worst, float(np.linalg.norm((moved - base) / unit)))
    claimed = 1.0 / gaussian_sigma(_CLAIM.epsilon, _CLAIM.delta)
    what = "change of a mean by landmarks in deviations of its noise"
    return CheckResult("sensitivity", what, worst > claimed * (1.0 + 1e-9), claimed, worst)


def _pairs(marks: Landmarks, random: np.random.Generator, count: int) -> Iterator[tuple[Encoded, Encoded]]:
    """Neighbours; the changed row is often a landmark within the domain, where phi is longest."""
    for _ in range(count):
        rows = _rows(random, 2)
        landmark = marks.rows[random.integers(len(marks.rows))]
        if random.random() < 0.5 and np.all((landmark >= 0) & (landmark <= 1)):
            rows[0] = landmark
        rest = np.repeat(rows[1:], int(random.integers(_REST)), axis=0)
        yield np.concatenate([rows[:1], rest]), np.concatenate([rows[1:], rest])


def _release(marks: Landmarks, rows: Encoded, units: float) -> NDArray[np.float64]:
    mechanism = marks.mean(_CLAIM.epsilon, _CLAIM.delta, ScriptedNoise(units))
    mechanism.add(marks.features(rows))
    return mechanism.release()


def _play(second: bool, trials: int, random: np.random.Generator) -> Scores:
    """Scores for two rows at opposite corners, which are landmarks."""
    ends = _SCHEMA.encode(np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]))
    marks = Landmarks(ends, 3.0, _SCHEMA)
    difference = np.subtract(*marks.features(ends))
    noise = simulated(int(random.integers(2**62)), "consumer", "target")
    scores = np.empty(trials)
    for trial in range(trials):
        mechanism = marks.mean(_CLAIM.epsilon, _CLAIM.delta, noise)
        mechanism.add(marks.features(ends[:1] if second else ends[1:]))
        scores[trial] = mechanism.release() @ difference
    return scores
