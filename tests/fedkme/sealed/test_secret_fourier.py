"""Draws (omega, b) of h1 that are a secret of owners and consumer."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import pickle
from typing import get_args

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import kstest

from audit.attacks.hashes import hashed_kernel
from fedkme.embeddings.kernels import rbf
from fedkme.errors import ConfigError, SealedBoxError
from fedkme.features.fixed_point import kernel_error_bound
from fedkme.features.fourier import FourierFeatures, FourierSpec, Kind, RandomFourier, SecretFourierSpec
from fedkme.sealed.group import GroupSecret
from fedkme.sealed.secret_fourier import SecretFourier, logarithm, normal
from tests.fedkme.sealed.maps import GAMMA, ROWS, SECRET, WIDTH, secret_map, spec

KINDS: tuple[Kind, ...] = get_args(Kind)


@pytest.mark.parametrize("kind", KINDS)
def test_parties_with_one_secret_have_one_map_bit_for_bit(kind: Kind) -> None:
    # Each party builds its map from the public spec and its own copy of the secret.
    travelled = SecretFourierSpec(**dataclasses.asdict(spec(kind)))
    there = SecretFourier(travelled, GroupSecret("run-1", SECRET.exposed()))
    assert np.array_equal(there(ROWS), secret_map(kind)(ROWS))
    assert np.array_equal(there.fixed_point(ROWS), secret_map(kind).fixed_point(ROWS))


def test_the_draw_equals_its_recorded_values() -> None:
    # A golden draw. It must not depend on the machine, nor on numpy's generators or anybody's libm:
    # only IEEE 754's basic operations are used.
    h1 = secret_map("offset", dimension=50, width=40)
    draw = np.concatenate([h1._omega.ravel(), h1._offset if h1._offset is not None else []])
    assert hashlib.sha256(draw.astype("<f8").tobytes()).hexdigest() == (
        "8adbe8e0048367bf5266ef29f1eef56088fa9bbfae82b957001849439b80b5a6"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_inner_products_of_hashes_estimate_the_kernel(kind: Kind) -> None:
    pairs = len(ROWS) * (len(ROWS) - 1) // 2
    for dimension in (140, 1024, 8192):  # each fails with probability 1e-9 over draws; this draw is fixed
        h = secret_map(kind, dimension).fixed_point(ROWS)
        error = np.abs(hashed_kernel(h, h) - rbf(ROWS, ROWS, GAMMA))[np.triu_indices(len(ROWS), 1)].max()
        assert error <= kernel_error_bound(dimension, pairs, 1e-9)


def test_the_paired_form_has_norm_one_with_its_phase_too() -> None:
    assert secret_map().norm_bound == 1.0
    assert np.allclose(np.linalg.norm(secret_map()(ROWS), axis=1), 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_hashes_of_moved_rows_are_hashes_under_another_draw_of_the_same_law(kind: Kind) -> None:
    # The module's proposition: h1 of R x + t under (omega, b) is h1 of x under (R' omega, b + omega . t).
    h1 = secret_map(kind)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(WIDTH, WIDTH)))[0]
    shift = np.arange(WIDTH) / 3.0
    assert h1._offset is not None
    moved = FourierFeatures(h1.spec, turn.T @ h1._omega, h1._offset + shift @ h1._omega)
    assert np.allclose(h1(ROWS @ turn.T + shift), moved(ROWS))


def test_draws_of_other_secrets_runs_kinds_and_shapes_are_unrelated() -> None:
    base = secret_map()._omega[:, :20].ravel() / math.sqrt(2 * GAMMA)
    others = [
        secret_map(secret=GroupSecret("run-1", bytes(32))),
        secret_map(secret=GroupSecret("run-2", SECRET.exposed())),
        secret_map("offset"),
        secret_map(dimension=142),
        secret_map(gamma=GAMMA * (1 + 1e-15)),
        secret_map(width=WIDTH + 1),
    ]
    for other in others:
        drawn = other._omega[:WIDTH, :20].ravel() / math.sqrt(2 * GAMMA)
        assert abs(float(np.corrcoef(base, drawn)[0, 1])) < 0.5  # 120 pairs: 5.4 standard deviations


def test_a_map_of_another_secret_is_refused() -> None:
    with pytest.raises(SealedBoxError, match="not the one that its features are drawn from"):
        SecretFourier(spec(), GroupSecret("run-1", bytes(32)))
    with pytest.raises(SealedBoxError):  # of another run
        SecretFourier(spec(), GroupSecret("run-2", SECRET.exposed()))


def test_nothing_that_travels_or_is_shown_holds_the_secret() -> None:
    h1 = secret_map()
    plain = {**dataclasses.asdict(h1.spec), "commitment": h1.spec.commitment.hex()}
    for shown in (json.dumps(plain), repr(h1), repr(h1.spec), pickle.dumps(h1.spec).hex()):
        assert SECRET.exposed().hex() not in shown
        assert repr(SECRET.exposed())[2:-1] not in shown
    assert not hasattr(h1.spec, "seed")


def test_a_public_draw_equals_its_recorded_values() -> None:
    # Runs with a public draw keep their bids: same numbers as drawn by hand.
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([5])))
    omega = math.sqrt(2 * GAMMA) * rng.standard_normal((WIDTH, 8))
    angles = ROWS @ omega
    hand = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    assert np.array_equal(RandomFourier(FourierSpec("paired", 16, GAMMA, WIDTH, 5)).normalised(ROWS), hand)


@pytest.mark.parametrize(
    ("kind", "dimension", "gamma", "commitment"),
    [
        ("paired", 7, 1.0, bytes(32)),
        ("paired", 0, 1.0, bytes(32)),
        ("paired", 8, math.inf, bytes(32)),
        ("offset", 8, 0.0, bytes(32)),
        ("offset", 8, 1.0, b""),
        ("offset", 2**29, 1.0, bytes(32)),
    ],
)
def test_an_impossible_spec_is_refused(kind: Kind, dimension: int, gamma: float, commitment: bytes) -> None:
    with pytest.raises(ConfigError):
        SecretFourierSpec(kind, dimension, gamma, 1, commitment)


def test_normal_variates_are_exact_to_fifteen_digits() -> None:
    small = 0.5 * 2.0 ** np.linspace(-52, 0, 20_000)
    uniform = np.clip(np.concatenate([small, 1.0 - small]), 2.0**-53, 1.0 - 2.0**-53)
    exact = ndtri(uniform)
    assert np.all(np.abs(normal(uniform) - exact) <= 4e-15 * np.maximum(np.abs(exact), 1e-2))
    x = np.concatenate([small, 1.0 / small, [1.0, 2.0, 1e300, 1e-300]])
    assert np.all(np.abs(logarithm(x) - np.log(x)) <= 1e-15 * np.maximum(np.abs(np.log(x)), 1e-2))


def test_the_draw_has_its_law() -> None:
    # omega ~ N(0, 2 gamma) and b uniform: Kolmogorov and Smirnov at a false alarm of 1e-6 each, draw fixed.
    h1 = secret_map("offset", dimension=2000, width=20)
    assert kstest(h1._omega.ravel() / math.sqrt(2 * GAMMA), "norm").pvalue > 1e-6
    assert h1._offset is not None
    assert kstest(h1._offset / (2 * math.pi), "uniform").pvalue > 1e-6
