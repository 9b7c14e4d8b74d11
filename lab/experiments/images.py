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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from curator.releases.joint import JointPlan, fit
from curator.releases.methods.generated import hermite_plan
from curator.releases.networks import Parameters, layer_of, normalised
from fedkme.config import Settings
from fedkme.errors import ConfigError, DataError
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.privacy.noise import simulated
from fedkme.releases.settings import HermiteSettings
from fedkme.tables.files import read_arrays
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table, joined
from lab.experiments.classifiers import NAMES, models
from lab.experiments.curves import CurveValue
from lab.experiments.paper import Place
from lab.experiments.piece import Piece, data_folder
from lab.experiments.synthesis import DELTA, Method, paid, pooled, rkhs_distance
from sim.evaluation.classifiers import evaluate, mean

EPSILON = 1.0
FILES: Mapping[str, str] = {"mnist": "mnist.npz", "fashion": "fashion_mnist.npz"}
SQUARED_LENGTH: Mapping[str, float] = {"mnist": 105.0, "fashion": 127.0}
OWNERS = 5
TRAINED = ("LR", "GNB", "BNB", "DT", "LDA", "MLP")
"""Classifiers of our tables, the same for all methods: the others take many minutes a release."""


class ImageEffort(Settings):
    """Size of an experiment."""

    features: int = 4000
    """Features of DP-MERF; the papers' code has 10,000."""
    order: int = 20
    """Order of DP-HP's sum kernel; the papers' code has 100."""
    steps: int = 1500
    """Steps of training."""
    batch: int = 400
    """Images of a step."""
    rows: int = 6000
    """Synthetic images, and real ones at most, to train classifiers on."""
    names: tuple[str, ...] = TRAINED
    """Classifiers."""
    seeds: int = 5
    """Seeds of the releases; real images have one."""


QUICK = ImageEffort(
    features=2000, order=10, steps=200, batch=200, rows=3000, names=("LR", "GNB", "LDA"), seeds=1
)
FULL = ImageEffort(features=10_000, order=100, steps=3000, names=NAMES)
SIZES = (60, 600, 6000, 60_000)
"""Synthetic images of DP-HP's Figure 3: its array's; an effort's `rows` are the most."""
EPSILONS = (9.6, 2.9, 1.3)
"""Epsilons of DP-MERF's Table 4."""


class ImagePiece(Piece):
    """Accuracy of classifiers trained on the images of one release, or on real ones."""

    data: str
    method: Method | Literal["real"]
    effort: ImageEffort

    def measure(self) -> Iterator[CurveValue]:
        """Yield the accuracy of each classifier, and the mean."""
        size = self.effort
        owners, test = load_images(data_folder() / FILES[self.data], OWNERS, self.seed)
        schema = image_schema(math.isqrt(test.values.shape[1]))
        if self.method == "real":
            mixed = joined(owners)
            synthetic, epsilon = mixed.take(np.arange(min(size.rows, len(mixed)))), float("inf")
        else:
            synthetic, epsilon = synthesise_images(self.method, self.data, owners, EPSILON, self.seed, size)
        scores = evaluate(synthetic, test, schema, models(size.names), self.seed)
        figures = {"mean": mean(scores).accuracy, **{k: v.accuracy for k, v in scores.items()}}
        for name, value in figures.items():
            yield CurveValue("accuracy", self.method, name, self.seed, value)
        distance = rkhs_distance(owners[:1], synthetic, schema, self.seed)
        yield CurveValue("distance", self.method, "mean", self.seed, distance)
        yield CurveValue("epsilon", self.method, "mean", self.seed, epsilon)


class ImageCurvePiece(Piece):
    """Means over the classifiers for one release, or for real images, by rows or by epsilon."""

    data: str
    method: Method | Literal["real"]
    epsilon: float = EPSILON
    sizes: tuple[int, ...] = ()
    """Numbers of images that classifiers are trained on; none: the effort's, and the axis is epsilon."""
    effort: ImageEffort

    def measure(self) -> Iterator[CurveValue]:
        """Yield mean accuracy and F1 at each place of the axis."""
        size = self.effort
        owners, test = load_images(data_folder() / FILES[self.data], OWNERS, self.seed)
        schema = image_schema(math.isqrt(test.values.shape[1]))
        most = max(self.sizes, default=size.rows)
        if self.method == "real":
            mixed = joined(owners)
            made = mixed.take(np.arange(min(most, len(mixed))))
        else:
            drawn = size.model_copy(update={"rows": most})
            made, _ = synthesise_images(self.method, self.data, owners, self.epsilon, self.seed, drawn)
        for count in self.sizes or (most,):
            scores = evaluate(
                made.take(np.arange(min(count, len(made)))), test, schema, models(size.names), self.seed
            )
            average = mean(scores)
            place: Place = count if self.sizes else self.epsilon if self.method != "real" else "no noise"
            yield CurveValue(self.data, self.method, place, self.seed, average.accuracy)
            yield CurveValue(f"{self.data} f1", self.method, place, self.seed, average.f1)


def size_pieces(effort: ImageEffort) -> Iterator[ImageCurvePiece]:
    """Pieces of DP-HP's Figure 3: accuracy by number of images, up to the effort's."""
    sizes = tuple(size for size in SIZES if size <= effort.rows) or (effort.rows,)
    for seed in range(effort.seeds):
        for data in FILES:
            for method in ("real", "merf", "hermite"):
                each = {"data": data, "method": method, "sizes": sizes, "effort": effort, "seed": seed}
                yield ImageCurvePiece.model_validate(each)


def epsilon_pieces(effort: ImageEffort) -> Iterator[ImageCurvePiece]:
    """Pieces of DP-MERF's Table 4: real images, and DP-MERF by epsilon."""
    for seed in range(effort.seeds):
        for data in FILES:
            common = {"data": data, "effort": effort, "seed": seed}
            yield ImageCurvePiece.model_validate(common | {"method": "real"})
            for epsilon in EPSILONS:
                yield ImageCurvePiece.model_validate(common | {"method": "merf", "epsilon": epsilon})


def pieces(data: str, methods: Sequence[Method], effort: ImageEffort) -> Iterator[ImagePiece]:
    """Pieces of a data set: real images once, and each method under every seed."""
    yield ImagePiece(data=data, method="real", effort=effort)
    for seed in range(effort.seeds):
        yield from (ImagePiece(data=data, method=method, effort=effort, seed=seed) for method in methods)


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


def synthesise_images(
    method: Method, name: str, owners: Sequence[Table], epsilon: float | None, seed: int, size: ImageEffort
) -> tuple[Table, float]:
    """Release, train the convolutional generator and sample evenly over classes; no epsilon, no noise.

    Returns:
        Synthetic images, and epsilon at DELTA by the sound accountant (infinite without noise).
    """
    from curator.releases.generators import Training

    schema = image_schema(math.isqrt(owners[0].values.shape[1]))
    network = ImageNetwork(schema)
    training = Training(steps=size.steps, batch=size.batch, learning_rate=3e-3, seed=seed)
    noise = simulated(seed, "curator", f"{method} images")
    rows = sum(len(part) for part in owners)
    even = np.full(10, 0.1)

    if method == "merf":
        spec = FourierMapSpec(dimension=size.features, gamma=0.5 / SQUARED_LENGTH[name], seed=seed)
        plan = JointPlan(schema, (spec,), epsilon, DELTA, class_weights=False)
    else:
        epochs = 0 if method == "hermite-sum" else 10
        how = {"epochs": epochs, "sum_order": size.order, "sum_length": 0.15, "class_weights": False}
        settings = HermiteSettings.model_validate({"delta": DELTA, "seed": seed, **how})
        plan = hermite_plan(schema, epsilon, settings)
    released = plan.release([pooled(owners, phi, plan.layout) for phi in plan.maps], rows, noise)
    trained = fit(plan, released, network, training, masses=even)
    return trained.sample(size.rows, seed), paid(released.event)


@dataclass(frozen=True)
class ImageNetwork:
    """Convolutional generator of DP-MERF: two dense layers, then twice (bilinear x2, 5x5 convolution).

    Images are square, with one channel and a side that is a multiple of 4: side * side numeric columns.
    """

    schema: Schema
    classes: int = 10
    code: int = 5
    hidden: int = 200
    channels: int = 16
    _side: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        side = math.isqrt(self.schema.width)
        if side * side != self.schema.width or side % 4 or self.schema.encoded_width != self.schema.width:
            cause = f"{self.schema.width} columns are no square image with a side that is a multiple of 4"
            raise ConfigError(cause, "Use the generator for tables.")
        object.__setattr__(self, "_side", side)

    def initial(self, key: jax.Array) -> Parameters:
        """He-normal weights."""
        small = self._side // 4
        shapes = [
            (self.code + self.classes, self.hidden),
            (self.hidden, self.channels * small * small),
            (5, 5, self.channels, self.channels // 2),
            (5, 5, self.channels // 2, 1),
        ]
        layers = []
        for i, shape in enumerate(shapes):
            scale = math.sqrt(2.0 / math.prod(shape[:-1]))
            layers.append(layer_of(jax.random.fold_in(key, i), shape, scale))
        return layers

    def logits(self, parameters: Parameters, code: jax.Array, label: jax.Array) -> jax.Array:
        """Soft rows before their heads, (b, encoded width)."""
        first, second, third, last = parameters
        small = self._side // 4
        x = jnp.concatenate([code, label], axis=1)
        x = jax.nn.relu(normalised(x @ first["w"]) * first["g"] + first["b"])
        x = jax.nn.relu(normalised(x @ second["w"]) * second["g"] + second["b"])
        x = x.reshape(len(x), small, small, self.channels)
        for layer, side in ((third, 2 * small), (last, 4 * small)):
            x = jax.image.resize(x, (x.shape[0], side, side, x.shape[3]), "bilinear")
            x = jax.lax.conv_general_dilated(
                x, layer["w"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = x + layer["b"]
            if layer is third:
                x = jax.nn.relu(x)
        return x.reshape(x.shape[0], self.schema.width)


def _table(images: np.ndarray, labels: np.ndarray) -> Table:
    return Table(images.reshape(len(images), -1), labels.astype(np.int64))
