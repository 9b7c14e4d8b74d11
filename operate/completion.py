"""Completion of words in a shell: verbs by a table, and what stands behind a verb by its own command line."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any

import typer
from typer.main import get_command

Verbs = Mapping[str, str]
"""Verbs, and what each does."""


def script(shell: str, variable: str) -> str:
    """Return the script that a shell reads so that the tab key completes `fedkme`.

    Args:
        shell: bash, zsh or fish.
        variable: of the environment, by which the script asks.
    """
    of_typer: Any = importlib.import_module("typer.completion")
    text: str = of_typer.get_completion_script(prog_name="fedkme", complete_var=variable, shell=shell)
    return f"{text}\n"


def complete(verbs: Verbs, load: Callable[[str], typer.Typer]) -> None:
    """Answer what the script asks for in the environment, and end the process.

    Args:
        verbs: of `fedkme`.
        load: makes the command line behind a verb; called for the one that was typed, if any.

    Raises:
        SystemExit: always.
    """
    app = typer.Typer(pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    for verb, text in verbs.items():
        app.command(verb, help=text)(lambda: None)
    root: Any = get_command(app)
    # bash gives its words in one variable, zsh and fish in another
    words = (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()
    if len(words) > 1 and words[1] in verbs:
        root.commands[words[1]] = get_command(load(words[1]))
    root(prog_name="fedkme")
