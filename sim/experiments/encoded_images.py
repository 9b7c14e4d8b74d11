"""DP-MERF through an auto-encoder on images at (1, 1e-5), with the encoder private, public or as published.

`private`: the encoder is trained by DP-SGD over the owners and the embedding of codes takes what is left of
epsilon. `public`: the encoder is trained on the other data set (Fashion-MNIST for MNIST and the other way
round), which stands for public images. `published`: as the paper describes it, on the private images without
noise; its epsilon is infinite under the sound accountant. Relation: add-remove, so these epsilons and those
of sim.experiments.images, under replace-one, are two different statements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from curator.releases.autoencoder import (
    AutoEncoder,
    GradientOwner,
    Origin,
    PrivateTraining,
    pooled_by,
    train_openly,
    train_private,
)
from curator.releases.encoded import EncodedPlan, fit, sample
from curator.releases.generators import Training
from curator.releases.progress import Report
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.privacy.noise import simulated
from fedkme.tables.table import Table, joined
from sim.experiments import classifiers
from sim.experiments.images import EPSILON, FILES, accuracy, image_schema, load_images
from sim.experiments.seeds import Figures, Printed, require, say
from sim.experiments.synthesis import DELTA, paid, pooled, rkhs_distance

ORIGINS: tuple[Origin, ...] = ("private", "public", "published")
OTHER: Mapping[str, str] = {"mnist": "fashion", "fashion": "mnist"}
NOMINAL = 60_000
"""Rows, a public constant: training images of either data set."""
PAPER: Printed = {
    "mnist through codes": {"published": "0.43 at epsilon 9.6 (early version, 12 classifiers)"},
    "fashion through codes": {"published": "0.44 at epsilon 9.6 (early version, 12 classifiers)"},
}


@dataclass(frozen=True)
class EncodedImageEffort:
    """Size of an experiment: how much work it is.

    Attributes:
        code: width of a code.
        steps_encoder: of the encoder's training.
        rate: at which owners take rows in a private step.
        noise_multiplier: of a private step.
        features: Fourier features of codes.
        gamma: of their kernel.
        steps: of the generator's training.
        rows: synthetic images.
        names: classifiers; None: all that are installed.
        seeds: how many.
        owners: who hold the images.
    """

    code: int = 16
    steps_encoder: int = 300
    rate: float = 0.02
    noise_multiplier: float = 2.0
    features: int = 2000
    gamma: float = 0.5
    steps: int = 800
    rows: int = 6000
    names: tuple[str, ...] | None = None
    seeds: int = 3
    owners: int = 5


QUICK = EncodedImageEffort(
    steps_encoder=40, rate=0.005, features=500, steps=200, rows=2000, names=("LR", "GNB", "LDA"), seeds=1
)


def run(name: str, origins: Sequence[Origin], folder: Path, quick: bool, out: Path | None) -> None:
    """Score each kind of encoder on `mnist` or `fashion`, as far as their files are there.

    Raises:
        DataError: a file is not there, or of another form.
    """
    size = QUICK if quick else EncodedImageEffort()
    figures = Figures(range(size.seeds), PAPER)
    say(f"{name}: {classifiers.described(size.names)}")
    paths = [folder / file for file in (FILES[name], FILES[OTHER[name]])]
    needed = {origin: paths if origin == "public" else paths[:1] for origin in origins}
    for origin, files in needed.items():
        if all(file.exists() for file in files):
            figures.compare(f"{name} through codes", (origin,), partial(_scored, name, folder, size), out)
    require([file for files in needed.values() for file in files])


def synthesise_codes(
    name: str,
    origin: Origin,
    owners: Sequence[Table],
    public: Table | None,
    seed: int,
    size: EncodedImageEffort,
) -> tuple[Table, float]:
    """Train the encoder, release the embedding of codes, train a generator of codes, sample images.

    Returns:
        Synthetic images, and epsilon at DELTA by the sound accountant.
    """
    network = AutoEncoder(image_schema(math.isqrt(owners[0].values.shape[1])), size.code)
    private = None
    if origin == "private":
        private = PrivateTraining(
            size.steps_encoder, size.rate, size.rate * NOMINAL, size.noise_multiplier, clip=1.0
        )
        trainers = [
            GradientOwner(network, rows, size.rate, private.clip, simulated(seed, f"owner{i}", "coins"))
            for i, rows in enumerate(owners)
        ]

        def report(done: int, steps: int, length: float) -> None:
            say(f"  {name} encoder: step {done}/{steps}: noisy gradient {length:.3g}")

        noise = simulated(seed, "curator", "gradients")
        parameters = train_private(network, private, pooled_by(trainers), noise, seed, report)
    else:
        rows = public if public is not None and origin == "public" else Table(joined(owners).values)
        parameters = train_openly(network, rows, size.steps_encoder * 7, seed)
    spec = FourierMapSpec(dimension=size.features, gamma=size.gamma, seed=seed)
    plan = EncodedPlan(network, spec, NOMINAL, EPSILON, DELTA, origin, private)
    codes = [network.encoded(parameters, rows) for rows in owners]
    released = plan.release(pooled(codes, plan.map, plan.layout), simulated(seed, "curator", "codes"))

    def tell(state: Report) -> None:
        say(f"  {name} codes: {state}")

    trained = fit(plan, released, Training(steps=size.steps, seed=seed), np.full(10, 0.1), progress=tell)
    return sample(plan, parameters, trained, size.rows, seed), paid(plan.event)


def _scored(name: str, folder: Path, size: EncodedImageEffort, origin: Origin, seed: int) -> dict[str, float]:
    owners, test = load_images(folder / FILES[name], size.owners, seed)
    public = None
    if origin == "public":
        public = load_images(folder / FILES[OTHER[name]], 1, seed)[0][0]
    synthetic, epsilon = synthesise_codes(name, origin, owners, public, seed, size)
    found = accuracy(synthetic, test, size.names, seed)
    distance = rkhs_distance(owners[:1], synthetic, image_schema(), seed)
    return {**found, "distance": distance, "epsilon": epsilon}
