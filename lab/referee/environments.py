"""Environments of other people's tools: made once of a lock from PyPI, used offline afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fedkme.errors import ConfigError, DataError

HOME = Path("build/referee")
"""Folder of the environments, one a folder."""
LOCKS = Path(__file__).parent / "locks"
"""Folder of the locks, NAME.txt: the tool's pin first, then what it needs, by `pip freeze` on Python 3.11."""
_DONE = "pins.txt"


@dataclass(frozen=True, slots=True)
class Environment:
    """Interpreter of one tool.

    Attributes:
        name: name of the lock, and of the folder.
        pins: every package of it, with its version; the first is the tool.
    """

    name: str
    pins: tuple[str, ...]

    @property
    def package(self) -> str:
        """Package whose version is the tool's."""
        return self.pins[0].partition("==")[0].partition("[")[0]

    @property
    def text(self) -> str:
        """Lock as pip reads it."""
        return "\n".join(self.pins) + "\n"


@cache
def environments() -> Mapping[str, Environment]:
    """Environments by name, a lock each."""
    return {
        path.stem: Environment(path.stem, tuple(path.read_text(encoding="utf-8").split()))
        for path in sorted(LOCKS.glob("*.txt"))
    }


def prepare(name: str, home: Path = HOME) -> Path:
    """Make an environment unless it is there with these very pins; return its interpreter.

    Raises:
        ConfigError: there is no environment of the name.
        DataError: pip failed; its last lines are in the cause.
    """
    if name not in environments():
        raise ConfigError(f"there is no environment '{name[:40]}'", f"Choose of {', '.join(environments())}.")
    environment, folder = environments()[name], home / name
    python = folder / "bin" / "python"
    if _is_made(folder, environment):
        return python
    install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", *environment.pins)
    for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], [str(python), *install]):
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if ended.returncode:
            output = " / ".join(ended.stderr.strip().splitlines()[-3:])
            cause = f"the environment {name} could not be made: {output[:400]}"
            raise DataError(cause, f"Make one yourself and give it as --python {name}=PATH.")
    (folder / _DONE).write_text(environment.text, encoding="utf-8")
    return python


def _is_made(folder: Path, environment: Environment) -> bool:
    done = folder / _DONE
    return done.is_file() and done.read_text(encoding="utf-8") == environment.text


def interpreters(given: Mapping[str, Path], home: Path = HOME) -> dict[str, Path]:
    """Interpreters by environment: those given, and those that were made before; "" is our own."""
    made = {
        name: home / name / "bin" / "python"
        for name, environment in environments().items()
        if _is_made(home / name, environment)
    }
    return {"": Path(sys.executable)} | made | dict(given)


@cache
def version_of(python: Path, package: str) -> str:
    """Version of a package in an environment.

    Raises:
        DataError: the interpreter does not have the package.
    """
    program = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
    try:
        ended = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise DataError(f"{python} has no {package}", "Install it there, or leave out --python.") from None
    return ended.stdout.strip()
