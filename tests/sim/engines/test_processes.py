"""Launches of real parties."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from pathlib import Path

import pytest
from typing_extensions import override

from lab.bench.synthetic import simulation, synthetic_scenario
from sim.engines.children import Event
from sim.engines.processes import SummaryLaunch
from sim.progress import Progress

pytestmark = pytest.mark.skipif(not hasattr(os, "setsid"), reason="processes are stopped as POSIX has it")


class SlowLaunch(SummaryLaunch):
    """A launch whose first owner does nothing from the end of the run until the curator has gone."""

    failed = 0

    @override
    def hear(self, event: Event) -> None:
        super().hear(event)
        self.failed += event["event"] == "failed"
        match event["party"], event["event"]:
            case "curator", "ended":
                os.kill(self.owner(), signal.SIGSTOP)
            case "curator", "stopped":
                asyncio.get_running_loop().call_later(1.0, os.kill, self.owner(), signal.SIGCONT)

    def owner(self) -> int:
        """Process of the first owner, which may start after the curator's first events."""
        return next(child.pid for name, child in self._children.items() if name.startswith("owner"))


async def test_an_owner_that_is_slow_to_hear_the_farewell_has_not_failed(tmp_path: Path) -> None:
    # Issue 15, item 2: of 10,000 owners in five processes one process failed, "the party was told to stop".
    launch = SlowLaunch(synthetic_scenario(2), simulation(2, False), tmp_path, Progress(io.StringIO()))
    await launch.run()
    assert launch.failed == 0
