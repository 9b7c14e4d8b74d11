"""Parts common to all verbs: examples in the help, and results for people or, as JSON, for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer
from typer.core import TyperGroup
from typing_extensions import override

from fedkme.errors import MissingDependencyError
from fedkme.extensions import INSTRUMENTS, VERBS, entries, load

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from rich.console import Console  # imported at the first print: a party's process starts without it
    from rich.table import Table

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value alone, for programs.")]
"""Option of every verb that prints a result; the help's `epilog` gives the shape of the value."""
LedgerFile = Annotated[Path, typer.Option("--out", help="FILE.jsonl to write.")]
"""Option of the verbs that write a party's ledger to a file."""
_WIDTH = 110
"""Width in columns of tables that do not go to a terminal."""


VerbT = TypeVar("VerbT", bound=Callable[..., object])


class Verbs(typer.Typer):
    """Verbs of a command line; without `about`, a single verb whose name is not typed.

    Example: `app = Verbs("Check ledgers.", place="audit")`.
    """

    def __init__(self, about: str = "", place: str = "") -> None:
        """Make a command line.

        Args:
            about: help of the command line.
            place: words before the verb, if other packages may register verbs here.
        """
        group = type("Extended", (_ExtendedGroup,), {"place": place}) if place else None
        super().__init__(
            cls=group, pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True
        )
        if about:
            self.callback(help=about)(lambda: None)

    def verb(
        self, *examples: str, json: str = "", name: str | None = None, **how: Any
    ) -> Callable[[VerbT], VerbT]:
        """Add a verb, by default with the function's name; its help ends with examples, see `epilog`."""
        return self.command(name, epilog=epilog(*examples, json=json), **how)


class _ExtendedGroup(TyperGroup):
    """Group of its own verbs and of verbs registered as `PLACE VERB`, which are imported when used."""

    place = ""

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        start = f"{self.place} "
        names = {*INSTRUMENTS, *entries(VERBS)}
        others = sorted(name.removeprefix(start) for name in names if name.startswith(start))
        return [*super().list_commands(ctx), *others]

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        verb = f"{self.place} {cmd_name}"
        if cmd_name in self.commands or verb not in {*INSTRUMENTS, *entries(VERBS)}:
            return super().get_command(ctx, cmd_name)
        app = registered_verb(verb)
        command = typer.main.get_command(_absent(verb) if app is None else app)
        command.name = cmd_name
        return command


def registered_verb(verb: str) -> typer.Typer | None:
    """Import the command line that an installed package registers for a verb; None without one.

    Raises:
        ExtensionError: the command line cannot be imported.
    """
    entry = entries(VERBS).get(verb)
    return None if entry is None else cast(typer.Typer, load(entry))


def missing_instrument(verb: str) -> MissingDependencyError:
    """Make the error of a verb whose distribution is not installed."""
    package = INSTRUMENTS[verb][0]
    pip = "`pip install fedkme-audit`, or " if package == "fedkme-audit" else ""
    remedy = f"Run {pip}`make venv` in a clone of the repository, whose .venv has it."
    return MissingDependencyError(f"`fedkme {verb}` is part of {package}, which is not installed", remedy)


def _absent(verb: str) -> typer.Typer:
    app = Verbs()

    @app.command(
        help=f"{INSTRUMENTS[verb][1]} Not installed.",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def absent() -> None:
        raise missing_instrument(verb)

    return app


def epilog(*examples: str, json: str = "") -> str:
    """Return the end of a verb's help.

    Args:
        examples: command lines, which a test parses.
        json: shape of the value that `--json` prints.
    """
    lines = ["Examples:", *examples]
    return "\n\n".join([*lines, f"With --json: {json}."] if json else lines)


def print_json(value: Any) -> None:
    """Print a value as strict JSON, and nothing else, to standard output: infinity is "inf", NaN null."""
    typer.echo(json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def print_result(result: DataclassInstance, as_json: bool) -> None:
    """Print a value as its text, or its attributes as a JSON object."""
    if as_json:
        print_json(result)
    else:
        typer.echo(result)


def console(*, for_people: bool = True) -> Console:
    """Return the console for people: standard output, or standard error if a JSON value is printed."""
    from rich.console import Console

    stream = sys.stdout if for_people else sys.stderr
    return Console(file=stream, width=None if stream.isatty() else _WIDTH, highlight=False)


def table_of(
    header: Sequence[str], rows: Iterable[Sequence[str]] = (), *, ruled: bool = False, **style: Any
) -> Table:
    """Return a table for people.

    Args:
        header: names of the columns; `>` before a name aligns the column to the right, and `<` to the left
            without breaking its cells; all other columns fold.
        rows: cells by row.
        ruled: whether to draw lines around cells.
        style: settings of `rich.table.Table`.
    """
    from rich.table import Table

    plain: dict[str, Any] = {"box": None, "pad_edge": False, "padding": (0, 1, 0, 0)}
    table = Table(**(style if ruled else plain | style))
    for name in header:
        whole = name.startswith((">", "<"))
        table.add_column(
            name.lstrip("<>"),
            justify="right" if name.startswith(">") else "left",
            no_wrap=whole,
            overflow="ellipsis" if whole else "fold",
        )
    for row in rows:
        table.add_row(*row)
    return table


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
