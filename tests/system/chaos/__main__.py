"""Random schedules of real processes over mTLS: each dies, is stopped, is frozen, or has a disk that fails.

`make chaos N=50` plays so many. Who ended is started again, as a service manager would. What is left is
held, by the oracles of audit/chaos, to what the simulated world leaves in which nothing fails. With
`--releases` lives are of the last release and of this one in turns.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.system.chaos.playing import PlayedProcesses
from tests.system.chaos.releases import last_release
from tests.system.chaos.remains import play_processes
from tests.system.chaos.schedules import drawn

_MEMORY = Path("/dev/shm")


def main() -> None:
    """Play schedules, and tell the story of each that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("schedules", type=int, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--releases", action="store_true", help="lives are of the last release, too")
    parser.add_argument("--story", action="store_true", help="tell all stories")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedkme-release-") as folder:
        release = str(last_release(Path(folder))) if asked.releases else ""
        failed = _play_all(range(asked.seed, asked.seed + asked.schedules), release, asked.story)
    sys.exit(1 if failed else 0)


def _play_all(seeds: range, release: str, tells: bool) -> list[int]:
    kinds, failed, began = Counter[str](), list[int](), time.monotonic()
    for seed in seeds:
        played = _play(seed, release)
        kinds.update(played.kinds)
        failed += [seed] if played.found else []
        if played.found or tells:
            _tell(seed, played)
    counts = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    took = time.monotonic() - began
    print(
        f"{len(seeds)} schedules in {took:.0f} s, {kinds.total()} faults: {counts}; bad: {failed or 'none'}"
    )
    return failed


def _play(seed: int, release: str) -> PlayedProcesses:
    where = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fedkme-chaos-", dir=where) as folder:
        return play_processes(drawn(seed, bool(release)), Path(folder), release)


def _tell(seed: int, played: PlayedProcesses) -> None:
    print(f"seed {seed}, {played.world.name}:")
    for at, party, line in played.story:
        print(f"{at:9.2f}  {party:<12} {line}")
    for line in played.found or ["all is well"]:
        print(f"-> {line}")


if __name__ == "__main__":
    main()
