"""A PostgreSQL server of the tests' own: started here, on a socket in a folder, gone afterwards."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.parties import WAIT_S


def find_binaries() -> Path | None:
    """The folder of the latest server that is installed."""
    installed = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if installed:
        return max(installed, key=lambda path: float(path.parent.name))
    initdb = shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb else None


def unprivileged() -> str | None:
    """Name of the user that runs the server, which refuses root; None for the user of the tests."""
    if os.geteuid():
        return None
    users = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in users else "nobody"


class Server:
    """A server that runs; every database is for one test."""

    def __init__(self, binaries: Path, folder: Path, user: str | None) -> None:
        self.binaries = binaries
        self._folder = folder
        self._user = user
        self._databases = 0

    @property
    def socket(self) -> Path:
        """Socket on which it listens."""
        return self._folder / ".s.PGSQL.5432"

    def url(self, database: str) -> str:
        return f"postgresql://fedkme@/{database}?host={self._folder}"

    def new_database(self) -> str:
        self._databases += 1
        name = f"test{self._databases}"
        self.psql("template1", f"CREATE DATABASE {name}")
        return self.url(name)

    def psql(self, database: str, command: str) -> str:
        """Run a command as somebody at the server's console would."""
        return self.call("psql", "-XqAt", "-d", self.url(database), "-c", command)

    def call(self, binary: str, *arguments: str) -> str:
        process = subprocess.run(
            [self.binaries / binary, *arguments],
            user=self._user,
            cwd=self._folder,
            check=True,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )
        return process.stdout.strip()

    def start(self) -> None:
        # -k: where the socket is; no address is listened on. Tests kill clients, not the machine: no fsync.
        options = f"-k {self._folder} -c listen_addresses='' -c fsync=off"
        log = str(self._folder / "log")
        subprocess.run(
            [self.binaries / "pg_ctl", "start", "-w", "-D", self._folder / "data", "-l", log, "-o", options],
            user=self._user,
            cwd=self._folder,
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=WAIT_S,
        )

    def stop(self) -> None:
        """Stop at once, by the signal of `pg_ctl stop -m immediate`, which crashes at times under load."""
        file, until = self._folder / "data" / "postmaster.pid", time.monotonic() + WAIT_S
        os.kill(int(file.read_text().partition("\n")[0]), signal.SIGQUIT)
        while file.exists():
            assert time.monotonic() < until, "the server does not stop"
            time.sleep(0.02)


@contextlib.contextmanager
def running(binaries: Path) -> Iterator[Server]:
    user = unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="fedkme-pg-"))  # a socket's path is short, pytest's folders are not
    try:
        if user is not None:
            shutil.chown(folder, user)
        server = Server(binaries, folder, user)
        data = str(folder / "data")
        server.call("initdb", "-D", data, "-U", "fedkme", "-A", "trust", "-E", "UTF8", "--no-sync")
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
