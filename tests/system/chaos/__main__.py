"""Random schedules of real processes over mTLS: each dies, is stopped, is frozen, or has a disk that fails.

`make chaos N=50` plays so many. Who ended is started again, as a service manager would. What is left is
held, by the oracles of audit/chaos, to what the simulated world leaves in which nothing fails. With
`--releases` lives are of the last release and of this one in turns. With `--between` parties talk through a
forwarder that breaks, and some store in a PostgreSQL that restarts.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fedkme.store.server import Server, find_binaries, running
from tests.system.chaos.playing import PlayedProcesses
from tests.system.chaos.releases import last_release
from tests.system.chaos.remains import play_processes
from tests.system.chaos.schedules import drawn, drawn_between

_EACH = 20  # schedules after which the counts are printed
_MEMORY = Path("/dev/shm")


def main() -> None:
    """Play schedules, and tell the story of each that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("schedules", type=int, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--releases", action="store_true", help="lives are of the last release, too")
    parser.add_argument("--between", action="store_true", help="a forwarder and a PostgreSQL are between")
    parser.add_argument("--story", action="store_true", help="tell all stories")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="fedkme-release-") as folder,
        running(_binaries()) if options.between else contextlib.nullcontext() as server,
    ):
        release = str(last_release(Path(folder))) if options.releases else ""
        seeds = range(options.seed, options.seed + options.schedules)
        failed = _play_all(seeds, release, server, options.story)
    sys.exit(1 if failed else 0)


def _binaries() -> Path:
    if (binaries := find_binaries()) is None:
        sys.exit("no PostgreSQL server is installed: apt-get install postgresql")
    return binaries


def _play_all(seeds: range, release: str, server: Server | None, tells: bool) -> list[int]:
    kinds, failed, began = Counter[str](), list[int](), time.monotonic()
    for seed in seeds:
        played = _play(seed, release, server)
        kinds.update(played.kinds)
        failed += [seed] if played.found else []
        if played.found or tells:
            _tell(seed, played)
        if (many := seed - seeds.start + 1) % _EACH == 0 or many == len(seeds):
            counts = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
            took = f"{many} schedules in {time.monotonic() - began:.0f} s"
            bad = failed or "none"
            print(f"{took}, {kinds.total()} faults: {counts}; bad: {bad}", flush=True)
    return failed


def _play(seed: int, release: str, server: Server | None) -> PlayedProcesses:
    where = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fedkme-chaos-", dir=where) as folder:
        schedule = drawn(seed, bool(release)) if server is None else drawn_between(seed)
        return play_processes(schedule, Path(folder), release, server)


def _tell(seed: int, played: PlayedProcesses) -> None:
    print(f"seed {seed}, {played.world.name}:")
    for at, party, line in played.story:
        print(f"{at:9.2f}  {party:<12} {line}")
    for line in played.found or ["all is well"]:
        print(f"-> {line}")


if __name__ == "__main__":
    main()
