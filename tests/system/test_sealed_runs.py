"""Issue 6, item 2, on the wire: "the curator's whole state and traffic do not contain rows or draw"."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import curator.consumers.summary_service
from consumer.runs import watching
from consumer.sealed_rows import RunKeys
from curator.run.summary_record import MadeSummary, read_outcome
from curator.runs.summary_families import check_secret_draw
from curator.summary.settings import CellsSettings, SummarySettings
from fedkme.errors import ConfigError, ProtocolError, QuorumError, SealedBoxError
from fedkme.exchange import Offer, Plan
from fedkme.features.fourier import FourierSpec
from fedkme.ledgers.reconcile import verify
from fedkme.privacy.settings import GaussianSettings
from fedkme.tables.files import load_table, save_table
from fedkme.tables.schema import Numeric, Schema
from fedkme.wire.sealed import gifts_from_wire
from owner.settings import PolicySettings
from sim.config import load_simulation
from sim.progress import Progress
from sim.run import simulate
from tests.leaks import Seen
from tests.system import market as markets
from tests.system.market import SCHEMA, Ear, Market, market, rows
from tests.system.proxy import Proxy

P = 6
WIDE = Schema(columns=(Numeric(name="x", bounds=(0, 1), count=8),))
"""Rows long enough that a row in fixed point is in no other bytes by chance."""
OWNERS = {"north": 25, "east": 30}  # whose rows are of different seeds


def summary(protocol: str, content: str = "hashed") -> SummarySettings:
    return SummarySettings.model_validate(
        {"protocol": protocol, "content": content, "cells": CellsSettings(code_book="seeds", bits=2, rho=2.0)}
    )


class Spy:
    """Files that the curator ever had in its folder, and every secret that a consumer made."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.files: set[bytes] = set()
        self.keys: list[RunKeys] = []
        self._folder = folder
        fresh = RunKeys.fresh

        def remembered(consumer: str, run: str, seed: int | None = None) -> RunKeys:
            self.keys.append(fresh(consumer, run, seed))
            return self.keys[-1]

        spy = self

        class Looking(Ear):
            def say(self, event: str, **fields: Any) -> None:
                spy.look()
                super().say(event, **fields)

        patch.setattr(RunKeys, "fresh", staticmethod(remembered))
        patch.setattr(markets, "Ear", Looking)

    def look(self) -> None:
        self.files |= {file.read_bytes() for file in self._folder.rglob("*") if file.is_file()}


async def served(
    folder: Path, patch: pytest.MonkeyPatch, settings: SummarySettings
) -> tuple[Spy, Seen, list[NDArray[Any]]]:
    """A run, seen from the curator's side; then the rows of owners and of D_v."""
    spy = Spy(folder / "runs", patch)
    save_table(folder / "seeds.npz", rows(12, 7, WIDE))
    async with market(folder, list(OWNERS), WIDE, summary=settings, seeds=folder / "seeds.npz") as at:
        proxy = Proxy(at.address)
        async with proxy.open() as address:
            for name, count in OWNERS.items():
                at.owner(name, count, curator=address)
            await at.consumer(P, curator=address, target=GaussianSettings())
            await at.ear.heard("ended")
        spy.look()
    spy.look()
    tables = [load_table(folder / f"{name}.npz", WIDE, name).values for name in OWNERS]
    validation = load_table(folder / "validation.npz", WIDE, "consumer").values
    return spy, Seen(bytes(proxy.seen) + b"".join(spy.files)), [*tables, validation]


@pytest.mark.parametrize("protocol", ["cells", "uniform", "algorithm3"])
async def test_no_row_and_no_secret_is_in_what_a_hashed_curator_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    spy, seen, tables = await served(tmp_path, monkeypatch, summary(protocol))
    received = load_table(tmp_path / "consumer" / "summary.npz", WIDE, "the summary").values
    owned = {row.tobytes() for table in tables[:2] for row in table}
    assert len(received) == P
    assert {row.tobytes() for row in received} <= owned  # so rows did go through it
    assert seen.rows(tables) == 0
    assert seen.chance(tables) < 1e-4
    (keys,) = spy.keys
    hidden = (keys.secret.exposed(), keys.keys.box, keys.keys.signing, keys.secret.derive(b"sealed rows"))
    for secret in hidden:
        assert not seen.secret(secret)
    assert seen.secret(keys.secret.commitment())  # the search finds what is there
    check_draw(tmp_path, keys, seen, protocol, [received, *tables])
    for secret in hidden[1:3]:  # this run's own keys went with it
        assert secret not in (tmp_path / "consumer.db").read_bytes()
    check_ledgers(tmp_path)


@pytest.mark.parametrize("protocol", ["cells", "uniform", "algorithm3"])
async def test_the_same_search_finds_rows_where_they_go_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    _, seen, tables = await served(tmp_path, monkeypatch, summary(protocol, "rows"))
    assert seen.rows(tables[:2]) >= P
    assert seen.rows(tables[2:]) == 0  # D_v stays at home either way


def check_draw(
    folder: Path, keys: RunKeys, seen: Seen, protocol: str, tables: Sequence[NDArray[Any]]
) -> None:
    """No draw, no h1 of a public row; h1 of owners' rows only where the curator chooses by it."""
    record = json.loads(next(folder.glob("runs/run-*/record.json")).read_text())
    h1 = keys.draw(FourierSpec(**record["features"]))
    assert h1._offset is not None
    assert seen.rows([h1._omega, h1._omega.T, h1._offset[None]]) == 0
    public = load_table(folder / "seeds.npz", WIDE, "seeds").values
    received, *owned, validation = tables
    for table, hashed in ((public, False), (validation, False), (received, protocol == "algorithm3")):
        hashes = h1.fixed_point(WIDE.encode(table))
        assert all(seen.holds(row.astype("<i2").tobytes()) == hashed for row in hashes)
    assert owned


def check_ledgers(folder: Path) -> None:
    """Both sides wrote the same; the curator's lines call nothing of an owner raw towards the curator."""
    run = next(folder.glob("runs/run-*"))
    (folder / "runs" / "consumer").mkdir(exist_ok=True)
    others = [*(folder / f"{name}.jsonl" for name in OWNERS), folder / "consumer.jsonl"]
    assert [verdict.fault for verdict in verify(folder / "runs", others) if verdict.fault] == []
    assert (run / "sealed.npz").exists()
    assert not (run / "summary.npz").exists()
    owned = "".join((folder / f"{name}.jsonl").read_text() for name in OWNERS)  # one may have given no row
    for ledger in ((folder / "runs" / "ledger.jsonl").read_text(), owned):
        lines = [line for line in ledger.splitlines() if '"raw-rows"' in line]
        assert lines
        assert all('"observer":"consumer"' in line for line in lines)


async def run_with(at: Market, **changes: Any) -> None:
    for name, count in OWNERS.items():
        at.owner(name, count)
    await at.consumer(P, target=GaussianSettings(), **changes)


def tampered(outcome: MadeSummary, how: str) -> MadeSummary:
    first, *rest = outcome.sealed
    match how:
        case "altered":
            first = replace(first, box=first.box[:-1] + bytes([first.box[-1] ^ 1]))
        case "under another token":
            first = replace(first, token=first.token + 1)
        case "with a hash":
            first = replace(first, features=np.zeros(2, dtype=np.int16))
        case "twice":
            first = rest[0]
    return replace(outcome, sealed=[first, *rest])


async def test_a_curator_that_puts_a_row_to_another_hash_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crossed(folder: Path) -> MadeSummary:
        outcome = read_outcome(folder)
        first, second, *rest = outcome.sealed
        pair = replace(first, features=second.features), replace(second, features=first.features)
        return replace(outcome, sealed=[*pair, *rest])

    monkeypatch.setattr(curator.consumers.summary_service, "read_outcome", crossed)
    async with market(tmp_path, list(OWNERS), summary=summary("algorithm3")) as at:
        with pytest.raises(SealedBoxError):
            await run_with(at)


@pytest.mark.parametrize("how", ["altered", "under another token", "with a hash", "twice"])
async def test_a_curator_that_tampers_with_boxes_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(
        curator.consumers.summary_service, "read_outcome", lambda folder: tampered(read_outcome(folder), how)
    )
    async with market(tmp_path, list(OWNERS), summary=summary("uniform")) as at:
        with pytest.raises(SealedBoxError):
            await run_with(at)
    assert not (tmp_path / "consumer" / "summary.npz").exists()


async def test_an_owner_whose_gift_is_anothers_leaves_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Decision 010: "swaps ... keys or gifts: error at the owner; that owner's part ends".
    def swapped(gifts: Sequence[Any]) -> Any:
        gifts[0].box, gifts[1].box = gifts[1].box, gifts[0].box
        return gifts_from_wire(gifts)

    monkeypatch.setattr("fedkme.wire.summaries.gifts_from_wire", swapped)
    monkeypatch.setattr("curator.runs.preparation.check_gifts", lambda *said: None)  # it is the curator's lie
    async with market(tmp_path, list(OWNERS), summary=summary("uniform")) as at:
        ear = Ear()
        for name, count in OWNERS.items():
            at.owner(name, count)
        at.consumer(P, ear=ear, target=GaussianSettings())
        ended = await at.ear.heard("ended")
        left = [fields["line"] for event, fields in at.ear.said if event == "owner_left"]
    assert ended["status"] == "stopped"  # nobody is left
    assert len(left) == 2
    assert all("is not signed by its giver" in line for line in left)


async def test_policies_tell_hashed_runs_from_raw_ones(tmp_path: Path) -> None:
    # Issue: owners' policy `rows = "hashed"` must accept these runs and refuse raw ones.
    careful = PolicySettings(rows="hashed")
    for content in ("hashed", "rows"):
        folder = tmp_path / content
        folder.mkdir()
        async with market(folder, ["north"], summary=summary("uniform", content)) as at:
            at.owner("north", 20, policy=careful)
            refused = contextlib.nullcontext() if content == "hashed" else pytest.raises(QuorumError)
            with refused:
                await at.consumer(P, target=GaussianSettings())
            left = [fields["line"] for event, fields in at.ear.said if event == "owner_left"]
        assert [("raw rows leave" in line) for line in left] == ([True] if content == "rows" else [])


async def test_a_consumer_that_starts_again_opens_what_was_sealed_for_it_before(tmp_path: Path) -> None:
    async with market(tmp_path, list(OWNERS), summary=summary("uniform")) as at:
        for name, count in OWNERS.items():
            at.owner(name, count)
        asked = at.consumer(P, target=GaussianSettings())
        await at.ear.heard("queued")
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert (tmp_path / "consumer.db").stat().st_mode & 0o777 == 0o600
        await at.consumer(P, target=GaussianSettings())
        name = (await at.ear.heard("ended"))["run"]
        table = load_table(tmp_path / "consumer" / "summary.npz", SCHEMA, "the summary")
        assert len(table) == P
        with pytest.raises(
            SealedBoxError, match="not in this consumer's store"
        ):  # keys went with the summary
            await watching(name)(at.asking(P), Ear())


@pytest.mark.parametrize("protocol", ["cells", "uniform", "algorithm3"])
def test_both_engines_open_the_same_summary(tmp_path: Path, protocol: str) -> None:
    # CLI: `fedkme sim run digits --set protocol=cells --set content=hashed`, over processes with TLS.
    names = [
        f"protocol={protocol}",
        "content=hashed",
        "p=12",
        "scenario.copies=1",
        "scenario.owners=2",
        "baselines=[]",
    ]
    assign = [*names, "downstream=false", "cells.code_book=seeds", "cells.bits=3"]
    received, expected = [], {"cells": 1.0, "uniform": 0.0, "algorithm3": "inf"}
    for engine in ("inprocess", "processes"):
        settings = load_simulation("digits", [*assign, f"engine={engine}"])
        directory, metrics = simulate(settings, tmp_path / engine, Progress(StringIO()))
        assert metrics["status"] == "complete"
        assert [verdict.fault for verdict in verify(directory) if verdict.fault] == []
        assert not (directory / "summary.npz").exists()
        received.append((directory / "consumer" / "summary.npz").read_bytes())
        against_curator = [s for s in metrics["privacy"] if s["observer"] == "curator"]
        assert {s["epsilon"] for s in against_curator} == {expected[protocol]}
    assert received[0] == received[1]


async def test_a_sealed_summary_is_the_one_that_rows_as_they_are_would_make(tmp_path: Path) -> None:
    # Decision 010: by cells the consumer prunes either way, so nothing is lost.
    made = []
    for content in ("rows", "hashed"):
        folder = tmp_path / content
        folder.mkdir()
        save_table(folder / "seeds.npz", rows(12, 7))
        settings = summary("cells", content)
        async with market(folder, list(OWNERS), summary=settings, seeds=folder / "seeds.npz") as at:
            for name, count in OWNERS.items():
                at.owner(name, count, simulation_seed=5)
            await at.consumer(P, simulation_seed=5)
        made.append((folder / "consumer" / "summary.npz").read_bytes())
    assert made[0] == made[1]


async def test_a_curator_that_chooses_by_hashes_is_not_given_rows_of_d_v(tmp_path: Path) -> None:
    async with market(tmp_path, ["north"], summary=summary("algorithm3")) as at:
        at.owner("north", 20)
        with pytest.raises(ConfigError, match="is of no use to it"):
            await at.consumer(P, share="rows")


@pytest.mark.parametrize("missing", ["reference", "gifts"])
async def test_an_offer_without_what_hashes_need_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    kept = check_secret_draw

    def without(plan: Plan, offer: Offer, schema: Schema) -> None:
        lacking = {"reference": replace(offer, reference=None), "gifts": replace(offer, gifts={})}
        kept(plan, lacking[missing], schema)

    monkeypatch.setattr("curator.runs.summary_families.check_secret_draw", without)
    async with market(tmp_path, ["north"], summary=summary("algorithm3")) as at:
        at.owner("north", 20)
        with pytest.raises(ProtocolError):
            await at.consumer(P, target=GaussianSettings())


@pytest.mark.parametrize("protocol", ["cells", "uniform", "algorithm3"])
async def test_an_owner_that_is_started_again_before_the_run_leaves_it_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    # Its keys died with its process: the gift is for keys that nobody has. The run goes on with the others.
    save_table(tmp_path / "seeds.npz", rows(12, 7))
    settings = summary(protocol)
    async with market(tmp_path, list(OWNERS), summary=settings, seeds=tmp_path / "seeds.npz") as at:
        tasks = {name: at.owner(name, count) for name, count in OWNERS.items()}
        kept = curator.consumers.summary_service.SummaryService._hear_offer

        async def interrupted(self: Any, *heard: Any) -> Offer:  # no offer has come
            tasks["east"].cancel()
            await asyncio.gather(tasks["east"], return_exceptions=True)
            at.owner("east", OWNERS["east"])
            await at.ear.heard("owner_joined", 3)
            return await kept(self, *heard)

        monkeypatch.setattr(curator.consumers.summary_service.SummaryService, "_hear_offer", interrupted)
        await at.consumer(P, target=GaussianSettings())
        ended = await at.ear.heard("ended")
        left = [fields["line"] for event, fields in at.ear.said if event == "owner_left"]
    assert ended["status"] == "complete"
    assert len(left) == 1
    assert "east has no keys for run-1" in left[0]
    received = load_table(tmp_path / "consumer" / "summary.npz", SCHEMA, "the summary").values
    owned = {row.tobytes() for row in load_table(tmp_path / "north.npz", SCHEMA, "north").values}
    assert {row.tobytes() for row in received} <= owned
