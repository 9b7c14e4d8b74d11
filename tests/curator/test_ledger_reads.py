"""Curator with a long ledger: a run reads no lines of earlier runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from curator.runs.preparation import OwnersSpent
from curator.summary.settings import FeatureSettings, SummarySettings
from curator.sums.settings import SecuritySettings
from fedkme.errors import BudgetError
from fedkme.privacy.budget import Budget
from fedkme.privacy.events import CURATOR, OWNERS, Disclosure, Gaussian, validation_of
from fedkme.privacy.ledger import last_seq, stored_ledger
from fedkme.store.base import LedgerLine
from fedkme.store.memory import MemoryStore
from fedkme.store.sqlite import SqliteStore
from tests.system.market import market
from tests.system.release_market import OWNERS as NAMES
from tests.system.release_market import release_market


def reading(patch: pytest.MonkeyPatch) -> list[int]:
    """Note how many lines each reading of the curator's ledger brings from here on."""
    read: list[int] = []
    ledger = SqliteStore.ledger

    def noted(store: SqliteStore, after: int = 0) -> list[LedgerLine]:
        lines = ledger(store, after)
        if store._name == CURATOR:
            read.append(len(lines))
        return lines

    patch.setattr(SqliteStore, "ledger", noted)
    return read


async def test_a_release_reads_no_lines_of_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with release_market(tmp_path, SecuritySettings()) as at:
        for name in NAMES:
            at.owner(name, 150, simulation_seed=0)
        await at.asks("first")
        await at.asks("second")
        with monkeypatch.context() as patch:
            read = reading(patch)
            await at.asks("third")
    assert read, "an attempt that died would have left lines"
    assert max(read) == 0


async def test_a_budget_reads_each_line_once_and_counts_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SummarySettings(protocol="algorithm3", features=FeatureSettings(dimension=16))
    async with market(tmp_path, ["a"], summary=clock, budget=Budget(epsilon=2.5, delta=1e-5)) as at:
        at.owner("a", simulation_seed=0)
        await at.consumer(output=tmp_path / "first")
        with monkeypatch.context() as patch:
            read = reading(patch)
            await at.consumer(output=tmp_path / "second")
            of_one_run = max(read)
            await at.consumer(output=tmp_path / "third")
            assert max(read) == of_one_run

            async def ask_on() -> None:
                for number in range(4, 9):
                    await at.consumer(output=tmp_path / str(number))

            with pytest.raises(BudgetError):
                await ask_on()


def line(protected: str, observer: str, nonce: str) -> Disclosure:
    return Disclosure("run-1", 1, protected, observer, Gaussian(2.0), "replace-one", 1.0, nonce)


def test_all_lines_that_owners_learn_are_read() -> None:
    store = MemoryStore(CURATOR)
    ledger, spent = stored_ledger(CURATOR, store), OwnersSpent(store)
    assert (spent.lines(), last_seq(store)) == ([], 0)
    heard = [line(OWNERS, OWNERS, "1"), line("north", OWNERS, "2"), line(validation_of("lab"), OWNERS, "3")]
    ledger.extend([*heard, line("north", CURATOR, '"observer":"owners",')])
    assert spent.lines()[:3] == heard
    ledger.extend(heard[:1])
    assert spent.lines()[3:] == heard[:1]
    assert last_seq(store) == 5
