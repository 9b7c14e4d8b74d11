"""`fedkme doctor`."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import Annotated

import typer

from fedkme.errors import FedkmeError
from fedkme.party import PartySettings
from fedkme.verbs import AsJson, Verbs, print_json
from operate.configuration import read_configuration, role_of
from operate.doctor.files import check_budgets, check_files
from operate.doctor.findings import Finding, failure, run_check, status
from operate.doctor.installation import check_installation, check_packages
from operate.doctor.network import check_identity, check_network
from owner.many import check_descriptors, files_of, load_all

app = Verbs()


@app.verb(
    "fedkme doctor",
    "fedkme doctor owner.toml --json",
    json="an object: code, findings (state, check, line, remedy, code)",
)
def doctor(
    config: Annotated[
        Path | None,
        typer.Argument(
            help="Of an owner, a curator, a consumer or a simulation; a folder: of owners that join in one "
            "process; none: the installation."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a party's configuration, files, certificate and connection, or the installation; a line each.

    Nothing is changed. The exit status is 0 if nothing fails, else the number of the first failure.
    """
    findings = []
    for finding in examine(config):
        findings.append(finding)
        if not as_json:
            typer.echo(wrapped(str(finding)))
    code = status(findings)
    if as_json:
        print_json({"code": code, "findings": findings})
    raise typer.Exit(code)


def wrapped(line: str) -> str:
    """Wrap a finding at the width of the terminal; outside of terminals it stays one line."""
    if not sys.stdout.isatty():
        return line
    return fill(line, shutil.get_terminal_size().columns, subsequent_indent=" " * 21, break_on_hyphens=False)


def examine(config: Path | None) -> Iterator[Finding]:
    """Yield findings about an installation, a folder or a configuration while checks go on."""
    if config is None:
        yield from check_installation()
        return
    if config.is_dir():
        yield from _examine_all(config)
        return
    try:
        settings = read_configuration(config)
    except FedkmeError as error:
        yield failure("configuration", error)
        return
    role = role_of(settings)
    yield Finding("ok", "configuration", f"{config.name} is a valid configuration of the role {role}")
    if not isinstance(settings, PartySettings):
        yield from check_installation()
        return
    name = str(getattr(settings, "name", role))
    yield from check_identity(settings, role, name)
    yield from check_files(settings, name)
    yield from run_check("budgets", lambda: check_budgets(settings))
    yield from run_check("packages", lambda: check_packages(settings))
    yield from check_network(settings)


def _examine_all(folder: Path) -> Iterator[Finding]:
    """Findings of each owner that would join from a folder, and of all of them together."""
    try:
        files = files_of([folder])
    except FedkmeError as error:
        yield failure("folder", error)
        return
    for file in files:
        yield from examine(file)
    yield from run_check("descriptors", lambda: check_descriptors(load_all(files).settings))
