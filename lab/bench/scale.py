"""`scale`: a run over K owners in one process, each with a connection of its own, mutual TLS and a journal.

It is a summary or a release. Every party is real: a curator, one process of owners (`fedkme owner join
FOLDER`), a consumer. Owners who need more file descriptors than a process may have share several. Seconds
are from the launch of the processes; memory is the most that a process had resident; bytes are those of the
run's messages, without what comes before it (the sketch) and after it (heads), framing and TLS. CPU of a
round is that of the rounds after the first of an auction that asks everyone, over its owners.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typing_extensions import override

from lab.bench.fleet import cpu_s
from lab.bench.result import BenchSettings, Cell, Result, ScaleProtocol
from lab.bench.synthetic import synthetic_scenario
from owner.many import most_owners
from sim.config import load_simulation
from sim.engines.children import Event
from sim.engines.processes import Launch, SummaryLaunch
from sim.engines.run_folder import read_record
from sim.progress import Progress
from sim.release_config import load_release
from sim.releases import ReleaseLaunch
from sim.scenarios.base import Scenario

_LEAST_PATIENCE_S = 600
_ROUNDS: ScaleProtocol = "ask-everyone"
_SUMMARIES: Mapping[ScaleProtocol, tuple[str, ...]] = {
    "cells": ("protocol=cells",),
    "uniform": ("protocol=uniform",),
    _ROUNDS: ("preset=published", "summary.p=21", f"auction.kind={_ROUNDS}"),
}
_OWNERS = "owners"
_MIB = 2**10


@dataclass(slots=True)
class LaunchFigures:
    """A launch, watched: seconds to the last event of each kind; CPU seconds and MiB by process."""

    began: float = field(default_factory=time.monotonic)
    at: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    rounds: list[tuple[int, float, float]] = field(default_factory=list)
    """CPU seconds of the curator and of all owners as a round of this number ended."""

    def hear(self, event: Event, launch: Launch[Any]) -> None:
        """Hear what a party reports."""
        self.at[f"{event['party']} {event['event']}"] = time.monotonic() - self.began
        if event["event"] == "round":
            self.look(launch)
            self.rounds.append((event["record"]["round"], self.cpu["curator"], self.owners(self.cpu)))

    def owners(self, of: Mapping[str, float]) -> float:
        """Sum over the processes of owners."""
        return sum(value for party, value in of.items() if party.startswith(_OWNERS))

    def round_us(self, owners: int) -> tuple[float, float]:
        """CPU microseconds of a round after the first, by owner: the curator's and their own."""
        (first, *began), (last, *ended) = self.rounds[0], self.rounds[-1]
        curator, own = (1e6 / owners / (last - first) * (b - a) for a, b in zip(began, ended, strict=True))
        return curator, own

    def look(self, launch: Launch[Any]) -> None:
        """Read CPU seconds and the largest resident set of each process, where the system tells them."""
        for party, child in launch._children.items():
            with contextlib.suppress(OSError, ValueError):  # it has ended: what was read last stands
                self.cpu[party] = max(self.cpu.get(party, 0.0), cpu_s(child.pid))
                status = Path(f"/proc/{child.pid}/status").read_text(encoding="ascii")
                self.memory[party] = int(status.partition("VmHWM:")[2].split()[0]) / _MIB


def measure(settings: BenchSettings) -> Result:
    """A row for each number of owners and protocol."""
    rows = [
        asyncio.run(_measure(owners, protocol, settings.scale_release))
        for owners in sorted(settings.scale_owners)
        for protocol in settings.scale_protocols
    ]
    return Result("scale", "runs over owners of 200 rows in one process, mutual TLS, journals", rows)


async def _measure(owners: int, protocol: ScaleProtocol, release: Sequence[str]) -> dict[str, Cell]:
    scenario, figures = synthetic_scenario(owners), LaunchFigures()
    with tempfile.TemporaryDirectory(prefix="fedkme-bench-") as folder:
        launch = _launch(scenario, protocol, release, Path(folder), figures)
        watching = asyncio.ensure_future(_watch(launch, figures))
        try:
            await launch.run()
        finally:
            watching.cancel()
        traffic = (read_record(Path(folder)) or {})["bytes"]
    at, processes = figures.at, [party for party in figures.cpu if party.startswith(_OWNERS)]
    curator_us, owners_us = figures.round_us(owners) if protocol == _ROUNDS else (0.0, 0.0)
    return {
        "K": owners,
        "protocol": protocol,
        "processes": len(processes),
        "s": time.monotonic() - figures.began,
        "loaded s": max(at[f"{party} loaded"] for party in processes),
        "joined s": max(at[f"{party} joined"] for party in processes),
        "run s": at["curator ended"] - at["curator run"],
        "curator CPU s": figures.cpu["curator"],
        "owners CPU s": figures.owners(figures.cpu),
        "curator MiB": figures.memory["curator"],
        "owners MiB": figures.owners(figures.memory),
        "kB to an owner": traffic["sent"] / owners / 1e3,
        "kB from an owner": traffic["received"] / owners / 1e3,
        "a round's us, curator": curator_us,
        "a round's us, owner": owners_us,
    }


def _launch(
    scenario: Scenario, protocol: ScaleProtocol, release: Sequence[str], folder: Path, figures: LaunchFigures
) -> Launch[Any]:
    unread = io.StringIO()
    patience_s = max(_LEAST_PATIENCE_S, len(scenario.owners))  # on a busy machine
    common = (f"connect_s={patience_s}", f"progress_s={patience_s}", "noise=secure")
    launch: _Summary | _Release
    if protocol in _SUMMARIES:
        simulated = load_simulation("digits", (*common, *_SUMMARIES[protocol], "downstream=false"))
        launch = _Summary(scenario, simulated, folder, Progress(unread))
    else:
        released = load_release(protocol, "digits", (*common, *release))
        launch = _Release(scenario, released, folder, Progress(unread))
    launch.figures = figures
    return launch


async def _watch(launch: Launch[Any], figures: LaunchFigures) -> None:
    while True:
        figures.look(launch)
        await asyncio.sleep(0.25)


def _in_few_processes(commands: Mapping[str, list[str]], scratch: Path) -> Mapping[str, list[str]]:
    """Let all owners join in one process or few, by folders of their files; the other parties as they are."""
    together = {"curator": commands["curator"]}
    owners = [name for name in commands if name not in ("curator", "consumer")]
    most = most_owners()
    for start in range(0, len(owners), most):
        folder = scratch / f"{_OWNERS}-from-{start}"
        folder.mkdir()
        for name in owners[start : start + most]:
            (folder / f"{name}.toml").symlink_to(commands[name][-1])
        together[folder.name] = ["owner", "join", str(folder)]
    return together | {"consumer": commands["consumer"]}


class _Watched(Launch[Any]):
    """A launch whose owners join in few processes, and that is watched."""

    figures: LaunchFigures

    @override
    def parties(self, scratch: Path) -> Mapping[str, list[str]]:
        return _in_few_processes(super().parties(scratch), scratch)  # type: ignore[safe-super]

    @override
    def hear(self, event: Event) -> None:
        self.figures.hear(event, self)
        super().hear(event)  # type: ignore[safe-super]


class _Summary(_Watched, SummaryLaunch):
    """A summary."""


class _Release(_Watched, ReleaseLaunch):
    """A release."""
