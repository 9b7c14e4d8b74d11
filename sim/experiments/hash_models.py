"""Experiments with hashes under a secret draw: what models on them are worth, and what they tell a curator.

    python -m sim.experiments.hash_models [--only models|prune|attacks] [--quick] [--out FILE]

Digits of scikit-learn, and MNIST where $FEDKME_DATA has mnist.npz. gamma by the median heuristic. The tables
of docs/results-hashes.md are what this prints.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from consumer.sealed.hash_models import Kind, compare
from fedkme.embeddings.kernels import median_gamma
from fedkme.embeddings.mmd import mmd2
from fedkme.errors import MissingDependencyError
from fedkme.features.fixed_point import Features, normalised_features, quantize_mean
from fedkme.features.fourier import SecretFourierSpec
from fedkme.features.hashes import herd_hashes
from fedkme.sealed.group import GroupSecret
from fedkme.sealed.secret_fourier import SecretFourier
from fedkme.tables.files import read_arrays
from sim.attacks.hashes import align, fit_draw, invert, known_draw, squared_distances
from sim.evaluation.exact_greedy import exact_kernel_greedy
from sim.scenarios.base import place

FloatArray = NDArray[np.float64]
Labels = NDArray[np.int64]
Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Images:
    """Rows in [0, 1] with labels, in an order of their own by seed."""

    name: str
    rows: FloatArray
    labels: Labels

    def shuffled(self, seed: int) -> Images:
        """Shuffle the rows."""
        order = np.random.default_rng(np.random.SeedSequence([seed, 9])).permutation(len(self.rows))
        return Images(self.name, self.rows[order], self.labels[order])


def digits() -> Images:
    """1797 digits of 64 pixels.

    Raises:
        MissingDependencyError: scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingDependencyError(
            "the digits come with scikit-learn", "Run: pip install 'fedkme[sim]'."
        ) from None
    rows, labels = load_digits(return_X_y=True)
    return Images("digits", np.asarray(rows, np.float64) / 16.0, np.asarray(labels, np.int64))


def mnist(path: Path, limit: int) -> Images:
    """The first rows of MNIST's test part."""
    arrays = read_arrays(path, "mnist")
    rows = arrays["x_test"][:limit].reshape(limit, -1).astype(np.float64) / 255.0
    return Images("mnist", rows, arrays["y_test"][:limit].astype(np.int64))


def secret_map(dimension: int, gamma: float, width: int, seed: int) -> SecretFourier:
    """A paired map whose group secret is drawn from a seed: for simulations alone."""
    secret = GroupSecret("hashes", np.random.default_rng(seed).bytes(32))
    return SecretFourier(SecretFourierSpec("paired", dimension, gamma, width, secret.commitment()), secret)


@dataclass(frozen=True, slots=True)
class ModelLine:
    """Accuracy, mean over seeds."""

    data: str
    rows: int
    dimension: int
    kind: Kind
    on_hashes: float
    spread: float
    """Standard deviation over seeds of `on_hashes`."""
    on_rows: float
    with_kernel: float


def models(
    images: Images,
    sizes: Sequence[int],
    dimensions: Sequence[int],
    kinds: Sequence[Kind],
    seeds: Sequence[int],
    tests: int,
    say: Say,
) -> list[ModelLine]:
    """Models on hashes against models on rows."""
    lines = []
    for size in sizes:
        for dimension in dimensions:
            found = []
            for seed in seeds:
                mixed = images.shuffled(seed)
                x, y = mixed.rows[:size], mixed.labels[:size]
                at, truth = mixed.rows[-tests:], mixed.labels[-tests:]
                gamma = median_gamma(x)
                h1 = secret_map(dimension, gamma, x.shape[1], seed)
                found.append(compare(x, y, at, truth, h1, gamma, kinds, seed))
            for place_, kind in enumerate(kinds):
                table = np.array(
                    [[c[place_].on_hashes, c[place_].on_rows, c[place_].with_kernel] for c in found]
                )
                a, b, c_ = (float(v) for v in table.mean(axis=0))
                spread = float(table[:, 0].std(ddof=1)) if len(found) > 1 else math.nan
                lines.append(ModelLine(images.name, size, dimension, kind, a, spread, b, c_))
                say(
                    f"{images.name} rows={size} d={dimension} {kind:8} hashes {a:.3f} (sd {spread:.3f})"
                    f"  rows {b:.3f}  exact kernel {c_:.3f}"
                )
    return lines


@dataclass(frozen=True, slots=True)
class PruneLine:
    """1000 MMD^2, exact kernel, of p rows pruned from 5 p drawn uniformly; mean over seeds."""

    data: str
    p: int
    dimension: int
    hashes: float
    exact: float
    uniform: float


def prune(
    images: Images, p: int, dimensions: Sequence[int], seeds: Sequence[int], say: Say
) -> list[PruneLine]:
    """Pruning 5 p rows to p by hashes against pruning them by the exact kernel; D_v are 250 rows."""
    lines = []
    for dimension in dimensions:
        found = []
        for seed in seeds:
            mixed = images.shuffled(seed)
            validation, came = mixed.rows[:250], mixed.rows[250 : 250 + 5 * p]
            gamma = median_gamma(validation)
            h1 = secret_map(dimension, gamma, came.shape[1], seed)
            target = quantize_mean(normalised_features(h1.fixed_point(validation)).mean(axis=0))
            chosen = herd_hashes(h1.fixed_point(came), target, p)
            exact = exact_kernel_greedy(came, validation, None, p, gamma)
            picks = (came[chosen], came[exact], came[:p])
            found.append([1000.0 * mmd2(rows, validation, gamma) for rows in picks])
        lines.append(PruneLine(images.name, p, dimension, *(float(v) for v in np.mean(found, axis=0))))
        last = lines[-1]
        say(
            f"{images.name} prune 5p to p={p} d={dimension}: 1000 MMD^2 by hashes {last.hashes:.2f}"
            f"  exact {last.exact:.2f}  uniform p {last.uniform:.2f}"
        )
    return lines


@dataclass(frozen=True, slots=True)
class AttackLine:
    """Result of one attack by a curator; root mean square errors are of pixels in [0, 1]."""

    dimension: int
    hashed: int
    distance_correlation: float
    nearest_found: float
    """Share of rows whose nearest row by hashes is the nearest."""
    with_draw: float
    with_another_draw: float
    with_100_pairs: float
    with_200_pairs: float
    with_public_rows: float
    """Attack 4, six axes; the other rows of the data set are public."""
    mean_row: float
    """Score of guessing the mean row: knowing nothing."""


def attack(images: Images, dimension: int, hashed: int, seed: int, say: Say) -> AttackLine:
    """All attacks on one set of hashes."""
    mixed = images.shuffled(seed)
    rows, others = mixed.rows[:hashed], mixed.rows[hashed:]
    gamma = median_gamma(rows)
    h1, wrong = (secret_map(dimension, gamma, rows.shape[1], s) for s in (seed, seed + 1000))
    hashes = h1.fixed_point(rows)
    mean, few = others.mean(axis=0), 20

    def error(guess: FloatArray) -> float:
        return float(np.sqrt(((guess - rows[: len(guess)]) ** 2).mean()))

    def paired(count: int) -> float:
        pairs = others[:count]
        draw = fit_draw(pairs, h1.fixed_point(pairs), h1.spec)
        return error(invert(hashes[:few], draw, mean))

    correlation, nearest = _distances(hashes, rows, gamma)
    line = AttackLine(
        dimension,
        hashed,
        correlation,
        nearest,
        error(invert(hashes[:few], known_draw(h1), mean)),
        error(invert(hashes[:few], known_draw(wrong), mean)),
        paired(100),
        paired(200),
        error(align(hashes, gamma, others, 6)),
        error(np.tile(mean, (len(rows), 1))),
    )
    say(
        f"{images.name} attacks d={dimension} hashed={hashed} seed={seed}: "
        + ", ".join(f"{name} {value:.3f}" for name, value in list(asdict(line).items())[2:])
    )
    return line


def _distances(hashes: Features, rows: FloatArray, gamma: float) -> tuple[float, float]:
    estimated, true = squared_distances(hashes, gamma), cdist(rows, rows, "sqeuclidean")
    upper = np.triu_indices(len(rows), 1)
    correlation = float(np.corrcoef(estimated[upper], true[upper])[0, 1])
    for table in (estimated, true):
        np.fill_diagonal(table, math.inf)
    return correlation, float(np.mean(estimated.argmin(axis=1) == true.argmin(axis=1)))


def main(words: Sequence[str] | None = None) -> None:
    """Print the tables that the head of the module names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("models", "prune", "attacks"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(words)
    quick = given.quick

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    seeds = (0,) if quick else (0, 1, 2)
    found: list[ModelLine | PruneLine | AttackLine] = []
    small = digits()
    file = place(Path("$FEDKME_DATA/mnist.npz"), None)
    large = mnist(file, 4000) if file.is_file() else None
    if large is None:
        say("mnist: skipped, there is no mnist.npz; set FEDKME_DATA.")
    if given.only in (None, "attacks"):
        for dimension in (300,) if quick else (140, 300, 1000):
            found += [attack(small, dimension, hashed, s, say) for hashed in (200, 800) for s in seeds[:2]]
    if given.only in (None, "prune"):
        for images in (small, large):
            if images is not None:
                found += prune(images, 100, (300,) if quick else (140, 300, 1000, 4000), seeds, say)
    if given.only in (None, "models"):
        dimensions = (300,) if quick else (140, 300, 1000, 4000)
        found += models(
            small, (200,) if quick else (200, 1000), dimensions, ("ridge", "svm"), seeds, 700, say
        )
        if large is not None:
            found += models(
                large, (200,) if quick else (200, 1000), dimensions, ("ridge", "svm"), seeds[:2], 2000, say
            )
    if given.out is not None:
        given.out.write_text(json.dumps([asdict(line) for line in found], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
