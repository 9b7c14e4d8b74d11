"""Every number that a consumer receives, hostile, at a real consumer of two D_v that differ in one row.

Both end alike: with the same refusal, or with offers that differ by no more than the mechanism's proof says.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import consumer.runs
from consumer.summary.offers import finish
from fedkme.cells.codebook import CodeBook, kmeans_book
from fedkme.cells.directions import Menu, scores
from fedkme.cells.projection import spec_for
from fedkme.errors import FedkmeError
from fedkme.exchange import CellsPlan, Offer, Outcome, SummaryChoice
from fedkme.features.fixed_point import MEAN_UNIT
from fedkme.margins.density import book_from_json
from fedkme.margins.model import PoolModel, any_menu_from_json
from fedkme.ops.spans import StageTime
from fedkme.tables.table import Table
from fedkme.wire import codecs, releases, summaries
from fedkme.wire.rows import any_rows_from_wire
from fedkme.wire.v1 import releases_pb2, summaries_pb2, types_pb2
from tests.curator.summary import fakes
from tests.hostile import test_lying_plans
from tests.hostile.numbers import hostile, neighbours
from tests.system.market import SCHEMA as PLAIN

VALIDATION = neighbours(Table(np.random.default_rng(1).random((30, PLAIN.width))))
CHOSEN = SummaryChoice("cells", 2.0, (0.5, 0.4, 0.6), 10, "two rows for each")


def h1_plan() -> Any:
    return replace(test_lying_plans.plan(), cells=None, choice=CHOSEN)


PLANS: dict[str, Callable[[], Any]] = {
    "cells of a sketch": test_lying_plans.plan,
    "cells of centres": lambda: replace(
        h1_plan(),
        cells=CellsPlan(
            kmeans_book(VALIDATION[0].values, 4, spec_for(PLAIN, 1), PLAIN, 0).to_json(), 1.0, 2.0
        ),
    ),
    "margins": lambda: test_lying_plans.of_model({}),
    "h1": h1_plan,
}


def plan_message(name: str) -> summaries_pb2.Plan:
    return summaries.plan_to_wire(PLANS[name](), codecs.VERSIONS.newest)


def offer(message: summaries_pb2.Plan, validation: Table) -> Offer | str:
    """The offer of a real consumer for what a curator sends, or the words with which it refuses."""
    try:
        version = message.version
        codecs.common_version(types_pb2.VersionRange(oldest=version, newest=version), "the curator")
        plan = summaries.plan_from_wire(message, PLAIN.encoded_width)
    except FedkmeError as error:
        return str(error)
    return test_lying_plans.offered(plan, validation)


def check_consumer(message: summaries_pb2.Plan) -> bool:
    """Let two neighbouring D_v offer; whether they refuse, which both do in the same words."""
    first, other = (offer(message, world) for world in VALIDATION)
    if isinstance(first, str) or isinstance(other, str):
        assert first == other
        return True
    plan, encoded = summaries.plan_from_wire(message, 3), [PLAIN.encode(each.values) for each in VALIDATION]
    if plan.cells is not None:
        book, menu = book_from_json(plan.cells.code_book, PLAIN), None
        if plan.cells.menu is not None:
            menu = any_menu_from_json(plan.cells.menu)
        if isinstance(menu, Menu):
            assert isinstance(book, CodeBook)
            score = [scores(menu, book, each) for each in encoded]
            assert np.abs(score[0] - score[1]).max() <= 1.0
        if first.picks == other.picks:
            assert first.histogram is not None
            assert other.histogram is not None
            moved_counts = np.abs(first.histogram - other.histogram).sum()
            assert moved_counts <= 2 * (len(first.picks) if isinstance(menu, PoolModel) else 1)
        return False
    assert first.target is not None
    assert other.target is not None
    moved = first.disclosures[0].sensitivity
    assert moved is not None
    apart = np.linalg.norm((first.target.astype(np.int64) - other.target) * MEAN_UNIT) * len(encoded[0])
    assert apart <= moved + len(encoded[0]) * MEAN_UNIT * len(first.target)
    return False


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("plan", PLANS)
def test_a_consumer_answers_every_number_of_a_plan_alike(plan: str) -> None:
    said = plan_message(plan)
    assert not check_consumer(said)
    refused = [check_consumer(mutant) for _, mutant in hostile(said)]
    assert 0 < sum(refused) < len(refused)


ROWS = types_pb2.Rows(rows=[types_pb2.Row(token=1, values=[0.5, 0.5, 0.5], label=0)], last=True)
SEALED = types_pb2.Rows(rows=[types_pb2.Row(token=1, features=bytes(16), box=b"x" * 60)], last=True)
PARTICIPATION = types_pb2.Participation(expected=3, took_part=2, lost=[11])


def heard_outcome(message: summaries_pb2.Outcome) -> Outcome:
    outcome = summaries.OUTCOME.from_wire(message)
    assert outcome.participation is None or outcome.participation.line
    return outcome


RECEIVED: dict[str, tuple[Any, Callable[[Any], object]]] = {
    "outcome": (
        summaries_pb2.Outcome(rounds=1, points_accessed=3, participation=PARTICIPATION),
        lambda said: finish(h1_plan(), [], heard_outcome(said), PLAIN, None),
    ),
    "rows": (
        ROWS,
        lambda said: finish(
            h1_plan(), any_rows_from_wire([said], False), Outcome(True, "", 1, 1), fakes.SCHEMA, None
        ),
    ),
    "sealed rows": (SEALED, lambda said: any_rows_from_wire([said], True)),
    "progress": (summaries_pb2.Progress(round=1, selected=2), summaries.PROGRESS.from_wire),
    "a run": (
        summaries_pb2.RunState(run="run-1", status="queued", opened=1e9),
        lambda said: json.dumps(consumer.runs._plain(said)),
    ),
    "the progress of a release": (
        releases_pb2.ReleaseProgress(stage="training", fraction=0.5),
        lambda said: StageTime().left(said.stage, releases.STAGE.from_wire(said).fraction, 5.0),
    ),
    "a release": (releases_pb2.ReleaseOutcome(rows=3, owners=2), lambda said: f"{said.rows}, {said.owners}"),
    "the plan of a release": (
        releases_pb2.ReleasePlan(version=codecs.VERSIONS.newest),
        lambda said: codecs.common_version(
            types_pb2.VersionRange(oldest=said.version, newest=said.version), "the curator"
        ),
    ),
    "a fault": (types_pb2.Fault(code=34, cause="c", remedy="r"), codecs.fault_from_wire),
    "a head": (types_pb2.Head(note=b"x", known=3), lambda said: said.known),
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("what", RECEIVED)
def test_a_consumer_reads_every_number_that_it_receives(what: str) -> None:
    said, read = RECEIVED[what]
    read(said)
    for _, mutant in hostile(said):
        try:
            read(mutant)
        except FedkmeError:
            continue


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_stage_that_has_hardly_begun_has_no_time_left() -> None:
    # A fraction of 5e-324, or NaN, ended `fedkme consumer release` with a traceback once it was paid for.
    for begun in (0.0, 5e-324):
        times = StageTime()
        times.left("training", begun, 0.0)
        for fraction in (5e-324, 1e-300, 0.5, 1.0):
            times.left("training", fraction, 10.0)
