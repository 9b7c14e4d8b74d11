"""Issue 4, item 7: units, image and compose file "that were run": every command in them is run here.

Paths are moved below a temporary root, the network is loopback, and users are not made.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.hosts.guide import blocks, clone, offline
from tests.hosts.machine import DEPLOY, Machine, entrypoint
from tests.hosts.parties import WAIT_S
from tests.places import ROOT

UNITS = {name: DEPLOY / "systemd" / f"fedkme-{name}.service" for name in ("curator", "owner")}


def unit(name: str) -> dict[str, str]:
    """The service section of a unit; of a key that is there twice, all values, a line each."""
    found: dict[str, str] = {}
    section = UNITS[name].read_text().partition("[Service]\n")[2].partition("\n[")[0]
    for key, value in re.findall(r"^(\w+)=(.*)$", section, re.M):
        found[key] = f"{found[key]}\n{value}" if key in found else value
    return found


def compose() -> Mapping[str, list[str]]:
    """The command of each service of the compose file."""
    services = (DEPLOY / "compose.yaml").read_text().partition("\nservices:\n")[2]
    found = re.findall(r"^  (\w+):\n(?:    .*\n)*?    command: (\[.*\])$", services, re.M)
    return {name: json.loads(command) for name, command in found}


def test_units_run_a_curator_and_an_owner(machine: Machine, tmp_path: Path) -> None:
    # Type=notify: up when it says so; credentials lie in a folder of their own; SIGTERM is a good end.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(WAIT_S)
        started = []
        for name in ("curator", "owner"):
            service = unit(name)
            assert service["Type"] == "notify"
            machine.configure(name)
            folder = tmp_path / "credentials" / name
            folder.mkdir(parents=True)
            for line in service["LoadCredential"].splitlines():
                credential, source = line.split(":")
                shutil.copy(machine.moved(source), folder / credential)
            command = service["ExecStart"].replace("%d", str(folder))
            started.append(machine.start(command, NOTIFY_SOCKET=str(tmp_path / "notify")))
            assert manager.recv(64) == b"READY=1"
            if name == "curator":
                machine.address = started[0].until("listening")["address"]
        started[1].until("joined")
        reload = unit("curator")["ExecReload"].replace("$MAINPID", str(started[0].process.pid))
        subprocess.run(shlex.split(reload), check=True)
        started[0].until("revocations_read")
        for party in reversed(started):
            assert party.stop() == 0


def test_containers_run_a_whole_round_of_parties(machine: Machine) -> None:
    # compose.yaml: its three commands, behind the image's entrypoint, end in a summary.
    started = {}
    for name in ("curator", "owner", "consumer"):
        machine.configure(name)
        party = started[name] = machine.start(f"{entrypoint()} {shlex.join(compose()[name])}")
        if name == "curator":
            machine.address = party.until("listening")["address"]
        if name == "owner":
            party.until("joined")
    assert started["consumer"].ended() == 0, started["consumer"].events
    assert started["consumer"].said("received")[0]["rows"] == 20


def test_the_image_is_built_of_what_is_copied_into_it(tmp_path: Path) -> None:
    # Dockerfile: COPY and RUN of its first stage, in order; what it makes runs without this checkout.
    clone(tmp_path / "clone")
    source = tmp_path / "source"
    source.mkdir()
    first = (DEPLOY / "Dockerfile").read_text().split("\nFROM ")[1]
    copied = {file for files in re.findall(r"^COPY (.*) \S+$", first, re.M) for file in files.split()}
    context = set((ROOT / ".dockerignore").read_text().splitlines())
    assert {line.removeprefix("!") for line in context if line.startswith("!")} == copied
    assert "*" in context
    environment = offline()
    for word, rest in re.findall(r"^(ARG|COPY|RUN) (.*)$", first, re.M):
        if word == "ARG":
            environment |= dict([rest.split("=")])
        elif word == "COPY":
            *files, to = rest.split()
            subprocess.run(
                ["cp", "-rT" if len(files) == 1 else "-r", *files, source / to],
                cwd=tmp_path / "clone",
                check=True,
            )
        else:
            script = rest.replace("/opt/fedkme", str(tmp_path / "opt")).replace(
                "python ", f"{sys.executable} "
            )
            subprocess.run(
                ["bash", "-ec", script], cwd=source, env=environment, check=True, capture_output=True
            )
    command = [tmp_path / "opt" / "bin" / "fedkme"]
    (default,) = re.findall(r"^CMD (\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.M)
    for arguments in (json.loads(default), ["owner", "--help"]):
        subprocess.run([*command, *arguments], cwd=tmp_path, env=environment, check=True, capture_output=True)


def test_the_guide_installs_a_service(machine: Machine, tmp_path: Path) -> None:
    # docs/deploy.md, "As services": the lines for root; users and the service manager are stood in for.
    clone(tmp_path / "clone")
    (script,) = [block.script for block in blocks() if block.host == "root"]
    home = tmp_path / "home" / "fedkme"
    home.mkdir(parents=True)
    shutil.copy(machine.etc / "owner.pem", home / "north.pem")
    shutil.copy(ROOT / "examples" / "own-files" / "north.csv", home)
    shutil.rmtree(machine.root / "etc" / "fedkme")
    shutil.rmtree(machine.root / "var" / "lib" / "fedkme")
    tools = tmp_path / "tools"
    tools.mkdir()
    real = shutil.which("install")
    for tool, line in {
        "python3": "exit 0  # -m venv: made by another test",
        "useradd": "exit 0",
        "systemctl": 'test -f "$UNITS/$3.service"',
        "install": f'test "$1" != -o || shift 2; test "$2" != -o || {{ f=$1; shift 3; }}; {real} $f "$@"',
    }.items():
        (tools / tool).write_text(f"#!/bin/sh\n{line}\n")
        (tools / tool).chmod(0o755)
    (machine.root / "opt" / "fedkme" / "bin" / "pip").symlink_to("/bin/true")
    units = machine.root / "etc" / "systemd" / "system"
    environment = {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "HOME": str(home.parent),
        "UNITS": str(units),
        "f": "",
    }
    subprocess.run(
        ["bash", "-ec", machine.moved(script)], cwd=tmp_path / "clone", env=environment, check=True
    )
    service = units / "fedkme-owner.service"
    for path in re.findall(r"LoadCredential=\w+\.\w+:(\S+)", service.read_text()):
        assert Path(machine.moved(path)).is_file()
    assert (machine.etc / "owner.pem").stat().st_mode & 0o077 == 0
    text = (machine.etc / "owner.toml").read_text()
    for path in re.findall(r'"(/\S+/(?:rows\.csv|schema\.toml))"', text):
        assert Path(machine.moved(path)).is_file()


@pytest.mark.parametrize("name", UNITS)
def test_systemd_accepts_the_units(machine: Machine, tmp_path: Path, name: str) -> None:
    # As far as it can be asked without running: no unknown key, no missing program, and little exposure.
    if shutil.which("systemd-analyze") is None:
        pytest.skip("skipped: systemd-analyze is not installed")
    path = tmp_path / UNITS[name].name
    path.write_text(machine.moved(UNITS[name].read_text()))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    about = [line for line in done.stderr.splitlines() if path.name in line]
    assert done.returncode == 0, done.stderr
    assert not about
    security = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", str(path)]
    done = subprocess.run(security, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stdout[-400:] + done.stderr
