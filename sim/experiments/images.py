"""DP-MERF and DP-HP on MNIST and Fashion-MNIST at (1, 1e-5): accuracy of classifiers of synthetic images.

The features are of the pixels themselves, through the public schema of 784 numbers from 0 to 255; digits are
spread over owners at random. Both data sets have about as many images of each class, by construction and
publicly, so synthetic images are drawn evenly, as in the papers. Length scales are those of the papers'
code (`rff_sigma` 105 and 127, in squared units of [0, 1] pixels).

Targets (ANCHORS, B.3; arrays of the papers' code, mean accuracy of 12 classifiers trained on 6,000 synthetic
rows and tested on the 10,000 real ones).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from curator.releases.hermite import hermite_plan
from curator.releases.joint import JointPlan, fit
from curator.releases.progress import Report
from fedkme.errors import DataError
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.privacy.noise import simulated
from fedkme.releases.settings import HermiteSettings
from fedkme.tables.files import read_arrays
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table, joined
from sim.experiments import classifiers
from sim.experiments.seeds import Figures, Printed, require, say
from sim.experiments.synthesis import DELTA, Method, paid, pooled, rkhs_distance

EPSILON = 1.0
FILES: Mapping[str, str] = {"mnist": "mnist.npz", "fashion": "fashion_mnist.npz"}
SQUARED_LENGTH: Mapping[str, float] = {"mnist": 105.0, "fashion": 127.0}
PAPER: Printed = {
    "mnist": {"real": "0.832", "merf": "0.648", "hermite": "0.724"},
    "fashion": {"real": "0.749", "merf": "0.624", "hermite": "0.661"},
}
"""Accuracy with 6,000 training rows."""


@dataclass(frozen=True)
class ImageEffort:
    """Size of an experiment: how much work it is.

    Attributes:
        features: of DP-MERF; the papers' code has 10,000.
        order: of the sum kernel of DP-HP; theirs 100.
        steps: of training.
        batch: images of a step.
        rows: synthetic images, and real ones at most, to train classifiers on.
        names: classifiers; None: all that are installed.
        seeds: how many.
        owners: who hold the images.
    """

    features: int = 4000
    order: int = 20
    steps: int = 1500
    batch: int = 400
    rows: int = 6000
    names: tuple[str, ...] | None = None
    seeds: int = 3
    owners: int = 5


QUICK = ImageEffort(
    features=2000, order=10, steps=200, batch=200, rows=3000, names=("LR", "GNB", "LDA"), seeds=1
)


def image_schema(side: int = 28) -> Schema:
    """Pixels from 0 to 255 and ten classes."""
    return Schema(
        columns=(Numeric(name="pixel", bounds=(0.0, 255.0), count=side * side, integer=True),),
        label=Label(name="class", classes=tuple("0123456789")),
    )


def load_images(path: Path, owners: int, seed: int) -> tuple[tuple[Table, ...], Table]:
    """The training images, spread over owners at random by seed, and the test images.

    Raises:
        DataError: the file is missing or of another form.
    """
    arrays = read_arrays(path, path.name)
    if missing := {"x_train", "y_train", "x_test", "y_test"} - set(arrays):
        raise DataError(f"{path} has no array '{min(missing)}'", "Take the file of the data folder.")
    order = np.random.default_rng(np.random.SeedSequence([seed, 4])).permutation(len(arrays["y_train"]))
    training = _table(arrays["x_train"][order], arrays["y_train"][order])
    parts = np.array_split(np.arange(len(training)), owners)
    return tuple(training.take(part) for part in parts), _table(arrays["x_test"], arrays["y_test"])


def run(name: str, methods: Sequence[Method], folder: Path, quick: bool, out: Path | None) -> None:
    """Score real images (of seed 0) and each method on `mnist` or `fashion`.

    Raises:
        DataError: the file is not there, or of another form.
    """
    size, path = QUICK if quick else ImageEffort(), folder / FILES[name]
    require([path])
    say(f"{name}: {classifiers.described(size.names)}")
    figures = Figures(range(size.seeds), PAPER)
    score = partial(_scored, name, path, size)
    figures.add(name, "real", partial(score, None), seeds=(0,))
    figures.compare(name, methods, score, out)


def synthesise_images(
    method: Method, name: str, owners: Sequence[Table], epsilon: float | None, seed: int, size: ImageEffort
) -> tuple[Table, float]:
    """Release, train the convolutional generator and sample evenly over classes; no epsilon, no noise.

    Returns:
        Synthetic images, and epsilon at DELTA by the sound accountant (infinite without noise).
    """
    from curator.releases.generators import Training
    from curator.releases.networks import ImageNetwork

    schema = image_schema(math.isqrt(owners[0].values.shape[1]))
    network = ImageNetwork(schema)
    training = Training(steps=size.steps, batch=size.batch, learning_rate=3e-3, seed=seed)
    noise = simulated(seed, "curator", f"{method} images")
    rows = sum(len(part) for part in owners)
    even = np.full(10, 0.1)

    def report(state: Report) -> None:
        say(f"  {name} {method}: {state}")

    if method == "merf":
        spec = FourierMapSpec(dimension=size.features, gamma=0.5 / SQUARED_LENGTH[name], seed=seed)
        plan = JointPlan(schema, (spec,), epsilon, DELTA, class_weights=False)
    else:
        how = {"epochs": 0, "sum_order": size.order, "sum_length": 0.15, "class_weights": False}
        settings = HermiteSettings.model_validate({"delta": DELTA, "seed": seed, **how})
        plan = hermite_plan(schema, epsilon, settings)
    released = plan.release([pooled(owners, phi, plan.layout) for phi in plan.maps], rows, noise)
    trained = fit(plan, released, network, training, masses=even, progress=report)
    return trained.sample(size.rows, seed), paid(released.event)


def accuracy(synthetic: Table, test: Table, names: tuple[str, ...] | None, seed: int) -> dict[str, float]:
    """Accuracy on real images of each classifier, and their mean as `accuracy`."""

    def tell(classifier: str, found: classifiers.ClassifierScore) -> None:
        say(f"  {classifier}: accuracy {found.accuracy:.3f}")

    scores = classifiers.evaluate(synthetic, test, image_schema(), names, seed, tell)
    return {
        "accuracy": classifiers.mean(scores).accuracy,
        **{classifier: found.accuracy for classifier, found in scores.items()},
    }


def _scored(name: str, path: Path, size: ImageEffort, method: Method | None, seed: int) -> dict[str, float]:
    owners, test = load_images(path, size.owners, seed)
    if method is None:
        mixed = joined(owners)
        synthetic, epsilon = mixed.take(np.arange(min(size.rows, len(mixed)))), float("inf")
    else:
        synthetic, epsilon = synthesise_images(method, name, owners, EPSILON, seed, size)
    found = accuracy(synthetic, test, size.names, seed)
    distance = rkhs_distance(owners[:1], synthetic, image_schema(), seed)
    return {**found, "distance": distance, "epsilon": epsilon}


def _table(images: np.ndarray, labels: np.ndarray) -> Table:
    return Table(images.reshape(len(images), -1), labels.astype(np.int64))
