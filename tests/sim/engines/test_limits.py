"""Limits on rows change nothing that others see (issue 12, A2): whole runs, with each kind of owner's policy.

Two worlds differ in one row of one owner, all noise is frozen, and what two owners were told and said is
compared to the byte. Before limits were pools, an owner left the run when a sale would have gone over one.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import numpy as np
import pytest

from consumer.settings import RequestSettings
from curator.summary.settings import SummarySettings
from fedkme.arrays import IntArray
from fedkme.directives import Answer, Directive, KeepHead
from fedkme.heads.log import Head
from fedkme.protocol import Invitation
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Table
from fedkme.wire.directives import answer_to_wire, directive_to_wire
from owner.consent.pools import PoolSize, RowPools
from owner.runs import RunManager
from owner.settings import PolicySettings
from sim.engines.inprocess import KeptRecords, open_market, run_in_process
from tests.fedkme.heads.village import unopened

SCHEMA = Schema(columns=(Numeric(name="x", bounds=(0.0, 1.0), count=2),))
ROWS, LIMIT, P = 300, 200, 21
NEAR, FAR = np.array([0.1, 0.1]), np.array([0.9, 0.9])
VALIDATION = Table(NEAR + 0.02 * np.random.default_rng(1).random((40, 2)))
SEEDS = Table(np.random.default_rng(2).random((40, 2)))
BUDGET = {"epsilon": 3.0, "delta": 1e-5, "days": 30}
POLICIES: dict[str, dict[str, Any]] = {
    "rows of a run": {"most_rows_per_run": LIMIT},
    "rows in all": {"most_rows": LIMIT},
    "both": {"most_rows_per_run": LIMIT // 2, "most_rows": LIMIT},
    "with a budget": {"most_rows_per_run": LIMIT, "budgets": [BUDGET]},
    "with a protocol": {"most_rows": LIMIT, "protocols": ["clock"], "consumers": ["consumer"]},
}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "clock": {"protocol": "algorithm3"},
    "published broadcasts": {"preset": "published", "auction": {"kind": "clock"}},
    "ask-everyone": {"auction": {"kind": "ask-everyone"}},
    "privauction": {"auction": {"kind": "privauction"}},
    "winner-only": {"auction": {"kind": "winner-only"}},
    "uniform": {"protocol": "uniform"},
    "cells": {"protocol": "cells", "cells": {"code_book": "seeds"}},
    "clock-hashed": {"protocol": "algorithm3", "content": "hashed"},
    "uniform-sealed": {"protocol": "uniform", "content": "hashed"},
    "cells-sealed": {"protocol": "cells", "content": "hashed", "cells": {"code_book": "seeds"}},
}
Spoken = dict[str, list[bytes]]


class World:
    """One run: what was told to each owner, what it answered, and the rows that it offered."""

    def __init__(self, replaced: int | None, protocol: str, policy: dict[str, Any], seed: int = 0) -> None:
        rows = np.where(np.arange(ROWS)[:, np.newaxis] < LIMIT, NEAR, FAR)
        rows = rows + 0.02 * np.random.default_rng(seed).random((ROWS, 2))
        if replaced is not None:
            rows[replaced] = [NEAR, FAR][int(replaced < LIMIT)]
        self.heard: Spoken = {"holder": [], "observer": []}
        self.said: Spoken = {"holder": [], "observer": []}
        self.places: IntArray | None = None
        values = PROTOCOLS[protocol]
        summary = SummarySettings.model_validate({"features": {"dimension": 16}, **values})
        market = open_market(
            SCHEMA,
            {"holder": Table(rows), "observer": Table(FAR + 0.05 * SEEDS.values)},
            SEEDS,
            seed,
            {"holder": PolicySettings.model_validate(policy)},
        )
        records = KeptRecords()
        request = RequestSettings.model_validate({"p": P, "kernel": {"gamma": 1.0}})
        with pytest.MonkeyPatch.context() as patch:
            self._listen(patch)
            asyncio.run(run_in_process(market, VALIDATION, summary, request, records))
        assert records.summary is not None
        self.faults = records.summary.faults
        self.sent = records.summary.closings["holder"]

    def _listen(self, patch: pytest.MonkeyPatch) -> None:
        answer, draw = RunManager.answer, RowPools.draw

        def tapped(runs: RunManager, directive: Directive) -> Answer | None:
            answered = found = answer(runs, directive)
            name = runs._name
            body = directive.body
            if isinstance(body, KeepHead):
                directive = dataclasses.replace(directive, body=KeepHead(unopened(body.head)))
            if isinstance(body, Invitation):
                directive = dataclasses.replace(directive, body=dataclasses.replace(body, gift=None))
            self.heard[name].append(directive_to_wire(directive).SerializeToString(deterministic=True))
            if isinstance(found, Head):
                found = unopened(found)
            replies = () if found is None else answer_to_wire(found, directive)
            self.said[name].append(b"".join(each.SerializeToString(deterministic=True) for each in replies))
            return answered

        def drawn(pools: RowPools, run: str, pool: PoolSize) -> IntArray | None:
            places = draw(pools, run, pool)
            self.places = places if places is not None else self.places
            return places

        patch.setattr(RunManager, "answer", tapped)
        patch.setattr(RowPools, "draw", drawn)


def cases() -> list[tuple[str, str]]:
    """Every protocol with a limit, and the clock with each policy."""
    every = [(protocol, "both") for protocol in PROTOCOLS]
    return every + [("clock", policy) for policy in POLICIES if policy != "both"]


@pytest.mark.parametrize(("protocol", "policy"), cases())
def test_no_party_hears_of_a_limit_that_binds_in_one_world_only(protocol: str, policy: str) -> None:
    limits = POLICIES[policy]
    world = World(None, protocol, limits)
    assert world.faults == []
    assert world.places is not None
    assert world.sent <= len(world.places) <= LIMIT
    outside = sorted(set(range(ROWS)) - set(world.places.tolist()))
    for replaced in (outside[0], outside[-1], int(world.places[0]), int(world.places[-1])):
        other = World(replaced, protocol, limits)
        assert other.places is not None
        assert other.places.tolist() == world.places.tolist()
        assert other.faults == []
        assert other.sent <= len(world.places)
        if replaced in outside:
            assert other.heard == world.heard
            if not protocol.endswith(("-sealed", "-hashed")):  # keys of boxes are fresh
                assert other.said == world.said
