"""A user's terminal: folders of a laptop or of some hosts, and `fedkme` of this checkout, typed."""

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
    """Open terminals on hosts that are folders of this machine; each has a home."""

    def here(host: str, *command: str) -> list[str]:
        return [*command]

    terminals = Terminals(folder, hosts, here)
    terminals.stand_in("fedkme", FEDKME)
    return terminals


def commands(script: str) -> Sequence[str]:
    """Commands of a script, one a line; lines that go on are one."""
    return [line for line in script.replace("\\\n", " ").splitlines() if line.strip()]
