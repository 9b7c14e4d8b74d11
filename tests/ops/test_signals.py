"""A signal at any await of any party ends the party, and nothing stored is lost.

Parties run in this loop over real ports. The test counts each wait of a party's tasks, and at the n-th wait
the party is stopped as by SIGTERM. After a restart the party finishes its run.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest

from curator.summary.settings import FeatureSettings, SummarySettings
from fedkme.errors import StoppingError
from fedkme.privacy.events import CURATOR, Disclosure, RawRows
from fedkme.privacy.ledger import disclosures_in
from fedkme.store import open_store
from fedkme.tables.files import read_arrays
from tests.parties import WAIT_S
from tests.system.market import SCHEMA, Market, curator_settings

PLACE: contextvars.ContextVar[Place | None] = contextvars.ContextVar("place", default=None)
"""The party whose code runs, if its waits are counted."""


class Place:
    """An await of a party at which the party is stopped."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.stop: Callable[[], object] = lambda: None

    def pause(self) -> None:
        """Count a wait of one of the party's tasks."""
        self.left -= 1
        if self.left == 0:
            asyncio.get_running_loop().call_soon(lambda: self.stop())


class Counted(Coroutine[Any, Any, Any]):
    """Coroutine whose waits count for its party."""

    def __init__(self, inner: Coroutine[Any, Any, Any]) -> None:
        self._inner = inner

    def send(self, value: Any) -> Any:
        return self._paused(self._inner.send(value))

    def throw(self, *error: Any) -> Any:
        return self._paused(self._inner.throw(*error))

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        raise NotImplementedError("tasks alone are counted")

    def _paused(self, awaited: Any) -> Any:
        if (place := PLACE.get()) is not None:
            place.pause()
        return awaited


def counted(loop: asyncio.AbstractEventLoop, inner: Any, **named: Any) -> asyncio.Task[Any]:
    """Task factory: tasks that a party's tasks begin belong to the party."""
    return asyncio.Task(Counted(inner), loop=loop, **named)


def at_its(place: Place, begin: Callable[[], asyncio.Task[Any]]) -> asyncio.Task[Any]:
    """Start a party that stops at a given await."""
    token = PLACE.set(place)
    try:
        return begin()
    finally:
        PLACE.reset(token)


async def ended(task: asyncio.Task[Any]) -> None:
    """Check that the party has stopped or ended before; a lost signal would leave it running."""
    finished, _ = await asyncio.wait((task,), timeout=WAIT_S)
    assert finished, "the signal was lost"
    with contextlib.suppress(asyncio.CancelledError, StoppingError):  # asked of a curator that stops
        await task


OWNERS = ("a", "b")
P = 6
SUMMARY = SummarySettings(protocol="uniform", features=FeatureSettings(dimension=8))
PLACES = (*range(1, 20), *range(20, 100, 8))
"""Awaits that are tried; each party has about 30 to 200 until its part in the run is over."""


async def begin_curator(at: Market, place: Place | None = None) -> None:
    """Let the curator serve, unless it is stopped before."""
    if place is None:
        assert await at.start()
        return
    place.stop = lambda: terminate(at)
    token = PLACE.set(place)
    try:
        await at.start()
    finally:
        PLACE.reset(token)


def terminate(at: Market) -> None:
    """Do what the first SIGTERM does in the curator's process."""
    if at.ear.on_terminate is not None:
        at.ear.on_terminate()
    elif at._serving is not None:
        at._serving.cancel()


async def first_life(at: Market, party: str, number: int) -> None:
    """Start all parties, and stop one of them at an await."""
    place = Place(number)
    await begin_curator(at, place if party == "curator" else None)
    if at._serving is not None and at._serving.done():
        return
    others = [at.owner(name) for name in OWNERS if name != party]
    if party in OWNERS:
        victim = at_its(place, lambda: at.owner(party))
        place.stop = victim.cancel
    if party != "consumer":
        others.append(at.consumer(P))
    else:
        victim = at_its(place, lambda: at.consumer(P))
        place.stop = victim.cancel
    if party == "curator":
        assert at._serving is not None
        victim = at._serving
    await asyncio.wait((victim, others[-1]), return_when=asyncio.FIRST_COMPLETED, timeout=WAIT_S)
    if place.left <= 0 or party == "consumer":
        await ended(victim)
    place.stop = lambda: None


async def second_life(at: Market) -> None:
    """Restart the stopped party, and repeat the request until the rows are here."""
    if at._serving is None or at._serving.done():
        await begin_curator(at)
    for name in OWNERS:
        at.owner(name, curator=at.address)
    await at.consumer(P)


def rows_in(store: Path, party: str) -> Counter[Disclosure]:
    """Lines about owners' rows in a ledger."""
    with contextlib.closing(open_store(store, party, "process")) as opened:
        lines = disclosures_in(row.line for row in opened.ledger())
    return Counter(line for line in lines if isinstance(line.event, RawRows) and line.observer == CURATOR)


@pytest.mark.parametrize("party", ["a", "curator", "consumer"])
@pytest.mark.parametrize("number", PLACES)
async def test_a_signal_at_any_await_ends_a_party_and_loses_nothing(
    tmp_path: Path, party: str, number: int
) -> None:
    asyncio.get_running_loop().set_task_factory(counted)
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")
    settings = curator_settings(tmp_path, owners=OWNERS, summary=SUMMARY)
    at = Market(tmp_path, settings)
    try:
        await first_life(at, party, number)
        for task in at.tasks:
            task.cancel()
            await ended(task)
        await second_life(at)
    finally:
        await at.end()
    assert len(read_arrays(tmp_path / "consumer" / "summary.npz", "the test")["x"]) == P
    curator = rows_in(tmp_path / "runs" / "journal.db", "curator")
    assert curator
    assert max(curator.values()) == 1
    assert curator == rows_in(tmp_path / "a.db", "a") + rows_in(tmp_path / "b.db", "b")
