"""Audit of moments: sums of both questions against the distance that calibrates their noise.

Neighbouring: one row replaced by another, of the same class or not, the number of rows public.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from audit.attacks.black_box import Experiment
from audit.attacks.confidence import Scores
from audit.attacks.finding import CheckResult, Claim, Effort, Subject
from fedkme.arrays import FloatArray
from fedkme.features.maps import EmbeddingMap, MapSpec
from fedkme.features.sums import Layout, pooled_sum
from fedkme.moments.features import SecondMomentsSpec, ShellsSpec
from fedkme.privacy.sums import PooledRelease, embedding_query
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table

_CLAIM = Claim(1.0, 1e-5, "replace one row; the consumer looks")
_SCHEMA = Schema(
    columns=(Numeric(name="a", bounds=(0, 1), count=3),), label=Label(name="c", classes=("x", "y"))
)
_LAYOUT = Layout(2)
_WIDE = SecondMomentsSpec(chosen=(0, 1, 2), centre=(0.5,) * 3, scale=(0.2,) * 3)
_SPECS: tuple[MapSpec, ...] = (ShellsSpec(shells=3), _WIDE)


def _embedding(spec: MapSpec) -> EmbeddingMap:
    return spec.make(_SCHEMA)


def moments() -> Subject:
    """Both questions: adversarial rows against the sensitivity, and the projection on their difference."""
    features = _embedding(_WIDE)
    release = PooledRelease((embedding_query(_embedding(_WIDE), _LAYOUT),), _CLAIM.epsilon, _CLAIM.delta)
    what = "projection of second moments on the neighbours' difference, as a Gaussian"
    game = Experiment(_CLAIM, what, partial(_play, features, release.sigmas[0]), 20_000, gaussian=True)
    checks = [partial(_units, spec) for spec in _SPECS]
    return Subject("moments", "sound", _CLAIM, (*checks, game))


def _units(spec: MapSpec, effort: Effort) -> CheckResult:
    """Largest L2 change of a sum by class, as a factor of the change that calibrates the noise."""
    random, features = np.random.default_rng([effort.seed, 11]), _embedding(spec)
    claimed = embedding_query(_embedding(spec), _LAYOUT).diameter
    pairs = np.concatenate([random.random((effort.trials(400), 2, 3)), _opposed()])
    for _ in range(6):
        best = pairs[np.argsort(_changes(features, pairs))[-20:]]
        near = np.repeat(best, 20, axis=0)
        near = np.clip(near + random.normal(0.0, 0.1, near.shape), 0.0, 1.0)
        pairs = np.concatenate([best, near])
    within = float(_changes(features, pairs).max())
    across = max(_across(features, pair) for pair in pairs[:20])
    worst = max(within, across) / claimed
    return CheckResult(
        "sensitivity", f"change of sums of {spec.kind} over the calibrated", worst > 1.0, 1.0, worst
    )


def _opposed() -> FloatArray:
    """Rows at unit length from the centre at z.y = -t, where the bound is reached within a class."""
    angle = math.acos(-0.5)
    far = 0.5 + 0.25 * np.array([[1.0, 0.0, 0.0], [math.cos(angle), math.sin(angle), 0.0]])
    return far[None]


def _changes(features: EmbeddingMap, pairs: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.norm(features.features(pairs[:, 0]) - features.features(pairs[:, 1]), axis=1))


def _across(features: EmbeddingMap, pair: FloatArray) -> float:
    """Change of the sums by class if the new row is of the other class."""
    sums = [pooled_sum(Table(pair[[place]], np.array([place])), features, _LAYOUT).sum for place in range(2)]
    return float(np.linalg.norm(sums[0] - sums[1]))


def _play(
    features: EmbeddingMap, sigma: float, second: bool, trials: int, random: np.random.Generator
) -> Scores:
    ends = features.features(_opposed()[0])
    apart = ends[1] - ends[0]
    noise = sigma * random.standard_normal(trials) * float(np.linalg.norm(apart))
    scores: FloatArray = float(ends[int(second)] @ apart) + noise
    return scores
