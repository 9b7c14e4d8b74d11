"""Completion of words in a shell: verbs from a table, words after a verb from its own command line."""

import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any

import typer
from typer.main import get_command

_NO_SPACE = "[[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null"
Verbs = Mapping[str, str]
"""Verbs, with one line of description each."""


def script(shell: str, variable: str) -> str:
    """Return the script that a shell reads so that the tab key completes `fedkme`.

    Args:
        shell: bash, zsh or fish.
        variable: environment variable through which the script asks.
    """
    of_typer: Any = importlib.import_module("typer.completion")
    text: str = of_typer.get_completion_script(prog_name="fedkme", complete_var=variable, shell=shell)
    if shell == "bash":  # a key of --set ends with =, behind which its value follows at once
        text = text.replace("    return 0", f"    {_NO_SPACE}\n    return 0", 1)
    return f"{text}\n"


def complete(verbs: Verbs, load: Callable[[str], typer.Typer]) -> None:
    """Answer the question that the script put into the environment, and end the process.

    Args:
        verbs: verbs of `fedkme`.
        load: makes a verb's command line; called for the typed verb, if any.

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
