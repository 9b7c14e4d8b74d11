"""Interface of all release methods: questions to owners, then post-processing."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from curator.releases.joint import JointRelease
from fedkme.errors import ConfigError, MissingDependencyError, NotMadeError
from fedkme.extensions import implementation
from fedkme.ops.derivation import Derivation
from fedkme.privacy.events import Event
from fedkme.privacy.noise import NoiseSource
from fedkme.privacy.sums import PooledRelease
from fedkme.protocols import PROTOCOLS
from fedkme.releases.settings import ReleaseSettings
from fedkme.sums.values import Marginals, SumQuery
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

RELEASE = "release.npz"
"""File of the released numbers, from which all other files follow."""
Tell = Callable[[str, str, float], None]
"""Stage, a line for a person, and how far the stage is, 0 to 1."""


NoisyTable = tuple[NDArray[np.float64], float]
"""Counts of a marginal, (cells,), and the deviation of the noise that is in every cell; 0 for exact ones."""


class SumOracle(Protocol):
    """Owners' rows as a method sees them: through sums, with noise that is added once."""

    @property
    def rows(self) -> int:
        """N, public: rows of the owners that take part; fewer after an owner is lost."""

    @property
    def owners(self) -> int:
        """Number of owners that take part."""

    @property
    def noise_ratio(self) -> float:
        """Deviation of a total's noise over the planned one, at least 1.

        Where owners add it, those that are not counted on add it too.
        """

    @property
    def exact_sums(self) -> bool:
        """Trust of owners in the curator with exact sums, so that a mechanism may select by them."""

    @property
    def tell(self) -> Tell:
        """Function that hears how far a method is between its questions; any thread may call it.

        It hears of what is released alone, since the consumer does too. Where the run is over it raises.
        """

    async def joint(self, query: SumQuery, release: PooledRelease | None) -> JointRelease:
        """All sums of a question with noise, as one Gaussian release.

        Args:
            query: without weights.
            release: calibrated for the blocks of the question in order; None: no noise and no guarantee,
                which simulations alone allow.

        Raises:
            QuorumError: too few owners are left.
            NotEnoughRowsError: there are no rows.
            SecureAggregationError: the aggregation failed; nothing was opened.
        """

    async def followed(self, query: SumQuery, release: PooledRelease | None) -> JointRelease:
        """Ask as `joint` does; the answer is on disk when this returns, as the next question needs it."""

    @property
    def noise(self) -> NoiseSource:
        """The curator's, for a mechanism that adds its own."""

    async def marginals(self, marginals: Marginals, sigmas: Sequence[float] | None) -> list[NoisyTable]:
        """Pooled counts of every marginal, and the noise that is in each.

        Args:
            marginals: which.
            sigmas: least standard deviation of the Gaussian noise on each; None: exact, and the caller
                accounts for what leaves.

        Raises:
            ConfigError: exact counts, and the curator is not trusted with them.
            QuorumError: too few owners are left.
            SecureAggregationError: the aggregation failed; nothing was opened.
        """

    async def exact(self, query: SumQuery) -> JointRelease:
        """Ask without noise, for a mechanism that adds its own; the caller accounts for what leaves.

        Raises:
            ConfigError: the curator is not trusted with exact sums.
        """


@dataclass(frozen=True, eq=False)
class Finished:
    """Files that a consumer receives.

    Attributes:
        files: contents by name; names are plain (letters, digits, dots, dashes).
        rows: synthetic rows or weighted points among them.
        losses: errors of what could not be made.
    """

    files: Mapping[str, bytes]
    rows: int
    losses: tuple[NotMadeError, ...] = ()


class Making(Derivation):
    """Post-processing of one release: a file has its place once the step that makes it is over.

    Attributes:
        tell: hears how far it is.
        rows: synthetic rows or weighted points that were made.
    """

    def __init__(self, release: bytes, tell: Tell) -> None:
        """Begin with the file of the release."""
        super().__init__()
        self.tell = tell
        self.rows = 0
        self._files = {RELEASE: release}

    def file(self, name: str, make: Callable[[], bytes]) -> None:
        """Make a file, in a step of its own."""
        if (data := self.step(name, make)) is not None:
            self._files[name] = data

    @property
    def finished(self) -> Finished:
        """Files, rows and losses so far."""
        return Finished(dict(self._files), self.rows, tuple(self.losses))


class Method(Protocol):
    """One kind of release, with its settings."""

    @property
    def protocol(self) -> str:
        """The name that owners' policies and ledgers know."""

    def planned(self) -> tuple[Event, ...]:
        """Events that each owner's rows will cost towards the consumer, in all."""

    async def ask(self, oracle: SumOracle) -> bytes:
        """Ask owners all questions of the method.

        Returns:
            The release, a .npz file: with the method's public settings, everything that follows follows from
            it. It is kept before anything leaves the curator.
        """

    def finish(self, release: bytes, tell: Tell) -> Finished:
        """Post-processing of a release, in a thread of its own; the same bytes give the same files.

        Everything that may fail is a step of a `Making`. `finished` is what calls this.
        """


def finished(method: Method, release: bytes, tell: Tell) -> Finished:
    """Make everything that follows from a release, as far as it can be made; the release is on disk.

    Raises:
        CancelledRunError: `tell` says that nobody waits for it.
    """
    making = Making(release, tell)
    return (
        making.step("what follows from the release", lambda: method.finish(release, tell)) or making.finished
    )


def make_method(settings: ReleaseSettings, schema: Schema, seeds: Table | None, public_seed: int) -> Method:
    """The method of settings; whatever is wrong with them is said here, before an owner is asked.

    Raises:
        ConfigError: the settings do not go with the schema, with the seeds or with the wire's limits.
        DataError: public rows that do not fit the schema.
        ExtensionError: the method is of another package, and cannot be imported.
        MissingDependencyError: a package that the post-processing needs is not installed.
    """
    need_packages(settings)
    make = implementation(PROTOCOLS[settings.kind].method, settings.kind)
    method: Method = make(settings, schema, seeds, public_seed)
    return method


def need_packages(settings: ReleaseSettings | type[ReleaseSettings]) -> None:
    """Refuse what could not finish on this host.

    Raises:
        ConfigError: jax is told to use a device that is not there.
        MissingDependencyError: a package that the post-processing needs is not installed.
    """
    for name in settings.packages:
        if importlib.util.find_spec(name) is None:
            raise MissingDependencyError(
                f"the curator's host lacks the package {name}, which this release needs",
                "Run there: pip install 'fedkme[release]'.",
            )
    if "jax" in settings.packages:
        _need_device(os.environ.get("JAX_PLATFORMS", ""))


@cache
def _need_device(platforms: str) -> None:
    """Look in another process: jax takes seconds to import here, and is not to be there where one forks."""
    look = [sys.executable, "-P", "-c", "import jax; jax.devices()"]
    if platforms not in ("", "cpu") and subprocess.run(look, capture_output=True, check=False).returncode:
        raise ConfigError(
            f"jax finds no device for JAX_PLATFORMS={platforms} on the curator's host",
            "Leave that variable (or --device) out there, or install jax for such a device.",
        )
