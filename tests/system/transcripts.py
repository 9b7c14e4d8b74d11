"""Runs a market in this process and prints what came of it: started by test_hosts under other back ends.

With the word `release` it makes releases in place of summaries.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import sys
from typing import Any

import numpy as np

from consumer.settings import RequestSettings
from curator.summary.settings import SummarySettings
from curator.sums.settings import SumSettings
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table
from sim.engines.inprocess import KeptRecords, market_of, release_in_process, run_in_process
from sim.scenarios.base import Scenario
from tests.record_transcripts import record_transcript

WIDTH = 20
SETTINGS = (
    {"auction": {"kind": "privauction", "epsilon": 10.0}},
    {"broadcast": {"mechanism": "gaussian"}, "features": {"kind": "offset"}, "seed_set": "subtracted"},
    {"broadcast": {"mechanism": "exact"}, "auction": {"kind": "winner-only"}},
    {"protocol": "uniform"},
)
SHORT = {"restarts": 1, "steps": 20, "candidates": 64, "climbs": 10}
RELEASES: tuple[dict[str, Any], ...] = (
    {"kind": "balog1", "points": 300, "gamma": 0.5},
    {"kind": "balog2", "points": 10, "gamma": 0.5, "features": 400, **SHORT},
    {"kind": "moments"},
    {"kind": "marginals", "rows": 500, "iterations": 50},
)
"""Settings of each method that finishes with linear algebra; the others' generators are jax's."""


def market_rows(count: int, generator: np.random.Generator) -> Table:
    """Rows on no grid, so that every cosine is rounded."""
    return Table(generator.random((count, WIDTH)) ** 2)


def transcript(values: dict[str, Any]) -> dict[str, Any]:
    """Facts that two engines must agree on, of one run of 15 rows over five owners."""
    schema = Schema(columns=(Numeric(name="x", bounds=(0, 1), count=WIDTH),))
    generator = np.random.default_rng(11)
    owners = {f"owner-{i}": market_rows(200 * i, generator) for i in range(1, 6)}
    validation, seeds = (market_rows(n, generator) for n in (60, 40))
    scenario = Scenario("test", schema, owners, validation, validation, seeds)
    request = RequestSettings.model_validate({"p": 15, "kernel": {"gamma": "median-seeds"}})
    records, settings = KeptRecords(), SummarySettings.model_validate(values)
    asyncio.run(run_in_process(market_of(scenario, 1), validation, settings, request, records))
    assert records.summary is not None
    return record_transcript(records.summary)


def labelled_rows(count: int, generator: np.random.Generator) -> Table:
    """Rows in two classes."""
    values = market_rows(count, generator).values
    return Table(values, (values[:, 0] > 0.3).astype(np.int64))


def release_digests() -> dict[str, str]:
    """Digests of the files of `RELEASES`."""
    label = Label(name="y", classes=("no", "yes"))
    schema = Schema(columns=(Numeric(name="x", bounds=(0, 1), count=WIDTH),), label=label)
    generator = np.random.default_rng(11)
    owners = {f"owner-{i}": labelled_rows(1000, generator) for i in range(1, 3)}
    scenario = Scenario("test", schema, owners, *(labelled_rows(300, generator) for _ in range(3)))
    found = {}
    for values in RELEASES:
        settings, records = json.dumps({"epsilon": 3.0, **values}), KeptRecords()
        asyncio.run(release_in_process(market_of(scenario, 1), settings, SumSettings(), records))
        for name, content in records.files.items():
            found[f"{values['kind']}/{name}"] = hashlib.sha256(content).hexdigest()
    return found


def fingerprint() -> str:
    """Last bits of this process's floating point: differs between back ends."""
    a, b = np.random.default_rng(0).normal(size=(2, 300, 300))
    products, cosines = (a @ b).tobytes(), np.cos(a).tobytes()
    hyperbolic = np.array([math.tanh(x) for x in a.ravel()]).tobytes()
    return hashlib.sha256(products + cosines + hyperbolic).hexdigest()


if __name__ == "__main__":
    if sys.argv[1:] == ["release"]:
        print(json.dumps(release_digests()))
    else:
        print(json.dumps({"fingerprint": fingerprint(), "transcripts": [transcript(s) for s in SETTINGS]}))
