"""Processes of the tests in this folder, which end with the test whatever happens."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sim.engines.children import Child
from tests.parties import WAIT_S
from tests.system.launches import Start, start


@pytest.fixture
def parties(monkeypatch: pytest.MonkeyPatch) -> dict[str, Child]:
    """The processes of the next launch by name, filled as they start."""
    started: dict[str, Child] = {}
    begin = Child.start

    async def remember(party: str, *rest: Any) -> Child:
        started[party] = await begin(party, *rest)
        return started[party]

    monkeypatch.setattr(Child, "start", staticmethod(remember))
    return started


@pytest.fixture
def begin() -> Iterator[Start]:
    """Starts `python -m MODULE ...`."""
    processes: list[subprocess.Popen[str]] = []

    def remember(
        module: str, *arguments: str | Path, cwd: Path | None = None, **environment: str
    ) -> subprocess.Popen[str]:
        processes.append(start(module, *arguments, cwd=cwd, **environment))
        return processes[-1]

    yield remember
    for process in processes:
        process.kill()
        process.communicate(timeout=WAIT_S)
