"""Rows for a target over gRPC: no real row leaves an owner, and no byte of D_v the consumer (issue 40, A)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grpc.aio._channel import Channel

import fedkme as fk
from consumer.results import ALONE
from consumer.settings import ConsumerSettings
from consumer.target.client import run as consume
from fedkme.answers.folder import RELEASE
from fedkme.errors import PolicyError, QuorumError
from fedkme.tables.files import save_table
from fedkme.tables.table import Table
from owner.settings import PolicySettings
from sim.config import plain
from tests.parties import write_config
from tests.system.market import SCHEMA, Ear, market, rows
from tests.system.release_market import OWNERS, ReleaseMarket, release_market

NO_ROW = PolicySettings(rows="none")


def wanting(at: ReleaseMarket, output: str, validation: Table) -> ConsumerSettings:
    """Settings of a consumer who wants rows for a target."""
    save_table(at.folder / "validation.npz", validation)
    return at.asking(8, output=at.folder / output, real_rows=False)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes]]:
    """Every message that a consumer of this process sends: the method and the bytes."""
    messages: list[tuple[str, bytes]] = []

    def spied(open_method: Callable[..., Any]) -> Callable[..., Any]:
        def opening(channel: Any, path: str, **named: Any) -> Any:
            serialize = named.pop("request_serializer")

            def recorded(message: Any) -> bytes:
                data: bytes = serialize(message)
                if "Owners" not in path:
                    messages.append((path, data))
                return data

            return open_method(channel, path, request_serializer=recorded, **named)

        return opening

    for kind in ("unary_unary", "unary_stream", "stream_unary", "stream_stream"):
        monkeypatch.setattr(Channel, kind, spied(getattr(Channel, kind)))
    return messages


async def test_no_message_of_the_consumer_depends_on_d_v(
    tmp_path: Path, sent: list[tuple[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two neighbours, D_v and D_v': one row is another. The request's name, which is drawn, is frozen.
    monkeypatch.setattr(secrets, "token_bytes", lambda count=32: bytes(count))
    one = rows(15, 1000, SCHEMA)
    other = Table(np.concatenate([one.values[:-1], one.values[:1] * 0.0]), one.labels)
    messages, kept = [], []
    for name, validation in (("one", one), ("other", other)):
        async with release_market(tmp_path / name) as at:
            assert isinstance(at, ReleaseMarket)
            for owner in OWNERS:
                at.owner(owner, count=200, policy=NO_ROW)
            sent.clear()
            await consume(wanting(at, "out", validation), Ear())
            messages.append([(path, data.replace(name.encode(), b"")) for path, data in sent])
            kept.append((tmp_path / name / "out" / f"{ALONE}weighted.npz").read_bytes())
    assert messages[0]
    assert messages[0] == messages[1]
    assert kept[0] != kept[1]  # what stays here does depend on D_v


async def test_a_release_that_came_serves_further_targets(
    tmp_path: Path, sent: list[tuple[str, bytes]]
) -> None:
    async with release_market(tmp_path) as at:
        assert isinstance(at, ReleaseMarket)
        for owner in OWNERS:
            at.owner(owner, count=200, policy=NO_ROW)
        first = wanting(at, "out", rows(15, 1000, at.schema))
        lab = fk.Consumer(write_config(tmp_path / "lab.toml", plain(first)))
        ours = await asyncio.to_thread(lab.summary, progress=False)
        chosen = ours.rows
        assert len(chosen) == 8
        assert ours.weights.sum() == pytest.approx(1.0)
        assert ours.metrics["points_accessed"] == {"total": 0}
        assert set(ours.privacy["protected"]) == {"each owner", "D_v"}
        assert not ours.privacy["rows_seen"].any()
        assert "or the consumer alone" in ours.report
        before, release = len(sent), (tmp_path / "out" / RELEASE).read_bytes()
        wanting(at, "out", rows(20, 2000, at.schema))
        again = await asyncio.to_thread(lab.summary, progress=False)
        assert len(sent) == before  # nobody was asked
        assert (tmp_path / "out" / RELEASE).read_bytes() == release
        assert not again.rows.equals(chosen)
        assert isinstance(lab.last(), fk.SummaryResult)


async def test_an_owner_that_lets_no_row_leave_says_what_to_ask_for(tmp_path: Path) -> None:
    async with market(tmp_path, ["a"]) as at:
        at.owner("a", policy=NO_ROW)
        with pytest.raises((PolicyError, QuorumError), match="real_rows = false") as refused:
            await at.consumer()
        assert refused.value.code in (21, 54)
