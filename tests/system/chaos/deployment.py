"""Deployment of a world: what each party has in a folder of its own, over mTLS on loopback."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audit.chaos.parties import SEED
from audit.chaos.worlds import SimulatedWorld, menu
from audit.replay.neighbours import SCHEMA, UNLABELLED
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK
from fedkme.tables.files import save_table
from fedkme.tables.schema import Schema
from sim.engines.loopback import policy_of
from tests.fedkme.store.server import Server
from tests.parties import Values, write_config
from tests.system.chaos.party import Party
from tests.system.chaos.schedules import ProcessSchedule
from tests.system.lives import PORTS

PATIENCE_S = 240.0
"""Time after which who is not served is stuck."""


@dataclass(eq=False)
class Deployment:
    """Parties of a schedule, as their operators would set them up.

    Attributes:
        schedule: that will be played.
        folder: folder of all parties' files.
        releases: whether lives are of an earlier release, too.
        server: PostgreSQL's server, where the schedule has one.
        parties: parties by name, none of them started.
    """

    schedule: ProcessSchedule
    folder: Path
    releases: bool = False
    server: Server | None = None
    parties: dict[str, Party] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Write what each party has."""
        self.chance = random.Random(f"releases {self.schedule.seed}")
        self.address = self.near = f"127.0.0.1:{next(PORTS)}"
        if self.schedule.between is not None:
            self.near = f"127.0.0.1:{next(PORTS)}"  # the forwarder's
        self._url = self.server.new_database() if self.server is not None else ""
        (self.folder / "schema.toml").write_text(self.schema.to_toml(), encoding="utf-8")
        authority, world = Authority(), self.world
        verb = "release" if world.case.summary is None else "summary"
        self._add(authority, "curator", ["curator", "serve"], self._curator())
        for name in world.owners:
            self._add(authority, name, ["owner", "join"], self._owner(name))
        for name in world.consumers:
            self._add(authority, name, ["consumer", verb], self._consumer(name))

    @property
    def world(self) -> SimulatedWorld:
        """World of audit/chaos that is deployed."""
        return menu()[self.schedule.world]

    @property
    def schema(self) -> Schema:
        """Schema of everybody's rows."""
        return SCHEMA if self.world.case.labels else UNLABELLED

    def _add(self, authority: Authority, name: str, verb: Sequence[str], values: Values) -> None:
        home = self._home(name)
        authority.issue(name, LOOPBACK if name == "curator" else ()).save(home)
        common = {"schema_file": "../schema.toml", "identity": ".", "log": "json", "connect_s": PATIENCE_S}
        stored = {"journal": self._url} if name in self.schedule.stored else {}
        write_config(home / "config.toml", {**common, "simulation_seed": SEED, **stored, **values})
        faults = list(self.schedule.faults.get(name, ()))
        earlier = self.releases and self.chance.random() < 0.5
        journal = stored.get("journal", home / "journal.db")
        self.parties[name] = Party(name, home, verb, faults, journal, earlier=earlier)

    def _curator(self) -> Values:
        case, home = self.world.case, self._home("curator")
        if self.world.seeds is not None:
            save_table(home / "seeds.npz", self.world.seeds)
        asked = {} if case.summary is None else {"summary": _plain(case.summary)}
        return {
            "listen": self.address,
            "directory": ".",
            "owners": [*self.world.owners],
            "grace_s": PATIENCE_S,
            "release": _plain(case.pooling),
            **({} if self.world.seeds is None else {"seeds": "seeds.npz"}),
            **asked,
        }

    def _owner(self, name: str) -> Values:
        save_table(self._home(name) / "rows.npz", self.world.owners[name])
        policy = _plain(policy_of(self.world.case.policies, name))
        return {"name": name, "curator": self.near, "data": "rows.npz", "policy": policy}

    def _consumer(self, name: str) -> Values:
        case, common = self.world.case, {"name": name, "curator": self.near, "output": "out"}
        if case.summary is None:
            return {**common, "release": case.release}
        save_table(self._home(name) / "rows.npz", self.world.validation)
        assert case.request is not None, "the case is of a summary"
        asked = {"validation": "rows.npz", "downstream": False, "request": _plain(case.request)}
        return {**common, **asked}

    def _home(self, name: str) -> Path:
        (self.folder / name).mkdir(exist_ok=True)
        return self.folder / name


def _plain(settings: Any) -> Values:
    values: Values = settings.model_dump(mode="json", exclude_unset=True)
    return values
