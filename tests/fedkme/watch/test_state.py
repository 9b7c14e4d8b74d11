"""Decision 020: what a viewer is shown is a function of what it may see, and of nothing else."""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import fields, replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.watch.page import MOST_LANES, left_s, page_of, viewers_of, waiting
from fedkme.watch.state import (
    BudgetUse,
    Learned,
    News,
    OwnerState,
    OwnerStatus,
    RunState,
    Viewer,
    Watched,
    seen_by,
)

NORTH, LAB = Viewer("owner", "north"), Viewer("consumer", "lab")
OWN = OwnerStatus("north", "asked", "for a bid", 5.0, 65.0, 40, 7)
OTHERS = st.lists(
    st.builds(
        OwnerStatus,
        st.sampled_from(["south", "east", "west"]),
        st.sampled_from(get_args(OwnerState)),
        st.sampled_from(["", "for rows by cell"]),
        st.none() | st.floats(0, 9),
        st.none() | st.floats(0, 9),
        st.none() | st.integers(0, 9),
        st.integers(0, 9),
    ),
    max_size=3,
    unique_by=lambda lane: lane.owner,
)
POINTS = st.lists(st.tuples(st.floats(0, 9), st.integers(0, 99)), max_size=3).map(tuple)
TEXTS = st.sampled_from(["", "south was lost"])


def shown(watched: Watched, viewer: Viewer) -> str:
    """Page of a viewer."""
    return page_of(watched, viewer, {})


def text_of(page: str) -> str:
    """Text of a page, without its markup."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))


def state(run: RunState, learned: tuple[Learned, ...] = (), **changes: Any) -> Watched:
    events = (
        News(3.0, "left the run", run.run, "south", "error 31"),
        News(2.0, "connected", owner="north"),
        News(2.0, "connected", owner="south"),
        News(1.5, "a warning", why="certificate"),
        News(1.0, "accepted for lab", run.run, why="5 owners"),
    )
    about = (
        Learned("north", "curator", math.inf, 1e-5, 7, "rows are seen as they are"),
        Learned("D_v of lab", "curator", 1.0, 1e-5, 0),
        *learned,
    )
    whole = Watched("curator", 9.0, (run,), about, BudgetUse(8.0, 1e-5, ((2.0, 1.0),)), events)
    return replace(whole, **changes)


RUN = RunState("run-1", "lab", "summary", "running", 1.0, 2.0, protocol="clock", wanted=9, lanes=(OWN,))


@given(others=OTHERS, done=st.integers(0, 9), came=POINTS, reason=TEXTS, rows=st.integers(0, 9))
def test_an_owner_s_view_does_not_depend_on_other_owners(
    others: list[OwnerStatus], done: int, came: tuple[tuple[float, int], ...], reason: str, rows: int
) -> None:
    # "owners must not learn who won, sizes and counts of others": the view is the same in both worlds.
    changed = replace(
        RUN,
        lanes=(*others, OWN),
        done=done,
        rounds=9,
        came=came,
        reason=reason,
        progressed=float(done),
        fraction=done / 9,
        stage=reason,
        mmd2=((1, 0.5),),
    )
    cells = (
        Learned("south", "curator", math.inf, 1e-5, rows),
        Learned("north", "lab", math.inf, 1e-5, rows),  # how many of its rows were used
        Learned("owners", "owners", float(done), 1e-5, 0),  # how many rounds all runs had
    )
    other = RunState("run-2", "rival", "summary", "running", 1.0, lanes=tuple(others))
    world = state(changed, cells, budget=None)
    world = replace(world, runs=(changed, other), events=(*world.events, News(4.0, "is over", "run-2")))
    assert seen_by(world, NORTH) == seen_by(state(RUN), NORTH)
    assert shown(world, NORTH) == shown(state(RUN), NORTH)


def test_an_owner_is_shown_why_a_run_went_on_without_it() -> None:
    late = replace(OWN, state="lost", why="north, round 3: no answer within 60 s")
    for status in ("running", "complete"):
        assert late.why in text_of(shown(state(replace(RUN, status=status, lanes=(late,))), NORTH))


@pytest.mark.parametrize("status", ["complete", "stopped", "cancelled", "failed"])
def test_an_owner_is_not_shown_how_a_run_ended(status: str) -> None:
    over = replace(RUN, status=status, reason="south left")
    assert shown(state(over), NORTH) == shown(state(replace(over, status="complete", reason="")), NORTH)


@given(lanes=OTHERS.filter(bool), rows=st.integers(0, 9))
def test_a_consumer_is_shown_no_owner_and_no_other_consumer(lanes: list[OwnerStatus], rows: int) -> None:
    still = [replace(lane, state="answered") for lane in lanes]
    cells = Learned("south", "lab", math.inf, 1e-5, rows), Learned("D_v of rival", "curator", 1.0, 1e-5, 0)
    rival = RunState("run-2", "rival", "summary", "running", 1.0, lanes=tuple(lanes))
    world = replace(state(replace(RUN, lanes=tuple(still)), cells), runs=(replace(RUN, lanes=()), rival))
    assert seen_by(world, LAB) == seen_by(state(replace(RUN, lanes=())), LAB)
    assert shown(world, LAB) == shown(state(replace(RUN, lanes=())), LAB)
    page = shown(state(replace(RUN, lanes=(*lanes, OWN))), LAB)
    assert not [name for name in ("north", "south", "east", "west") if name in page]


def test_a_consumer_is_shown_its_progress_and_its_own_cell() -> None:
    whole = state(replace(RUN, done=3, rounds=9, came=((2.5, 7),)))
    page = text_of(shown(whole, LAB))
    for text in ("round 3 of 9", "rows that came 7", "Waiting for owners.", "D_v of lab"):
        assert text in page
    assert [cell.protected for cell in seen_by(whole, LAB).learned] == ["D_v of lab"]


def test_only_the_curator_is_offered_other_views_and_causes() -> None:
    assert [*viewers_of(state(RUN))] == ["curator", "owner:north", "consumer:lab"]
    assert 'value="consumer:lab"' in shown(state(RUN), Viewer())
    assert "certificate" in shown(state(RUN), Viewer())
    assert "<select" not in shown(state(RUN), NORTH)
    assert "certificate" not in shown(state(RUN), NORTH)


def test_no_word_of_the_state_is_markup() -> None:
    run = replace(RUN, run="<i>1</i>", consumer="<b>lab</b>", plan="<u>", lanes=(replace(OWN, why="<s>"),))
    page = shown(state(run, note="<q>"), Viewer())
    assert not re.findall(r"<(i|b|u|s|q)>", page)
    assert page.count("&lt;") > 5


def test_a_state_survives_json() -> None:
    whole = state(replace(RUN, came=((1.0, 2),), mmd2=((1, 0.5),)), note="so far")
    assert Watched.from_json(whole.to_json()) == whole
    json.loads(whole.to_json(), parse_constant=pytest.fail)  # programs in other languages read it, too


def test_no_field_of_the_state_is_for_private_values() -> None:
    # Rows, bids, gains, tokens and winners have no place in the value that is shown.
    names = {field.name for kind in (Watched, RunState, OwnerStatus, Learned, News) for field in fields(kind)}
    assert not names & {"bid", "gain", "token", "owner_won", "winner", "values", "selected", "value"}


@pytest.mark.parametrize(
    ("status", "lanes", "words"),
    [
        ("asked", (), "Waiting for lab: it has the plan, and offers what it tells of its rows next."),
        ("asked", (replace(OWN, why="for sums"),), "Waiting for north: asked for sums."),
        ("queued", (OwnerStatus("north", "absent"),), "Waiting for its turn: other runs are under way."),
        ("running", (OWN, OwnerStatus("south", "answered")), "Waiting for north: asked for a bid."),
        ("running", (OWN, OwnerStatus("south", "absent")), "Waiting for north: asked for a bid."),
        ("running", (OwnerStatus("south", "absent"),), "Waiting for south: not connected."),
        ("running", (OWN, OwnerStatus("south", "approval")), "Waiting for north: asked for a bid."),
        ("running", (OwnerStatus("south", "approval"),), ""),  # it has left the run, which goes on without it
        ("running", (OwnerStatus("south", "answered"),), ""),
        ("complete", (OWN,), ""),
    ],
)
def test_the_party_that_a_run_waits_for_is_named_with_the_reason(
    status: str, lanes: tuple[OwnerStatus, ...], words: str
) -> None:
    assert waiting(replace(RUN, status=status, lanes=lanes), Viewer()) == words


def test_a_run_that_waits_for_an_approval_is_not_shown_as_waiting_for_its_consumer() -> None:
    # The consumer read "Waiting for lab", and every status "waits for what its consumer offers".
    unapproved = replace(OWN, state="approval", why="none of 40 rows")
    run = replace(RUN, status="asked", lanes=(unapproved, OwnerStatus("south", "answered")))
    viewers = (Viewer(), LAB, Viewer("owner", "south"))
    assert [waiting(seen_by(state(run), viewer).runs[0], viewer) for viewer in viewers] == [
        "Waiting for north to approve it: none of 40 rows.",
        "Waiting for owners.",
        "",
    ]
    running = replace(RUN, lanes=(replace(unapproved, due=9.0),))
    assert waiting(running, NORTH) == "Waiting for you to approve it: none of 40 rows."
    assert all("status in preparation" in text_of(shown(state(run), viewer)) for viewer in viewers)
    away = replace(run, lanes=(OwnerStatus("north", "absent"),))  # it is not asked yet
    assert "Waiting for lab: it has the plan" in shown(state(away), LAB)


def test_an_owner_is_shown_that_the_run_waits_for_it() -> None:
    assert "Waiting for you: asked for a bid." in shown(state(RUN), NORTH)


def test_an_owner_is_shown_its_own_rows_in_each_run() -> None:
    page = text_of(shown(state(RUN, runs=(RUN, replace(RUN, run="run-2", status="complete"))), NORTH))
    assert "of your rows came 7" in page
    assert "run-2 lab summary over 7" in page


def test_the_time_left_is_that_of_the_rounds_so_far() -> None:
    assert left_s(replace(RUN, done=25, rounds=100, progressed=12.0)) == pytest.approx(30.0)
    assert left_s(replace(RUN, done=0, rounds=100, progressed=12.0)) is None
    assert left_s(replace(RUN, done=1, rounds=1, progressed=12.0)) is None
    assert left_s(replace(RUN, status="complete", done=100, rounds=100, progressed=12.0)) is None


def test_a_thousand_owners_are_forty_lanes_and_a_count() -> None:
    lanes = (*(OwnerStatus(f"owner-{number}", "answered") for number in range(999)), OWN)
    page = shown(state(replace(RUN, lanes=lanes)), Viewer())
    assert page.count('class="badge') == MOST_LANES
    assert page.index("badge asked") < page.index("badge answered")
    assert "960 more: 960 answered" in page


def test_owners_with_equal_cells_share_a_line_of_the_matrix() -> None:
    cells = tuple(
        Learned(f"owner-{k}", "curator", math.inf, 1e-5, k, "rows are seen as they are") for k in range(1, 16)
    )
    page = text_of(shown(replace(state(RUN), learned=cells), Viewer()))
    assert "15 owners, owner-1 to owner-15 · nothing ● 120 rows as they are" in page


def test_the_curve_of_the_budget_begins_at_the_whole_budget() -> None:
    page = shown(state(RUN), Viewer())
    assert "ε left 7 of 8" in text_of(page)
    assert re.findall(r'data-at="(\S+)"', page[page.index('aria-label="ε left"') :])[:2] == ["1.0", "2.0"]
    spent = replace(state(RUN), budget=BudgetUse(8.0, 1e-5, ((2.0, math.inf),)))
    assert "ε left 0 of 8" in text_of(shown(spent, Viewer()))
