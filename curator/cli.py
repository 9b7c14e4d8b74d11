"""`fedkme curator`: the verbs of the curator's host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from curator.server import serve as serve_runs
from curator.settings import CuratorSettings
from fedkme.config import load_toml, validate
from fedkme.party import resolve_paths
from fedkme.supervision import Supervised, run_party

app = typer.Typer(
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Run the curator, which owners join and consumers call.",
)


@app.callback()
def curator() -> None:
    """Run the curator, which owners join and consumers call."""


@app.command()
def serve(
    config: Annotated[Path, typer.Argument(help="CURATOR.toml")], supervised: Supervised = False
) -> None:
    """Serve owners and consumers until told to stop."""

    def settings() -> CuratorSettings:
        return resolve_paths(validate(CuratorSettings, load_toml(config), config.name), config)

    raise typer.Exit(run_party(settings, supervised, serve_runs))
