"""Any sequence of calls: a store is where a dictionary would be, in every backend."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from fedkme.errors import StoreError
from fedkme.store.base import Store
from tests.fedkme.store.places import Place

RUNS = st.sampled_from(["r1", "r2", "r3"])
KEYS = st.sampled_from(["k", "k/1", "k/2", "l"])
BYTES = st.binary(max_size=20)
CALL = st.one_of(
    st.tuples(st.just("open_run"), RUNS, KEYS, BYTES),
    st.tuples(st.just("update_run"), RUNS, st.none() | KEYS, st.none() | BYTES),
    st.tuples(st.just("append"), RUNS, KEYS, BYTES),
    st.tuples(st.just("forget_entries"), RUNS),
    st.tuples(st.just("extend_ledger"), st.lists(KEYS, max_size=3)),
    st.tuples(st.just("put"), KEYS, BYTES),
    st.tuples(st.just("delete"), KEYS),
)
BLOCK = st.tuples(st.sampled_from(["alone", "kept", "raised", "reopened"]), st.lists(CALL, max_size=5))


class Model:
    """The store as dictionaries."""

    def __init__(self) -> None:
        self.runs: dict[str, list[Any]] = {}
        self.journal: dict[str, list[tuple[int, str, bytes]]] = {}
        self.lines: list[str] = []
        self.facts: dict[str, bytes] = {}

    def copy(self) -> Model:
        other = Model()
        other.runs = {run: list(row) for run, row in self.runs.items()}
        other.journal = {run: list(entries) for run, entries in self.journal.items()}
        other.lines, other.facts = list(self.lines), dict(self.facts)
        return other

    def call(self, name: str, *arguments: Any) -> Any:
        """Answer of the store; "refused" where it raises."""
        match name, *arguments:
            case "open_run", run, peer, document:
                if run in self.runs:
                    return "refused"
                self.runs[run], self.journal[run] = [peer, "open", document], []
            case "update_run", run, status, document:
                if run not in self.runs:
                    return "refused"
                row = self.runs[run]
                row[1:] = [status or row[1], row[2] if document is None else document]
            case "append", run, kind, body:
                if run not in self.runs:
                    return "refused"
                self.journal[run].append((len(self.journal[run]) + 1, kind, body))
                return len(self.journal[run])
            case "forget_entries", run:
                self.journal.get(run, []).clear()
            case "extend_ledger", lines:
                self.lines += lines
            case "put", key, value:
                self.facts[key] = value
            case "delete", key:
                self.facts.pop(key, None)
        return None

    def contents(self) -> object:
        runs = [(run, *row) for run, row in self.runs.items()]
        return runs, self.journal, list(enumerate(self.lines, start=1)), dict(sorted(self.facts.items()))


def call(store: Store, name: str, *arguments: Any) -> Any:
    try:
        if name == "update_run":
            run, status, document = arguments
            return store.update_run(run, status=status, document=document)
        return getattr(store, name)(*arguments)
    except StoreError:
        return "refused"


def contents(store: Store) -> object:
    runs = [(row.run, row.peer, row.status, row.document) for row in store.runs()]
    journal = {
        run: [(entry.position, entry.kind, entry.body) for entry in store.entries(run)] for run, *_ in runs
    }
    ledger = [(line.seq, line.line) for line in store.ledger()]
    return runs, journal, ledger, {key: store.get(key) for key in store.keys("")}


class _GivenUpError(Exception):
    pass


def carry_out(store: Store, model: Model, how: str, calls: list[tuple[Any, ...]]) -> Model:
    """Do the calls to both; what the model is afterwards."""
    if how == "alone":
        for one in calls:
            assert call(store, *one) == model.call(*one)
        return model
    attempt = model.copy()
    try:
        with store.transaction():
            for one in calls:
                assert call(store, *one) == attempt.call(*one)
            assert contents(store) == attempt.contents()
            if how == "raised":
                raise _GivenUpError
    except _GivenUpError:
        return model
    return attempt


@pytest.fixture
def parties() -> list[str]:
    """Names of parties that were used; every example takes another, so that none needs a place of its own."""
    return []


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(blocks=st.lists(BLOCK, max_size=6))
def test_a_store_answers_as_its_model(
    place: Place, parties: list[str], blocks: list[tuple[str, list[tuple[Any, ...]]]]
) -> None:
    parties.append(f"party-{len(parties)}")
    mine = Place(place.kind, f"{place.spec}{len(parties)}" if place.kind == "sqlite" else place.spec)
    store, model = mine.store(parties[-1]), Model()
    try:
        for how, calls in blocks:
            if how == "reopened" and place.kind not in ("memory", "objects"):
                store.close()
                store = mine.store(parties[-1])
            model = carry_out(store, model, how, calls)
            assert contents(store) == model.contents()
    finally:
        store.close()
