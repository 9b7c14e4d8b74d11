"""Parts that every verb has alike: examples in its help, and results for people or, as JSON, for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from rich.console import Console  # not before something is printed: a party's process starts without it

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value alone, for programs.")]
"""The option of every verb that prints a result; `epilog` says the shape of the value."""
_WIDTH = 110
"""Columns of tables that do not go to a terminal."""


VerbT = TypeVar("VerbT", bound=Callable[..., object])


class Verbs(typer.Typer):
    """Verbs of a command line; without a text about them, one verb, which is not typed."""

    def __init__(self, about: str = "") -> None:
        super().__init__(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)
        if about:
            self.callback(help=about)(lambda: None)

    def verb(
        self, *examples: str, json: str = "", name: str | None = None, **how: Any
    ) -> Callable[[VerbT], VerbT]:
        """Add a verb, by default of the function's name, whose help ends with examples; see `epilog`."""
        return self.command(name, epilog=epilog(*examples, json=json), **how)


def epilog(*examples: str, json: str = "") -> str:
    """Return the end of a verb's help.

    Args:
        examples: command lines, which a test parses.
        json: shape of what `--json` prints.
    """
    lines = ["Examples:", *examples]
    return "\n\n".join([*lines, f"With --json: {json}."] if json else lines)


def print_json(value: Any) -> None:
    """Print a value as JSON, and nothing else, to standard output; strictly: infinity is "inf", NaN null."""
    typer.echo(json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def print_result(result: DataclassInstance, as_json: bool) -> None:
    """Print a value as its text, or its attributes as a JSON object."""
    if as_json:
        print_json(result)
    else:
        typer.echo(result)


def console(*, for_people: bool = True) -> Console:
    """Return where tables and lines for people go: standard output, or standard error beside a JSON value."""
    from rich.console import Console

    stream = sys.stdout if for_people else sys.stderr
    return Console(file=stream, width=None if stream.isatty() else _WIDTH, highlight=False)


def _plain(value: Any) -> Any:
    match value:
        case float() if math.isnan(value):
            return None
        case float() if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        case Mapping():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _plain(asdict(value))
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case Path():
            return str(value)
    return value
