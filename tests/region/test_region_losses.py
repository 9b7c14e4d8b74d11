"""Regions that lose owners, a disk or their own process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from curator.sums.settings import SecuritySettings
from fedkme.directives import Directive, Dismiss, Embed, Refusal
from fedkme.errors import FedkmeError, StoreError
from fedkme.ledgers.reconcile import verify_files
from fedkme.privacy.events import CURATOR
from fedkme.store import Store
from fedkme.store.memory import MemoryStore
from owner.runs import RunManager
from tests.region.forests import QUESTION, Forest, first_answer, invitation, lost


def test_a_region_goes_on_without_an_owner_and_says_so() -> None:
    forest = Forest()
    lost(forest.answering["owner-01"], at=2)
    records, _ = forest.released()
    assert records.release is not None
    sizes = {name: len(rows) for name, rows in forest.leaves.items()}
    assert records.release.owner_rows == {
        "north": sizes["owner-00"] + sizes["owner-02"],
        "south": sum(sizes[name] for name in forest.regions["south"]),
    }


def test_a_region_charges_what_may_have_left_an_owner_that_it_lost_while_it_asked(tmp_path: Path) -> None:
    # An owner wrote that its sums left, and its region, which had no line of it, was named as cheating.
    forest = Forest()
    lost(forest.answering["owner-01"], at=2, answers=True)
    _, curator = forest.released()
    assert {found.fault for found in verify_files([*forest.files(curator, tmp_path).values()])[0]} == {""}
    assert {line.protected for line in forest.region_lines("north") if not line.certain} == {"owner-01"}
    assert left_open(forest.stores[CURATOR, "north"]) == []


@pytest.mark.parametrize("back", [True, False])
def test_a_region_whose_disk_refused_what_came_charges_it_once_whether_or_not_it_comes_again(
    back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    forest = Forest()
    store = forest.stores[CURATOR, "north"]
    query = Directive("run-1", 1, 2, Embed(QUESTION))

    @contextlib.contextmanager
    def refusing() -> Iterator[None]:
        with MemoryStore.transaction(store):
            yield
            raise StoreError("the disk is full", "Make room.")

    async def asked() -> None:
        await first_answer(forest.runs["north"], Directive("run-1", 0, 1, invitation()))
        with monkeypatch.context() as patch:
            patch.setattr(store, "transaction", refusing)
            with pytest.raises(StoreError):
                await forest.runs["north"].prepare(query)
        if not back:
            lost(forest.answering["owner-01"], at=1)
        region = forest.region("north")
        await region.prepare(query)
        await region.prepare(Directive("run-1", 0, 3, Dismiss()))

    asyncio.run(asked())
    lines = forest.region_lines("north")
    assert len(lines) == len({*lines}) == 3 * 2
    assert {line.protected for line in lines if not line.certain} == (set() if back else {"owner-01"})
    assert left_open(store) == []


def left_open(store: Store) -> list[str]:
    return [*store.keys("doubtful/"), *store.keys("asked/")]


def test_a_region_that_lost_an_owner_leaves_a_secure_sum() -> None:
    forest = Forest()
    lost(forest.answering["owner-01"], at=2)
    with pytest.raises(FedkmeError):
        forest.released(SecuritySettings(colluders=0))


def test_a_region_that_was_killed_gives_the_same_bits_again() -> None:
    forest, said = Forest(), invitation()
    query = Directive("run-1", 1, 2, Embed(QUESTION))

    async def ask(runs: RunManager, directive: Directive) -> Any:
        await runs.prepare(directive)
        return runs.answer(directive)

    async def die() -> tuple[Any, Any, Any]:
        runs = forest.runs["north"]
        await ask(runs, Directive("run-1", 0, 1, said))
        first = await ask(runs, query)
        second = await ask(forest.region("north"), query)
        lost(forest.answering["owner-01"], at=1)
        return first, second, await ask(forest.region("north"), query)

    first, second, fewer = asyncio.run(die())
    np.testing.assert_array_equal(first.words, second.words)
    assert isinstance(fewer, Refusal)  # the difference of the two would be an owner's vector
    lines = [line.line for line in forest.owners["owner-00"].store.ledger()]
    assert len(lines) == len(set(lines)) == 2
