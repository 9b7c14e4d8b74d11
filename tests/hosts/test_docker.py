"""Issue 36, item 10: the guide's lines for Docker, and image and compose file where a daemon runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.hosts.guide import blocks, clone
from tests.hosts.machine import DEPLOY, PARTIES, Machine
from tests.places import ROOT

COMPOSE = "docker compose --file deploy/compose.yaml"
WAIT_S = 3000.0
"""Time for an image whose packages come from a registry."""


class Folder:
    """A clone in which the guide's lines for Docker were typed, up to those that call `docker`."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.clone = folder / "clone"
        clone(self.clone)
        shutil.copy(ROOT / ".dockerignore", self.clone)
        home = folder / "home" / "fedkme"
        home.mkdir(parents=True)
        for file in ("curator.pem", "revoked.pem", "schema.toml"):
            shutil.copy(machine.etc / file, home)
        self.tools = folder / "tools"
        self.tools.mkdir()
        self.environment = {
            **os.environ,
            "HOME": str(home.parent),
            "PATH": f"{self.tools}:{os.environ['PATH']}",
            "EXTRAS": "postgres",
            "COMPOSE_HTTP_TIMEOUT": "600",  # of docker-compose 1, on a slow disk
            "COMPOSE_PROJECT_NAME": f"fedkme-test-{os.getpid()}",
        }
        (self.script,) = [block.script for block in blocks() if block.host == "docker"]

    def stand_in(self, command: str, script: str) -> None:
        """Put a script in the place of a command."""
        (self.tools / command).write_text(f"#!/bin/sh\n{script}\n")
        (self.tools / command).chmod(0o755)

    def type(self, script: str) -> str:
        """Type lines, which must succeed; returns what they print."""
        done = subprocess.run(
            ["bash", "-euc", script],
            cwd=self.clone,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout


def test_the_guide_puts_files_where_the_compose_file_mounts_them(machine: Machine, tmp_path: Path) -> None:
    folder = Folder(machine, tmp_path)
    folder.stand_in("docker", 'echo "docker $*"')
    folder.stand_in("chown", 'test -f "$2"')
    printed = folder.type(folder.script)
    assert printed.startswith(f"{COMPOSE} up ")
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    name = shlex.split(printed)[-1]
    mounts = dict(mount.split(":")[:2] for mount in services[name]["volumes"])
    etc = folder.clone / "deploy" / next(source for source, to in mounts.items() if to == "/etc/fedkme")
    text = (etc / f"{name}.toml").read_text()
    named = re.findall(r'"/etc/fedkme/(\S+)"|"(\w+\.pem)"', text)
    assert len(named) == 3
    assert all((etc / (file or beside)).is_file() for file, beside in named)


@pytest.fixture
def composed(machine: Machine, tmp_path: Path) -> Iterator[Folder]:
    """A folder on a machine on which a docker daemon runs."""
    if shutil.which("docker") is None:
        pytest.skip("skipped: docker is not installed")
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode != 0:
        pytest.skip("skipped: no docker daemon runs here")
    folder = Folder(machine, tmp_path)
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0:
        if shutil.which("docker-compose") is None:
            pytest.skip("skipped: docker has no compose")
        real = shutil.which("docker")
        folder.stand_in("docker", f'test "$1" = compose || exec {real} "$@"; shift; exec docker-compose "$@"')
    yield folder
    folder.type(f"{COMPOSE} down --volumes")


@pytest.mark.timeout(WAIT_S)
def test_the_compose_file_ends_in_a_summary_where_a_daemon_runs(composed: Folder, machine: Machine) -> None:
    deploy = composed.clone / "deploy"
    for role in PARTIES.keys() - {"curator"}:
        shutil.copy(machine.etc / f"{role}.pem", deploy / "etc")
        os.chown(deploy / "etc" / f"{role}.pem", 10001, -1)
    state = machine.root / "var" / "lib" / "fedkme"
    for file in ("rows.csv", "validation.csv"):
        shutil.copy(state / file, deploy)
    composed.type(f"{composed.script}\n{COMPOSE} up --detach owner")
    said = [json.loads(line) for line in re.findall(r"\{.*\}", composed.type(f"{COMPOSE} run --rm consumer"))]
    assert [line["rows"] for line in said if line["event"] == "received"] == [20]
