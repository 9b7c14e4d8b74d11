"""Folders to begin with, made of templates that are valid configurations with comments."""

from __future__ import annotations

import getpass
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedkme.drafts.dummies import dummy_columns
from fedkme.durable import create
from fedkme.errors import ConfigError
from fedkme.party import Role, fault_of_name
from fedkme.tables.schema import load_schema
from fedkme.tables.text import csv_text

_HERE = Path(__file__).parent
SCHEMA = "schema.toml"
UNIT = "fedkme-owner.service"
_ADDRESS = re.compile(r"[^\s:\"\\]+:\d{1,5}")
_ROWS: Mapping[str, int] = {"north.csv": 200, "south.csv": 200, "validation.csv": 60}


def new_scenario(folder: Path) -> Path:
    """Make a folder with a scenario, a schema and random rows, which can be run as it is.

    Returns:
        The scenario.

    Raises:
        ConfigError: the folder is there, or cannot be made.
    """
    schema = load_schema(_HERE / SCHEMA)
    rows = {
        name: csv_text(dummy_columns(schema, count, np.random.default_rng(number)))
        for number, (name, count) in enumerate(_ROWS.items())
    }
    make(folder, {"scenario.toml": _template("scenario.toml"), SCHEMA: _template(SCHEMA), **rows})
    return folder / "scenario.toml"


def new_party(role: Role, name: str, curator: str, folder: Path) -> Path:
    """Make a folder with the configuration of a party and a schema.

    Returns:
        The configuration.

    Raises:
        ConfigError: no party can have the name, the address is none, or the folder is there.
    """
    if fault := fault_of_name(name, role):
        raise ConfigError(fault, "Choose another name.")
    if curator and not _ADDRESS.fullmatch(curator):
        raise ConfigError(f"{curator[:64]!r} is no address", "Give --curator as HOST:PORT.")
    text = _template(f"{role}.toml").replace("NAME", name).replace("CURATOR", curator)
    make(folder, {f"{role}.toml": text, SCHEMA: _template(SCHEMA)})
    return folder / f"{role}.toml"


def unit_for(config: Path) -> str:
    """Return a systemd unit that runs an owner where its folder is, as the user who asks."""
    folder = config.parent.absolute()
    command = Path(sys.executable).parent / "fedkme"
    own = {
        "ExecStart": f"{command} owner join {folder / config.name}",
        "WorkingDirectory": str(folder),
        "User": getpass.getuser(),
        "ProtectHome": f"read-only\nReadWritePaths={folder}",
    }
    lines = _template(UNIT).splitlines()
    away = ("LoadCredential=", "StateDirectory", "# only root")  # files are the user's, where they are
    kept = [line for line in lines if not line.startswith(away)]
    made = [f"{key}={own[key]}" if (key := line.partition("=")[0]) in own else line for line in kept]
    return "\n".join(made) + "\n"


def make(folder: Path, files: Mapping[str, str]) -> None:
    """Make a folder with files; nothing that is there is written over.

    Raises:
        ConfigError: the folder is there, or cannot be made.
    """
    try:
        folder.mkdir(mode=0o700)
        for name, text in files.items():
            create(folder / name, text.encode())
    except FileExistsError:
        raise ConfigError(f"{folder} is there already", "Choose another: nothing is overwritten.") from None
    except OSError as error:
        raise ConfigError(f"{folder} cannot be made: {error.strerror}", "Choose another --out.") from None


def _template(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
