"""Parties of releases: small simulations, and a curator with owners and consumers in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consumer.releases.client import ReleaseConsumerSettings
from consumer.releases.client import run as ask
from curator.settings import CuratorSettings
from curator.sums.session import SumSession
from curator.sums.settings import SecuritySettings, SumSettings
from fedkme.ledgers.reconcile import verify
from fedkme.releases.settings import release_settings
from sim.progress import Progress
from sim.release_config import load_release
from sim.releases import simulate_release
from tests.parties import MIXED, WAIT_S, caller_values, curator_values
from tests.system.launches import HEADER
from tests.system.market import SCHEMA as NUMBERS
from tests.system.market import Ear, Market

OWNERS = ("owner-1", "owner-2", "owner-3")
_NETWORK = ("steps=4", "hidden=[8]", "batch=32", "rows=60")
METHODS: Mapping[str, tuple[str, ...]] = {
    "balog1": ("points=20", "z.kind=gaussian", "gamma=2.0", "rows=30"),
    "balog2": ("features=40", "gamma=2.0", "points=5", "restarts=1", "steps=4", "candidates=8", "climbs=2"),
    "merf": ("features=40", "gamma=2.0", *_NETWORK),
    "hermite": ("epochs=2", "sum_order=8", "product_order=3", *_NETWORK),
    "moments": ("rows=60",),
    "marginals": ("iterations=20", "rows=60", "copies=2"),
}
"""Each method as small as it can be."""
BALOG1: Mapping[str, Any] = {
    "kind": "balog1",
    "points": 12,
    "gamma": 2.0,
    "z": {"kind": "gaussian"},
    "epsilon": 5.0,
    "seed": 3,
}
"""Settings of releases over gRPC: no network is trained."""
ROWS = 150
SECURE = SecuritySettings()
TOLERANT = SecuritySettings(dropouts=1, colluders=0)


def scenario(folder: Path, count: int = 400, owners: Sequence[str] = ("north", "south", "west")) -> Path:
    """A scenario of files in a folder: owners, numbers, categories and labels."""
    (folder / "schema.toml").write_text(MIXED, encoding="utf-8")
    generator = np.random.default_rng(5)
    for name in ("validation", *owners):
        ages = generator.integers(10, 100, count)
        smokers = generator.random(count) < 0.3
        words = {True: "yes", False: "no"}
        lines = (
            f"{age},{words[bool(smokes)]},{words[bool(age > 60)]}"
            for age, smokes in zip(ages, smokers, strict=True)
        )
        (folder / f"{name}.csv").write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
    tables = "".join(f'{name} = "{name}.csv"\n' for name in owners)
    text = (
        '[scenario]\nkind = "csv"\nschema_file = "schema.toml"\nvalidation = "validation.csv"\nseeds = 40\n'
        f"[scenario.owners]\n{tables}"
    )
    (folder / "scenario.toml").write_text(text, encoding="utf-8")
    return folder / "scenario.toml"


def release(
    where: Path, method: str, engine: str, out: Path, *more: str, shown: Progress | None = None
) -> tuple[Path, dict[str, Any]]:
    """`fedkme release METHOD` without its command line."""
    settings = load_release(method, str(where), [f"engine={engine}", *METHODS[method], *more])
    with (out.parent / f"{out.name}.txt").open("w", encoding="utf-8") as file:
        return simulate_release(settings, out, shown or Progress(file))


class ReleaseMarket(Market):
    """A market whose consumers ask for releases."""

    def caller(self, output: str = "consumer", **changes: Any) -> ReleaseConsumerSettings:
        """Settings of a consumer; `changes` are of them, and of the release that it asks for."""
        fields = ReleaseConsumerSettings.model_fields
        asked = {key: value for key, value in changes.items() if key not in fields}
        own = {key: value for key, value in changes.items() if key in fields}
        usual = {} if "kind" in asked else BALOG1
        own |= {"output": self.folder / output, "release": release_settings({**usual, **asked})}
        return ReleaseConsumerSettings(**caller_values(self.folder, self.address, **own))

    def asks(self, output: str = "consumer", ear: Ear | None = None, **changes: Any) -> asyncio.Task[None]:
        """Let a consumer ask."""
        settings = self.caller(output, **changes)
        self.tasks.append(asyncio.create_task(ask(settings, ear or Ear())))
        return self.tasks[-1]

    def run(self, number: int = 1) -> Path:
        """The curator's folder of a run."""
        return self.folder / "runs" / f"run-{number}"

    async def crash(self, image: bytes) -> None:
        """Be as a curator that was killed when its journal held what `image` does."""
        await self.stop()
        for file in (self.folder / "runs").glob("journal.db*"):
            file.unlink()
        (self.folder / "runs" / "journal.db").write_bytes(image)

    def image(self) -> bytes:
        """The curator's journal as it is on disk now."""
        with (
            contextlib.closing(sqlite3.connect(self.folder / "runs" / "journal.db")) as there,
            contextlib.closing(sqlite3.connect(":memory:")) as here,
        ):
            there.backup(here)
            return here.serialize()


def _prepare(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "schema.toml").write_text(NUMBERS.to_toml(), encoding="utf-8")


@contextlib.asynccontextmanager
async def release_market(
    folder: Path, security: SecuritySettings | None = None, **changes: Any
) -> AsyncIterator[ReleaseMarket]:
    """A curator that waits for three owners and makes releases, told to stop in the end."""
    _prepare(folder)
    pooling = {key: changes.pop(key) for key in ("quorum", "most_epsilon") if key in changes}
    own = {"simulation_seed": 0, "release": SumSettings(security=security, **pooling), **changes}
    made = ReleaseMarket(folder, CuratorSettings(**curator_values(folder, **{"owners": OWNERS, **own})))
    try:
        if await made.start():
            yield made
    finally:
        await made.end()


class Held:
    """Point at which a run waits until the test lets it go.

    Attributes:
        there: set when the run has come here.
        go: set by the test.
        calls: how often it came.
    """

    def __init__(self) -> None:
        self.there = asyncio.Event()
        self.go = asyncio.Event()
        self.calls = 0

    async def wait(self) -> None:
        """The run's part."""
        self.calls += 1
        self.there.set()
        await self.go.wait()

    async def reached(self) -> None:
        """The test's part."""
        async with asyncio.timeout(WAIT_S):
            await self.there.wait()


def hold(patch: pytest.MonkeyPatch, kind: type[Any], method: str) -> Held:
    """Let every call of a coroutine method wait before it does anything."""
    held, work = Held(), getattr(kind, method)

    async def waiting(self: Any, *arguments: Any) -> Any:
        await held.wait()
        return await work(self, *arguments)

    patch.setattr(kind, method, waiting)
    return held


def lose(patch: pytest.MonkeyPatch, phase: str, owners: Mapping[str, asyncio.Task[None]]) -> None:
    """Let these owners' processes end just before the curator asks them for something."""
    work = getattr(SumSession, phase)

    async def losing(self: SumSession, *arguments: Any) -> Any:
        if self.name in owners:
            owners[self.name].cancel()
            await asyncio.wait([owners[self.name]])
        return await work(self, *arguments)

    patch.setattr(SumSession, phase, losing)


def files(folder: Path) -> dict[str, bytes]:
    """Contents of the files of a folder, by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def come(at: ReleaseMarket, *names: str, **changes: Any) -> dict[str, asyncio.Task[None]]:
    """Let owners join."""
    return {name: at.owner(name, ROWS, simulation_seed=0, **changes) for name in names or OWNERS}


def faults(folder: Path) -> list[str]:
    """Faults that `fedkme audit verify` finds between a curator's folder and its owners' ledgers."""
    others = sorted(folder.glob("owner-*.jsonl"))
    assert others
    return [verdict.fault for verdict in verify(folder / "runs", others) if verdict.fault]


async def calm(folder: Path, security: SecuritySettings | None = None) -> dict[str, bytes]:
    """Files that a consumer receives of a run in which nothing happens."""
    async with release_market(folder, security) as at:
        come(at)
        await at.asks()
    assert not faults(folder)
    return files(folder / "consumer")
