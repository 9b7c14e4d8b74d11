"""The last release of fedkme, as its users have it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from fedkme.wire.codecs import VERSIONS
from tests.places import ROOT


def last_release(folder: Path) -> Path:
    """Install the wheel of the last release, the last tag or else the commit that dated it, into a folder.

    Its gRPC and protobuf come with it, on whose versions messages depend; all else is of this environment.
    """
    tag = _output("git", "describe", "--tags", "--abbrev=0")
    version = dated((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    commit = tag or _output("git", "log", "-1", "--format=%H", f"-S## {version}", "--", "CHANGELOG.md")
    contract = _newest(_output("git", "show", f"{commit}:fedkme/wire/codecs.py"))
    if contract < VERSIONS.oldest:
        sys.exit(
            f"{version} speaks wire contract {contract}, and parties of today {VERSIONS.oldest} or newer"
        )
    source, release = folder / "source", folder / "release"
    source.mkdir()
    subprocess.run(f"git archive {commit} | tar x -C {source}", shell=True, cwd=ROOT, check=True)
    locked = (source / "constraints.txt").read_text(encoding="utf-8")
    wire = re.findall(r"^(?:protobuf|grpcio(?!-tools)\S*)==\S+", locked, re.MULTILINE)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*install, str(release), str(source), *wire], check=True)
    return release


def dated(changelog: str) -> str:
    """Heading of the last release of a changelog: its version and its day."""
    version = re.search(r"^## (\d\S* - \d.*)$", changelog, re.MULTILINE)
    assert version is not None, "there was a release"
    return version[1]


def _newest(codecs: str) -> int:
    """Newest wire contract of a release, by its module of codecs."""
    newest = re.search(r"newest=(\d+)", codecs)
    return int(newest[1]) if newest else 0


def _output(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip()
