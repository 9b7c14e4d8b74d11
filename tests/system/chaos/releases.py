"""The last release of fedkme, as its users have it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.places import ROOT


def last_release(folder: Path) -> Path:
    """Install the wheel of the last release, the last tag or else the commit that dated it, into a folder.

    Its gRPC and protobuf come with it, on whose versions messages depend; all else is of this environment.
    """
    tag = _output("git", "describe", "--tags", "--abbrev=0")
    version = re.search(r"^## (\d.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert version is not None, "there was a release"
    commit = tag or _output("git", "log", "-1", "--format=%H", f"-S## {version[1]}", "--", "CHANGELOG.md")
    source, release = folder / "source", folder / "release"
    source.mkdir()
    subprocess.run(f"git archive {commit} | tar x -C {source}", shell=True, cwd=ROOT, check=True)
    locked = (source / "constraints.txt").read_text(encoding="utf-8")
    wire = re.findall(r"^(?:protobuf|grpcio(?!-tools)\S*)==\S+", locked, re.MULTILINE)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*install, str(release), str(source), *wire], check=True)
    return release


def _output(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip()
