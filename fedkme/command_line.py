"""Ends of a command line: an expected failure is one line on standard error, with its code as exit status.

This module imports neither typer nor a role: `main` handles ctrl-C while those are still being imported.
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
    """Run a command line under the program name `name`.

    An expected failure prints one line, and its code is the exit status.
    """
    with explained():
        app(args=list(arguments), prog_name=name)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """End the process with one line for an expected failure, or for a missing package of an extra.

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
        if _was_interrupted(end):  # typer turns ctrl-C into an exit status without a line
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
