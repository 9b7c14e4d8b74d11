"""Events and disclosures: immutable descriptions that a ledger writes and reads."""

import dataclasses
import json
import math
import subprocess
import sys
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.errors import ConfigError, ProtocolError
from fedkme.privacy.events import (
    BoundedRange,
    Clock,
    Composed,
    Disclosure,
    Event,
    ExactStatistic,
    Gaussian,
    HashedRows,
    Laplace,
    MwemCall,
    MwemRelation,
    MwemSchedule,
    PrivAuction,
    PureDp,
    RawRows,
    Relation,
    SealedRows,
    disclosure_from_json,
    event_from_json,
    leaves,
)
from tests.fedkme.privacy.formulas import mwem_zcdp

NUMBER = st.floats(1e-6, 1e6)
COUNT = st.integers(1, 10**9)
SHARE = st.floats(1e-6, 1.0)
NAME = st.text(min_size=1, max_size=20)
LEAF: st.SearchStrategy[Event] = st.one_of(
    st.builds(Gaussian, NUMBER, COUNT),
    st.builds(Laplace, NUMBER, COUNT),
    st.builds(BoundedRange, NUMBER, COUNT),
    st.builds(PureDp, NUMBER, COUNT),
    st.builds(MwemCall, NUMBER, COUNT, st.sampled_from(get_args(MwemRelation))),
    st.builds(
        lambda epsilon, first, more: MwemSchedule(epsilon, 5, first, first + more),
        NUMBER,
        COUNT,
        st.integers(0, 9),
    ),
    st.builds(Clock, NUMBER, st.sampled_from(get_args(Relation))),
    st.builds(PrivAuction, NUMBER, NUMBER, COUNT, NUMBER, SHARE),
    st.builds(RawRows, COUNT),
    st.builds(HashedRows, COUNT),
    st.builds(SealedRows, COUNT),
    st.builds(ExactStatistic, NAME),
)
EVENT = st.recursive(
    LEAF, lambda part: st.builds(Composed, st.lists(part, max_size=3).map(tuple)), max_leaves=6
)
DISCLOSURE = st.builds(
    Disclosure,
    run=NAME,
    round=st.integers(0, 10**6),
    protected=NAME,
    observer=NAME,
    event=EVENT.filter(lambda event: event.assumes <= {"add-remove"}),
    relation=st.just("add-remove"),
    sensitivity=st.none() | NUMBER,
    nonce=NAME,
    certain=st.booleans(),
)


@given(EVENT)
def test_an_event_is_equal_after_json(event: Event) -> None:
    text = json.dumps(event.to_json(), allow_nan=False)
    again = event_from_json(json.loads(text))
    assert again == event
    assert json.dumps(again.to_json()) == text


@given(DISCLOSURE)
def test_a_disclosure_is_equal_after_json_and_has_one_canonical_form(disclosure: Disclosure) -> None:
    # Chains hash these bytes on both sides of an exchange, so equal entries must have equal bytes.
    again = disclosure_from_json(json.loads(disclosure.canonical()))
    assert again == disclosure
    assert again.canonical() == disclosure.canonical()
    assert again.certain is disclosure.certain
    assert hash(again) == hash(disclosure)
    disclosure.canonical().decode("ascii")


def test_numbers_of_any_type_have_one_canonical_form() -> None:
    import numpy as np

    count: Any = np.int64(1)
    assert Gaussian(2).to_json() == Gaussian(np.float64(2.0), count).to_json()
    assert json.dumps(Gaussian(2).to_json()) == json.dumps(Gaussian(2.0).to_json())


def test_the_wire_form_of_a_disclosure() -> None:
    # The meaning and spelling of a kind never change: an old ledger must verify.
    entry = Disclosure(
        run="r1",
        round=3,
        protected="owner-1",
        observer="owner-2",
        event=Composed((Gaussian(4.0, 2), RawRows(1))),
        relation="replace-one",
        sensitivity=2,
        nonce="07",
    )
    assert entry.canonical() == (
        b'{"event":{"events":[{"count":2,"kind":"gaussian","noise_multiplier":4.0},'
        b'{"count":1,"kind":"raw-rows"}],"kind":"composed"},"nonce":"07","observer":"owner-2",'
        b'"protected":"owner-1","relation":"replace-one","round":3,"run":"r1","sensitivity":2.0}'
    )


def test_kinds_are_frozen_public_names() -> None:
    # CONVENTIONS.md: a mechanism's meaning never changes; a ledger names it by its kind.
    fields = {
        kind.kind: tuple(field.name for field in dataclasses.fields(kind)) for kind in Event.__subclasses__()
    }
    assert fields == {
        "gaussian": ("noise_multiplier", "count"),
        "laplace": ("noise_multiplier", "count"),
        "bounded-range": ("epsilon", "count"),
        "pure-dp": ("epsilon", "count"),
        "mwem-call": ("epsilon", "iterations", "relation"),
        "mwem-schedule": ("epsilon", "iterations", "first", "last", "relation"),
        "clock": ("epsilon", "relation"),
        "privauction": ("rate", "patience", "rounds", "epsilon", "delta"),
        "raw-rows": ("count",),
        "hashed-rows": ("count",),
        "sealed-rows": ("count",),
        "exact-statistic": ("what",),
        "composed": ("events",),
    }
    frozen: Any = Gaussian(1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        frozen.count = 2


@pytest.mark.parametrize(
    "plain",
    [
        None,
        [],
        {},
        {"kind": "telepathy"},
        {"kind": ["gaussian"]},
        {"kind": "gaussian", "noise_multiplier": 1.0},
        {"kind": "gaussian", "noise_multiplier": 1.0, "count": 1, "extra": 1},
        {"kind": "gaussian", "noise_multiplier": "1.0", "count": 1},
        {"kind": "gaussian", "noise_multiplier": True, "count": 1},
        {"kind": "gaussian", "noise_multiplier": math.nan, "count": 1},
        {"kind": "gaussian", "noise_multiplier": 1.0, "count": 1.5},
        {"kind": "gaussian", "noise_multiplier": 1.0, "count": 0},
        {"kind": "gaussian", "noise_multiplier": 10**400, "count": 1},
        {"kind": "clock", "epsilon": 1.0, "relation": "zero-out"},
        {"kind": "composed", "events": {}},
        {"kind": "composed", "events": [{"kind": "telepathy"}]},
    ],
)
def test_malformed_events_are_refused_by_name(plain: Any) -> None:
    # An accountant must never read an unknown mechanism as one that it knows.
    with pytest.raises(ProtocolError, match="ledger"):
        event_from_json(plain)


@pytest.mark.parametrize(
    "change",
    [
        {"round": -1},
        {"round": 1.0},
        {"run": ""},
        {"nonce": 7},
        {"sensitivity": 0.0},
        {"sensitivity": "1"},
        {"sensitivity": []},
        {"relation": "add-remove"},
        {"relation": None},
        {"extra": 1},
        {"certain": True},
        {"certain": 0},
    ],
)
def test_malformed_disclosures_are_refused(change: dict[str, Any]) -> None:
    entry = Disclosure("r", 0, "D_v", "owner-1", MwemCall(0.01, 5), "replace-one", None, "n")
    with pytest.raises(ProtocolError):
        disclosure_from_json(entry.to_json() | change)


@pytest.mark.parametrize("number", [0.0, -1.0, math.inf, math.nan, 1e-200])
def test_numbers_out_of_range_make_no_event(number: float) -> None:
    with pytest.raises(ConfigError):
        Laplace(number)


def test_probabilities_are_at_most_one() -> None:
    with pytest.raises(ConfigError, match="cannot have this"):
        PrivAuction(0.1, 3.0, 10, 1.0, 1.5)


def test_a_disclosure_states_the_relation_of_its_event() -> None:
    # An event that was described under one relation cannot be entered under another.
    for event in (Clock(0.5, "add-remove"), Composed((MwemCall(1.0, 1),))):
        other: Relation = "add-remove" if event.assumes == {"replace-one"} else "replace-one"
        with pytest.raises(ConfigError, match="relation"):
            Disclosure("r", 0, "D_v", "owner-1", event, other, None, "n")


@pytest.mark.parametrize("relation", get_args(MwemRelation))
def test_pieces_of_h2_cost_what_accounting_says(relation: MwemRelation) -> None:
    # MATH.md, "Privacy of h2, honestly": bounded range and pure DP of an iteration under each relation.
    selection, value = MwemCall(0.01, 7, relation).pieces()
    rho = selection.count * selection.epsilon**2 / 8 + value.count / value.noise_multiplier**2 / 2
    assert rho == pytest.approx(mwem_zcdp(0.01, 7, relation), rel=1e-12)


def test_a_clock_costs_epsilon_under_add_remove_and_twice_under_replace_one() -> None:
    # SARPATWAR.md, section 6: pure eps-DP under add/remove; 2 eps for replace; for all clocks of the run.
    assert Clock(0.5, "add-remove").pieces() == (PureDp(0.5),)
    assert Clock(0.5, "replace-one").pieces() == (PureDp(1.0),)


def test_leaves_keep_the_order() -> None:
    tree = Composed((RawRows(1), Composed((RawRows(2), Composed(()))), RawRows(3)))
    assert list(leaves([tree, RawRows(4)])) == [RawRows(1), RawRows(2), RawRows(3), RawRows(4)]


def test_events_import_no_heavy_library() -> None:
    # An owner writes a ledger entry on its round path: no accounting library, not even scipy.
    code = "import sys, fedkme.privacy.events; print({'scipy', 'dp_accounting'} & set(sys.modules))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "set()"
