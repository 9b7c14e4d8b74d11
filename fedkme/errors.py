"""The one exception tree: every fatal path has a number that docs/errors.md explains.

Messages name the party, the run, the round and the remedy; never a private value.
"""

import contextlib
import errno
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

SAME_RELEASE = "Install the same release of fedkme on both sides."
"""Remedy if two parties do not understand each other."""
CURATOR_FAULT = "Look at the curator's software."
"""Remedy if a curator did what no curator does that works, whatever its version."""


def typed(path: object) -> str:
    """Path as it is typed in a shell, for the commands that a remedy names."""
    return shlex.quote(str(path))


def shown(text: str) -> str:
    """One line for a terminal: signs that cannot be printed, such as those in a file's names, as escapes."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


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

    def __init_subclass__(cls, code: int | None = None, title: str = "") -> None:
        super().__init_subclass__()
        if code is not None:
            cls.code, cls.title = code, title

    def __init__(self, cause: str, remedy: str) -> None:
        self.cause, self.remedy = shown(cause), shown(remedy)
        super().__init__(self.cause)

    def __str__(self) -> str:
        return f"error {self.code} ({self.title}): {self.cause}. {self.remedy}"

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own calls the class with one word: a pool of processes waits for ever for such an error.
        return type(self).__new__, (type(self), self.cause), self.__dict__


class CommandLineError(FedkmeError, code=2, title="command line"):
    """A verb or an option does not exist, or lacks its value."""


class ConfigError(FedkmeError, code=10, title="configuration"):
    """A configuration file or `--set` value is wrong."""


class SchemaError(FedkmeError, code=11, title="schema"):
    """A public schema is inconsistent, or two parties hold different schemas."""


class DataError(FedkmeError, code=12, title="data"):
    """Rows do not fit the public schema: shape, NaN, bounds, categories."""


class MissingDependencyError(FedkmeError, code=13, title="missing package"):
    """An optional package is needed and not installed."""


class ExtensionError(FedkmeError, code=14, title="extension"):
    """A package registers an extension that cannot be used."""


class QuestionError(FedkmeError, code=15, title="question"):
    """A question to a release is not understood, or names something that the release's schema lacks."""


class NotEnoughRowsError(FedkmeError, code=20, title="not enough rows"):
    """The requested summary has more rows than exist."""


class QuorumError(FedkmeError, code=21, title="quorum"):
    """Fewer owners are left than the run's quorum."""


class MissingOwnersError(FedkmeError, code=22, title="missing owners"):
    """Expected owners did not join in time."""


class OwnerLostError(FedkmeError, code=23, title="owner lost"):
    """An owner's stream ended, or the owner stopped answering; the run continues without the owner."""


class OwnerFaultError(FedkmeError, code=24, title="owner's fault"):
    """An owner answered a directive with a fault of its own."""


class BidMismatchError(FedkmeError, code=25, title="bid mismatch"):
    """A revealed row is not the row of the bid; the owner is quarantined for the run."""


class IncompleteSummaryError(FedkmeError, code=26, title="incomplete summary"):
    """A summary has fewer rows than requested; the rows are written."""


class NotJudgedError(FedkmeError, code=27, title="not judged"):
    """A complete summary could not be judged."""


class NotMadeError(FedkmeError, code=28, title="not made"):
    """A release or summary is on disk, and a file or figure that is computed from it could not be made."""


class ProtocolVersionError(FedkmeError, code=30, title="protocol version"):
    """Two parties speak different versions of the wire contract."""


class MessageTooLargeError(FedkmeError, code=31, title="message size"):
    """A message is over the size cap of the wire."""


class ProtocolError(FedkmeError, code=32, title="protocol"):
    """A peer sent a message that the contract does not allow at this point."""

    def __init__(self, cause: str, remedy: str = SAME_RELEASE) -> None:
        super().__init__(cause, remedy)


def fault_of_curator(cause: str) -> ProtocolError:
    """Make the error for what no curator sends that works, whatever its version."""
    return ProtocolError(cause, CURATOR_FAULT)


class IdentityError(FedkmeError, code=33, title="identity"):
    """A party's name is taken, unknown, or not the name in its certificate."""


class ConnectionFailedError(FedkmeError, code=34, title="connection"):
    """The other side cannot be reached or closed the connection."""


class FencedError(FedkmeError, code=35, title="fenced"):
    """A later process of the same identity took this one's place."""


class PartyFailedError(FedkmeError, code=40, title="party failed"):
    """A process that the launcher started ended with an error."""


class LedgerError(FedkmeError, code=50, title="ledger"):
    """A ledger was altered, cut, or does not agree with the ledger of the other side."""


class AuditError(FedkmeError, code=51, title="audit"):
    """The audit of a mechanism contradicts the mechanism's claim."""


class NotVerifiedError(FedkmeError, code=61, title="not verified"):
    """A verification found no fault, but lacked some of the files."""


class BudgetError(FedkmeError, code=52, title="budget"):
    """A run would exceed a budget; it is refused before anything is computed."""


class PkiError(FedkmeError, code=60, title="pki"):
    """A request to an authority's folder failed; no certificate was issued or revoked, no file written."""


class StoreError(FedkmeError, code=53, title="store"):
    """A party's store cannot be opened or written, is in use, or is of a newer version."""


class ArchiveError(StoreError, code=63, title="archive"):
    """An archive of a party's store is missing or was changed; the rest of the store still works."""


class PolicyError(FedkmeError, code=54, title="policy"):
    """An owner's policy does not allow a question; it is refused before anything is computed."""


class ApprovalError(PolicyError, code=62, title="approval"):
    """An owner that approves runs by hand has not approved this run yet; it may still approve a later try."""


class QuotaError(FedkmeError, code=55, title="quota"):
    """A consumer requests more than the curator's quota allows."""


class CancelledRunError(FedkmeError, code=56, title="cancelled"):
    """A run was cancelled; what was gathered so far is kept."""


class StoppingError(FedkmeError, code=57, title="stopping"):
    """The curator is stopping and takes no new runs."""


class SecureAggregationError(FedkmeError, code=58, title="secure aggregation"):
    """Secure aggregation cannot continue: too few owners, a value out of range, a malformed message."""


class SealedBoxError(FedkmeError, code=59, title="sealed box"):
    """A sealed box cannot be opened: it is damaged, for another run or key, or its keys are lost."""


class InterruptedRunError(FedkmeError, code=130, title="interrupted"):  # what shells report for ctrl-C
    """The user interrupted the run; what was gathered so far is kept."""


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


_DISK_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)
_GIVE_ROOM = "Look at the disk, and give it room."


@contextlib.contextmanager
def on_disk(what: str, remedy: str, kind: type[FedkmeError] = ConfigError) -> Iterator[None]:
    """Turn an OSError into an expected failure: `what` failed, for the system's reason.

    A disk that is full or broken is a failure of the store, whatever was being written.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FAULTS and kind is ConfigError:
            raise StoreError(f"{what}: {error.strerror}", _GIVE_ROOM) from None
        raise kind(f"{what}: {error.strerror or 'unknown reason'}", remedy) from None


def full_disk(error: OSError) -> StoreError | None:
    """Make the error for a disk that is full or broken while a file is written; None for others."""
    if error.errno not in _DISK_FAULTS:
        return None
    return StoreError(f"{error.filename or 'a file'} cannot be written: {error.strerror}", _GIVE_ROOM)


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
