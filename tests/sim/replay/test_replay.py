"""`fedkme audit replay`: every protocol and release, twice with one row replaced, declares what differs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fedkme.errors import AuditError, QuorumError, SecureAggregationError
from fedkme.operate.audit_cli import app
from fedkme.privacy.events import CURATOR
from fedkme.privacy.noise import simulated
from fedkme.protocol import CellTerms, Invitation
from fedkme.protocols import PROTOCOLS, SKETCH
from sim.replay import pairs
from sim.replay.cases import Case, cases_of, replayed
from sim.replay.judge import Undeclared
from sim.replay.neighbours import HOLDER, KINDS, OWNERS, World, make_world, neighbour
from sim.replay.recorder import Recorder
from sim.replay.world import Played, play
from tests.sim.replay.faults import FAULTS


def test_every_protocol_is_replayed() -> None:
    # "For every protocol and release": a new row of the table needs a case.
    assert set(replayed()) == set(PROTOCOLS)
    assert all(cases_of(name) for name in PROTOCOLS)


def check_carried_out(case: Case, played: Played) -> None:
    """A run that is refused at once shows nothing."""
    if "dies as" in case.note:  # it may have been opened, and cannot be opened again
        assert played.fault.startswith(f"{SecureAggregationError.code} the curator stopped"), case.name
    elif case.note == "budgets" and played.fault:  # of an auction that no epsilon covers
        assert played.fault.startswith(f"{QuorumError.code} 0 owners may take part"), case.name
        assert not any(played.ledgers.values()), case.name
    else:
        assert played.fault == "", case.name
    if case.note == "any policy":
        assert all(len(each) > 1 for each in played.recorder.exchanged.values())
    if case.by_hand:  # refused one run, before its plan and by its invitation, then in
        assert len(set(played.recorder.refused[HOLDER])) == 1
        assert {line.run for line in played.ledgers[HOLDER]} == {"run-2"}


@pytest.mark.parametrize("protocol", [name for name in replayed() if name != SKETCH])  # one of cells' cases
def test_every_case_is_carried_out_and_nothing_is_undeclared(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A kind of neighbour a case, in turns; `make audit` has two, "0 false alarms in 1,000 pairs".
    runs: list[Played] = []

    def kept(case: Case, world: World, recorder: Recorder) -> Played:
        runs.append(play(case, world, recorder))
        return runs[-1]

    monkeypatch.setattr(pairs, "play", kept)
    undeclared: list[Undeclared] = []
    for number, case in enumerate(cases_of(protocol)):
        runs.clear()
        undeclared += pairs.replay(case, (KINDS[number % len(KINDS)],), 0).found
        check_carried_out(case, runs[0])
    assert undeclared == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_neighbour_differs_in_one_row(kind: str) -> None:
    world = make_world(3)
    for protected in (HOLDER, "D_v"):
        other = neighbour(world, protected, next(k for k in KINDS if k == kind), 3, decider=2)
        new, old = (
            each.owners[HOLDER] if protected == HOLDER else each.validation for each in (other, world)
        )
        moved = (new.values != old.values).any(axis=1)
        if new.labels is not None and old.labels is not None:
            moved |= new.labels != old.labels
        assert moved.sum() <= 1
        assert len(new) == len(old)


def test_figures_of_every_party_are_looked_at() -> None:
    # What Prometheus reads, but for times, which no two runs have alike.
    (case,) = [case for case in cases_of("clock") if case.note == "over gRPC"]
    figures = play(case, make_world(0), Recorder(0)).figures
    assert set(figures) == {CURATOR, *OWNERS}
    names = {party: {name for name, _, _ in figures[party]} for party in figures}
    assert {"fedkme_rows_sent_total", "fedkme_directives_total", "fedkme_bytes_total"} <= names[HOLDER]
    assert {"fedkme_points_accessed_total", "fedkme_rounds_total", "fedkme_runs"} <= names[CURATOR]
    assert "fedkme_journal_commit_seconds_count" in names[HOLDER] & names[CURATOR]
    assert not {name for each in names.values() for name in each if "created" in name or "_sum" in name}


def test_a_run_is_a_function_of_its_seed() -> None:
    case = cases_of("clock")[0]
    first, second = (play(case, make_world(2), Recorder(2)) for _ in range(2))
    assert first.ledgers == second.ledgers
    assert [d.request for d in first.recorder.draws] == [d.request for d in second.recorder.draws]


def test_noise_is_followed_to_the_sum_that_it_is_in() -> None:
    # What a mechanism adds its noise to is known without a hook in it, also through casts and in place.
    recorder = Recorder(1)
    noise = recorder.noise_for("north")("histogram")
    exact, total = np.arange(4, dtype=np.float64), np.ones(4)
    released = exact + np.rint(noise.gaussian(2.0, 4)).astype(np.int64)
    total += noise.laplace(1.0, 4).reshape(4)
    one, other = recorder.draws
    assert type(released) is np.ndarray
    assert np.array_equal(np.asarray(one.exact), exact)
    assert np.array_equal(released - exact, np.rint(simulated(1, "north", "histogram").gaussian(2.0, 4)))
    assert other.uses == 1
    assert np.array_equal(np.asarray(other.exact), np.ones(4))


def test_the_verb_says_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of a release: the cases of others are replayed above.
    told = CliRunner().invoke(app, ["replay", "balog1", "--quick", "--json"])
    assert told.exit_code == 0
    assert "0 with something undeclared" in told.stderr
    assert json.loads(told.stdout)["passed"]
    FAULTS["a release with half of the noise, at the curator"].plant(monkeypatch)
    told = CliRunner().invoke(app, ["replay", "balog1", "--quick"])
    assert isinstance(told.exception, AuditError)
    assert "UNDECLARED balog1 (any policy): noise" in told.stdout


@pytest.mark.parametrize(
    ("note", "book"), [("classes of a sketch", ("sketch", 3)), ("own classes and a sketch", ("classes", 0))]
)
def test_cases_with_classes_have_rows_enough_for_them(note: str, book: tuple[str, int]) -> None:
    # Below the least number of rows a code book is made by signs alone, and they would show nothing new.
    (case,) = [case for case in cases_of("cells") if case.note == note]
    played = play(case, make_world(0, case.times), Recorder(0))
    bodies = [exchanged.directive.body for exchanged in played.recorder.exchanged[HOLDER]]
    terms = [body.terms for body in bodies if isinstance(body, Invitation)]
    assert [(each.code_book["kind"], each.classes) for each in terms if isinstance(each, CellTerms)] == [book]
