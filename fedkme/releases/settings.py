"""Settings of releases: one class of settings for each method.

The row of a method in fedkme/protocols.py names its class of settings.

Settings travel as one JSON object (`ReleaseRequest.settings`); a scenario has them in `[release]`. Columns
and units are those of the public schema. If the schema has a label, the label is a class: DP-MERF and DP-HP
embed rows by class and make labelled rows, and Balog's methods leave the label out. A continuous label is a
numeric column of the schema like any other (the kernel of (x, y) is the product of the kernels of x and of
y).
"""

import base64
import binascii
import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializeAsAny,
    TypeAdapter,
)

from fedkme.arrays import FloatArray
from fedkme.config import Settings, no_text, validate
from fedkme.errors import ConfigError
from fedkme.extensions import Registry
from fedkme.features.domain import Units
from fedkme.privacy.gaussian import row_epsilon
from fedkme.protocols import configured
from fedkme.tables.files import load_table
from fedkme.tables.schema import Schema

_NUMBER: TypeAdapter[float] = TypeAdapter(Annotated[float, BeforeValidator(no_text)])
_LONGEST_POINTS = 6 * 2**20  # characters: a request is one message of at most 8 MiB


def _number_or(word: str, low: float, high: float, value: object) -> float | str:
    if value == word:
        return word
    try:
        number = _NUMBER.validate_python(value)
    except ValueError:
        number = math.nan
    if not low < number < high:
        raise ValueError(f"it is a number between {low:g} and {high:g}, or '{word}'")
    return number


def _gamma(value: object) -> float | str:
    return _number_or("median", 0.0, 1e12, value)


def _tolerance(value: object) -> float | str:
    return _number_or("matched", 1e-10, 1.0, value)


def _in_range(value: float) -> float:
    if value < _LEAST or _MOST < value < math.inf:
        raise ValueError(
            f"no noise is so exact, or so large: epsilon is from {_LEAST:g} to {_MOST:g}, or inf"
        )
    return value


def _plain(value: float) -> float | str:
    return "inf" if value == math.inf else value  # JSON has no infinity


_LEAST, _MOST = 1e-15, 1e15
"""Smallest epsilon and largest finite one."""
Gamma = Annotated[float | Literal["median"], PlainValidator(_gamma)]
Positive = Annotated[float, Field(gt=0)]
Epsilon = Annotated[
    float,
    Field(gt=0, allow_inf_nan=True),
    BeforeValidator(lambda value: math.inf if value == "inf" else value),
    AfterValidator(_in_range),
    PlainSerializer(_plain, when_used="json"),
]

_TRAINED = ("jax", "optax")


class ReleaseSettings(Settings):
    """Base of the settings of every method."""

    kind: str = ""
    """The name of the method, in settings, owners' policies and ledgers."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Packages beyond the base installation that the method needs on the curator's host."""
    retired: ClassVar[Mapping[str, Any]] = {
        "basis": "cholesky",
        "prior": False,
        "generator": "table",
        "ways": 3,
    }
    """Keys that went, as in all settings: open runs and files of earlier releases go on."""

    epsilon: Epsilon = 1.0
    """Epsilon of the whole release, for any one row of any owner (replace-one, the number of rows being
    public). inf: without noise and without any guarantee, for simulations and for owners whose policy says
    so."""
    delta: float = Field(1e-5, ge=1e-30, le=0.1)
    """Delta of the whole release."""
    group: int = Field(1, ge=1)
    """Rows that epsilon holds for together, such as those of one person (docs/decisions/017)."""
    seed: int | None = Field(None, ge=0, lt=2**63)
    """Public seed of features, points and training; none: the curator draws one."""
    rows: int | None = Field(None, ge=1, le=10_000_000)
    """Synthetic rows to make; see each method for the default."""

    @property
    def of_row(self) -> float:
        """Epsilon for one row at which a group of `group` rows has `epsilon`, at delta."""
        return self.epsilon if math.isinf(self.epsilon) else row_epsilon(self.epsilon, self.delta, self.group)


class SeedPoints(Settings):
    """z are rows that are public already: the first of the curator's seed set."""

    kind: Literal["seeds"] = "seeds"


class GaussianPoints(Settings):
    """z are drawn from N(middle of the domain, scale^2 I), and folded at its bounds."""

    kind: Literal["gaussian"] = "gaussian"
    scale: Positive = 0.25
    """Standard deviation, in units of a column's range (appendix B.2 has 500 for a range of 2000)."""


class FilePoints(Settings):
    """z are rows of the asker's file; `read_points` puts them into the settings."""

    kind: Literal["file"] = "file"
    path: str = Field(min_length=1)
    """A .npz, .csv or .parquet file of public rows in the schema's columns."""


class GivenPoints(Settings):
    """z are these rows; what `read_points` makes of a file."""

    kind: Literal["given"] = "given"
    values: str = Field(max_length=_LONGEST_POINTS)
    """(M, columns of the schema): base64 of little-endian float64, row after row."""

    def matrix(self, width: int) -> FloatArray:
        """The rows, (M, width) float64.

        Raises:
            ConfigError: the text does not hold such rows.
        """
        try:
            raw = base64.b64decode(self.values, validate=True)
            values = np.frombuffer(raw, dtype="<f8").astype(np.float64).reshape(-1, width)
        except (binascii.Error, ValueError):
            values = np.empty((0, width))
        if not len(values):
            cause = f"release: 'z.values' is no base64 of rows of {width} numbers"
            raise ConfigError(cause, "Give the points as a file.")
        return values


Z = Annotated[SeedPoints | GaussianPoints | FilePoints | GivenPoints, Field(discriminator="kind")]


class Balog1Settings(ReleaseSettings):
    """Balog 2018, Algorithm 1: public points z whose weights carry the release.

    `rows`: so many equally weighted rows are drawn from the weighted points besides; by default none.
    """

    kind: Literal["balog1"] = "balog1"
    z: Z = SeedPoints()
    """Source of the points."""
    points: int = Field(1000, ge=1, le=10_000)
    """M, points at most. Those that the noise makes useless are left out of the basis, see `tolerance`."""
    gamma: Gamma = "median"
    """Parameter of k(x, y) = exp(-gamma r^2); `median`: 1 / the median squared distance of the seed set, or
    without one of the points z."""
    units: Units = "model"
    """Units of gamma: `model`, numbers scaled to [0, 1] by their bounds; `table`, as they
    stand."""
    tolerance: Annotated[float | Literal["matched"], PlainValidator(_tolerance)] = "matched"
    """Squared distance to the span below which a point adds nothing; `matched`: as the noise has it."""
    weights: Literal["free", "l1", "simplex"] = "free"
    """Weights as line 8 has them; with sum |w| <= bound (theorem 11); non-negative with sum 1."""
    bound: float = Field(1.0, ge=1.0, le=1e6)
    """C of `l1`."""


class Balog2Settings(ReleaseSettings):
    """Balog 2018, Algorithm 2: random features, and a reduced set that is found for their released mean.

    `rows`: so many equally weighted rows are drawn from the weighted points besides; by default none.
    """

    kind: Literal["balog2"] = "balog2"
    packages: ClassVar[tuple[str, ...]] = _TRAINED
    features: int = Field(2000, ge=2, le=2**20, multiple_of=2)
    """J, random features: cosines and sines together."""
    gamma: Gamma = "median"
    """Parameter of k(x, y) = exp(-gamma r^2); `median`: 1 / the median squared distance of the seed set, or
    without one of rows drawn evenly from the domain."""
    units: Units = "model"
    """Units of gamma: `model`, numbers scaled to [0, 1] by their bounds; `table`, as they
    stand."""
    points: int = Field(100, ge=1, le=10_000)
    """M, points of the reduced set; beyond 2,000 that is the most, unless `uniform`."""
    weights: Literal["l1", "simplex", "uniform"] = "l1"
    """sum |w| <= bound (equation 5); a distribution; 1/M each."""
    bound: float = Field(1.0, ge=1.0, le=1e6)
    """C of `l1`."""
    restarts: int = Field(2, ge=1, le=100)
    """Independent starts, of which the best is kept."""
    steps: int = Field(500, ge=1, le=1_000_000)
    """Steps of the optimiser, per restart."""
    learning_rate: Positive = 0.2
    """First step of a location, in length scales."""
    candidates: int = Field(512, ge=1, le=100_000)
    """Blind starting places."""
    climbs: int = Field(100, ge=1, le=100_000)
    """Steps that they climb."""


class _Generated(ReleaseSettings):
    """Settings of methods that train a generator; `rows` is as many as owners have by default."""

    packages: ClassVar[tuple[str, ...]] = _TRAINED
    class_weights: bool = True
    """Release the class counts too; without, training learns them. Of no account without a label."""
    steps: int = Field(2000, ge=1, le=10_000_000)
    """Steps of the optimiser."""
    batch: int = Field(1024, ge=4, le=2**20)
    """Generated rows of a step."""
    learning_rate: Positive = 3e-3
    """Learning rate at the start; it falls along a cosine."""
    hidden: Annotated[tuple[Annotated[int, Field(ge=1, le=8192)], ...], Field(min_length=1, max_length=8)] = (
        256,
        256,
    )
    """Widths of the generator's hidden layers."""
    code: int = Field(16, ge=1, le=1024)
    """Noise inputs of a generated row."""


class MerfSettings(_Generated):
    """DP-MERF (Harder 2021): one joint embedding of rows and labels by random features."""

    kind: Literal["merf"] = "merf"
    embedding: Literal["auto", "mixed", "fourier"] = "auto"
    """`mixed`: numbers by the kernel, categories beside them by one-hot codes; `fourier`: whole rows by the
    kernel; `auto`: mixed where there are categories."""
    features: int = Field(2000, ge=2, le=2**20, multiple_of=2)
    """Random features: cosines and sines together."""
    gamma: Gamma = "median"
    """Parameter of k(x, y) = exp(-gamma r^2) in model space; `median`: 1 / the median squared distance of the
    seed set, or without one of rows drawn evenly from the domain."""
    scales: dict[str, float] = Field(default_factory=dict)
    """A factor before the kernel for columns of the schema by name, such as 20 for one that is mostly
    zero."""
    code_weight: float = Field(1.0, gt=0, le=1e6)
    """Weight of the categories beside the numbers; `mixed` only."""


class HermiteSettings(_Generated):
    """DP-HP (Vinaroz 2022): Hermite features, a sum kernel and product kernels over a few columns."""

    kind: Literal["hermite"] = "hermite"
    epochs: int = Field(10, ge=0, le=255)
    """Draws of columns for a product kernel; 0: the sum kernel alone."""
    product_columns: int = Field(2, ge=1, le=16)
    """Columns of a product (D_prod)."""
    sum_order: int = Field(60, ge=0, le=1000)
    """Highest order of the sum kernel (C)."""
    sum_length: float = Field(0.05, ge=1e-3, le=1e3)
    """Length scale of the sum kernel, in units of a column's range."""
    product_order: int = Field(5, ge=0, le=1000)
    """Highest order of a product kernel."""
    product_length: float = Field(0.3, ge=1e-3, le=1e3)
    """Length scale of a product kernel."""
    sum_share: float = Field(0.5, gt=0, lt=1)
    """Part of the budget for the sum kernel; the products share the rest."""
    gamma: float = Field(1.0, ge=0, le=1e6)
    """Weight of all product kernels together in the objective (eq. 16)."""


class MarginalsSettings(ReleaseSettings):
    """Noisy marginals and a graphical model of them (McKenna 2019, 2022).

    `rows`: synthetic rows, by default as many as owners have.
    """

    kind: Literal["marginals"] = "marginals"
    mechanism: Literal["auto", "rounds", "independent"] = "auto"
    """`rounds` chooses marginals by noisy counts alone, as secure aggregation has them; `independent`: each
    column by itself. `auto`: rounds."""
    bins: int = Field(16, ge=1, le=4096)
    """Bins of a numeric column that has no cuts, even on its public scale; its atoms come on top."""
    fine: Literal[1, 16] = 16
    """Pieces of each bin in which numbers are counted first, with a twenty-fifth of the budget, up to a fifth
    where rows are few (a quarter where the mechanism is `independent`), for means, quantiles, where in a bin
    rows lie, and for the bins themselves: those of a number that even ones tell little of are merged from
    pieces; 1: none. Cuts are not divided. Not asked where the noise in one is above the rows of an even bin.
    """
    iterations: int = Field(150, ge=1, le=100_000)
    """Iterations of the last fit."""
    copies: int = Field(0, ge=0, le=100)
    """Further synthetic tables, copy-1.csv and so on, each of the release as it might have been: what differs
    between them shows how uncertain it is (`fedkme.releases.combining`)."""


class MomentsSettings(ReleaseSettings):
    """Noisy second moments of public coordinates by class; rows are sampled from them (docs/decisions/022).

    `rows`: synthetic rows, by default as many as owners have.
    """

    kind: Literal["moments"] = "moments"
    coordinates: int | None = Field(None, ge=1, le=1024)
    """Public coordinates whose second moments are asked for; none: by the number of rows, the budget and the
    classes."""
    edges: bool = Field(default=False, exclude_if=lambda edges: not edges)
    """Public features: whether images have their edges among the coordinates, too. They are for the
    classifier: rows are made of the fewer coordinates that are left for pixels."""


METHODS: Registry[ReleaseSettings] = Registry(ReleaseSettings, "method", "kind", partial(configured, "sums"))
"""Settings of every method by its name."""
AnyRelease = Annotated[SerializeAsAny[ReleaseSettings], METHODS]


def release_settings(values: Mapping[str, Any]) -> ReleaseSettings:
    """Settings from plain values, such as the `[release]` of a scenario.

    Raises:
        ConfigError: a value is wrong; the message names its key.
    """
    return validate(METHODS, values, "release")


def settings_from_json(text: str) -> ReleaseSettings:
    """Settings from one JSON object.

    Raises:
        ConfigError: the text is no JSON object of settings; the message names the wrong key.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise ConfigError("release: the settings are not one JSON object", "Send an object with a 'kind'.")
    return release_settings(values)


def settings_to_json(settings: ReleaseSettings) -> str:
    """Write settings as JSON, which `settings_from_json` reads back to equal settings."""
    return json.dumps(settings.model_dump(mode="json"), sort_keys=True, allow_nan=False)


def read_points(settings: ReleaseSettings, schema: Schema, folder: Path) -> ReleaseSettings:
    """Put the rows of a file of points into settings in place of its path.

    The consumer that asks for the release does this, as only the consumer has the file. A curator opens no
    path that a consumer names.

    Args:
        settings: settings of any method.
        schema: schema of the file's rows.
        folder: folder at which a relative path starts.

    Raises:
        ConfigError: there are more points than fit a request.
        DataError: the file cannot be read, does not fit the schema or is empty.
    """
    if not isinstance(settings, Balog1Settings) or not isinstance(settings.z, FilePoints):
        return settings
    table = load_table(folder / settings.z.path, schema, "public points")
    values = np.ascontiguousarray(table.values[: settings.points], dtype="<f8")
    text = base64.b64encode(values.tobytes()).decode("ascii")
    if not text or len(text) > _LONGEST_POINTS:
        cause = f"release: 'z.path' has {len(values)} points, of {len(text) / 2**20:.1f} MiB"
        remedy = f"Give at least one point, and at most {_LONGEST_POINTS // 2**20} MiB of text; see 'points'."
        raise ConfigError(cause, remedy)
    return settings.model_copy(update={"z": GivenPoints(values=text)})
