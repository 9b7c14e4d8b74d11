"""`fedkme new` and `fedkme kit`: folders to start from."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from cryptography.hazmat.primitives import serialization

from fedkme.durable import create
from fedkme.errors import ConfigError, InterruptedRunError, typed
from fedkme.pki import requests
from fedkme.pki.authority import new_key
from fedkme.pki.certificates import fingerprint
from fedkme.pki.files import PRIVATE, PUBLIC
from fedkme.verbs import AsJson, Verbs, print_json
from operate.scaffolding import folders

app = Verbs("Make a scenario, or a party's folder, to start from.")
kit_app = Verbs()

Name = Annotated[str, typer.Argument(help="The party's name, as its certificate will have it.")]
At = Annotated[str, typer.Option("--curator", metavar="HOST:PORT", help="Where the curator listens.")]
Out = Annotated[Path | None, typer.Option(help="Folder to make; by default NAME.")]


@app.verb(
    "fedkme new scenario trial",
    "fedkme new scenario study north.csv south.csv --schema schema.toml --validation lab.csv",
    "fedkme new scenario counts north.csv south.csv --schema schema.toml",
)
def scenario(
    name: Annotated[str, typer.Argument(help="The folder to make.")],
    owners: Annotated[
        list[Path] | None, typer.Argument(help="Your own files, one an owner; none: random rows.")
    ] = None,
    schema: Annotated[Path | None, typer.Option(help="Public schema of your own files.")] = None,
    validation: Annotated[
        Path | None, typer.Option(help="File of D_v, which a summary is to match; a release needs none.")
    ] = None,
    test: Annotated[Path | None, typer.Option(help="File of held-back rows, which score models.")] = None,
) -> None:
    """Make a folder with a commented scenario: of random rows, ready to run, or of your own files.

    With each of your files come the settings to read it, as far as they can be detected.
    """
    if not any((owners, schema, validation, test)):
        path = folders.new_scenario(Path(name))
        typer.echo(
            f"{path}\nnext: fedkme sim run {typed(path)}; put your own files in place of the random rows"
        )
    elif owners and schema:
        path = folders.scenario_of(Path(name), schema, owners, validation, test)
        then = "sim run" if validation else "release auto"
        at = typed(path)
        checked = f"fedkme schema check {typed(schema)} {at}"
        typer.echo(f"{path}\nnext: {checked}, then fedkme {then} {at}")
    else:
        what = "own files need --schema and a file for each owner"
        raise ConfigError(what, "Give both, and --validation for a summary: fedkme new scenario --help.")


@app.verb("fedkme new form")
def form() -> None:
    """Fill in a simulation of your own files on a page of this machine, and watch it there.

    The page offers the files of the current folder. It makes a folder with schema and scenario, which can be
    run again by command, and shows the report. Ctrl-C ends it.
    """
    from fedkme.watch.access import PageAddress
    from fedkme.watch.server import shown
    from operate.scaffolding.form import SimulationForm, carry_out
    from sim.engines.processes import ANY_PORT

    filled = SimulationForm(Path.cwd())
    place = PageAddress(ANY_PORT)
    with shown(place, lambda: filled.watch.state(), lambda: filled.watch.report(), filled) as address:
        typer.echo(f"fill it in at {address.rstrip('/')}{filled.place}", err=True)
        while True:
            if carry_out(filled.requests.get()) == InterruptedRunError.code:
                raise typer.Exit(InterruptedRunError.code)


@app.verb("fedkme new owner north --curator curator.example.org:7700")
def owner(name: Name, curator: At, out: Out = None) -> None:
    """Make a folder with the commented configuration of an owner."""
    _next(folders.new_party("owner", name, curator, out or Path(name)))


@app.verb("fedkme new consumer lab --curator curator.example.org:7700")
def consumer(name: Name, curator: At, out: Out = None) -> None:
    """Make a folder with the commented configuration of a consumer."""
    _next(folders.new_party("consumer", name, curator, out or Path(name)))


@app.verb("fedkme new curator curator")
def curator(name: Name, out: Out = None) -> None:
    """Make a folder with the commented configuration of a curator."""
    _next(folders.new_party("curator", name, "", out or Path(name)))


@kit_app.verb(
    "fedkme kit north --curator curator.example.org:7700",
    json="an object: folder, config, request, key, unit, fingerprint",
)
def kit(name: Name, curator: At, out: Out = None, as_json: AsJson = False) -> None:
    """Make, on an owner's host, its configuration, a key, a request for a certificate, and a systemd unit.

    The key stays on this host; request and fingerprint go to the authority over two different channels.
    """
    config = folders.new_party("owner", name, curator, out or Path(name))
    folder, data = config.parent, new_key()
    request = requests.make_request(name, data)
    files = {"request": folder / f"{name}.req", "key": folder / f"{name}.key", "unit": folder / folders.UNIT}
    create(files["key"], data, PRIVATE)
    create(files["request"], request.public_bytes(serialization.Encoding.PEM), PUBLIC)
    create(files["unit"], folders.unit_for(config).encode(), PUBLIC)
    if as_json:
        digits = fingerprint(request)
        print_json({"folder": folder, "config": config, **files, "fingerprint": digits})
        return
    typer.echo(f"{folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
    bundle = folder / f"{name}.pem"
    steps = (
        f"send {files['request']} to the authority, and by another way {fingerprint(request)}",
        f"fedkme pki accept {name}.crt --key {typed(files['key'])} --fingerprint ... --out "
        f"{typed(bundle)}, with the "
        f"authority's fingerprint, received by another way; then remove {files['key']}",
        f"put your rows at {folder / 'rows.csv'}, the schema of all parties over {folder / folders.SCHEMA}",
        f"fedkme doctor {typed(config)}",
        *_for_service(folder, folders.service_user()),
        f"sudo cp {files['unit']} /etc/systemd/system/, and sudo systemctl enable --now fedkme-owner",
    )
    for number, step in enumerate(steps, 1):
        typer.echo(f"{number}. {step}")


def _for_service(folder: Path, user: str) -> Iterator[str]:
    """Steps that set up the service's own user, if root runs the command."""
    if user == folders.SERVICE_USER:
        yield f"useradd --system --shell /usr/sbin/nologin {user}; chown -R {user}: {folder}"
        for path in (folder, Path(sys.executable)):
            if closed := folders.closed_to_others(path):
                yield f"{user} cannot enter {closed}, where {path} is: move it to /opt or /var/lib"


def _next(config: Path) -> None:
    typer.echo(f"{config}\nnext: fedkme doctor {typed(config)} says what is left to do")
