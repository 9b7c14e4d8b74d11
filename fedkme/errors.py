"""The one exception tree: every fatal path has a number that docs/errors.md explains.

Messages name the party, the run, the round and the remedy; never a private value.
"""

from __future__ import annotations

import contextlib
import errno
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

SAME_RELEASE = "Install the same release of fedkme on both sides."
"""Remedy if two parties do not understand each other."""


class FedkmeError(Exception):
    """Base of all expected failures.

    Examples:
        >>> import fedkme as fk
        >>> try:
        ...     fk.load("runs/none")
        ... except fk.FedkmeError as error:
        ...     print(error.code, error.title)
        10 configuration

    Attributes:
        code: process exit status and entry in docs/errors.md, 2 to 130.
        title: two or three words that name the class of failure.
        cause: one sentence, without a final stop and without private values.
        remedy: one sentence that says what to do.
    """

    code: ClassVar[int] = 1
    title: ClassVar[str] = "failure"

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy

    def __str__(self) -> str:
        return f"error {self.code} ({self.title}): {self.cause}. {self.remedy}"

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own calls the class with one word: a pool of processes waits for ever for such an error.
        return type(self).__new__, (type(self), self.cause), self.__dict__


class CommandLineError(FedkmeError):
    """A verb or an option does not exist, or lacks its value."""

    code = 2
    title = "command line"


class ConfigError(FedkmeError):
    """A configuration file or `--set` value is wrong."""

    code = 10
    title = "configuration"


class SchemaError(FedkmeError):
    """A public schema is inconsistent, or two parties hold different schemas."""

    code = 11
    title = "schema"


class DataError(FedkmeError):
    """Rows do not fit the public schema: shape, NaN, bounds, categories."""

    code = 12
    title = "data"


class MissingDependencyError(FedkmeError):
    """An optional package is needed and not installed."""

    code = 13
    title = "missing package"


class ExtensionError(FedkmeError):
    """A package registers an extension that cannot be used."""

    code = 14
    title = "extension"


class QuestionError(FedkmeError):
    """A question to a release is not understood, or names something that the release's schema lacks."""

    code = 15
    title = "question"


class NotEnoughRowsError(FedkmeError):
    """The requested summary has more rows than exist."""

    code = 20
    title = "not enough rows"


class QuorumError(FedkmeError):
    """Fewer owners are left than the run's quorum."""

    code = 21
    title = "quorum"


class MissingOwnersError(FedkmeError):
    """Expected owners did not join in time."""

    code = 22
    title = "missing owners"


class OwnerLostError(FedkmeError):
    """An owner's stream ended, or the owner stopped answering; the run continues without the owner."""

    code = 23
    title = "owner lost"


class OwnerFaultError(FedkmeError):
    """An owner answered a directive with a fault of its own."""

    code = 24
    title = "owner's fault"


class BidMismatchError(FedkmeError):
    """A revealed row is not the row of the bid; the owner is quarantined for the run."""

    code = 25
    title = "bid mismatch"


class IncompleteSummaryError(FedkmeError):
    """A summary has fewer rows than requested; the rows are written."""

    code = 26
    title = "incomplete summary"


class NotJudgedError(FedkmeError):
    """A complete summary could not be judged."""

    code = 27
    title = "not judged"


class NotMadeError(FedkmeError):
    """A release or summary is on disk, and a file or figure that is computed from it could not be made."""

    code = 28
    title = "not made"


class ProtocolVersionError(FedkmeError):
    """Two parties speak different versions of the wire contract."""

    code = 30
    title = "protocol version"


class MessageTooLargeError(FedkmeError):
    """A message is over the size cap of the wire."""

    code = 31
    title = "message size"


class ProtocolError(FedkmeError):
    """A peer sent a message that the contract does not allow at this point."""

    code = 32
    title = "protocol"

    def __init__(self, cause: str, remedy: str = SAME_RELEASE) -> None:
        super().__init__(cause, remedy)


class IdentityError(FedkmeError):
    """A party's name is taken, unknown, or not the name in its certificate."""

    code = 33
    title = "identity"


class ConnectionFailedError(FedkmeError):
    """The other side cannot be reached or closed the connection."""

    code = 34
    title = "connection"


class FencedError(FedkmeError):
    """A later process of the same identity took this one's place."""

    code = 35
    title = "fenced"


class PartyFailedError(FedkmeError):
    """A process that the launcher started ended with an error."""

    code = 40
    title = "party failed"


class LedgerError(FedkmeError):
    """A ledger was altered, cut, or does not agree with the ledger of the other side."""

    code = 50
    title = "ledger"


class AuditError(FedkmeError):
    """The audit of a mechanism contradicts the mechanism's claim."""

    code = 51
    title = "audit"


class NotVerifiedError(FedkmeError):
    """A verification found no fault, but lacked some of the files."""

    code = 61
    title = "not verified"


class BudgetError(FedkmeError):
    """A run would exceed a budget; it is refused before anything is computed."""

    code = 52
    title = "budget"


class PkiError(FedkmeError):
    """A request to an authority's folder failed; no certificate was issued or revoked, no file written."""

    code = 60
    title = "pki"


class StoreError(FedkmeError):
    """A party's store cannot be opened or written, is in use, or is of a newer version."""

    code = 53
    title = "store"


class ArchiveError(StoreError):
    """An archive of a party's store is missing or was changed; the rest of the store still works."""

    code = 63
    title = "archive"


class PolicyError(FedkmeError):
    """An owner's policy does not allow a question; it is refused before anything is computed."""

    code = 54
    title = "policy"


class ApprovalError(PolicyError):
    """An owner that approves runs by hand has not approved this run yet; it may still approve a later try."""

    code = 62
    title = "approval"


class QuotaError(FedkmeError):
    """A consumer requests more than the curator's quota allows."""

    code = 55
    title = "quota"


class CancelledRunError(FedkmeError):
    """A run was cancelled; what was gathered so far is kept."""

    code = 56
    title = "cancelled"


class StoppingError(FedkmeError):
    """The curator is stopping and takes no new runs."""

    code = 57
    title = "stopping"


class SecureAggregationError(FedkmeError):
    """Secure aggregation cannot continue: too few owners, a value out of range, a malformed message."""

    code = 58
    title = "secure aggregation"


class SealedBoxError(FedkmeError):
    """A sealed box cannot be opened: it is damaged, for another run or key, or its keys are lost."""

    code = 59
    title = "sealed box"


class InterruptedRunError(FedkmeError):
    """The user interrupted the run; what was gathered so far is kept."""

    code = 130  # what shells report for ctrl-C
    title = "interrupted"


class FedkmeWarning(UserWarning):
    """Warning of an event that a caller should know, such as an owner that left; the call continued.

    Examples:
        >>> import warnings
        >>> import fedkme as fk
        >>> with warnings.catch_warnings(record=True) as heard:
        ...     schema = fk.draft_schema({"row": [1, 2, 3], "age": [20, 31, 47]})
        >>> [warning.category.__name__ for warning in heard]
        ['FedkmeWarning']
    """


_EXTRAS = {
    "sklearn": "sim",
    "pandas": "sim",
    "pyarrow": "sim",
    "matplotlib": "sim",
    "jax": "release",
    "optax": "release",
    "starlette": "page",
    "uvicorn": "page",
    "opentelemetry": "otel",
}


_DISK_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


@contextlib.contextmanager
def on_disk(what: str, remedy: str, kind: type[FedkmeError] = ConfigError) -> Iterator[None]:
    """Turn an OSError into an expected failure: `what` failed, for the system's reason.

    A disk that is full or broken is a failure of the store, whatever was being written.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FAULTS and kind is ConfigError:
            raise StoreError(f"{what}: {error.strerror}", "Look at the disk, and give it room.") from None
        raise kind(f"{what}: {error.strerror or 'unknown reason'}", remedy) from None


def missing_extra(error: ImportError) -> MissingDependencyError | None:
    """Make the error for a missing package of an extra, or for a hidden package of fedkme; else None."""
    package = (error.name or "").partition(".")[0]
    if (file := hidden_by(package)) is not None:
        remedy = "Rename it, or move it elsewhere, and start Python again."
        return MissingDependencyError(f"{file} hides fedkme's own package {package}", remedy)
    if package not in _EXTRAS:
        return None
    remedy = f"Run `pip install 'fedkme[{_EXTRAS[package]}]'`."
    return MissingDependencyError(f"the package {package} is not installed", remedy)


def hidden_by(package: str) -> str | None:
    """File of another module that was imported in the place of a package of fedkme; None without one."""
    own = Path(__file__).resolve().parent.parent / package
    file = getattr(sys.modules.get(package), "__file__", None)
    if file is None or not package or not (own / "__init__.py").is_file():
        return None
    return None if Path(file).resolve().parent == own else file


def error_of(code: int, cause: str, remedy: str) -> FedkmeError | None:
    """Make the error of a code in docs/errors.md; None for an unknown code."""
    kind = next((kind for kind in _kinds(FedkmeError) if kind.code == code), None)
    return None if kind is None else kind(cause, remedy)


def _kinds(base: type[FedkmeError]) -> Iterator[type[FedkmeError]]:
    """Classes of errors, each before its subclasses, which may share its code."""
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds(kind)
