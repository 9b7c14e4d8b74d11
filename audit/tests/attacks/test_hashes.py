"""Attacks of a curator on hashes: Sarpatwar 2019, appendix F, and docs/decisions/010-hashed-rows.md."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from audit.attacks.hashes import align, angles_of, fit_draw, invert, known_draw, squared_distances
from fedkme.embeddings.kernels import median_gamma
from fedkme.sealed.group import GroupSecret
from tests.fedkme.sealed.maps import SECRET, secret_map

WIDTH = 20
RNG = np.random.default_rng(5)
CENTRES = RNG.random((4, WIDTH))
SPREAD = np.linspace(0.35, 0.01, WIDTH)


def population(count: int, seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Rows of a distribution without symmetry: clusters of unequal weight, axes of unequal length."""
    rng = np.random.default_rng(seed)
    which = rng.choice(4, count, p=(0.5, 0.25, 0.15, 0.1))
    return np.asarray(
        np.clip(CENTRES[which] * SPREAD * 2.5 + SPREAD * rng.gamma(2.0, 0.2, (count, WIDTH)), 0, 1)
    )


ROWS = population(400, 1)
GAMMA = median_gamma(ROWS)
H1 = secret_map(dimension=600, gamma=GAMMA, width=WIDTH)
HASHES = H1.fixed_point(ROWS)
MEAN = ROWS.mean(axis=0)


def rms(guess: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
    return float(np.sqrt(((guess - ROWS[: len(guess)]) ** 2).mean()))


UNKNOWING = rms(np.tile(MEAN, (len(ROWS), 1)))


def test_hashes_under_a_secret_draw_show_distances() -> None:
    estimated, true = squared_distances(HASHES, GAMMA), cdist(ROWS, ROWS, "sqeuclidean")
    near = (true < 1.0 / GAMMA) & (true > 0)
    assert np.median(np.abs(np.sqrt(estimated[near] / true[near]) - 1.0)) < 0.1
    assert np.corrcoef(estimated[near], true[near])[0, 1] > 0.9


def test_equal_rows_have_equal_hashes_and_others_do_not() -> None:
    twice = H1.fixed_point(np.vstack([ROWS[:2], ROWS[:1]]))
    assert np.array_equal(twice[0], twice[2])
    assert not np.array_equal(twice[0], twice[1])


def test_a_known_draw_is_inverted() -> None:
    # docs/errata.md: "given W, b and n < d, x is recovered".
    assert rms(invert(HASHES[:20], known_draw(H1), MEAN)) < 1e-4


def test_what_a_holder_tells_is_the_draw() -> None:
    told = known_draw(H1)
    assert np.allclose(told.omega, H1._omega, atol=1e-6)
    assert np.abs(np.exp(1j * told.angles(ROWS)) - np.exp(1j * angles_of(HASHES))).max() < 1e-3


def test_without_the_draw_the_same_inversion_is_no_better_than_a_guess() -> None:
    for seed in range(3):
        guessed = secret_map(
            dimension=600, gamma=GAMMA, width=WIDTH, secret=GroupSecret("run-1", bytes([seed]) * 32)
        )
        assert rms(invert(HASHES[:20], known_draw(guessed), MEAN)) > UNKNOWING
    assert GroupSecret("run-1", bytes(32)) != SECRET


def test_known_pairs_give_the_draw_away() -> None:
    # An owner that colludes, or public rows that somebody hashed: no seed set is hashed for a curator.
    known = population(80, 2)
    fitted = fit_draw(known, H1.fixed_point(known), H1.spec)
    assert rms(invert(HASHES[:20], fitted, MEAN)) < 0.2 * UNKNOWING


def test_public_rows_of_the_same_distribution_show_rows_roughly() -> None:
    # No draw and no known pair, only distances: a secret draw is no protection against a curator that knows
    # the distribution well.
    assert rms(align(HASHES[:300], GAMMA, population(300, 3), 3)) < 0.6 * UNKNOWING
