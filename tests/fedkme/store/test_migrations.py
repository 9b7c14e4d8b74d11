"""Versions of the tables: "schema migrations from version 1 on"."""

from __future__ import annotations

from typing import Any

import pytest

from fedkme.errors import StoreError
from fedkme.store.migrations import POSTGRES, SQLITE, Step
from tests.fedkme.store.places import Place

NEXT: Step = ("ALTER TABLE runs ADD COLUMN note TEXT", "UPDATE runs SET note = 'from ' || peer")
FAILING: Step = ("UPDATE runs SET status = 'lost'", "UPDATE no_such_table SET x = 1")


def first(place: Place) -> tuple[Step, ...]:
    return (SQLITE if place.kind == "sqlite" else POSTGRES)[:1]


def query(store: Any, statement: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = store._execute(statement)
    return rows


def begin(place: Place) -> None:
    with place.open(steps=first(place)) as store:
        store.open_run("run", "owner-3", b"document")
        store.append("run", "kind", b"body")
        store.extend_ledger(["line"])


def test_a_new_store_is_of_the_latest_version(lasting: Place) -> None:
    with lasting.open() as store:
        assert query(store, "SELECT version FROM schema_version") == [(len(SQLITE),)]
    assert len(SQLITE) == len(POSTGRES)


def test_an_older_store_is_brought_forward_with_what_it_holds(lasting: Place) -> None:
    begin(lasting)
    for _ in range(2):  # the second time there is nothing to do
        with lasting.open(steps=(*first(lasting), NEXT)) as store:
            assert query(store, "SELECT version FROM schema_version") == [(2,)]
            assert query(store, "SELECT name, note FROM runs") == [("run", "from owner-3")]
            assert [entry.body for entry in store.entries("run")] == [b"body"]
            assert store.last_ledger_line() == "line"


def test_a_newer_store_is_refused(lasting: Place) -> None:
    with lasting.open(steps=(*first(lasting), NEXT)):
        pass
    with pytest.raises(StoreError, match="of version 2, and this release knows versions up to 1"):
        lasting.store(steps=first(lasting))


def test_a_step_that_fails_leaves_the_version_before_it(lasting: Place) -> None:
    begin(lasting)
    with pytest.raises(StoreError, match=r"could not be brought to version 3: .*no_such_table"):
        lasting.store(steps=(*first(lasting), NEXT, FAILING))
    with lasting.open(steps=(*first(lasting), NEXT)) as store:
        assert query(store, "SELECT version FROM schema_version") == [(2,)]
        assert [row.status for row in store.runs()] == ["open"]
