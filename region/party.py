"""A region as the curator above has it: an owner whose rows are those of its own owners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fedkme.directives import Directive, Dismiss
from fedkme.party import NoiseFor
from fedkme.protocol import Invitation
from fedkme.protocols import SKETCH, names
from fedkme.store import Store
from fedkme.tables.table import Table
from owner.consent.gate import OwnerGate
from owner.handler import RunHandler
from owner.keyring import KeyRing
from owner.party import OwnerParty
from owner.runs import RunManager
from owner.settings import PolicySettings
from owner.sums.responder import OwnRows
from region.below import Below, RegionRun

RELEASES = tuple(name for name in names("sums") if name != SKETCH)
"""Protocols that a region can take part in: a sketch is for a summary, whose rows it has not."""


class RegionRuns(RunManager):
    """Runs of a region: before an answer is computed, its owners have given what it needs."""

    def __init__(self, below: Below, runs: dict[str, RegionRun], *parts: Any) -> None:
        """Open; `runs` are shared with the `RegionParty`, `parts` as `RunManager` has them."""
        super().__init__(*parts)
        self._below = below
        self._fetched = runs

    async def prepare(self, directive: Directive) -> None:
        """Ask the owners of the region, where an answer needs them."""
        name, body = directive.run, directive.body
        if isinstance(body, Dismiss):
            self._fetched.pop(name, None)
            await self._below.end(name)
            return
        if name not in self._fetched and (invitation := self._invitation(directive)) is not None:
            self._fetched[name] = await self._below.open(invitation)
        if name in self._fetched:
            await self._fetched[name].fetch(directive)

    def _invitation(self, directive: Directive) -> Invitation | None:
        """The invitation of a run of sums: a new one, or what an earlier process was invited by."""
        entries = self._journal.entries(directive.run)
        body = (entries[0].directive if entries else directive).body
        return body if isinstance(body, Invitation) and body.protocol in RELEASES else None


@dataclass(frozen=True, kw_only=True, eq=False)
class RegionParty(OwnerParty):
    """One region put together, towards the curator above.

    Attributes:
        below: its owners.
        runs: what they gave, by run.
    """

    below: Below
    runs: dict[str, RegionRun]

    def open(self, curator: str = "", make: Callable[..., RunManager] = RegionRuns) -> RunManager:
        """Go on with what the store holds; see `OwnerParty.open`."""
        self.below.take_up()
        return super().open(curator, partial(make, self.below, self.runs))

    def handler(self, invitation: Invitation, gate: OwnerGate, keys: KeyRing) -> RunHandler:
        """Make what answers one run; the policy lets releases in alone."""
        rows = self.runs.get(invitation.run) or OwnRows(self.table, self.name)  # refused, with none
        return self.sum_handler(invitation.run, rows, gate)


def open_region(
    below: Below, store: Store, noise_for: NoiseFor, policy: PolicySettings, **parts: Any
) -> RegionParty:
    """Put a region together: its owners, the store of its side above, and what else `OwnerParty` has."""
    return RegionParty(
        name=below.name,
        table=Table(np.empty((0, len(below.schema.columns)))),
        schema=below.schema,
        store=store,
        noise_for=noise_for,
        policy=policy if policy.protocols else policy.model_copy(update={"protocols": RELEASES}),
        below=below,
        runs={},
        **parts,
    )
