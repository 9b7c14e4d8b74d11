"""Owners of a simulation with stores in memory, in this process or in an actor's process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from fedkme.party import NoiseFor
from fedkme.store.memory import MemoryStore
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from owner.party import OwnerParty
from owner.settings import PolicySettings


def open_owners(
    schema: Schema,
    tables: Mapping[str, Table],
    noise_of: Callable[[str], NoiseFor],
    policies: Mapping[str, PolicySettings],
) -> dict[str, OwnerParty]:
    """Create owners, each with a store of its own.

    Args:
        schema: of the rows.
        tables: rows by owner.
        noise_of: private randomness of a party.
        policies: by owner; `all` for owners that are not named; without either everything is allowed.

    Returns:
        Owners by name.
    """
    return {
        name: OwnerParty(
            name=name,
            table=table,
            schema=schema,
            store=MemoryStore(name),
            noise_for=cache(noise_of(name)),
            policy=policy_of(policies, name),
            approvals=Path("no-approvals"),
        )
        for name, table in tables.items()
    }


def policy_of(policies: Mapping[str, PolicySettings], owner: str) -> PolicySettings:
    """Policy of an owner: its own, or the policy `all`; without either everything is allowed."""
    return policies.get(owner, policies.get("all", PolicySettings()))
