"""A party over all its lives, each of which is a process with a disk of its own that may fail."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import forked
from tests.system import failing_disk
from tests.system.failing_disk import DiskFault


@dataclass(eq=False)
class Party:
    """A party over all its lives.

    Attributes:
        name: its name.
        home: folder of all that it has.
        verb: that its processes do.
        faults: faults of lives that are still to come.
        journal: place of its store.
        fault: fault of the present life.
        earlier: whether the present life is of the earlier release.
        done: whether nothing is left for it to do.
        told: whether somebody ended the present life.
    """

    name: str
    home: Path
    verb: Sequence[str]
    faults: list[DiskFault]
    journal: str | Path
    fault: DiskFault | None = None
    lives: int = 0
    earlier: bool = False
    done: bool = False
    told: bool = False
    process: Any = None
    thaws: float = 0.0

    @property
    def _log(self) -> Path:
        return self.home.with_suffix(f".{self.lives}.log")

    def start(self, preloaded: str, release: str) -> None:
        """Begin a life, of this release or of an earlier one that lies in a folder."""
        self.lives += 1
        self.told = False
        self.fault = self.faults.pop(0) if self.faults else None
        told = failing_disk.variables(self.fault, self.home)
        command = [*self.verb, str(self.home / "config.toml")]
        with self._log.open("wb") as log:
            if self.earlier:
                self.process = subprocess.Popen(
                    [sys.executable, "-P", "-m", *command],
                    env=os.environ | told | {"LD_PRELOAD": preloaded, "PYTHONPATH": release},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                )
            else:
                pairs = [f"{key}={value}" for key, value in told.items()]
                armed = ["tests.system.failing_disk", *pairs, "--", *command]
                self.process = forked.party(armed, log.fileno(), preloaded)

    def ended(self) -> int | None:
        """Exit status, once it has ended; what is frozen is let go on when it is time."""
        status: int | None = self.process.poll()
        if status is None and self.fault is not None and self.fault.kind == "freeze" and self._is_frozen():
            self.thaws = self.thaws or time.monotonic() + self.fault.many
            if time.monotonic() > self.thaws:
                self.thaws = 0.0
                self.process.send_signal(signal.SIGCONT)
        return status

    def _is_frozen(self) -> bool:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        return False

    def last_words(self) -> list[str]:
        """Last lines of the present process."""
        return self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:]

    def kill(self) -> None:
        """End it."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
