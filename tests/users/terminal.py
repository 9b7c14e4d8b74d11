"""A user's terminal: types `fedkme` of this checkout in folders that stand for a laptop or hosts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.hosts.guide import Terminals
from tests.hosts.parties import COMMAND
from tests.places import ROOT

FEDKME = f"""#!/bin/sh
PYTHONPATH={ROOT} exec {sys.executable} -P -c '{COMMAND}' "$@"
"""


def terminals(folder: Path, *hosts: str) -> Terminals:
    """Open terminals on hosts; each host is a folder of this machine, with a home."""

    def here(host: str, *command: str) -> list[str]:
        return [*command]

    terminals = Terminals(folder, hosts, here)
    terminals.stand_in("fedkme", FEDKME)
    return terminals


def commands(script: str) -> Sequence[str]:
    """Commands of a script, one per line; continued lines are joined."""
    return [line for line in script.replace("\\\n", " ").splitlines() if line.strip()]
