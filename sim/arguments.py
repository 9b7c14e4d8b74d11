"""The argument of every verb that takes a scenario, whose names the tab key completes."""

from __future__ import annotations

from typing import Annotated

import typer

from sim.shipped import shipped

ScenarioName = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        help=f"A shipped scenario ({', '.join(shipped())}) or a TOML file.",
        autocompletion=lambda: list(shipped()),
    ),
]
