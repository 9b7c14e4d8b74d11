"""`fedkme owner`: the verbs of an owner's host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkme.config import load_toml, validate
from fedkme.party import resolve_paths
from fedkme.supervision import Supervised, run_party
from owner.agent import join as join_curator
from owner.settings import OwnerSettings

app = typer.Typer(
    pretty_exceptions_enable=False, no_args_is_help=True, help="Run a data owner beside its private rows."
)


@app.callback()
def owner() -> None:
    """Run a data owner beside its private rows."""


@app.command()
def join(config: Annotated[Path, typer.Argument(help="OWNER.toml")], supervised: Supervised = False) -> None:
    """Load this owner's rows, join a curator, serve its runs until it ends the session."""

    def settings() -> OwnerSettings:
        return resolve_paths(validate(OwnerSettings, load_toml(config), config.name), config)

    raise typer.Exit(run_party(settings, supervised, join_curator))
