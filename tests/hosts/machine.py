"""A machine for deployment files: its paths are below a temporary root, its network is loopback."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

from tests.fedkme.pki.verbs import pki
from tests.hosts.parties import COMMAND, Party
from tests.places import ROOT

DEPLOY = ROOT / "deploy"
PARTIES = {"curator": "curator", "owner": "north", "consumer": "lab"}
MOVED = ("/opt/fedkme", "/etc/fedkme", "/etc/systemd/system", "/var/lib/fedkme")
CURATOR_HOSTS = ("--host", "127.0.0.1", "--host", "localhost", "--host", "curator.example.org")
SHIM = f"#!{sys.executable}\n{COMMAND.replace('; ', chr(10))}\n"


class Machine:
    """A root folder with what the deployment files expect, and the processes that they start."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.parties: list[Party] = []
        self.address = "curator.example.org:7700"
        for place in MOVED:
            Path(f"{root}{place}").mkdir(parents=True)
        self.etc, state = root / "etc" / "fedkme", root / "var" / "lib" / "fedkme"
        command = root / "opt" / "fedkme" / "bin" / "fedkme"
        command.parent.mkdir()
        command.write_text(SHIM)
        command.chmod(0o755)
        pki("init", root / "ca")
        for role, name in PARTIES.items():
            out, ca = self.etc / f"{role}.pem", root / "ca"
            hosts = CURATOR_HOSTS if role == "curator" else ()
            pki("issue", name, "--role", role, *hosts, "--authority", ca, "--out", out)
        shutil.copy(root / "ca" / "revoked.pem", self.etc)
        example = ROOT / "examples" / "own-files"
        shutil.copy(example / "schema.toml", self.etc)
        shutil.copy(example / "north.csv", state / "rows.csv")
        shutil.copy(example / "validation.csv", state)

    def moved(self, text: str) -> str:
        """Move paths to this machine."""
        for place in MOVED:
            text = text.replace(place, f"{self.root}{place}")
        text = text.replace("curator.example.org:7700", self.address).replace("0.0.0.0:7700", "127.0.0.1:0")
        return re.sub(r"127\.0\.0\.1:946\d", "127.0.0.1:0", text)

    def configure(self, role: str) -> None:
        """Put its configuration where it is expected."""
        text = (DEPLOY / "etc" / f"{role}.toml").read_text()
        (self.etc / f"{role}.toml").write_text(self.moved(text))

    def start(self, command: str, **environment: str) -> Party:
        """A command of a deployment file."""
        party = Party(shlex.split(self.moved(command)), self.root, **environment)
        self.parties.append(party)
        return party


def entrypoint() -> str:
    """Program that the image runs before a command."""
    (words,) = re.findall(r"^ENTRYPOINT (\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.M)
    return shlex.join(json.loads(words))
