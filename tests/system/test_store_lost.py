"""A PostgreSQL server that restarts in mid-run ends its parties, and they go on where they were."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fedkme.errors import StoreError
from fedkme.ops import supervision
from tests.fedkme.store.conftest import server as server  # a fixture
from tests.fedkme.store.server import Server
from tests.parties import WAIT_S
from tests.system.market import SCHEMA, Ear, Market, curator_settings

LOST = r"the connection to the store at .* was lost"


async def test_parties_whose_store_is_lost_end_with_error_53_and_start_again(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # They stayed as zombies: health SERVING, every request error 53, for ever.
    monkeypatch.setattr(supervision, "STORE_CHECK_S", 0.1)
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")
    url = server.new_database()
    market = Market(tmp_path, curator_settings(tmp_path, owners=("a",), journal=url))
    assert await market.start()
    ear = Ear()
    owner = market.owner("a", journal=url, ear=ear)
    await ear.heard("joined")
    asking = market.consumer()
    server.stop()
    try:
        async with asyncio.timeout(WAIT_S):
            with pytest.raises(StoreError, match=LOST):
                await owner
            with pytest.raises(StoreError, match=LOST):
                await market.serving()
    finally:
        server.start()
    assert await market.start()
    market.owner("a", journal=url)
    try:
        await asking
    except StoreError:  # the curator said so before it ended: asked again, the run goes on
        await market.consumer()
    await market.end()
    assert (tmp_path / "consumer" / "summary.npz").exists()
