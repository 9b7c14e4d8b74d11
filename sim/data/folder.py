"""The folder of the public data sets, $FEDKME_DATA."""

import os
from pathlib import Path

VARIABLE = "FEDKME_DATA"
DATA_FOLDERS = (Path("data"), Path("..", "shared", "data"))
"""Folders that stand for $FEDKME_DATA if the environment does not set it."""


def place(path: Path, base_dir: Path | None) -> Path:
    """Absolute path of a path in a scenario; relative paths start at `base_dir`, the scenario's folder.

    $NAME is a variable of the environment.
    """
    if is_public(path) and not os.environ.get(VARIABLE):
        rest = path.relative_to(f"${VARIABLE}")
        data = next((folder for folder in DATA_FOLDERS if (folder / rest).is_file()), None)
        path = path if data is None else data / rest
        base_dir = None
    text = os.path.expandvars(path)
    # A path from the environment was written at the prompt, so it starts at the current folder.
    folder = base_dir if base_dir and text == str(path) else Path()
    return (folder / Path(text).expanduser()).absolute()


def is_public(path: Path) -> bool:
    """Check whether a path is in the folder of the data sets, by the variable's name."""
    return str(path).startswith(f"${VARIABLE}")


def data_file(name: str) -> Path:
    """Path of a file in the folder of the data sets."""
    return place(Path(f"${VARIABLE}") / name, None)


def folder_to_fill() -> Path:
    """Folder into which data sets are brought."""
    return Path(os.environ.get(VARIABLE) or DATA_FOLDERS[0])
