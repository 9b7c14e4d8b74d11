"""Plans whose numbers would read a row of D_v exactly, beside a proof that says epsilon .1.

A curator lies in its plan; two neighbouring D_v must end alike, with the same words or with offers that
differ as the mechanism's proof says.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.requests import Requests
from consumer.settings import RequestSettings
from consumer.summary.party import ConsumerParty
from fedkme.cells.codebook import CodeBook
from fedkme.cells.directions import Menu
from fedkme.cells.projection import spec_for
from fedkme.errors import ConfigError, FedkmeError
from fedkme.exchange import CellsPlan, Offer, Plan
from fedkme.features.fourier import FourierSpec
from fedkme.margins.density import even_density
from fedkme.margins.model import make_model
from fedkme.party import noise_for
from fedkme.privacy.events import BoundedRange
from fedkme.privacy.ledger import disclosures_in
from fedkme.store.memory import MemoryStore
from fedkme.tables.table import Table
from tests.hostile.labs import LOST, RUN, Hostile, Lab, lab
from tests.system.market import SCHEMA

HALF = 15
"""Rows of D_v on each side of the direction."""
SIDES = np.array([[1.0, 0.2, 0.2], [0.2, 1.0, 1.0]])
WORLDS = [Table(SIDES[[0] * (HALF + moved) + [1] * (HALF - moved)]) for moved in (0, 1)]
"""Two D_v that differ in one row: as many rows on each side, or one more on one."""
SPEC = spec_for(SCHEMA, 3)
BOOK = CodeBook(
    "sketch",
    SPEC,
    {
        "origin": np.zeros(3),
        "directions": np.eye(3)[:, 1:],
        "weights": np.zeros((1, 3)),
        "offsets": np.zeros(1),
    },
    SCHEMA,
)
MENU = Menu((0,), np.zeros(1), np.full(1, 1e-3), np.zeros(1), ((0,),), 1, 0.1, 4, ((0.5,),), ((0, 1),))
Change = Callable[[dict[str, Any], dict[str, Any]], None]


def plan(change: Change | None = None) -> Plan:
    """The plan of a curator that changes numbers of book and menu."""
    book, menu = (json.loads(json.dumps(each.to_json())) for each in (BOOK, MENU))
    if change is not None:
        change(book["arrays"], menu)
    features = FourierSpec("paired", 8, 1.0, SCHEMA.encoded_width, 3)
    return Plan(RUN, features, cells=CellsPlan(book, 1.0, 2.0, menu=menu))


def party(validation: Table, seed: int = 0, **request: Any) -> ConsumerParty:
    """A consumer in this process."""
    return ConsumerParty(
        requests=Requests("consumer", MemoryStore("consumer")),
        request=RequestSettings.model_validate({"p": 3, **request}),
        schema=SCHEMA,
        validation=validation,
        noise_for=noise_for(seed, "consumer"),
        warn=lambda run, line: None,
    )


def offered(offered_plan: Plan, validation: Table, seed: int = 0, **request: Any) -> Offer | str:
    """The offer of a real consumer, or the words with which it refuses."""
    asker = party(validation, seed, **request)
    kept = asker.ask(asker.document(Path()))
    try:
        return asker.offer(kept, offered_plan)
    except FedkmeError as error:
        assert not list(disclosures_in(kept.line for kept in asker.requests._store.ledger()))
        return str(error)


def of_levels(level: float) -> Change:
    return lambda book, menu: menu.update(levels=[level])


def of_widths(width: float) -> Change:
    return lambda book, menu: menu.update(widths=[width])


def of_lengths(length: float) -> Change:
    """Coordinates whose differences are inf for rows on one side alone."""

    def change(book: dict[str, Any], menu: dict[str, Any]) -> None:
        book["origin"] = [-length, 0.0, 0.0]
        menu["cuts"] = [-length]

    return change


def of_cuts(cut: float) -> Change:
    return lambda book, menu: menu.update(cuts=[cut], widths=[5e-324])


LIES = {
    "levels of 1e300": of_levels(1e300),
    "levels of -1e300": of_levels(-1e300),
    "levels at the end of what is": of_levels(math.nextafter(math.inf, 0.0)),
    "levels beyond a half": of_levels(0.75),
    "lengths near 1.8e308": of_lengths(1.79e308),
    "lengths of 1e200": of_lengths(1e200),
    "the least width": of_widths(5e-324),
    "cuts over the least width": of_cuts(0.0),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_menu_tells_nothing_of_a_row(lie: str) -> None:
    # The issue's: "no direction" always in one world and never in the other, where epsilon is .1.
    offered_plan = plan(LIES[lie])
    ends = [[offered(offered_plan, world, seed) for seed in range(20)] for world in WORLDS]
    assert all(isinstance(end, str) for end in itertools.chain(*ends))
    assert ends[0] == ends[1]


def test_the_refusal_of_a_plan_does_not_depend_on_d_v() -> None:
    # A book of one bit, a menu of two picks: who picked two was refused after D_v was read, free of charge
    # and as often as the curator asked; who picked no other was not.
    two = replace(
        MENU,
        axes=(0, 1),
        cuts=np.zeros(2),
        edges=((), ()),
        groups=((), ()),
        widths=np.ones(2),
        levels=np.zeros(2),
        close=((0,), (1,)),
        picks=2,
    )

    def change(book: dict[str, Any], menu: dict[str, Any]) -> None:
        book["directions"] = [[0.0], [0.0], [1.0]]
        menu.update(two.to_json())

    ends = {str(offered(plan(change), world, seed)) for world in WORLDS for seed in range(20)}
    assert len(ends) == 1
    assert "do not fit" in ends.pop()


def test_a_consumer_says_how_often_d_v_may_pick() -> None:
    three = {"axes": [0, 1, 2], "close": [[0], [1], [2]], "picks": 3, "cells": 8}
    three |= {"edges": [[]] * 3, "groups": [[]] * 3}
    sizes = {name: [value] * 3 for name, value in (("cuts", 0.0), ("widths", 1.0), ("levels", 0.0))}

    def change(book: dict[str, Any], menu: dict[str, Any]) -> None:
        book["directions"] = np.eye(3).tolist()
        menu.update(three | sizes)

    refusal = offered(plan(change), WORLDS[0], picks=2)
    assert isinstance(refusal, str)
    assert "allows 2" in refusal
    allowed = offered(plan(change), WORLDS[0])
    assert isinstance(allowed, Offer)
    spent = [about.event for about in allowed.disclosures if isinstance(about.event, BoundedRange)]
    assert len(spent) == 2 * len(allowed.picks)
    none = offered(plan(change), WORLDS[0], picks=0)
    assert isinstance(none, Offer)
    assert none.picks == ()
    assert not [about for about in none.disclosures if isinstance(about.event, BoundedRange)]


def test_a_consumer_refuses_a_plan_with_more_picks_than_it_allows() -> None:
    with pytest.raises(ConfigError):
        replace(MENU, picks=5)


@pytest.mark.parametrize("lie", ["levels of 1e300", "lengths near 1.8e308"])
async def test_a_lying_curator_gets_nothing_of_d_v(tmp_path: Path, lie: str) -> None:
    # By the means of the issue: `fedkme consumer summary`, default privacy, one plan, neighbours in one row.
    offered_plan = plan(LIES[lie])
    lines = []
    for moved, world in enumerate(WORLDS):
        folder = tmp_path / str(moved)
        folder.mkdir()
        curator = Hostile(itertools.repeat(offered_plan), LOST)
        async with lab(folder, curator) as at:
            put(at, world)
            status, words = await at.ask()
            assert curator.offers == []
            assert at.drawn() == 0
            assert status != 0
            lines.append([line for line in words if "error" in line])
    assert lines[0] == lines[1]
    assert lines[0]


def put(at: Lab, validation: Table) -> None:
    """Give a consumer's host a D_v."""
    rows = [",".join(map(str, row)) for row in validation.values.tolist()]
    (at.folder / "validation.csv").write_text("\n".join([",".join(SCHEMA.names), *rows]) + "\n")


def of_model(changes: dict[str, Any]) -> Plan:
    """The plan of a curator that changes a model of the pool."""
    model = make_model(SCHEMA.encode(SIDES[[0, 1] * 20]), None, SCHEMA, 2, 0.1)
    book = even_density(SCHEMA, 3).to_json()
    features = FourierSpec("paired", 8, 1.0, SCHEMA.encoded_width, 3)
    return Plan(RUN, features, cells=CellsPlan(book, 1.0, 2.0, menu={**model.to_json(), **changes}))


PLACES = st.lists(st.integers(-1, 4), max_size=3)
CUTS = st.lists(st.floats(allow_nan=True, allow_infinity=True) | st.floats(0.0, 1.0), max_size=3)
MODELS = st.fixed_dictionaries(
    {},
    optional={
        "groups": st.lists(PLACES, min_size=3, max_size=3),
        "edges": st.lists(CUTS.map(sorted), min_size=3, max_size=3),
        "classes": st.integers(-1, 3),
        "rows": st.integers(0, 41),
        "picks": st.integers(0, 5),
        "share": st.floats(),
    },
)


@settings(max_examples=60, deadline=None)
@given(MODELS)
def test_a_lying_model_of_the_pool_tells_nothing_of_a_row(changes: dict[str, Any]) -> None:
    # The two D_v are refused in the same words, or both get an offer of as many picks.
    plan_of_liar = of_model(changes)
    first, other = (offered(plan_of_liar, world) for world in WORLDS)
    if isinstance(first, str) or isinstance(other, str):
        assert first == other
    else:
        assert len(first.picks) == len(other.picks) > 0


def test_the_honest_model_gets_an_offer() -> None:
    offer = offered(of_model({}), WORLDS[0])
    assert isinstance(offer, Offer)
    assert len(offer.picks) == 2
