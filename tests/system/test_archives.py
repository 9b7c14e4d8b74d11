"""Issue 17, A8, with parties as they are deployed: what is over moves out of journals, and all goes on."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from fedkme.heads.files import export
from fedkme.ledgers.archiving import archive_finished
from fedkme.ledgers.reconcile import verify
from fedkme.ledgers.witnesses import check_files
from fedkme.privacy.events import CURATOR
from fedkme.privacy.ledger import read_ledger
from fedkme.store.reading import read_store
from owner.consent.history import archive_runs
from tests.system.market import Ear, market
from tools.verify_ledger import verify as independent


async def test_parties_archive_while_they_serve_and_their_ledgers_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("curator.server.archive_finished", partial(archive_finished, runs=1))
    monkeypatch.setattr("owner.agent.archive_runs", partial(archive_runs, runs=1))
    for first in (1, 4):  # the second time, over what the first left
        async with market(tmp_path, ["a"]) as at:
            at.owner("a", ear=(ear := Ear()))
            for number in range(first, first + 3):
                await at.consumer(output=tmp_path / f"out-{number}")
            await ear.heard("archived")
            await at.ear.heard("archived")
    for journal, party in ((tmp_path / "runs" / "journal.db", CURATOR), (tmp_path / "a.db", "a")):
        store = read_store(journal, party)
        assert len(store.archives()) >= 3
        assert store.lost_archives(read=True) == []
        store.close()
        export(str(journal), party, tmp_path / f"{party}.jsonl")
        assert read_ledger(tmp_path / f"{party}.jsonl") == read_ledger(journal)
    assert not [each.fault for each in verify(tmp_path / "runs", [tmp_path / "a.db"]) if each.fault]
    written = tmp_path / "runs" / "ledger.jsonl"
    assert written.read_bytes().startswith(b'{"archives":')
    files = [written, written.with_suffix(".heads"), tmp_path / "a.jsonl", tmp_path / "a.heads"]
    assert not [line for line in independent(files) if line.startswith("FAULT")]
    assert not [each.fault for each in check_files([written, tmp_path / "a.jsonl"]) if each.fault]
