"""Audit of the foundations of all mechanisms: h1, the schema's encoding, the noise sources."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from audit.attacks import sources
from audit.attacks.finding import Check, CheckResult, Claim, Effort, Subject
from audit.attacks.law import laplace_outcome, scale_finding, shape_finding
from audit.attacks.sensitivity import encoding, feature_norm, refusal
from audit.attacks.sources import Make
from fedkme.cells.histogram import IntegerNoise
from fedkme.features.fourier import FourierSpec, Kind, RandomFourier
from fedkme.privacy.noise import NoiseSource, simulated
from fedkme.tables.schema import Category, Numeric, Schema
from fedkme.tables.table import Table

_SCHEMA = Schema(
    columns=(
        Category(name="work", categories=("none", "private", "state", "own")),
        Numeric(name="age", bounds=(0.0, 100.0)),
    )
)
_WIDTH = 3


def h1(kind: Kind) -> Subject:
    """The norm bound of random Fourier features in fixed point, as the parties compute them."""
    features = RandomFourier(FourierSpec(kind, 140, 2.0, _WIDTH, 1))
    claim = Claim(math.nan, 0.0, "no privacy of its own: a bound that every sensitivity rests on")
    return Subject(f"h1-{kind}", "sound", claim, (partial(feature_norm, features, _WIDTH),))


def schema_encoding() -> Subject:
    """Encoding of rows into model space by the public schema."""
    rows = np.array([[3.0, 40.0], [0.0, 100.0], [0.0, 0.0], [2.0, 100.0], [1.0, 7.0]])
    odd = [
        np.array([[4.0, 1.0]]),
        np.array([[-1.0, 1.0]]),
        np.array([[0.5, 1.0]]),
        np.array([[np.nan, 1.0]]),
        np.array([[0.0, np.nan]]),
        np.array([[0.0, np.inf]]),
        np.array([[0.0, 100.5]]),
    ]
    claim = Claim(math.nan, 0.0, "what a row becomes depends on the row and the public schema alone")
    checks: tuple[Check, ...] = (partial(encoding, _SCHEMA, rows), partial(refusal, _check, odd))
    return Subject("encoding", "sound", claim, checks)


def _check(rows: NDArray[Any]) -> None:
    _SCHEMA.check(Table(rows, None), "audit")


_Law = Literal["norm", "laplace", "uniform"]
_SCALES: Sequence[tuple[_Law, float]] = (("laplace", 31623.0), ("norm", 0.7), ("uniform", 1.0))
_WHOLE = 2.0
"""Scale of the integer noise on a histogram at epsilon 1."""


def simulated_noise() -> Subject:
    """Laws of the seeded source. A reader of the seed can subtract its noise, so it protects nobody."""
    claim = Claim(math.nan, 0.0, "laws of the draws; no protection")
    return Subject(
        "simulated-noise", "sound", claim, _laws(lambda seed: simulated(seed, "audit", "law"), 1_000_000)
    )


def secure_noise(make: Make = sources.deployed) -> Subject:
    """The source of a deployment: the origin of its bits, no reuse of bits, and its laws.

    Args:
        make: makes a source, as a party's process does; a function of a module is also called in other
            processes.
    """
    in_process: tuple[Callable[[Make, Effort], CheckResult], ...] = (
        sources.type_finding,
        sources.entropy_finding,
        sources.script_finding,
        sources.reach_finding,
        sources.lattice_finding,
        sources.low_bits_finding,
        sources.correlation_finding,
        sources.reuse_finding,
    )

    def whole(effort: Effort) -> CheckResult:
        source: Any = make()
        drawn = source.discrete_laplace(_WHOLE, effort.trials(30_000))
        return laplace_outcome(drawn, _WHOLE, effort.alpha, "whole Laplace noise")

    claim = Claim(math.nan, 0.0, "bits of the operating system, none of them twice; laws of the draws")
    checks: list[Check] = [
        *(partial(check, make) for check in in_process),
        *_laws(lambda seed: make(), 30_000),
    ]
    if isinstance(make(), IntegerNoise):
        checks.append(whole)
    if "<" not in make.__qualname__:
        checks.append(partial(sources.processes_finding, make))
    return Subject("secure-noise", "sound", claim, tuple(checks))


def _laws(make: Callable[[int], NoiseSource], draws: int) -> tuple[Check, ...]:
    def drawn(law: _Law, scale: float, effort: Effort) -> NDArray[np.float64]:
        source, size = make(effort.seed), effort.trials(draws)
        match law:
            case "laplace":
                return source.laplace(scale, size)
            case "norm":
                return source.gaussian(scale, size)
            case "uniform":
                return source.uniform(size)

    def scale_check(law: _Law, scale: float, effort: Effort) -> CheckResult:
        return scale_finding(drawn(law, scale, effort), law, scale, effort.alpha, f"{law} noise")

    def shape_check(law: _Law, scale: float, effort: Effort) -> CheckResult:
        return shape_finding(drawn(law, scale, effort)[:100_000], law, scale, effort.alpha, f"{law} noise")

    return (
        *(partial(scale_check, law, scale) for law, scale in _SCALES if law != "uniform"),
        *(partial(shape_check, law, scale) for law, scale in _SCALES),
    )
