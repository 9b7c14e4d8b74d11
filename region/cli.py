"""`fedkme region`: the verbs of a regional curator's host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkme.heads.files import export
from fedkme.ops.supervision import Supervised, run_party
from fedkme.party import load_settings
from fedkme.privacy.events import CURATOR
from fedkme.verbs import AsJson, Verbs, print_result
from region.server import serve as serve_region
from region.settings import RegionSettings

app = Verbs("Run a regional curator: a curator to its owners, an owner to the curator above.")

Config = Annotated[Path, typer.Argument(help="REGION.toml")]


@app.verb("fedkme region serve region.toml")
def serve(config: Config, supervised: Supervised = False) -> None:
    """Serve the region's owners, and give their sums to the curator above, until told to stop."""
    raise typer.Exit(
        run_party(lambda: load_settings(RegionSettings, config), supervised, serve_region, service=True)
    )


@app.verb(
    "fedkme region ledger region.toml --out north-curator.jsonl",
    "fedkme region ledger region.toml --as-owner --out north.jsonl",
    json="an object: file, party, lines",
)
def ledger(
    config: Config,
    out: Annotated[Path, typer.Option(help="FILE.jsonl to write.")],
    as_owner: Annotated[
        bool, typer.Option("--as-owner", help="Of its side towards the curator above.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the region's ledger as a curator, or as an owner, to a file, for `fedkme audit verify`."""
    settings = load_settings(RegionSettings, config)
    above = settings.above
    journal, party = (above.journal, above.name) if as_owner else (settings.journal, CURATOR)
    print_result(export(journal, party, out), as_json)
