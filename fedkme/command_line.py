"""Ends of a command line: an expected failure is one line on standard error, with its code as exit status.

This module imports neither typer nor a role: `main` handles ctrl-C while those are still being imported.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import functools
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from typing_extensions import Buffer, override

from fedkme.errors import (
    CommandLineError,
    ConfigError,
    FedkmeError,
    InterruptedRunError,
    StoreError,
    full_disk,
    missing_extra,
)

if TYPE_CHECKING:
    import typer

_INTERRUPTED = InterruptedRunError("the command was interrupted", "Give it again.")
_OF_PATHS = (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.EROFS)
"""Faults of a path that somebody gave: Python raises them where a file is looked for, too."""
_FINALIZER_S = 0.01
"""Time that a finalizer has to end in."""


def run_app(app: typer.Typer, name: str, arguments: Sequence[str]) -> None:
    """Run a command line under the program name `name`.

    An expected failure prints one line, and its code is the exit status.
    """
    import typer.main

    command: Any = typer.main.get_command(app)
    command.make_context, command.invoke = _refusing(command.make_context), _refusing(command.invoke)
    with standard_streams(), explained():
        _check_names(arguments)
        command(args=list(arguments), prog_name=name)


def _check_names(arguments: Sequence[str]) -> None:
    """Check that the working directory is there, and that it and all arguments are text, and not empty.

    Names of files on Linux are bytes; Python reads those that are no text by its locale as lone surrogates,
    which no file of a run can have.
    """
    try:
        here = str(Path.cwd())
    except OSError as error:
        raise StoreError(f"the working directory: {error.strerror}", "Change to one that is there.") from None
    if "" in arguments:  # as a path it would be the working directory
        remedy = "Give it a value, or leave it out; a variable of the shell may not be set."
        raise CommandLineError("an argument is empty", remedy)
    for name in (*arguments, here):
        if any((sign < " " and not sign.isspace()) or sign == "\x7f" for sign in name):
            cause = f"{name!a} has control characters"
            raise CommandLineError(cause, "Rename the file or folder, or correct the argument.")
        try:
            name.encode()
        except UnicodeEncodeError:
            remedy = "Rename the file or folder, or set LC_ALL=C.UTF-8 where its name is in UTF-8."
            raise CommandLineError(f"{name!a} is not text in UTF-8", remedy) from None


def _refusing(call: Callable[..., Any]) -> Callable[..., Any]:
    """Make a wrong command line an expected failure, of one line that says what to type."""
    import typer

    wrong: Any = typer.BadParameter.__base__  # UsageError of click, or of typer's copy of it

    @functools.wraps(call)
    def checked(*arguments: Any, **named: Any) -> Any:
        try:
            return call(*arguments, **named)
        except typer.Abort as end:
            if _was_interrupted(end):
                raise
            remedy = "Answer at a terminal, or see `--help` for the option that answers."
            raise CommandLineError("an answer was asked for, and standard input has none", remedy) from None
        except wrong as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                raise
            cause, mark, hint = error.format_message().partition(" Did you mean")
            given, choices = getattr(error, "option_name", None), getattr(error, "possibilities", None) or ()
            cause = getattr(error, "message", "") if given and choices else cause
            options = [name for each in error.ctx.command.params for name in each.opts] if error.ctx else []
            remedy = f"Did you mean{hint}" if mark else f"{_help_of(error.ctx)} lists what there is."
            if given and (close := difflib.get_close_matches(given, options, n=1, cutoff=0.7)):
                remedy = f"Did you mean {close[0]}?"
            elif given and "--set" in options:
                remedy = f"Keys of a scenario go by `--set KEY=VALUE`; {remedy}"
            cause = f"{cause[:1].lower()}{cause[1:]}".rstrip(".").replace("Value error, ", "")
            raise CommandLineError(cause, remedy) from None

    return checked


def _help_of(context: Any) -> str:
    return "`--help` of the verb" if context is None else f"`{context.command_path} --help`"


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """Let a command end its work although its output cannot be written; the end says so.

    A closed descriptor would be given to the next file that is opened, such as a store, and libraries would
    write their messages into it: it leads nowhere instead.

    Raises:
        SystemExit: what the block wrote to standard output is lost, in full or in part.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, so this one
    with _open("stderr", 2), _open("stdout", 1) as output:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
            if output.reason:
                _end(
                    StoreError(
                        f"the output cannot be written: {output.reason}", "Free room, and give it again."
                    )
                )


class _Stream(io.FileIO):
    """A standard stream whose failed writes are remembered, and end no work that is under way."""

    reason = ""

    @override
    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno == errno.EPIPE:  # nobody reads on: the command may end
                raise
            self.reason = error.strerror or "unknown reason"
            return memoryview(data).nbytes


@contextlib.contextmanager
def _open(name: str, number: int) -> Iterator[_Stream]:
    """Put a `_Stream` in the place of a standard stream."""
    before, raw = getattr(sys, name), _Stream(number, "w", closefd=False)
    if before not in (None, getattr(sys, f"__{name}__")):
        yield raw  # a test's or a notebook's own stream stays
        return
    text = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(before, "encoding", "utf-8"),
        errors="backslashreplace",
        line_buffering=number == 2 or raw.isatty(),
    )
    setattr(sys, name, text)
    try:
        yield raw
    finally:
        setattr(sys, name, before)
        with contextlib.suppress(BrokenPipeError):
            text.flush()
        with contextlib.suppress(BrokenPipeError):
            text.detach()


def interrupt_on(numbers: Sequence[signal.Signals]) -> None:
    """Let signals raise KeyboardInterrupt, which no finalizer swallows.

    Python prints and forgets an exception that is raised in a `__del__` or a callback, of any library: the
    first signal is then given again as soon as the finalizer is over. A timer does so, again and again: a
    signal that comes just before a call which waits for something does not end that call.
    """
    for number in numbers:
        signal.signal(number, signal.default_int_handler)
    due: list[signal.Signals] = []

    def give_again(*_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        if due:  # else the timer rang twice
            signal.raise_signal(due.pop())

    def report(lost: sys.UnraisableHookArgs) -> None:
        of_signal = threading.current_thread() is threading.main_thread()
        if numbers and of_signal and issubclass(lost.exc_type, KeyboardInterrupt):
            due[:] = numbers[:1]
            signal.signal(signal.SIGALRM, give_again)
            signal.setitimer(signal.ITIMER_REAL, _FINALIZER_S, _FINALIZER_S)
        else:
            sys.__unraisablehook__(lost)

    sys.unraisablehook = report


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """End the process with one line for an expected failure, or for a package that is missing or hidden.

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
        # typer turns ctrl-C into an exit status without a line
        if not isinstance(end, _ExplainedExit) and _was_interrupted(end):
            _end(_INTERRUPTED)
        raise
    except OSError as error:
        if (full := full_disk(error)) is not None:
            _end(full)
        if error.errno not in _OF_PATHS or error.filename is None:
            raise
        _end(
            ConfigError(
                f"{error.filename}: {error.strerror}", "Check the path, and the rights of its folders."
            )
        )
    except ImportError as error:
        if (missing := missing_extra(error)) is None:
            raise
        _end(missing)


def _was_interrupted(end: BaseException | None) -> bool:
    while end is not None and not isinstance(end, KeyboardInterrupt):
        end = end.__context__
    return end is not None


def _end(error: FedkmeError) -> NoReturn:
    sys.stderr.write(f"{error}\n")
    raise _ExplainedExit(error.code)


class _ExplainedExit(SystemExit):
    """End of a process whose line is written."""
