"""`tree`: one question over K owners through a tree of curators in one process, held against all their rows.

Owners, regions and the curator at the top are those of deployments, with policy, gate and ledger on each edge
(docs/decisions/035); no wire, and stores in memory. Every curator has so many owners or regions at most.
"""

from __future__ import annotations

import asyncio
import resource
import time
from functools import partial

import numpy as np

from curator.sums.disclosures import SumDisclosures
from curator.sums.round import SumRound
from curator.sums.session import SumSession
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.sums import Layout
from fedkme.party import noise_for
from fedkme.privacy.events import CONSUMER
from fedkme.protocol import Invitation, SumTerms
from fedkme.sums.values import SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.table import Table, joined
from sim.bench.result import BenchSettings, Cell, Result
from sim.bench.synthetic import synthetic_schema
from sim.engines.loopback import LoopbackMembers
from sim.engines.trees import Tree, open_tree
from sim.scenarios.base import owner_names

_ROWS, _COLUMNS = 10, 8
_QUERY = SumQuery((FourierMapSpec(dimension=100, gamma=1.0, seed=0),), Layout())


def measure_tree(settings: BenchSettings) -> Result:
    """A line for each number of owners."""
    lines = [_line(owners, settings.tree_fan) for owners in settings.tree_owners]
    title = f"sums of 100 features through curators of {settings.tree_fan}, {_ROWS} rows an owner, CPU"
    return Result("tree", title, lines)


def tree_of(leaves: Tree, fan: int) -> tuple[Tree, int]:
    """A tree in which no curator has more than `fan` below it, and how many regions it has."""
    tree, regions, level = leaves, 0, 1
    while len(tree) > fan:
        items = list(tree.items())
        parts = [dict(items[start : start + fan]) for start in range(0, len(items), fan)]
        tree = {f"region-{level}-{number}": part for number, part in enumerate(parts)}
        regions, level = regions + len(tree), level + 1
    return tree, regions


def _line(owners: int, fan: int) -> dict[str, Cell]:
    schema, dice = synthetic_schema(_COLUMNS), np.random.default_rng(0)
    leaves = {name: Table(dice.random((_ROWS, _COLUMNS))) for name in owner_names(owners)}
    tree, regions = tree_of(leaves, fan)
    vector = SumVector(_QUERY, schema)
    began = time.process_time()
    runs = open_tree(tree, schema, partial(noise_for, 0))
    opened = time.process_time()
    said = Invitation("run-1", schema.digest(), CONSUMER, "merf", (), SumTerms())
    members = LoopbackMembers(runs)
    ports = [SumSession(members.connection(name), "run-1") for name in runs]

    async def ask() -> np.ndarray:
        ours = SumRound(ports, said, SumDisclosures(said), quorum=1, observe=lambda fault: None, faults=[])
        await ours.invite_all()
        total = await ours.plain_total(vector)
        for port in ports:
            await port.dismiss()
        return total.steps

    steps = asyncio.run(ask())
    ended = time.process_time()
    if not np.array_equal(steps, vector.of(joined([*leaves.values()]))):
        raise AssertionError("the sum is not that of all rows")
    return {
        "K": owners,
        "regions": regions,
        "opened s": opened - began,
        "run s": ended - opened,
        "run, owner ms": 1e3 * (ended - opened) / owners,
        "process MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
    }
