"""A consumer that trusts the curator with D_v keeps its own epsilon towards owners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from curator.cells.settings import CellsSettings
from curator.summary.settings import FeatureSettings, SummarySettings
from fedkme.ledgers.reconcile import verify
from fedkme.privacy.accountants import Sound, matrix
from fedkme.privacy.events import CURATOR, OWNERS, validation_of
from fedkme.privacy.ledger import read_ledger
from fedkme.privacy.presets import PrivacyTarget
from fedkme.tables.files import save_table
from tests.system.launches import read_json
from tests.system.market import DIMENSION, market, rows

LOOSE: dict[str, Any] = {
    "features": FeatureSettings(dimension=DIMENSION),
    "privacy": PrivacyTarget(epsilon=8),
}
SEEDS = CellsSettings(bits=2, code_book="seeds", rho=2.0)
CURATORS = {
    "cells": SummarySettings(protocol="cells", cells=SEEDS, **LOOSE),
    "algorithm 3": SummarySettings(**LOOSE),
    "uniform": SummarySettings(protocol="uniform", **LOOSE),
}


@pytest.mark.parametrize("protocol", CURATORS)
async def test_owners_hear_of_d_v_under_the_epsilon_that_the_consumer_asked_for(
    tmp_path: Path, protocol: str
) -> None:
    # Issue 12, A3: the consumer asks for .1, the curator's file says 8.
    save_table(tmp_path / "seeds.npz", rows(40, 5))
    made: dict[str, Any] = {
        "summary": CURATORS[protocol],
        "seeds": tmp_path / "seeds.npz",
        "simulation_seed": None,
    }
    async with market(tmp_path, ["a", "b"], **made) as at:
        at.owner("a")
        at.owner("b")
        await at.consumer(
            share="rows", privacy={"epsilon": 0.1, "delta": 1e-5}, target={"mechanism": "gaussian"}
        )
    validation = validation_of("consumer")
    for ledger in (tmp_path / "consumer.db", tmp_path / "runs" / "journal.db"):
        told = [entry.disclosure for entry in read_ledger(ledger)]
        found = {(row.protected, row.observer): row.figure.epsilon for row in matrix(told, Sound(), 1e-5)}
        assert found[validation, OWNERS] == pytest.approx(0.1, rel=1e-3)
        assert found[validation, CURATOR] == np.inf
    others = [tmp_path / name for name in ("consumer.jsonl", "a.jsonl", "b.jsonl")]
    verdicts = verify(tmp_path / "runs", others)
    assert not [verdict.fault for verdict in verdicts if verdict.fault]
    (record,) = (read_json(path) for path in (tmp_path / "runs").glob("*/record.json"))
    assert record["validation_points"] == 15
