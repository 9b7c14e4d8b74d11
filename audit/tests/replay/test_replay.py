"""`fedkme audit replay`: every protocol and release, twice with one row replaced, declares what differs."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from audit.planted_faults import FAULTS
from audit.planted_faults.__main__ import case_of
from audit.replay import pairs
from audit.replay.cases import cases_of, replayed
from audit.replay.cli import SEEDS
from audit.replay.neighbours import HOLDER, KINDS, OWNERS, Kind, make_world, neighbour
from audit.replay.play import play
from audit.replay.promises import disclosed
from audit.replay.recorder import Recorder
from fedkme.errors import AuditError
from fedkme.extensions import installed, registered
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import CURATOR, BoundedRange, Event, Gaussian, PureDp
from fedkme.privacy.events.groups import for_group
from fedkme.privacy.noise import simulated
from fedkme.protocol import CellTerms, Invitation
from fedkme.protocols import PROTOCOLS
from operate.audit_cli import app


def test_every_protocol_is_replayed() -> None:
    # "For every protocol and release": a new row of the table needs a case.
    assert set(replayed()) == set(PROTOCOLS)
    assert all(cases_of(name) for name in PROTOCOLS)


def test_a_case_that_does_not_do_what_it_is_for_fails() -> None:
    # `audit replay cells` passed 784 pairs without a second pick, of which no line was missed.
    case = replace(case_of("cells", "any policy"), exercises=("a second pick",))
    (found,) = pairs.replay(case, (), 0).found
    assert (found.what, found.line) == ("nothing shown", "the case shows nothing of a second pick")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_directions_are_picked_twice_at_every_seed(seed: int) -> None:
    case = case_of("cells", "a sketch, of which D_v picks")
    assert "a second pick" in case.must
    assert pairs.replay(case, (), seed).found == ()


def test_protocols_of_another_package_are_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # `audit replay all` stopped with error 10 where the documented example was installed.
    example = Path(__file__).parents[3] / "examples" / "extension"
    project = tomllib.loads((example / "pyproject.toml").read_text())["project"]
    about = tmp_path / "fedkme_example-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fedkme-example\nVersion: 1\n")
    groups = project["entry-points"].items()
    lines = [f"[{group}]\n" + "\n".join(f"{k} = {v}" for k, v in row.items()) for group, row in groups]
    (about / "entry_points.txt").write_text("\n".join(lines))
    for folder in (tmp_path, example):
        monkeypatch.syspath_prepend(folder)
    try:
        own = set(replayed())
        _forget()
        brought = set(replayed()) - own
        assert brought == {"best-two", "best-two-hashed", "normal"}
        for name in sorted(brought):
            for case in cases_of(name)[:2]:
                assert pairs.replay(case, KINDS[:2], 0).found == (), case.name
    finally:
        monkeypatch.undo()
        _forget()


def _forget() -> None:
    """Look for installed packages anew."""
    installed.cache_clear()
    registered.cache_clear()
    vars(PROTOCOLS).pop("_rows", None)


@given(
    multiplier=st.floats(0.3, 20.0),
    cost=st.floats(0.01, 3.0),
    count=st.integers(1, 5),
    group=st.integers(1, 4),
    delta=st.floats(1e-9, 1e-2),
)
def test_what_an_accountant_says_covers_what_is_disclosed(
    multiplier: float, cost: float, count: int, group: int, delta: float
) -> None:
    # The audit's own arithmetic is a lower bound of the accountants', and meets it where both are exact.
    events: list[Event] = [Gaussian(multiplier, count), PureDp(cost, 2), BoundedRange(cost)]
    grouped = for_group(events, group)
    epsilon = Sound().epsilon(tuple(grouped), delta).epsilon
    assert disclosed(events, epsilon, group) <= delta * (1.0 + 1e-6)
    alone = Sound().epsilon((Gaussian(multiplier, count),), delta).epsilon
    assert disclosed([Gaussian(multiplier, count)], alone, 1) == pytest.approx(delta, rel=1e-2)


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


@pytest.mark.parametrize(
    ("protocol", "kind", "seed"), [("winner-only", "decider", 4), ("clock-hashed", "random", 1)]
)
def test_a_declared_mean_is_that_of_the_first_run_in_each_life_of_the_curator(
    protocol: str, kind: Kind, seed: int
) -> None:
    # The second life had its own mean, and could not go on: 41 and 19 questions, taken for a leak.
    (case,) = (c for c in cases_of(protocol) if c.name == f"{protocol} (the curator dies and comes back)")
    assert not pairs.replay(case, (kind,), seed).found


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
    result = CliRunner().invoke(app, ["replay", "balog1", "--quick", "--json"])
    assert result.exit_code == 0
    assert "0 with something undeclared" in result.stderr
    assert json.loads(result.stdout)["passed"]
    FAULTS["a release with half of the noise, at the curator"].plant(monkeypatch)
    result = CliRunner().invoke(app, ["replay", "balog1", "--quick"])
    assert isinstance(result.exception, AuditError)
    assert "UNDECLARED balog1 (any policy): noise" in result.stdout


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
