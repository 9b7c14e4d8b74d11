"""`fedkme dossier`: writes the papers of a run."""

from pathlib import Path
from typing import Annotated

import typer

from fedkme.durable import make_folder, replace
from fedkme.errors import on_disk
from fedkme.inputs import read_text
from fedkme.verbs import AsJson, Verbs, print_json
from operate.dossier.facts import MISSING, read_facts
from operate.dossier.papers import papers_of

app = Verbs()


@app.verb(
    "fedkme dossier runs/digits-1",
    "fedkme dossier consumer/output --ledger consumer.jsonl --run run-1 --json",
    json="a list of objects: file, missing (fields that a person must add)",
)
def dossier(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a simulation; a curator's or consumer's.")
    ],
    ledger: Annotated[
        list[Path] | None, typer.Option(help="A party's ledger, if the folder has none.")
    ] = None,
    run: Annotated[str | None, typer.Option(help="Name of a single run to describe.")] = None,
    delta: Annotated[float, typer.Option(help="Delta of the stated epsilons.")] = 1e-5,
    as_json: AsJson = False,
) -> None:
    """Write a registry entry, Croissant metadata and a privacy evaluation to RUN/dossier/.

    Figures come from the ledgers. Fields for a person to add are marked; existing papers are not changed.
    """
    facts = read_facts(folder, ledger or (), run, delta)
    home = folder / "dossier"
    papers = papers_of(facts, home)
    existing = _write_missing(home, papers)
    if existing:
        typer.echo(f"{home}: {', '.join(existing)} stay as they are; move them away for new ones", err=True)
    missing = {home / name: text.count(MISSING) for name, text in (papers | existing).items()}
    if as_json:
        print_json([{"file": file, "missing": count} for file, count in missing.items()])
    else:
        for file, count in missing.items():
            typer.echo(f"{file}: {count} fields to be added")


def _write_missing(home: Path, papers: dict[str, str]) -> dict[str, str]:
    """Write the missing papers; return the text of existing ones, which people may have edited."""
    existing: dict[str, str] = {}
    with on_disk(f"{home} cannot be written", "Give another folder."):
        make_folder(home)
        for name, text in papers.items():
            if (home / name).exists():
                existing[name] = read_text(home / name)
            else:
                replace(home / name, text.encode())
    return existing
