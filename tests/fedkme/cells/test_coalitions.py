"""Coalitions: their noise, their sizes, and the counts of an owner in its coalition."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.cells.coalitions import MANY, coalition_noise, coalition_rows, coalitions_of, pools_help
from fedkme.cells.codebook import kmeans_book
from fedkme.cells.plan import bits_for
from fedkme.cells.projection import spec_for
from fedkme.errors import ConfigError, DataError, ProtocolError
from fedkme.features.sums import Layout
from fedkme.privacy.accountants import Sound
from fedkme.sums.values import CellCounts, Marginals, SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table
from fedkme.wire.sums import query_from_wire, query_to_wire

SCHEMA = Schema(
    columns=(Numeric(name="x", bounds=(0, 1), count=2),), label=Label(name="y", classes=("no", "yes"))
)
BOOK = kmeans_book(np.random.default_rng(0).random((20, 2)), 4, spec_for(SCHEMA, 1), SCHEMA, 1)
COUNTS = CellCounts(json.dumps(BOOK.to_json()), 2, ("east", "north"))
QUERY = SumQuery((), Layout(), cells=COUNTS)


def table(rows: int, seed: int) -> Table:
    random = np.random.default_rng(seed)
    return Table(random.random((rows, 2)), random.integers(0, 2, rows))


@pytest.mark.parametrize("share", [0.15, 0.3, 0.7])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.3, 1e-6), (4.0, 1e-5)])
def test_both_events_cost_epsilon_and_hardly_less(epsilon: float, delta: float, share: float) -> None:
    cost = Sound().epsilon(coalition_noise(epsilon, delta, share).events, delta).epsilon
    assert epsilon * (1 - 1e-4) < cost <= epsilon


def test_the_noise_of_a_group_grows_with_its_rows() -> None:
    noise = coalition_noise(1.0, 1e-5, 0.3)
    assert noise.for_group(3).deviation == pytest.approx(3 * noise.deviation)
    assert noise.for_group(3).sketch == pytest.approx(3 * noise.sketch)


def test_a_coalition_has_rows_for_the_largest_book() -> None:
    noise = coalition_noise(1.0, 1e-5, 0.15)
    for classes in (1, 10):
        rows = coalition_rows(noise, classes)
        assert bits_for(10**6, [rows], 1.0, noise.epsilon, classes) == bits_for(
            10**6, [10**9], 1.0, noise.epsilon, classes
        )
        assert bits_for(10**6, [rows // 2], 1.0, noise.epsilon, classes) < bits_for(
            10**6, [rows], 1.0, noise.epsilon, classes
        )


def test_groups_are_neighbours_of_about_equal_size() -> None:
    sizes = dict(zip("hgfedcba", [5, 40, 30, 24, 60, 33, 50, 28], strict=True))
    groups = coalitions_of(sizes, 90)
    assert sum(groups, ()) == tuple("abcdefgh")
    assert len(groups) == 3
    assert all(60 <= sum(sizes[name] for name in group) <= 120 for group in groups)
    assert coalitions_of(sizes, 10**6) == (tuple("abcdefgh"),)


def test_a_giant_among_small_owners_leaves_no_group_empty() -> None:
    groups = coalitions_of({"a": 1000, "b": 10, "c": 10}, 100)
    assert all(groups)
    assert sum(groups, ()) == ("a", "b", "c")


def test_only_many_small_owners_form_coalitions() -> None:
    assert pools_help([40] * MANY, 0.7)
    assert not pools_help([40] * (MANY - 1), 0.7)
    assert not pools_help([400] * MANY, 0.7)


def test_an_owner_counts_in_its_own_coalition() -> None:
    vector, rows = SumVector(QUERY, SCHEMA), table(50, 3)
    joint = np.array(rows.labels) * 4 + BOOK.cells_of(SCHEMA.encode(rows.values))
    exact = np.bincount(joint, minlength=8)
    assert vector.length == 16
    for name in ("east", "middle"):
        assert vector.of(rows, name).tolist() == [*exact, *[0] * 8]
    for name in ("north", "west"):
        assert vector.of(rows, name).tolist() == [*[0] * 8, *exact]
    with pytest.raises(ConfigError, match="in no coalition"):
        vector.of(rows, "anybody")
    with pytest.raises(DataError, match="no labels"):
        vector.of(Table(rows.values), "south")


def test_no_row_moves_the_vector_by_more_than_its_diameter() -> None:
    # Replace-one: the bound is reached, and no replaced row exceeds it.
    vector, rows = SumVector(dataclasses.replace(QUERY, weights=(7,)), SCHEMA), table(30, 4)
    moves = []
    for place in range(30):
        values, labels = rows.values.copy(), np.array(rows.labels)
        other = table(1, 100 + place)
        values[place], labels[place] = other.values[0], np.array(other.labels)[0]
        moves.append(np.linalg.norm(vector.of(rows, "west") - vector.of(Table(values, labels), "west")))
    assert max(moves) == pytest.approx(7 * 2**0.5)
    assert max(moves) <= vector.diameter <= 7 * 2**0.5 * (1 + 1e-9)


def test_a_question_survives_the_wire() -> None:
    back = query_from_wire(query_to_wire(QUERY))
    assert back == QUERY
    assert back.digest == QUERY.digest
    other = dataclasses.replace(COUNTS, firsts=("east", "south"))
    assert SumQuery((), Layout(), cells=other).digest != QUERY.digest


def test_the_digest_of_a_question_is_computed_once() -> None:
    """Every owner of a process needs the digest."""
    query = dataclasses.replace(QUERY)
    assert SumVector(query, SCHEMA).digest is query.digest is query.digest
    assert query.digest == QUERY.digest
    assert query == QUERY


@pytest.mark.parametrize("text", ['{"firsts": 3}', "[", '{"code_book": "", "classes": 0, "firsts": []}'])
def test_a_malformed_question_is_refused(text: str) -> None:
    message = query_to_wire(QUERY)
    message.cells = text
    with pytest.raises(ProtocolError):
        query_from_wire(message)


@pytest.mark.parametrize("firsts", [(), ("a", "a"), ("b", "a")])
def test_coalitions_out_of_order_are_refused(firsts: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="coalitions"):
        CellCounts("{}", 0, firsts)


@given(st.dictionaries(st.text("abz09", min_size=1, max_size=4), st.integers(1, 99), min_size=1))
def test_first_names_give_every_owner_its_coalition(sizes: dict[str, int]) -> None:
    # A question that names all owners to each owner would grow with the square of their number.
    groups = coalitions_of(sizes, 90)
    question = CellCounts("{}", 0, tuple(group[0] for group in groups))
    assert {name: question.coalition_of(name) for name in sizes} == {
        name: place for place, group in enumerate(groups) for name in group
    }


def test_counts_cannot_be_asked_with_other_sums() -> None:
    with pytest.raises(ConfigError, match="other sums"):
        SumQuery((), Layout(), cells=QUERY.cells, marginals=Marginals(2, ((0,),)))


@pytest.mark.parametrize(("book", "classes"), [("{}", 0), ("[", 0), (json.dumps(BOOK.to_json()), 3)])
def test_a_book_or_classes_that_do_not_fit_are_refused(book: str, classes: int) -> None:
    with pytest.raises(ConfigError):
        SumVector(SumQuery((), Layout(), cells=CellCounts(book, classes, ("a",))), SCHEMA)
