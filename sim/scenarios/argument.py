"""The argument of every verb that takes a scenario, whose names the tab key completes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def shipped_names() -> list[str]:
    """Names of the scenarios that ship with the package."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.toml"))


ScenarioName = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        help=f"A shipped scenario ({', '.join(shipped_names())}) or a TOML file.",
        autocompletion=shipped_names,
    ),
]
