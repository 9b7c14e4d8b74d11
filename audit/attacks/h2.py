"""Audit of h2 (Sarpatwar 2019, Algorithm 2), with our accounting and with the published one.

Neighbouring: one row replaced, the number of rows public.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from audit.attacks.black_box import Experiment
from audit.attacks.confidence import Scores
from audit.attacks.finding import CheckResult, Claim, Effort, Subject
from audit.attacks.law import rate_finding, scale_finding
from audit.attacks.recount import mwem_events, recount
from audit.attacks.scripted import TalliedNoise
from audit.attacks.sensitivity import empty_release, laplace_units, selection_loss
from fedkme.arrays import FloatArray
from fedkme.privacy.accountants import Published, Sound
from fedkme.privacy.events import Event, MwemCall
from fedkme.privacy.means import MeanRelease, MwemMean
from fedkme.privacy.mwem import quantize, tilted_mean
from fedkme.privacy.noise import NoiseSource, simulated

_RELATION = "replace one row"
_STEP = 0.01  # eta
_INTERVALS = 200
_PARAMETER = 0.5  # parameter e of one iteration in the attack
_DIMENSION = 12
_ROUNDS = 20  # rounds of the recounted run; its h2 is otherwise as in section 4 of the paper
_ITERATIONS = 5
_RUN_PARAMETER = 0.01


def h2() -> Subject:
    """h2 with our accounting: 4e for a selection and 2e for a value; both are released."""
    return Subject(
        "h2",
        "sound",
        Claim(6.0 * _PARAMETER, 0.0, _RELATION),
        (
            partial(empty_release, _one_call),
            partial(laplace_units, _one_call, 2.0 * _PARAMETER),
            partial(selection_loss, _one_call, 4.0 * _PARAMETER),
            _value_scale,
            _quantizer_bias,
            _recount_run,
            _declared_run,
            partial(_declared_run, scheduled=_ROUNDS + 1),
            h2_experiment(6.0 * _PARAMETER),
        ),
    )


def h2_published() -> Subject:
    """h2 with the paper's count: an iteration with parameter e is one release of cost e."""
    events = [MwemCall(_PARAMETER, 1)]
    claimed = Published().epsilon(events, 0.0).epsilon
    claim = Claim(claimed, 0.0, _RELATION)
    return Subject(
        "h2-published",
        "published",
        claim,
        (
            partial(selection_loss, _one_call, claimed),
            lambda effort: recount(claim, events, [MwemCall]),
            h2_experiment(claimed),
        ),
    )


def _one_call(dimension: int, noise: NoiseSource) -> MeanRelease:
    """h2 with one iteration, so that its output names the selected coordinate and the measured value."""
    return MwemMean(
        dimension,
        noise,
        grid_step=_STEP,
        initial_epsilon=_PARAMETER,
        initial_iterations=1,
        epsilon=_PARAMETER,
        iterations=1,
    )


def _worst_pair(dimension: int) -> tuple[FloatArray, FloatArray]:
    """Two rows; the neighbour negates the second: coordinate 0's error falls by 2, all others rise by 2."""
    row = -np.ones(dimension)
    row[0] = 1.0
    return np.stack([row, row**2]), np.stack([row, -(row**2)])


def h2_experiment(claimed: float) -> Experiment:
    """The worst pair for one iteration; score: log likelihood ratio of selection and value together."""
    worlds = _worst_pair(_DIMENSION)
    sums = [world.sum(axis=0) for world in worlds]
    chances = [_PARAMETER * np.abs(s) - np.log(np.exp(_PARAMETER * np.abs(s)).sum()) for s in sums]
    grid = np.concatenate([-np.geomspace(500.0, 1e-4, 4000), np.geomspace(1e-4, 500.0, 4000)])
    means = np.array([tilted_mean(float(theta), _INTERVALS) for theta in grid])

    def sample(second: bool, trials: int, random: np.random.Generator) -> Scores:
        noise = simulated(int(random.integers(2**62)), "curator", "broadcast")
        outputs = np.empty((trials, _DIMENSION))
        for trial in range(trials):
            mechanism = _one_call(_DIMENSION, noise)
            mechanism.add(worlds[second])
            outputs[trial] = mechanism.release()
        selected = np.abs(outputs).argmax(axis=1)
        measured = 4.0 * np.interp(outputs[np.arange(trials), selected], means, grid)  # theta = mu / 2q
        away = [np.abs(measured - s[selected]) for s in sums]
        return np.asarray(chances[1][selected] - chances[0][selected] + _PARAMETER * (away[0] - away[1]))

    what = "likelihood ratio of one iteration, selection and value"
    return Experiment(Claim(claimed, 0.0, _RELATION), what, sample, 64_000)


def _value_scale(effort: Effort) -> CheckResult:
    """The value that h2 releases for a lone zero row is Laplace noise of scale 1/e, end to end."""
    noise = simulated(effort.seed, "audit", "value")
    grid = np.concatenate([-np.geomspace(500.0, 1e-5, 20_000), np.geomspace(1e-5, 500.0, 20_000)])
    means = np.array([tilted_mean(float(theta), _INTERVALS) for theta in grid])
    outputs = np.zeros(effort.trials(10_000), dtype=np.float64)
    for trial in range(len(outputs)):
        mechanism = _one_call(1, noise)
        mechanism.add(np.zeros((1, 1)))
        outputs[trial] = mechanism.release()[0]
    values: FloatArray = 2.0 * np.interp(outputs, means, grid)
    return scale_finding(values, "laplace", 1.0 / _PARAMETER, effort.alpha, "a value's noise, end to end")


def _quantizer_bias(effort: Effort) -> CheckResult:
    """A value 0.3 of a step above a point of the grid is rounded up 0.3 of the time, anywhere on the grid."""
    trials = effort.trials(100_000)
    place = np.arange(trials) % _INTERVALS
    values = np.asarray(-1.0 + _STEP * (place + 0.3), dtype=np.float64)
    rounded = quantize(values[np.newaxis], _STEP, simulated(effort.seed, "audit", "quantizer"))[0]
    up = int((rounded - place).sum())
    return rate_finding(up, trials, 0.3, effort.alpha, "rounding up to the grid")


def _recount_run(effort: Effort) -> CheckResult:
    """Compare the claim for a run of 20 releases of 5 iterations with the cost of its noise."""
    promised = [MwemCall(_RUN_PARAMETER, _ROUNDS * _ITERATIONS)]
    claim = Claim(Sound().epsilon(promised, 1e-5).epsilon, 1e-5, _RELATION)
    return recount(claim, mwem_events(_run(effort)[0], _INTERVALS), [MwemCall], "the noise drawn in a run")


def _declared_run(effort: Effort, scheduled: int | None = None) -> CheckResult:
    """Compare a mechanism's declared events with the cost of its noise, perhaps on Theorem 2's schedule."""
    noise, declared = _run(effort, scheduled)
    claim = Claim(Sound().epsilon(declared, 1e-5).epsilon, 1e-5, _RELATION)
    of = f"the noise drawn{' on a schedule' if scheduled else ''}, against the events declared"
    return recount(claim, mwem_events(noise, _INTERVALS), [MwemCall], of)


def _run(effort: Effort, scheduled: int | None = None) -> tuple[TalliedNoise, list[Event]]:
    """Play a run without a seed set: an empty first release, then one after every row.

    Returns:
        The run's tallied noise, and its declared events.
    """
    noise = TalliedNoise(simulated(effort.seed, "audit", "run"))
    mechanism = MwemMean(
        8,
        noise,
        grid_step=_STEP,
        initial_epsilon=0.05,
        initial_iterations=1656,
        epsilon=_RUN_PARAMETER,
        iterations=_ITERATIONS,
        scheduled=scheduled,
    )
    mechanism.release()
    declared = []
    for row in np.random.default_rng(effort.seed).uniform(-1, 1, (_ROUNDS, 1, 8)):
        mechanism.add(row)
        declared.append(mechanism.cost.event)
        mechanism.release()
    return noise, declared
