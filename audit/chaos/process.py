"""Simulated processes that may be killed at any step: tasks of one context, whose effects then end."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import random
import weakref
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from audit.chaos.faults import SOON, WORDS, InjectedFault, Kind, clock_s

_WALL = 1_700_000_000.0  # Unix seconds of virtual time 0
_DEATHS: tuple[Kind, ...] = ("kill", "stop", "away", "restore", "flip", "beside")
current: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)
"""The process of the running task."""


def owned(
    loop: asyncio.AbstractEventLoop, work: Any, context: contextvars.Context | None = None, **more: Any
) -> asyncio.Task[Any]:
    """Task factory that registers tasks with the process of their context; Python 3.14 passes `more`."""
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context, **more)
    process = current.get() if context is None else context.get(current)
    if process is not None:
        process.add(task)
    return task


class Killed(BaseException):  # not an error: it ends a dead process
    """The process is dead."""


@dataclass(eq=False)
class Fate:
    """Faults of a party over all its lives.

    Attributes:
        name: name of the party.
        faults: still to come.
        step: number of steps so far.
        skew: error of the party's clock, seconds.
        due: faults whose step has come, and that wait for an occasion.
        happened: faults that took effect.
        answers: what the party said, by the question, over all its lives.
        redrawn: answers that differ from an earlier one to the same question, a line each.
        charged: says whether the curator's disk has the charge of a vector of this party in a run.
        uncharged: runs to which a vector left before its charge was on the curator's disk, a line each.
        settled: called at each step: checks that what was written before is on the disk.
        tell: takes the party's events, for the story.
    """

    name: str
    faults: list[InjectedFault]
    step: int = 0
    skew: float = 0.0
    due: list[InjectedFault] = field(default_factory=list)
    happened: list[InjectedFault] = field(default_factory=list)
    answers: dict[Any, Any] = field(default_factory=dict)
    redrawn: list[str] = field(default_factory=list)
    charged: Callable[[str], bool] = lambda run: True
    uncharged: list[str] = field(default_factory=list)
    settled: Callable[[], None] = lambda: None
    tell: Callable[[str, str], None] = lambda party, line: None

    def clock(self) -> float:
        """Unix seconds as the party reads them."""
        return _WALL + asyncio.get_running_loop().time() + self.skew

    def take(self, *kinds: Kind) -> InjectedFault | None:
        """Take a due fault of these kinds out of the list; None if there is none."""
        for fault in self.due:
            if fault.kind in kinds:
                self.due.remove(fault)
                self.happened.append(fault)
                if fault.kind not in _DEATHS:  # a death is told at its time
                    self.tell(self.name, f"{WORDS[fault.kind]}{fault.amount_words}")
                return fault
        return None


class Process:
    """One life of a party.

    Attributes:
        fate: the party's fate.
        life: number of this life, from 1.
        noise_seed: seed of this life's noise.
        chance: randomness of the process's pauses.
        entropy: random bytes in place of the operating system's.
        calls: number of calls so far.
        alive: true until the process is killed or ended.
        let_in: true once a curator has answered it.
        cut_off_until: time at which it reaches the curator again.
        over: set at the process's death.
        ending: the fault that ends the process, for its disk.
    """

    def __init__(self, fate: Fate, life: int, chance: random.Random, noise_seed: int = 0) -> None:
        self.fate = fate
        self.life = life
        self.noise_seed = noise_seed
        self.chance = chance
        self.entropy = random.Random(chance.getrandbits(64))
        self.calls = 0
        self.alive = True
        self.let_in = False
        self.cut_off_until = 0.0
        self.over = asyncio.Event()
        self.ending: InjectedFault | None = None
        self._loop = asyncio.get_running_loop()
        self._tasks: list[weakref.ref[asyncio.Task[Any]]] = []  # in order, or a story would not repeat

    @property
    def name(self) -> str:
        """Name of the party."""
        return self.fate.name

    def tick(self) -> None:
        """Count a step: an effect that is about to happen, or has happened.

        Raises:
            Killed: the process is dead, or dies here.
        """
        if not self.alive:
            raise Killed
        fate = self.fate
        fate.settled()
        fate.step += 1
        while fate.faults and fate.faults[0].step <= fate.step:
            fate.due.append(fate.faults.pop(0))
        if not fate.due:
            return
        if (fault := fate.take("clock")) is not None:
            fate.skew += clock_s(fault.amount)
        if (fault := fate.take(*_DEATHS)) is not None:
            if fault.kind == "kill" and fault.amount > SOON:
                self._later(fault, fault.amount - SOON)
            else:
                self._die(fault)
                if not self.alive:
                    raise Killed

    def _later(self, fault: InjectedFault, awaits: int) -> None:
        """Die after `awaits` rounds of the loop."""
        if awaits:
            self._loop.call_soon(self._later, fault, awaits - 1)
        elif self.alive:
            self._die(fault)

    def _die(self, fault: InjectedFault) -> None:
        self.ending = fault
        self.fate.tell(self.name, f"{WORDS[fault.kind]}, at step {self.fate.step}")
        if fault.kind in ("stop", "beside"):
            self._loop.call_soon(self.over.set)
        else:
            self.kill()

    def kill(self) -> None:
        """End the process: it has no effects from now on."""
        self.alive = False
        self.over.set()

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Begin a task of this process."""
        context = contextvars.copy_context()
        context.run(current.set, self)
        return self._loop.create_task(work, context=context)

    def add(self, task: asyncio.Task[Any]) -> None:
        """Register a task of this process."""
        self._tasks.append(weakref.ref(task))

    def _living_tasks(self) -> list[asyncio.Task[Any]]:
        return [task for reference in self._tasks if (task := reference()) is not None]

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Running tasks of this process, in the order of their start."""
        return [task for task in self._living_tasks() if not task.done()]

    async def unheard(self) -> list[BaseException]:
        """Errors of ended tasks that no code has retrieved or is about to retrieve."""
        awaited = [getattr(task, "_fut_waiter", None) for task in self.tasks()]
        ended = [task for task in self._living_tasks() if task.done() and task._log_traceback]
        unseen = [task for task in ended if task not in awaited]
        if unseen:
            await asyncio.sleep(0)  # callbacks of a task that ended just now look at its error
        left = [task for task in unseen if task._log_traceback]
        return [error for task in left if isinstance(error := task.exception(), Exception)]

    async def end(self, gently: asyncio.Task[Any] | None = None) -> None:
        """End all tasks of the process; the task `gently` may first end by itself."""
        if gently is not None and self.alive:
            gently.cancel()
            await asyncio.wait([gently], timeout=5.0)
        self.kill()
        while tasks := self.tasks():
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for task in tasks:
                with contextlib.suppress(BaseException):  # errors of a dead process do not matter
                    task.result()


def pause(chance: random.Random, most: float) -> Coroutine[Any, Any, None]:
    """Sleep for a while, in virtual seconds."""
    return asyncio.sleep(chance.uniform(0.01, most))
