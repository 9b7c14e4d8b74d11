"""Processes of the tests in this folder, which end with the test whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sim.engines import processes
from sim.engines.children import Child
from sim.engines.template import Template
from tests.parties import WAIT_S
from tests.system.launches import Process, Start, start


class SharedTemplate(Template):
    """One process for one launch after another: what it imports is a third of what a small launch costs."""

    _first: SharedTemplate | None = None

    def __init__(self, errors: Path) -> None:
        if SharedTemplate._first is None:
            super().__init__(errors)
            SharedTemplate._first = self
            return
        self._socket, self._process = SharedTemplate._first._socket, SharedTemplate._first._process
        self._attach()

    def close(self) -> None:
        """Let the next launch have it."""
        self._loop.remove_reader(self._socket)


@pytest.fixture(autouse=True)
def shared_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "Template", SharedTemplate)


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
    processes: list[Process] = []

    def remember(module: str, *arguments: str | Path, **environment: str) -> Process:
        processes.append(start(module, *arguments, **environment))
        return processes[-1]

    yield remember
    for process in processes:
        process.kill()
        process.wait(WAIT_S)
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()
