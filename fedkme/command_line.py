"""Ends of a command line: an expected failure is one line on standard error, and its number the exit status.

Nothing of typer or of a role is imported here: `main` answers ctrl-C while these are still being imported.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from fedkme.errors import FedkmeError, InterruptedRunError, missing_extra

if TYPE_CHECKING:
    import typer

_INTERRUPTED = InterruptedRunError("the command was interrupted", "Give it again.")


def run_app(app: typer.Typer, name: str, arguments: Sequence[str]) -> None:
    """Run a command line that was typed as `name`.

    An expected failure is one line, and its number the exit status.
    """
    with explained():
        app(args=list(arguments), prog_name=name)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """End the process with one line for an expected failure, or for a package of an extra that is missing.

    Raises:
        SystemExit: the block failed as expected, or was interrupted.
    """
    try:
        yield
    except FedkmeError as error:
        _end(error)
    except KeyboardInterrupt:
        _end(_INTERRUPTED)
    except SystemExit as end:
        if _was_interrupted(end):  # typer makes a status of it, and no line
            _end(_INTERRUPTED)
        raise
    except ModuleNotFoundError as error:
        if (missing := missing_extra(error)) is None:
            raise
        _end(missing)


def _was_interrupted(end: BaseException | None) -> bool:
    while end is not None and not isinstance(end, KeyboardInterrupt):
        end = end.__context__
    return end is not None


def _end(error: FedkmeError) -> NoReturn:
    sys.stderr.write(f"{error}\n")
    raise SystemExit(error.code)
