"""Interface of all release methods: questions to owners, then post-processing."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from curator.releases.joint import JointRelease
from curator.releases.synthetic import with_lost_owners
from fedkme.errors import ConfigError, MissingDependencyError, NotMadeError
from fedkme.exchange import Participation
from fedkme.extensions import implementation
from fedkme.ops.derivation import Derivation
from fedkme.privacy.events import Event
from fedkme.privacy.sums import PooledRelease
from fedkme.protocols import PROTOCOLS
from fedkme.releases.settings import ReleaseSettings
from fedkme.sums.values import Marginals, Parities, ScoreProducts, SumQuery
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

RELEASE = "release.npz"
"""File of the released numbers, from which all other files follow."""
Tell = Callable[[str, str, float], None]
"""Progress callback: stage, a line for a person, and the finished part of the stage, 0 to 1."""


NoisyTable = tuple[NDArray[np.float64], float]
"""Counts of a marginal, (cells,), and the deviation of the noise in every cell; 0 for exact counts."""


class SumOracle(Protocol):
    """Sums over owners' rows, with noise that is added once: a method's only access to rows."""

    @property
    def rows(self) -> int:
        """N, public: rows of the owners that took part in the beginning.

        Tables of fewer owners, where one was lost, stand for all: their counts are multiplied by N over the
        owners' rows, and so is the deviation of their noise.
        """

    @property
    def owners(self) -> int:
        """Number of owners in the last total; before a question, of owners that it goes to."""

    @property
    def noise_ratio(self) -> float:
        """Deviation of a total's noise over the planned deviation, at least 1.

        Where owners add the noise, owners that the plan does not count on add noise too.
        """

    @property
    def tell(self) -> Tell:
        """Callback for a method's progress between its questions; any thread may call it.

        A method reports released values alone, since the consumer sees the reports. If the run is over, the
        callback raises an error.
        """

    async def joint(self, query: SumQuery, release: PooledRelease | None) -> JointRelease:
        """All sums of a question with noise, as one Gaussian release.

        Args:
            query: question without weights.
            release: calibration for the blocks of the question, in order; None: no noise and no guarantee,
                which only simulations allow.

        Raises:
            QuorumError: too few owners are left.
            NotEnoughRowsError: there are no rows.
            SecureAggregationError: the aggregation failed; nothing was opened.
        """

    async def followed(self, query: SumQuery, release: PooledRelease | None) -> JointRelease:
        """Ask as `joint` does; on return the answer is on disk, before the next question follows from it."""

    async def marginals(self, marginals: Marginals, sigmas: Sequence[float]) -> list[NoisyTable]:
        """Pooled counts of every marginal, with the deviation of the noise in each.

        Args:
            marginals: the marginals to count.
            sigmas: least standard deviation of the Gaussian noise on each marginal.

        Raises:
            ConfigError: exact counts are asked for and the curator is not trusted with them.
            QuorumError: too few owners are left.
            SecureAggregationError: the aggregation failed; nothing was opened.
        """

    async def parities(self, parities: Parities, sigmas: Sequence[float]) -> list[NoisyTable]:
        """Pooled sums of signs, block by block, with the deviation of the noise in each block.

        Args:
            parities: the products of signs to sum.
            sigmas: least standard deviation of the Gaussian noise on each block.

        Raises:
            QuorumError: too few owners are left.
            SecureAggregationError: the aggregation failed; nothing was opened.
        """

    async def products(self, products: ScoreProducts, sigmas: Sequence[float]) -> list[NoisyTable]:
        """Pooled products of scores, in steps; otherwise as `parities`."""


@dataclass(frozen=True, eq=False)
class Finished:
    """Files that a consumer receives.

    Attributes:
        files: contents by name; names are plain (letters, digits, dots, dashes).
        rows: synthetic rows or weighted points among them.
        losses: errors of the steps that failed.
    """

    files: Mapping[str, bytes]
    rows: int
    losses: tuple[NotMadeError, ...] = ()


class Making(Derivation):
    """Post-processing of one release: a file is added once the step that makes it is over.

    Attributes:
        tell: progress callback.
        rows: synthetic rows or weighted points that were made.
    """

    def __init__(self, release: bytes, tell: Tell) -> None:
        """Begin with the file of the release."""
        super().__init__()
        self.tell = tell
        self.rows = 0
        self._files = {RELEASE: release}

    def file(self, name: str, make: Callable[[], bytes]) -> None:
        """Make a file in its own step."""
        if (data := self.step(name, make)) is not None:
            self._files[name] = data

    @property
    def finished(self) -> Finished:
        """Files, rows and losses so far."""
        return Finished(dict(self._files), self.rows, tuple(self.losses))


class Method(Protocol):
    """Method of release, with its settings.

    A class whose rows obey the schema's public rules (`fedkme.answers.rules`) says so by `obeys_rules =
    True`; `make_method` refuses a schema with rules to all others.
    """

    @property
    def protocol(self) -> str:
        """Name of the method in owners' policies and ledgers."""

    def planned(self) -> tuple[Event, ...]:
        """Events of the whole release: what each owner's rows cost towards the consumer."""

    async def ask(self, oracle: SumOracle) -> bytes:
        """Ask owners all questions of the method.

        Returns:
            The release, a .npz file: with the method's public settings, all other files follow from it. The
            release is on disk before any value leaves the curator.
        """

    def finish(self, release: bytes, tell: Tell) -> Finished:
        """Post-process a release, in a thread; the same bytes give the same files.

        All work that may fail is a step of a `Making`. The function `finished` calls this method.
        """


@runtime_checkable
class RowMethod(Method, Protocol):
    """Method that draws rows apart from its files."""

    def draw(self, release: bytes, count: int, tell: Tell) -> Table:
        """Draw the rows of `finish`, as many as asked for, in a thread."""


def finished(
    method: Method, release: bytes, tell: Tell, participation: Participation | None = None
) -> Finished:
    """Make all files that follow from a release, as far as possible; the release is on disk already.

    The cards name the owners that the run lost by number.

    Raises:
        CancelledRunError: `tell` reports that the run is no longer carried out.
    """
    making = Making(release, tell)
    made = making.step("what follows from the release", lambda: method.finish(release, tell))
    made = made or making.finished
    if participation is None or not participation.lost:
        return made
    cards = making.step("owners of the data card", lambda: with_lost_owners(made.files, participation))
    return Finished({**made.files, **(cards or {})}, made.rows, (*made.losses, *making.losses))


def make_method(settings: ReleaseSettings, schema: Schema, seeds: Table | None, public_seed: int) -> Method:
    """Make the method of the settings; wrong settings are refused here, before an owner is asked.

    Raises:
        ConfigError: the settings do not go with the schema, with the seeds or with the wire's limits, or the
            schema has rules that the method's rows do not obey.
        DataError: public rows do not fit the schema.
        ExtensionError: the method is in another package, which cannot be imported.
        MissingDependencyError: a package that the post-processing needs is not installed.
    """
    need_packages(settings)
    make = implementation(PROTOCOLS[settings.kind].method, settings.kind)
    if schema.has_rules and not getattr(make, "obeys_rules", False):
        cause = f"rows of '{settings.kind}' do not obey the schema's rules (never, order, derived)"
        raise ConfigError(cause, 'Take the method "marginals", or remove the rules from the schema.')
    method: Method = make(settings, schema, seeds, public_seed)
    return method


def need_packages(settings: ReleaseSettings | type[ReleaseSettings]) -> None:
    """Refuse settings whose release could not be finished on this host.

    Raises:
        ConfigError: jax is told to use a device that is not there.
        MissingDependencyError: a package that the post-processing needs is not installed.
    """
    for name in settings.packages:
        if importlib.util.find_spec(name) is None:
            cause = f"the curator's host lacks the package {name}, which this release needs"
            raise MissingDependencyError(cause, "Run there: pip install 'fedkme[release]'.")
    if "jax" in settings.packages:
        _need_device(os.environ.get("JAX_PLATFORMS", ""))


@cache
def _need_device(platforms: str) -> None:
    """Check for a device in another process: jax imports slowly, and forking processes must not import it."""
    look = [sys.executable, "-P", "-c", "import jax; jax.devices()"]
    if platforms not in ("", "cpu") and subprocess.run(look, capture_output=True, check=False).returncode:
        remedy = "Leave that variable (or --device) out there, or install jax for such a device."
        raise ConfigError(f"jax finds no device for JAX_PLATFORMS={platforms} on the curator's host", remedy)
