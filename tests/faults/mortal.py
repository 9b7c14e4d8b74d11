"""Processes that may be killed at any step: their stores, wires and records."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from curator.runs.context import RecordFolder
from fedkme.errors import ConnectionFailedError, StoreError
from fedkme.store import Store
from fedkme.wire.v1 import owners_pb2 as pb


class Killed(BaseException):
    """The process is dead."""


@dataclasses.dataclass
class Fate:
    """Counts a process's steps, and says at which of them something happens to it.

    Attributes:
        step: how many there were, over all lives.
        deaths: steps at which the process is killed.
        full: steps at which the disk is full, once each.
    """

    deaths: frozenset[int] = frozenset()
    full: frozenset[int] = frozenset()
    step: int = 0


class Process:
    """One life of a party."""

    def __init__(self, fate: Fate) -> None:
        self.fate = fate
        self.alive = True
        self.died = asyncio.Event()

    def tick(self) -> None:
        """Note that an effect is about to happen in this process."""
        if not self.alive:
            raise Killed
        self.fate.step += 1
        if self.fate.step in self.fate.deaths:
            self.kill()
            raise Killed

    def kill(self) -> None:
        self.alive = False
        self.died.set()


class MortalStore:
    """A store of a process that may die before, in, or after a transaction, and whose disk may be full."""

    def __init__(self, store: Store, process: Process) -> None:
        self._store = store
        self._process = process

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        self._process.tick()
        with self._store.transaction():
            yield
            self._process.tick()
            if self._process.fate.step in self._process.fate.full:
                raise StoreError("the disk is full", "Make room.")
        self._process.tick()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if not self._process.alive:
                raise Killed
            return method(*arguments, **named)

        return call


class Wire:
    """One connection: in order, late, and sometimes twice, until it breaks."""

    def __init__(self, chance: random.Random, twice: float) -> None:
        self._chance = chance
        self._twice = twice
        self._due = {"up": 0.0, "down": 0.0}
        self.broken = asyncio.Event()

    def send(self, way: str, deliver: Callable[[], None]) -> None:
        """Deliver later, unless the wire is broken by then."""
        loop = asyncio.get_running_loop()
        for _ in range(2 if self._chance.random() < self._twice else 1):
            # later than the one before, however little: a loop keeps no order among equal times
            at = max(self._due[way] + 1e-9, loop.time() + self._chance.expovariate(1 / 0.002))
            self._due[way] = at
            loop.call_at(at, self._arrive, deliver)

    def _arrive(self, deliver: Callable[[], None]) -> None:
        if not self.broken.is_set():
            deliver()


class CuratorEnd:
    """The `Stream` of a curator's process."""

    def __init__(self, wire: Wire, inbox: asyncio.Queue[pb.Directive], process: Process) -> None:
        self._wire = wire
        self._inbox = inbox
        self._process = process

    async def write(self, directive: pb.Directive) -> None:
        self._process.tick()
        if self._wire.broken.is_set():
            raise ConnectionFailedError("the wire broke", "Wait.")
        copy = pb.Directive.FromString(directive.SerializeToString())
        self._wire.send("down", lambda: self._inbox.put_nowait(copy))

    def cut(self) -> None:
        self._wire.broken.set()


class MortalRecords(RecordFolder):
    """Records of a process that may die before and after it writes one."""

    def __init__(self, process: Process, directory: Path) -> None:
        super().__init__(directory)
        self._process = process

    def keep_summary(self, *arguments: Any) -> None:
        self._process.tick()
        super().keep_summary(*arguments)
        self._process.tick()
