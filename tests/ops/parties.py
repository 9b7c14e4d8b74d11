"""Parties as processes, from files like an operator's."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK, Role
from fedkme.pki.identity import Identity
from tests import forked
from tests.parties import HERE, MIXED, WAIT_S, consumer_values, curator_values, owner_values, write_config

ROLES = {"curator": ("curator", "serve"), "consumer": ("consumer", "summary")}

_CORE = re.compile(r"[IWE]\d{4} [\d:.]+ +\d+ \w+\.cc:\d+\] ")


class Party:
    """One process whose log is JSON."""

    def __init__(
        self, process: subprocess.Popen[str] | subprocess.Popen[bytes] | forked.Forked, log: IO[str]
    ) -> None:
        self.process = process
        self._log = log
        self.lines: list[str] = []
        self._more = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._log:
            with self._more:
                self.lines.append(line)
                self._more.notify_all()
        with self._more:
            self.lines.append("")
            self._more.notify_all()

    def events(self) -> Iterator[dict[str, Any]]:
        """Every line so far; a line that is no JSON object fails the test.

        Except gRPC's core's own: it keeps a few whatever its verbosity, once in some hundred connections.
        """
        for line in [line for line in self.lines if line and not _CORE.match(line)]:
            yield json.loads(line)

    def until(self, event: str, count: int = 1) -> dict[str, Any]:
        """Wait for the event's `count`-th line."""

        def found() -> list[dict[str, Any]]:
            return [line for line in self.events() if line["event"] == event]

        with self._more:
            ended = self._more.wait_for(
                lambda: len(found()) >= count or (self.lines and not self.lines[-1]), WAIT_S
            )
        assert ended, f"no {event!r} came"
        assert len(found()) >= count, f"the process ended without {event!r}: {self.lines}"
        return found()[count - 1]

    def ended(self) -> int:
        """Wait for the end; return the exit status."""
        status = self.process.wait(WAIT_S)
        with self._more:
            assert self._more.wait_for(lambda: bool(self.lines) and not self.lines[-1], WAIT_S)
        return status


SIZES = {"north": 40, "south": 30}


def rows(numbers: Iterable[float]) -> str:
    """Make a table of the schema above."""
    lines = (f"{n},{'yes' if int(n) % 3 else 'no'},{'no' if int(n) % 2 else 'yes'}" for n in numbers)
    return "\n".join(("age,smoker,ill", *lines, ""))


class Site:
    """A folder with everybody's files, and the processes started from it.

    Attributes:
        fresh: whether each is an interpreter of its own, started by a command line that names its files.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.parties: list[Party] = []
        self.fresh = False
        self.authority = Authority()
        self.address = "127.0.0.1:0"
        (folder / "schema.toml").write_text(MIXED)
        (folder / "authority.pem").write_bytes(self.authority.pem)
        (folder / "validation.csv").write_text(rows(range(30, 42)))
        for index, (name, size) in enumerate(SIZES.items()):
            (folder / f"{name}.csv").write_text(rows(range(20 + 7 * index, 20 + 7 * index + size)))
        for party in ("curator", "consumer", *SIZES):
            self.issue(party, Role(party) if party in ROLES else Role.OWNER)

    def issue(self, party: str, role: Role) -> Path:
        """Issue a bundle."""
        path = self.folder / f"{party}.pem"
        self.authority.issue(party, LOOPBACK if role is Role.CURATOR else (), role).save_bundle(path)
        return path

    def revoke(self, number: int, *names: str, days: int = 90) -> None:
        """Sign the list of revoked certificates, which ends after `days`."""
        certificates = [Identity.load(self.folder / f"{name}.pem").leaf for name in names]
        entries = [
            x509.RevokedCertificateBuilder()
            .serial_number(certificate.serial_number)
            .revocation_date(certificate.not_valid_before_utc)
            .build()
            for certificate in certificates
        ]
        signed = self.authority.sign_list(entries, number, datetime.timedelta(days=days))
        path = self.folder / "revoked.new"
        path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        path.replace(self.folder / "revoked.pem")

    def write(self, party: str, settings: str = "") -> Path:
        """Write a party's configuration."""
        own = {"log": "json", "identity": None if "plaintext" in settings else f"{party}.pem"}
        if party == "curator":
            values = curator_values(HERE, listen=self.address, **own)
        elif party == "consumer":
            values = consumer_values(HERE, self.address, **own)
        else:
            values = owner_values(HERE, party, self.address, **own)
        return write_config(self.folder / f"{party}.toml", values, settings)

    def start(self, party: str, settings: str = "", *, first: str = "", **environment: str) -> Party:
        """Start a party; its process runs the Python code `first` before."""
        module, verb = ROLES.get(party, ("owner", "join"))
        path = self.write(party, settings)
        return self.call(module, verb, path, first=first, **environment)

    def call(self, module: str, *arguments: object, first: str = "", **environment: str) -> Party:
        """Start a verb of a role as a process; with `first` in a fresh interpreter."""
        reading, writing = os.pipe()
        words, log = [*map(str, arguments)], os.fdopen(reading, encoding="utf-8")
        with os.fdopen(writing, "wb") as stderr:
            if first or environment or self.fresh:
                code = f"{first}\nfrom {module}.cli import app\napp()"
                program = ["-c", code] if first else ["-m", module]
                process = subprocess.Popen(
                    [sys.executable, *program, *words],
                    env=os.environ | environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                )
                self.parties.append(Party(process, log))
            else:
                self.parties.append(Party(forked.party([module, *words], stderr.fileno()), log))
        return self.parties[-1]

    def curator(self, settings: str = "", *, first: str = "", **environment: str) -> Party:
        """Start the curator, and wait until it listens."""
        party = self.start("curator", settings, first=first, **environment)
        self.address = party.until("listening")["address"]
        return party

    def owner(self, name: str, settings: str = "", **environment: str) -> Party:
        """Start an owner."""
        return self.start(name, settings, **environment)

    def consumer(self, p: int, output: str = "out") -> Party:
        """Ask for a summary."""
        return self.start("consumer", f'output = "{output}"\njournal = "{output}.db"\n[request]\np = {p}')
