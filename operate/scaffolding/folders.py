"""Folders to start from, made of templates: valid configurations with comments."""

import getpass
import os
import re
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fedkme.answers.rules import dummies
from fedkme.config import toml_text
from fedkme.drafts.checking import settings_seen
from fedkme.durable import create
from fedkme.errors import ConfigError
from fedkme.inputs import read_text
from fedkme.party import Role, fault_of_name
from fedkme.tables.data_file import DataFile, stem_of
from fedkme.tables.schema import load_schema
from fedkme.tables.text import csv_text, dummy_columns
from sim.scenarios.sites import owner_name_of

_HERE = Path(__file__).parent
SCENARIO = "scenario.toml"
SCHEMA = "schema.toml"
UNIT = "fedkme-owner.service"
SERVICE_USER = "fedkme"
_ADDRESS = re.compile(r"[^\s:\"\\]+:\d{1,5}")
_ROWS: Mapping[str, int] = {"north.csv": 200, "south.csv": 200, "validation.csv": 60}


def new_scenario(folder: Path) -> Path:
    """Make a folder with a scenario, a schema and random rows, ready to run.

    Returns:
        Path of the scenario.

    Raises:
        ConfigError: the folder exists, or cannot be made.
    """
    schema = load_schema(_HERE / SCHEMA)
    rows = {
        name: csv_text(dummy_columns(schema, dummies(schema, count, np.random.default_rng(number))))
        for number, (name, count) in enumerate(_ROWS.items())
    }
    make(folder, {SCENARIO: _template(SCENARIO), SCHEMA: _template(SCHEMA), **rows})
    return folder / SCENARIO


def scenario_of(
    folder: Path, schema_file: Path, owners: Sequence[Path], validation: Path | None, test: Path | None
) -> Path:
    """Make a folder with a scenario of existing files, each with the settings to read it.

    Args:
        folder: folder to make; it may be there if the schema is in it.
        schema_file: public schema of all files.
        owners: a file of rows for each owner, named after the owner.
        validation: file of D_v; None: a scenario of releases.
        test: file of held-back rows; None: no models are scored.

    Returns:
        Path of the scenario.

    Raises:
        ConfigError: a file is missing, two owners have one name, or the folder cannot be made.
        SchemaError: the schema is inconsistent.
    """
    schema = load_schema(schema_file)
    paths = [*owners, *(each for each in (validation, test) if each)]
    for path in paths:
        if not path.is_file():
            raise ConfigError(f"there is no file {path}", "Check the path.")
    named = [(owner_name_of(stem_of(path)), path) for path in owners]
    if twice := {name for name, _ in named if sum(name == other for other, _ in named) > 1}:
        raise ConfigError(f"two files belong to an owner '{min(twice)}'", "Rename one of them.")

    seen = dict(zip(paths, settings_seen([DataFile(path=path) for path in paths], schema), strict=True))

    def reading(path: Path) -> str:
        there, settings = os.path.relpath(path, folder), seen[path]
        return toml_text({"path": there, **settings} if settings else there)

    lines = {
        "# A simulation": "# A simulation with files of your own; beside each are the settings that read it.",
        "# of the schema": '# Every key: docs/reference/configuration.md, "scenario".',
        "schema_file": f"schema_file = {toml_text(os.path.relpath(schema_file, folder))}",
        "north": "\n".join(f"{name} = {reading(path)}" for name, path in named),
    }
    if validation:
        lines["validation"] = (
            f"validation = {reading(validation)} # D_v: the rows that the summary is to match"
        )
    else:
        lines["validation"] = '# validation = "lab.csv" # D_v: the rows that a summary is to match'
    if test:
        lines["# test"] = f"test = {reading(test)} # held-back rows, by which models are scored"
    text_lines = []
    for line in _template(SCENARIO).splitlines():
        if not line.startswith("south"):
            text_lines.append(next((text for start, text in lines.items() if line.startswith(start)), line))
    make(folder, {SCENARIO: "\n".join(text_lines) + "\n"}, there=schema_file.parent == folder)
    return folder / SCENARIO


def new_party(role: Role, name: str, curator: str, folder: Path) -> Path:
    """Make a folder with the configuration of a party and a schema.

    Returns:
        Path of the configuration.

    Raises:
        ConfigError: the name or the address is invalid, or the folder exists.
    """
    if fault := fault_of_name(name, role):
        raise ConfigError(fault, "Choose another name.")
    if curator and not _ADDRESS.fullmatch(curator):
        raise ConfigError(f"{curator[:64]!r} is not an address", "Give --curator as HOST:PORT.")
    text = _template(f"{role}.toml").replace("NAME", name).replace("CURATOR", curator)
    make(folder, {f"{role}.toml": text, SCHEMA: _template(SCHEMA)})
    return folder / f"{role}.toml"


def service_user() -> str:
    """Name of the current user; for root, of the service's own user, for root need not own rows."""
    return getpass.getuser() if os.geteuid() else SERVICE_USER


def closed_to_others(path: Path) -> Path | None:
    """Find the topmost folder above a path that only its own user can enter."""
    above = reversed(path.absolute().parents)
    return next((each for each in above if not each.stat().st_mode & stat.S_IXOTH), None)


def unit_for(config: Path) -> str:
    """Make a systemd unit that runs an owner in its folder, as `service_user`."""
    folder = config.parent.absolute()
    command = Path(sys.executable).parent / "fedkme"
    own = {
        "ExecStart": f"{_quoted(command)} owner join {_quoted(folder / config.name)}",
        "WorkingDirectory": str(folder).replace("%", "%%"),
        "User": service_user(),
        "ProtectHome": f"read-only\nReadWritePaths={_quoted(folder)}",
    }
    lines = _template(UNIT).splitlines()
    away = ("LoadCredential=", "StateDirectory", "# only root")  # files are the user's, where they are
    lines_kept = [line for line in lines if not line.startswith(away)]
    unit_lines = [
        f"{key}={own[key]}" if (key := line.partition("=")[0]) in own else line for line in lines_kept
    ]
    return "\n".join(unit_lines) + "\n"


def _quoted(path: Path) -> str:
    """Quote a path for a line of a unit that takes several words: paths may have spaces."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def make(folder: Path, files: Mapping[str, str], there: bool = False) -> None:
    """Make a folder, which must be new unless it may be `there`, with files; nothing is overwritten.

    Raises:
        ConfigError: the folder exists, or cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=there)
        for name, text in files.items():
            create(folder / name, text.encode())
    except FileExistsError:
        cause = f"{folder} exists already"
        raise ConfigError(cause, "Choose another folder: nothing is overwritten.") from None
    except OSError as error:
        raise ConfigError(f"{folder} cannot be made: {error.strerror}", "Choose another --out.") from None


def _template(name: str) -> str:
    return read_text(_HERE / name)
