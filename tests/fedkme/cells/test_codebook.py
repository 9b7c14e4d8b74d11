"""Code books: each kind survives the wire, partitions all rows, and has the stated sensitivity."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkme.cells import codebook, sketch
from fedkme.cells.codebook import CodeBook, code_book_from_json, kmeans_book, sketch_book
from fedkme.cells.histogram import SENSITIVITY, counts
from fedkme.cells.projection import Projection, spec_for
from fedkme.errors import ConfigError, DataError
from fedkme.privacy.noise import simulated
from fedkme.tables.schema import Label, Numeric, Schema

SCHEMA = Schema(
    columns=(Numeric(name="pixel", bounds=(0, 1), count=20),),
    label=Label(name="digit", classes=("a", "b", "c")),
)
SPEC = spec_for(SCHEMA, 3, 8)
ROWS = np.random.default_rng(0).random((400, 20))
LABELS = np.arange(400) % 3


def sketched(labels: np.ndarray | None, bits: int, own_class: bool = False) -> CodeBook:
    classes = None if labels is None else 3
    total = sketch.coordinates(ROWS, labels, Projection(SPEC, SCHEMA), classes)
    noisy = sketch.release(total, 400, 8, classes, 1.0, simulated(1, "curator", "sketch"))
    return sketch_book(noisy, bits, SPEC, SCHEMA, own_class)


BOOKS = [
    pytest.param(lambda: sketched(None, 3), 8, id="sketch"),
    pytest.param(lambda: sketched(np.arange(400) % 3, 2), 12, id="labels"),
    pytest.param(lambda: sketched(np.arange(400) % 3, 0), 3, id="classes only"),
    pytest.param(lambda: sketched(np.arange(400) % 3, 2, own_class=True), 12, id="own classes"),
    pytest.param(lambda: kmeans_book(ROWS, 7, SPEC, SCHEMA, 0), 7, id="kmeans"),
]


@pytest.mark.parametrize(("make", "size"), BOOKS)
def test_a_code_book_survives_the_wire_and_puts_each_row_in_one_cell(
    make: Callable[[], CodeBook], size: int
) -> None:
    book = make()
    cells = book.cells_of(ROWS, LABELS)
    assert book.cells == size
    assert cells.shape == (400,)
    assert 0 <= cells.min() <= cells.max() < size
    assert len(np.unique(cells)) > size / 2
    received = code_book_from_json(json.loads(json.dumps(book.to_json())), SCHEMA)
    assert np.array_equal(received.cells_of(ROWS, LABELS), cells)
    apart = [book.cells_of(ROWS[:1], LABELS[:1]), book.cells_of(ROWS[1:], LABELS[1:])]
    assert np.array_equal(np.concatenate(apart), cells)
    assert book.cells_of(ROWS[:0], LABELS[:0]).shape == (0,)
    assert np.array_equal(cells // (size // 3), LABELS) == book.needs_labels


@pytest.mark.parametrize(("make", "size"), BOOKS)
def test_one_row_and_its_class_replaced_moves_a_histogram_by_two(
    make: Callable[[], CodeBook], size: int
) -> None:
    """L1 sensitivity 2 under replace-one (decision 007), for every kind of book, with or without classes."""
    book, rng = make(), np.random.default_rng(1)
    before = counts(book.cells_of(ROWS[:50], LABELS[:50]), size)
    moved = set()
    for _ in range(30):
        rows, labels = ROWS[:50].copy(), LABELS[:50].copy()
        rows[7], labels[7] = ROWS[rng.integers(50, 400)], rng.integers(3)
        moved.add(int(np.abs(counts(book.cells_of(rows, labels), size) - before).sum()))
    assert moved == {0, SENSITIVITY} or moved == {SENSITIVITY}


def test_a_code_book_by_class_refuses_rows_without_labels() -> None:
    book = sketched(LABELS, 2, own_class=True)
    with pytest.raises(DataError, match="no labels"):
        book.cells_of(ROWS)
    with pytest.raises(DataError, match="does not have: 400"):
        book.cells_of(ROWS, LABELS + 3)
    bare = SCHEMA.model_copy(update={"label": None})
    with pytest.raises(ConfigError, match="do not fit its kind"):
        code_book_from_json(book.to_json(), bare)


def test_discriminants_use_only_the_leading_eigenvectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes that differ in the leading eigenvectors are separated; noise in all d would hide them."""
    rng, names = np.random.default_rng(3), tuple("abcdefghij")
    wide = Schema(
        columns=(Numeric(name="pixel", bounds=(0, 1), count=200),), label=Label(name="digit", classes=names)
    )
    spec, labels = spec_for(wide, 3, 128), rng.integers(0, 10, 3000)
    hidden = rng.normal(size=(10, 12))[labels] * 0.6 + rng.normal(size=(3000, 12)) * 0.4
    rows = np.clip(0.5 + 0.08 * hidden @ rng.normal(size=(12, 200)), 0, 1)
    total = sketch.coordinates(rows, labels, Projection(spec, wide), 10)
    noisy = sketch.release(total, 3000, 128, 10, 11.2, simulated(1, "curator", "sketch"))

    def accuracy() -> float:
        return float(np.mean(sketch_book(noisy, 0, spec, wide).cells_of(rows) == labels))

    inside = accuracy()
    monkeypatch.setattr(codebook, "LEADING", 128)
    assert inside > 0.85
    assert inside > accuracy() + 0.04


def test_cells_without_labels_are_signs_of_principal_directions() -> None:
    # SOUND.md, step 1, recomputed from exact moments.
    total = sketch.coordinates(ROWS, None, Projection(SPEC, SCHEMA), None)
    exact = sketch.release(total, 400, 8, None, 0.0, simulated(1, "curator", "sketch"))
    book = sketch_book(exact, 2, SPEC, SCHEMA)
    z = Projection(SPEC, SCHEMA)(ROWS)
    _, vectors = np.linalg.eigh(np.cov(z.T, bias=True))
    signs = (z - z.mean(axis=0)) @ vectors[:, [-1, -2]] > 0
    partition = {
        tuple(pair) for pair in zip(book.cells_of(ROWS).tolist(), map(tuple, signs.tolist()), strict=True)
    }
    assert len(partition) == 4  # the same four cells, whichever way a direction points


def test_malformed_code_books_are_refused() -> None:
    good = sketched(None, 2).to_json()
    changes: list[dict[str, Any]] = [
        {"kind": "other"},
        {"arrays": {}},
        {"arrays": {"centres": [[1.0]]}},
        {"spec": {}},
        {"arrays": good["arrays"] | {"along": [[0.0] * 5] * 40, "edges": [[]] * 5}},  # more than D_v picks
    ]
    for change in changes:
        with pytest.raises(ConfigError):
            code_book_from_json(good | change, SCHEMA)
    with pytest.raises(ConfigError):
        code_book_from_json({}, SCHEMA)
    with pytest.raises(ConfigError, match="sign bits"):
        sketched(None, 9)
    with pytest.raises(ConfigError, match="public rows"):
        kmeans_book(ROWS[:3], 4, SPEC, SCHEMA, 0)
    with pytest.raises(DataError, match="do not fit"):
        kmeans_book(ROWS, 4, SPEC, SCHEMA, 0).cells_of(np.full((2, 20), np.nan))


def test_numbers_of_a_code_book_near_0_make_no_denormal_numbers_of_rows() -> None:
    # Some processors take a hundred times as long for them, so that the time of an answer told of the rows.
    book = CodeBook("kmeans", SPEC, {"centres": np.full((3, 20), 1e-310)}, SCHEMA)
    with np.errstate(under="raise"):
        book.cells_of(np.concatenate([ROWS, np.zeros((9, 20)), np.ones((9, 20))]))
    assert not book.arrays["centres"].any()
