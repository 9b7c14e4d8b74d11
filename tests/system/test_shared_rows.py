"""A consumer that trusts the curator with D_v keeps its own epsilon towards owners."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from curator.summary.settings import CellsSettings, FeatureSettings, SummarySettings
from fedkme.documents import RunDocument
from fedkme.exchange import Offer, Plan, SummaryRequest
from fedkme.features.fourier import FourierSpec
from fedkme.ledgers.reconcile import verify
from fedkme.privacy.accountants import Sound, matrix
from fedkme.privacy.events import CURATOR, OWNERS, is_validation, validation_of
from fedkme.privacy.ledger import read_ledger
from fedkme.privacy.presets import PrivacyTarget
from fedkme.store import open_store
from fedkme.tables.files import save_table
from fedkme.wire.journals import run_document_to_bytes
from fedkme.wire.summaries import offer_from_messages, offer_to_messages
from tests.system.launches import read_json
from tests.system.market import DIMENSION, SCHEMA, market, rows

LOOSE: dict[str, Any] = {
    "features": FeatureSettings(dimension=DIMENSION),
    "privacy": PrivacyTarget(epsilon=8),
}
SEEDS = CellsSettings(bits=2, code_book="seeds", rho=2.0)
CURATORS = {
    "cells": SummarySettings(protocol="cells", cells=SEEDS, **LOOSE),
    "algorithm 3": SummarySettings(protocol="algorithm3", **LOOSE),
    "uniform": SummarySettings(protocol="uniform", **LOOSE),
}


def test_an_offer_keeps_the_draw_and_the_rows(tmp_path: Path) -> None:
    # As journals of curators and stores of consumers have it; and the form of earlier releases, D_v alone.
    plan = Plan("run-1", FourierSpec("paired", DIMENSION, 1.0, SCHEMA.encoded_width, 5))
    target, rows_of = np.arange(DIMENSION, dtype=np.int32), rows(3, 1).values
    for offer in (
        Offer(target, None, rows_of),
        Offer(None, np.arange(4), rows_of),
        Offer(None, None, rows_of),
        Offer(None, np.arange(4), rows_of, validation_classes=np.array([1, 0, 1])),
    ):
        kept = offer_from_messages(offer_to_messages(offer), plan)
        for name in ("target", "histogram", "validation", "validation_classes"):
            there, again = getattr(offer, name), getattr(kept, name)
            assert (there is None) == (again is None)
            assert there is None or np.array_equal(there, again)


async def test_a_run_that_an_earlier_release_began_with_d_v_alone_ends_with_a_line(tmp_path: Path) -> None:
    async with market(tmp_path, ["a"]) as at:
        asked = SummaryRequest("consumer", b"i" * 16, SCHEMA.digest(), 3, 3, 1.0)
        plan = Plan("run-1", FourierSpec("paired", DIMENSION, 1.0, SCHEMA.encoded_width, 5))
        document = RunDocument(asked, plan, Offer(validation=rows(3, 1).values))
        await at.stop()
        with contextlib.closing(open_store(tmp_path / "runs" / "journal.db", CURATOR, "process")) as store:
            store.open_run("run-1", "consumer", run_document_to_bytes(document))
            store.update_run("run-1", status="queued")
        assert await at.start()
        at.owner("a")
        await at.ear.heard("ended")
    record = read_json(tmp_path / "runs" / "run-1" / "record.json")
    assert record["status"] == "stopped"
    assert record["cause"] == "run-1 was begun with D_v alone, by an earlier release"
    assert not [
        e for e in read_ledger(tmp_path / "runs" / "journal.db") if is_validation(e.disclosure.protected)
    ]


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
