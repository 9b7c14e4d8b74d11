"""A tree over mutual TLS: a curator, two regions of three owners each, a consumer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from consumer.releases.client import ReleaseConsumerSettings
from consumer.releases.client import run as ask
from curator.server import serve
from curator.settings import CuratorSettings
from fedkme.errors import ConnectionFailedError
from fedkme.ledgers.reconcile import verify, verify_files
from fedkme.operate.audit_cli import app
from fedkme.party import noise_for
from fedkme.tables.files import save_table
from fedkme.wire.tls import LOOPBACK, Authority, Role
from owner.agent import join
from owner.settings import OwnerSettings
from region.server import serve as serve_region
from region.settings import RegionSettings
from sim.engines.inprocess import KeptRecords
from sim.engines.trees import open_tree
from tests.curator.sums.fake_owners import SCHEMA
from tests.parties import caller_values, curator_values, owner_values
from tests.region.forests import arrays, dealt, release_over
from tests.system.market import Ear

REGIONS = {"north": ("owner-00", "owner-01", "owner-02"), "south": ("owner-03", "owner-04", "owner-05")}


class Deployment:
    """Parties of a tree, each with files in one folder and a task in this loop.

    Attributes:
        leaves: rows of each owner.
        ears: what each party said.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.leaves = dealt(6)
        self.ears: dict[str, Ear] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._authority = Authority()
        (folder / "schema.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")

    def issue(self, name: str, role: Role) -> Path:
        """A certificate of the authority, with its key."""
        path = self.folder / f"{name}-{role.value}.pem"
        if not path.exists():
            self._authority.issue(name, LOOPBACK if role is Role.CURATOR else (), role).save_bundle(path)
        return path

    def curating(self, name: str, owners: tuple[str, ...], **more: Any) -> dict[str, Any]:
        """Settings of a curator at any level."""
        own = {"identity": self.issue(name, Role.CURATOR), "name": name, "owners": owners}
        return curator_values(
            self.folder, **own, directory=self.folder / f"{name}-runs", simulation_seed=0, **more
        )

    def begin(self, name: str, party: Any, settings: Any) -> None:
        """Start a party."""
        self.ears[name] = Ear()
        self.tasks[name] = asyncio.create_task(party(settings, self.ears[name]))

    async def address(self, name: str) -> str:
        """Address of a curator that has started."""
        said: str = (await self.ears[name].heard("listening"))["address"]
        return said

    def region(self, name: str, top: str, listen: str = "127.0.0.1:0", **more: Any) -> None:
        """Start a region; `more` are of its side as an owner."""
        above = {
            "name": name,
            "curator": top,
            "identity": self.issue(name, Role.OWNER),
            "journal": str(self.folder / f"{name}.db"),
            **more,
        }
        values = self.curating(f"{name}-curator", REGIONS[name], above=above, listen=listen)
        self.begin(name, serve_region, RegionSettings(**values))

    def owner(self, name: str, curator: str, top: str) -> None:
        """Start an owner, which lets sums go to the top."""
        data = self.folder / f"{name}.npz"
        save_table(data, self.leaves[name])
        own = {"data": data, "identity": self.issue(name, Role.OWNER), "policy": {"above": [top]}}
        self.begin(name, join, OwnerSettings(**owner_values(self.folder, name, curator, **own)))

    async def release(self, seed: int) -> KeptRecords:
        """Let a consumer ask; what it received."""
        output = self.folder / f"release-{seed}"
        values = caller_values(
            self.folder,
            await self.address("curator"),
            identity=self.issue("consumer", Role.CONSUMER),
            output=output,
            release={"kind": "moments", "rows": 30, "epsilon": 2.0, "seed": seed},
        )
        await ask(ReleaseConsumerSettings(**values), Ear())
        received = KeptRecords()
        received.files = {"release.npz": (output / "release.npz").read_bytes()}
        return received

    async def stop(self, name: str) -> None:
        """Cancel a party, as a signal does."""
        task = self.tasks.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def deployment(folder: Path) -> AsyncIterator[Deployment]:
    """A tree whose parties have all been started."""
    made = Deployment(folder)
    try:
        made.begin("curator", serve, CuratorSettings(**made.curating("curator", tuple(REGIONS))))
        top = await made.address("curator")
        for region, owners in REGIONS.items():
            made.region(region, top)
            for name in owners:
                made.owner(name, await made.address(region), top)
        yield made
    finally:
        for name in [*made.tasks]:
            await made.stop(name)


def test_two_regions_of_three_owners_give_the_bits_of_the_star_over_mutual_tls(tmp_path: Path) -> None:
    async def through() -> tuple[Deployment, KeptRecords]:
        async with deployment(tmp_path) as made:
            received = await made.release(seed=3)
            top, north = await made.address("curator"), await made.address("north")
            await made.stop("north")
            made.region("north", top, listen=north)
            await made.release(seed=4)  # a region that was stopped between runs goes on
            return made, received

    made, received = asyncio.run(through())
    star, _ = release_over(open_tree(made.leaves, SCHEMA, partial(noise_for, 0)), seed=0)
    for ours, theirs in zip(arrays(received), arrays(star), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    journals = [*tmp_path.rglob("*.db")]
    assert len(journals) == 1 + 2 * 2 + 6
    verdicts, absent = verify_files(journals)
    assert not absent
    assert {verdict.fault for verdict in verdicts} == {""}
    assert {"north and its owners", "owner-00 and curator"} <= {v.about.partition(":")[0] for v in verdicts}
    assert {str(verdict) for verdict in verify(tmp_path)} == {str(verdict) for verdict in verdicts}
    said = CliRunner().invoke(app, ["verify", str(tmp_path), "--partial"], catch_exceptions=False).output
    assert "FAULT" not in said
    assert "11 ledgers agree" in said


def test_a_region_whose_curator_above_is_away_says_so(tmp_path: Path) -> None:
    async def alone() -> None:
        made = Deployment(tmp_path)
        made.region("north", "127.0.0.1:1", connect_s=0.5)
        await made.tasks["north"]

    with pytest.raises(ConnectionFailedError, match=r"127\.0\.0\.1:1"):
        asyncio.run(alone())
