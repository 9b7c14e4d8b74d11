"""Trees of curators in this process: regions with stores in memory, over owners of a loopback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, Union

from curator.owners.head_exchange import HeadExchange
from fedkme.heads.log import HeadLog
from fedkme.party import NoiseFor
from fedkme.pki.certificates import Role
from fedkme.privacy.events import CURATOR
from fedkme.privacy.ledger import stored_ledger
from fedkme.store import Store
from fedkme.store.memory import MemoryStore
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from owner.runs import RunManager
from owner.settings import PolicySettings
from region.below import Below
from region.party import RegionParty, open_region
from sim.engines.loopback import LoopbackMembers
from sim.engines.owners import open_owners

Tree: TypeAlias = Mapping[str, Union[Table, "Tree"]]
"""Owners and regions by name: rows of an owner, what is below a region."""
AT_THE_TOP = CURATOR
"""Address of the curator at the top; that of a region is its name."""


def open_tree(
    tree: Tree,
    schema: Schema,
    noise_of: Callable[[str], NoiseFor],
    above: tuple[str, ...] = (AT_THE_TOP,),
    stores: Callable[[str, str], Store] = lambda party, level: MemoryStore(party),
) -> dict[str, RunManager]:
    """Open what is below a curator.

    Args:
        tree: of it.
        schema: of all rows.
        noise_of: a party's private randomness.
        above: addresses of this curator and of those above it, nearest first.
        stores: makes a region's store, of a party and the region; one of its two sides each.

    Returns:
        What answers for each owner and region, by name.
    """
    tables = {name: below for name, below in tree.items() if isinstance(below, Table)}
    policy = PolicySettings(above=above[1:])
    owners = open_owners(schema, tables, noise_of, {"all": policy})
    runs = {name: owner.open() for name, owner in owners.items()}
    for name, below in tree.items():
        if not isinstance(below, Table):
            inner = open_tree(below, schema, noise_of, (name, *above), stores)
            party = region_over(inner, name, schema, noise_of, above, stores)
            runs[name] = party.open()
    return runs


def region_over(
    inner: Mapping[str, RunManager],
    name: str,
    schema: Schema,
    noise_of: Callable[[str], NoiseFor],
    above: tuple[str, ...],
    stores: Callable[[str, str], Store],
) -> RegionParty:
    """Put a region together over what answers for its owners; see `open_tree`."""
    store = stores(CURATOR, name)
    ledger = stored_ledger(CURATOR, store)
    below = Below(
        name=name,
        above=above[0],
        members=LoopbackMembers(inner),
        schema=schema,
        store=store,
        ledger=ledger,
        heads=HeadExchange(
            HeadLog(Role.CURATOR, CURATOR, ledger, store, lambda: None), lambda event, **said: None
        ),
        quorum=1,
    )
    return open_region(below, stores(name, name), noise_of(name), PolicySettings(above=above[1:]))
