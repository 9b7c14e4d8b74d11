"""`python -m lab.bench.bare KEEPS CONFIG`: an owner that writes less to disk than a real owner.

KEEPS is `nothing`, or `ledger`: then the lines of the ledger are made, chained and thrown away.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from fedkme.documents import OwnerEntry
from fedkme.ops.supervision import run_party
from fedkme.party import load_settings
from fedkme.privacy.ledger import Ledger
from owner.agent import join
from owner.runs import RunManager
from owner.settings import OwnerSettings


class Forgetful(RunManager):
    """Runs of an owner that writes nothing."""

    def _keep(self, run: str, entry: OwnerEntry, left: int) -> None:
        self._outbox.lines.clear()


class Chaining(RunManager):
    """Runs of an owner that makes its ledger's lines, and writes nothing."""

    _chain: Ledger | None = None

    def _keep(self, run: str, entry: OwnerEntry, left: int) -> None:
        self._chain = self._chain or Ledger(self._name, lambda lines: None)
        self._chain.extend(self._outbox.lines)
        self._outbox.lines.clear()


if __name__ == "__main__":
    keeps, file, *_ = sys.argv[1:]
    manager = {"nothing": Forgetful, "ledger": Chaining}[keeps]
    work = functools.partial(join, make=manager)
    raise SystemExit(run_party(lambda: load_settings(OwnerSettings, Path(file)), True, work, service=True))
