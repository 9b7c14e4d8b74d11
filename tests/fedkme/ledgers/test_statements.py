"""Statements follow from what ledgers hold, and from nothing else (issue 11, item 5)."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from fedkme.cells.disclosures import sketch_of
from fedkme.errors import ProtocolError
from fedkme.features.sums import Layout
from fedkme.ledgers.archiving import condensed
from fedkme.ledgers.ledger_set import LedgerSet, read_ledgers
from fedkme.ledgers.statements import EACH_OWNER, statements
from fedkme.privacy.accounting import PrivacyStatement
from fedkme.privacy.events import (
    CONSUMER,
    CURATOR,
    OWNERS,
    Disclosure,
    Event,
    ExactStatistic,
    Gaussian,
    HashedRows,
    MwemCall,
    RawRows,
    SealedRows,
    disclosure_from_json,
    validation_of,
)
from fedkme.protocol import Invitation, Security, SumTerms
from fedkme.sums.disclosures import release_disclosures, vector_disclosure
from fedkme.sums.values import SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.schema import Numeric, Schema
from sim.report.privacy import lines
from tests.ledgers import ledger_text

D_V = validation_of(CONSUMER)
NOISY = Gaussian(5.0)
SUMS = ExactStatistic("sums")
SCHEMA = Schema(columns=(Numeric(name="x", bounds=(0, 1)),))


def disclosure(protected: str, observer: str, event: Event, nonce: str = "n") -> Disclosure:
    return Disclosure("run-1", 1, protected, observer, event, "replace-one", None, nonce)


def statements_of(*lines: Disclosure, owners: tuple[str, ...] = ("a", "b")) -> list[PrivacyStatement]:
    """Statements of a run in whose folder these owners have a ledger."""
    books = LedgerSet([("run-1", line) for line in lines], {"run-1": frozenset(owners)}, {})
    return statements(books, 1e-5)


def by_cell(
    *lines: Disclosure, owners: tuple[str, ...] = ("a", "b")
) -> dict[tuple[str, str], PrivacyStatement]:
    """The `sound` ones by data set and observer."""
    every = [each for each in statements_of(*lines, owners=owners) if each.accountant == "sound"]
    assert len({(each.protected, each.observer) for each in every}) == len(every)
    return {(each.protected, each.observer): each for each in every}


def test_owners_with_equal_figures_share_a_line() -> None:
    (about,) = statements_of(
        disclosure(OWNERS, OWNERS, NOISY), disclosure("a", CURATOR, NOISY), disclosure("b", CURATOR, NOISY)
    )[:1]
    assert (about.protected, about.observer, about.accountant) == (EACH_OWNER, "other owners", "sound")
    assert (about.delta, about.neighbouring, about.raw_points) == (1e-5, "replace-one", 0)
    assert about.reason == "exact Gaussian"
    assert set(by_cell(disclosure("a", CURATOR, NOISY), disclosure("b", CURATOR, NOISY))) == {
        (EACH_OWNER, "other owners"),
        (EACH_OWNER, CURATOR),
    }


def test_owners_whose_rows_were_seen_are_named() -> None:
    # A number of rows is then of one owner.
    every = by_cell(disclosure("a", CURATOR, RawRows(2)), disclosure("b", CURATOR, RawRows(2)))
    assert [every[name, CURATOR].raw_points for name in "ab"] == [2, 2]


@pytest.mark.parametrize("event", [Gaussian(4.0), RawRows(2)])
def test_owners_are_named_where_anything_differs(event: Event) -> None:
    # Figures, reasons or numbers of rows: the worst is not hidden behind the others, nor they behind it.
    every = by_cell(disclosure("a", CURATOR, NOISY), disclosure("b", CURATOR, event))
    assert {name for name, observer in every if observer == CURATOR} == {"a", "b"}
    assert every["b", CURATOR].epsilon > every["a", CURATOR].epsilon


def test_an_owner_that_sent_no_row_is_given_no_reason_of_rows() -> None:
    # The fault that item 5 names: "gives an owner that sent nothing the reason 'sees rows as they are'".
    lines = [
        disclosure("a", CURATOR, SUMS),
        disclosure("b", CURATOR, SUMS),
        disclosure("a", CURATOR, RawRows(3), "row 1"),
    ]
    every = by_cell(*lines)
    assert "rows are seen" in every["a", CURATOR].reason
    assert every["a", CURATOR].raw_points == 3
    assert every["b", CURATOR].reason == "released without noise: sums"
    assert every["b", CURATOR].raw_points == 0


def test_an_owner_without_disclosures_costs_nothing() -> None:
    # The books have its ledger, so that what is not in them did not happen.
    every = by_cell(disclosure("a", CURATOR, RawRows(1)), disclosure("a", CONSUMER, RawRows(1)))
    for observer in (CURATOR, CONSUMER):
        assert (every["b", observer].epsilon, every["b", observer].delta) == (0.0, 0.0)
    assert every[EACH_OWNER, "other owners"].epsilon == 0.0
    assert "nothing" in every["b", CURATOR].reason
    assert not [
        pair for pair in by_cell(disclosure("a", CURATOR, NOISY), owners=()) if pair[1] == "other owners"
    ]


def test_a_run_that_ended_early_states_what_was_disclosed_so_far() -> None:
    whole = by_cell(*(disclosure(OWNERS, OWNERS, NOISY, f"round {at}") for at in range(4)))
    half = by_cell(*(disclosure(OWNERS, OWNERS, NOISY, f"round {at}") for at in range(2)))
    pair = (EACH_OWNER, "other owners")
    assert 0 < half[pair].epsilon < whole[pair].epsilon
    assert statements_of(owners=()) == []


def test_the_validation_set_has_a_line_for_all_or_one_for_each_observer() -> None:
    alike = by_cell(disclosure(D_V, CURATOR, NOISY), disclosure(D_V, OWNERS, NOISY), owners=())
    assert set(alike) == {("D_v", "owners and curator")}
    trusted = by_cell(disclosure(D_V, CURATOR, RawRows(40)), disclosure(D_V, OWNERS, NOISY), owners=())
    assert set(trusted) == {("D_v", "owners"), ("D_v", CURATOR)}
    assert trusted["D_v", CURATOR].raw_points == 40
    assert math.isinf(trusted["D_v", CURATOR].epsilon)
    assert math.isfinite(trusted["D_v", "owners"].epsilon)


def test_the_paper_s_figure_stands_before_the_proven_one_where_it_has_one() -> None:
    claimed, proven = statements_of(disclosure(D_V, CURATOR, MwemCall(0.01, 100)), owners=())
    assert (claimed.accountant, proven.accountant) == ("published", "sound")
    assert claimed.epsilon < proven.epsilon
    assert {each.accountant for each in statements_of(disclosure(D_V, CURATOR, NOISY), owners=())} == {
        "sound"
    }


def test_boxes_cost_nothing_and_hashes_have_no_bound() -> None:
    every = by_cell(disclosure("a", CURATOR, SealedRows(2)), disclosure("b", CURATOR, HashedRows(2)))
    assert every["a", CURATOR].epsilon == 0.0
    assert (every["b", CURATOR].epsilon, every["b", CURATOR].delta) == (math.inf, 0.0)
    assert every["b", CURATOR].to_json()["epsilon"] == "inf"


def test_consumers_are_named_and_stand_last() -> None:
    lines = [
        disclosure("a", "north", RawRows(1)),
        disclosure("a", "south", RawRows(2)),
        disclosure("a", CURATOR, RawRows(3)),
    ]
    observers = [each.observer for each in statements_of(*lines, owners=("a",))]
    assert observers == ["other owners", CURATOR, "consumers together", "north", "south"]


@pytest.mark.parametrize(("colluders", "words"), [(0, "no owner's noise"), (2, "at most 2 owners' noise")])
def test_a_figure_of_distributed_noise_names_the_number_of_colluders(colluders: int, words: str) -> None:
    # T stood in no line of a ledger; of several lines the least T counts.
    secure, trusted = (
        replace(disclosure("a", CURATOR, NOISY), colluders=colluders),
        disclosure("a", CURATOR, NOISY, "m"),
    )
    more = replace(disclosure("a", CURATOR, NOISY, "k"), colluders=3)
    assert disclosure_from_json(json.loads(secure.canonical())) == secure
    assert disclosure_from_json(secure.to_json()) == secure != disclosure("a", CURATOR, NOISY)
    about = by_cell(secure, trusted, more)["a", CURATOR]
    assert about.reason == f"exact Gaussian, if it knows {words}"
    (line,) = [each for each in lines([about.to_json()]) if CURATOR in each]
    assert line.endswith(f"if it knows {words}")
    (condensed_line,) = [line for line in condensed([secure, secure]) if line.colluders is not None]
    assert condensed_line.colluders == colluders


def test_a_run_is_stated_with_its_sketch(tmp_path: Path) -> None:
    # `--run` left out what a sketch cost owners; sketches of two simulations were one draw.
    lines = [disclosure("a", CURATOR, Gaussian(sigma), "n") for sigma in (5.0, 3.0)]
    lines[1] = replace(lines[1], run=sketch_of("run-1"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ledger.jsonl").write_text(ledger_text(CURATOR, lines))
    single, both = (read_ledgers([tmp_path / name for name in names]) for names in (["one"], ["one", "two"]))
    assert single.runs == ["run-1"]
    assert both.runs == ["one/run-1", "two/run-1"]
    for books in (both.of("two/run-1"), single.of("run-1")):
        assert statements(books, 1e-5) == statements(single, 1e-5)
    assert len(both.lines) == 4


@pytest.mark.parametrize("colluders", [-1, True, 1.0, "1", None])
def test_a_line_with_a_malformed_number_of_colluders_is_refused(colluders: object) -> None:
    plain = json.loads(disclosure("a", CURATOR, NOISY).canonical()) | {"colluders": colluders}
    with pytest.raises(ProtocolError):
        disclosure_from_json(plain)


def test_lines_of_secure_sums_name_the_number_of_colluders() -> None:
    # The observer "owners" knows one owner's noise, its own, where none sides with the curator either.
    vector = SumVector(SumQuery((), Layout(), counts=True), SCHEMA)
    for security, curator, others in (
        (Security(0, 0), 0, 1),
        (Security(0, 1), 1, 1),
        (Security(0, 2), 2, 2),
        (None,) * 3,
    ):
        invitation = Invitation("run-1", SCHEMA.digest(), CONSUMER, "marginals", (NOISY,), SumTerms(security))
        event = None if security is None else NOISY
        assert vector_disclosure("a", invitation, 1, vector, event).colluders == curator
        assert {line.colluders for line in release_disclosures("a", invitation)} == {others}


def test_an_owners_ledger_alone_bounds_nothing_that_its_curator_may_pass_on(tmp_path: Path) -> None:
    # It said that the consumer had learned 0.9 of an owner whose rows the curator had passed on as they were.
    told = replace(disclosure("a", "lab", NOISY), run=sketch_of("run-1"))
    came = disclosure("a", CURATOR, RawRows(8))
    (tmp_path / "a.jsonl").write_text(ledger_text("a", [told, came]))
    (tmp_path / "ledger.jsonl").write_text(ledger_text(CURATOR, [told, came]))

    def towards_lab(*files: str) -> PrivacyStatement:
        stated = statements(read_ledgers([tmp_path / file for file in files]), 1e-5)
        return next(each for each in stated if each.observer == "lab" and each.accountant == "sound")

    alone, whole = towards_lab("a.jsonl"), towards_lab("a.jsonl", "ledger.jsonl")
    assert (alone.epsilon, alone.raw_points) == (math.inf, 8)
    assert math.isfinite(whole.epsilon)
    assert whole.raw_points == 0  # the curator's ledger has no line of rows that it passed on
