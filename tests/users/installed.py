"""A wheel of this checkout in an environment of its own, with what it requires and nothing else.

Nothing is fetched: packages of the tests' environment are linked into the new one, those alone that the
wheel's metadata ask for, one by one. An import of anything else fails there as on a user's machine.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.hosts.guide import clone, offline


def built(folder: Path) -> Path:
    """Build the wheel of this checkout."""
    clone(folder / "source")
    command = [
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(folder),
        str(folder / "source"),
    ]
    _pip(*command)
    (wheel,) = folder.glob("fedkme-*.whl")
    return wheel


def environment(folder: Path, wheel: Path, extra: str = "", *more: str) -> Path:
    """Make an environment with a wheel, what it and an extra require, and more packages; returns its bin.

    A test whose own environment lacks one of them is skipped.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    _pip("--python", str(folder / "bin" / "python"), "install", "--no-deps", str(wheel))
    (site,) = (folder / "lib").glob("python3*/site-packages")
    (own,) = site.glob("fedkme-*.dist-info")
    lines = (own / "METADATA").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    requirements = [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist: ")]
    for name in _closure([*requirements, *more], extra):
        for file in distribution(name).files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__", "bin") and not (site / top).exists():
                (site / top).symlink_to(str(distribution(name).locate_file(top)))
    return folder / "bin"


def _closure(requirements: list[str], extra: str) -> Iterator[str]:
    """Names of packages that some requirements ask for, and what these ask for."""
    seen: set[tuple[str, str]] = set()
    queue = [(line, extra) for line in requirements]
    while queue:
        line, of = queue.pop()
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": of}):
            continue
        name = canonicalize_name(wanted.name)
        for each in ("", *wanted.extras):
            if (name, each) in seen:
                continue
            seen.add((name, each))
            if name == "fedkme":
                queue += [(line, each) for line in requirements]
                continue
            try:
                queue += [(line, each) for line in distribution(name).requires or ()]
            except PackageNotFoundError:
                pytest.skip(f"skipped: {name} is not in the tests' environment")
    yield from sorted({name for name, _ in seen} - {"fedkme"})


def _pip(*words: str) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "pip", *words], env=offline(), capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
