"""Directions that D_v picks, and their bins (docs/decisions/009): a row moves each score by one at most."""

from __future__ import annotations

import functools
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.cells import sketch
from fedkme.cells.codebook import MOST_CELLS, CodeBook, code_book_from_json, sketch_book
from fedkme.cells.directions import (
    MOST_OFFERED,
    Menu,
    chosen_book,
    histogram_of,
    menu_from_json,
    pick,
    scores,
)
from fedkme.cells.histogram import SENSITIVITY, counts
from fedkme.cells.menu import decoded_means, make_menu
from fedkme.cells.projection import Projection, spec_for
from fedkme.errors import ConfigError, ProtocolError
from fedkme.privacy.accountants import Sound
from fedkme.privacy.noise import simulated
from fedkme.tables.schema import Category, Label, Numeric, Schema

SCHEMA = Schema(
    columns=(
        Numeric(name="age", bounds=(0, 100)),
        Category(name="job", categories=("a", "b", "c", "d")),
        Category(name="tie", categories=("yes", "no")),
    ),
    label=Label(name="ill", classes=("no", "yes")),
)
IMAGES = Schema(columns=(Numeric(name="pixel", bounds=(0, 1), count=20),))
RARE = 0.02
"""Share of the pool in the last job."""


def people(count: int, seed: int, jobs: tuple[float, ...] = (0.5, 0.3, 0.2 - RARE, RARE)) -> np.ndarray:
    rng = np.random.default_rng(seed)
    ages, ties = rng.uniform(0, 100, count), rng.integers(0, 2, count)
    return SCHEMA.encode(np.column_stack([ages, rng.choice(4, count, p=jobs), ties]))


POOL, OTHERS = people(4_000, 0), people(60, 1, (0.0, 0.0, 0.0, 1.0))


def sketched(
    rows: np.ndarray, schema: Schema = SCHEMA, own: bool = False, dimension: int = 12, multiplier: float = 4.0
) -> tuple[sketch.Sketch, CodeBook]:
    """Noisy sketch of the pool's rows, and its code book of three sign bits."""
    spec = spec_for(schema, 3, dimension)
    labels, classes = (np.arange(len(rows)) % 2, 2) if own else (None, None)
    total = sketch.coordinates(rows, labels, Projection(spec, schema), classes)
    noise = simulated(1, "curator", "sketch")
    noisy = sketch.release(total, len(rows), spec.dimension, classes, multiplier, noise)
    return noisy, sketch_book(noisy, 3, spec, schema, own)


def sent(menu: Menu) -> Menu:
    """The menu as the consumer reads it from the wire."""
    return menu_from_json(json.loads(json.dumps(menu.to_json())))


WIDE = Schema(
    columns=(
        Numeric(name="age", bounds=(0, 100)),
        *(Category(name=f"q{n}", categories=tuple("abcdefghijkl")) for n in range(12)),
    )
)
LATE = 1 + 12 * 5 + 7
"""Column of the encoded row of WIDE for the eighth answer to the sixth question, given by 1 % of the pool."""


def answers(count: int, seed: int, late: float = 0.01) -> np.ndarray:
    rng = np.random.default_rng(seed)
    given = (rng.random((count, 12)) ** 3 * 5).astype(int)
    given[:, 5] = np.where(rng.random(count) < late, 7, given[:, 5])
    return WIDE.encode(np.column_stack([rng.uniform(0, 100, count), given]))


@functools.cache
def projected() -> tuple[Menu, CodeBook, sketch.Sketch]:
    noisy, book = sketched(answers(12_000, 0), WIDE, dimension=64)
    menu = make_menu(noisy, book, WIDE, 2, 0.15, 8)
    assert menu is not None
    return menu, book, noisy


@functools.cache
def offered(picks: int = 2, share: float = 0.1, own: bool = False) -> tuple[Menu, CodeBook]:
    noisy, book = sketched(POOL, own=own)
    menu = make_menu(noisy, book, SCHEMA, picks, share, max(8, 2**picks))
    assert menu is not None
    return menu, book


def axis_of(menu: Menu, axis: int) -> int:
    return menu.axes.index(axis)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_one_row_replaced_moves_every_score_by_one_at_most(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    of_columns, its_book, _ = projected()
    for menu, book, rows in (
        (*offered(), people(size + 1, seed)),
        (of_columns, its_book, answers(size + 1, seed, 0.5)),
    ):
        # The bound also holds for a menu that a lying curator made up.
        lies = replace(menu, widths=10.0 ** rng.uniform(-12, 3, len(menu)), cuts=rng.normal(size=len(menu)))
        for each in (menu, lies):
            first, other = rows[1:], np.concatenate([rows[:1], rows[2:]])
            moved = np.abs(scores(each, book, first) - scores(each, book, other))
            assert moved.max() <= 1.0


def test_the_score_of_a_rare_category_is_its_distance_from_the_pool() -> None:
    menu, book = offered()
    place = axis_of(menu, 4)
    score = scores(menu, book, OTHERS)
    assert score[place] == pytest.approx((1.0 - RARE) * len(OTHERS), abs=0.02 * len(OTHERS))
    like_the_pool = scores(menu, book, POOL)
    assert like_the_pool[place] < 0.02 * len(POOL)
    bits = (Projection(book.spec, SCHEMA)(POOL) - book.arrays["origin"])[:, 4] > menu.cuts[place]
    assert np.array_equal(bits, POOL[:, 4] > 0)


def test_a_d_v_beyond_a_threshold_picks_a_cut_of_that_number_once() -> None:
    # Decision 009: with a pool of 0 to 100, all rows of a D_v above 95 are beyond one deviation, but 16 % of
    # a normal law.
    noisy, book = sketched(POOL)
    menu, few = (make_menu(noisy, book, SCHEMA, 2, 0.25, cells) for cells in (72, 8))
    assert menu is not None
    assert few is not None
    assert any(set(few.close[at]) < set(menu.close[at]) for at in range(len(menu)))
    rows = people(4_000, 3)
    elders = rows[rows[:, 0] > 0.95]
    noise, event = simulated(5, "consumer", "picks"), menu.event(2.0)
    score = scores(menu, book, elders)
    first, second = pick(menu, score, len(elders), event, noise)
    assert menu.axes[first] == 0
    assert second == menu.none or menu.axes[second] != 0
    assert score[first] > 0.75 * len(elders)
    # The number is cut at the pick and once more beyond it, so that D_v fills two bins of three.
    chosen = chosen_book(book, menu, (first,))
    bins = [np.bincount(chosen.cells_of(each) % 3, minlength=3) / len(each) for each in (POOL, elders)]
    assert bins[0].min() > 0.01
    assert bins[0][1:].sum() < 0.3
    assert bins[1][1:].sum() > 0.9
    # No cut is offered beyond the domain, and a D_v like the pool has low scores in all directions.
    z = Projection(book.spec, SCHEMA)(people(20_000, 4))[:, 0] - book.arrays["origin"][0]
    places = [i for i, axis in enumerate(menu.axes) if axis == 0]
    assert all(z.min() < menu.cuts[place] < z.max() for place in places)
    assert scores(menu, book, rows).max() < 0.2 * len(rows)


def test_the_most_frequent_other_name_has_a_bin_beside_the_picked_one() -> None:
    menu, book = offered()
    place = axis_of(menu, 4)
    assert menu.groups[place] == (4, 1, 2, 3)
    for cells, names in ((4, [[4], [1, 2, 3]]), (36, [[4], [1], [2, 3]])):
        chosen = chosen_book(book, replace(menu, cells=cells), (place, axis_of(menu, 0)))
        own = chosen.cells_of(POOL) % len(names)
        for number, of_bin in enumerate(names):
            assert np.array_equal(own == number, (POOL[:, of_bin] > 0).any(axis=1))
        assert chosen.cells <= cells
    # Bins of numbers and names that a lying curator lists are refused before D_v picks, whatever D_v is.
    for wrong in ({"groups": ((SCHEMA.encoded_width,),) * len(menu)}, {"cells": MOST_CELLS}):
        lies = replace(offered(own=True)[0], **wrong)
        with pytest.raises(ConfigError, match="do not fit"):
            scores(lies, offered(own=True)[1], POOL)


def test_levels_of_a_number_that_is_mostly_0_are_small() -> None:
    # Decision 009: the deviation of the number is below the noise of the sketch, where a normal law would
    # give a share of .31 in place of .05.
    gains = Schema(
        columns=(
            Numeric(name="gain", bounds=(0, 100)),
            *(Category(name=f"job{n}", categories=tuple("abcd")) for n in range(6)),
        )
    )
    rng = np.random.default_rng(0)
    some = np.where(rng.random(8_000) < 0.05, rng.uniform(20, 40, 8_000), 0.0)
    rows = gains.encode(np.column_stack([some, rng.integers(0, 4, (8_000, 6))]))
    noisy, book = sketched(rows, gains, dimension=128, multiplier=12.0)
    menu = make_menu(noisy, book, gains, 2, 0.1, 8)
    assert menu is not None
    above = [i for i, axis in enumerate(menu.axes) if axis == 0 and menu.cuts[i] > 0]
    shares = menu.levels[above] + 0.5
    assert shares.size > 1
    assert shares.max() < 0.15
    score = scores(menu, book, rows[rows[:, 0] > 0])
    assert int(np.argmax(score)) in above


def test_shares_of_categories_are_decoded_from_a_projection() -> None:
    _, book, noisy = projected()
    of_answers = np.arange(1, WIDE.encoded_width)
    shares = np.sqrt(2) * decoded_means(noisy, Projection(book.spec, WIDE), WIDE)[of_answers]
    off = np.abs(shares - (answers(12_000, 0) > 0).mean(axis=0)[of_answers])
    assert off.mean() < 0.04
    assert np.sqrt(np.square(off).mean()) < 0.08
    assert shares[LATE - 1] < 0.2


def test_projected_rows_are_cut_by_the_column_that_d_v_picks() -> None:
    menu, book, _ = projected()
    rows, pool = answers(250, 5, 1.0), answers(2_000, 6)
    place, other = menu.columns.index(LATE), menu.columns.index(1)
    picks = pick(menu, scores(menu, book, rows), 250, menu.event(1.0), simulated(5, "consumer", "picks"))
    assert picks[0] == place
    assert not menu.axes
    plain = replace(sent(menu), cells=36)  # 3 bins twice, and two signs
    chosen = chosen_book(book, plain, (place, other))
    received = code_book_from_json(json.loads(json.dumps(chosen.to_json())), WIDE)
    assert received.cells == 36
    cells = received.cells_of(pool)
    assert np.array_equal(cells % 3 == 0, pool[:, LATE] > 0)
    assert np.array_equal(cells // 3 % 3 == 0, pool[:, 1] > 0)
    assert np.array_equal(cells // 9 % 2, book.cells_of(pool) & 1)
    for wrong in ({"edges": [[0.5]]}, {"along": chosen.arrays["along"][1:].tolist()}):
        plain_book = chosen.to_json()
        plain_book["arrays"].update(wrong)
        with pytest.raises(ConfigError, match="do not fit"):
            code_book_from_json(plain_book, WIDE)
    with pytest.raises(ConfigError, match="places"):
        menu_from_json({**menu.to_json(), "columns": [-1] * len(menu.columns)})
    with pytest.raises(ConfigError, match="do not fit"):
        scores(replace(menu, columns=(WIDE.encoded_width,) * len(menu.columns)), book, pool)


def test_a_menu_has_every_one_of_many_numbers() -> None:
    wide = Schema(columns=tuple(Numeric(name=f"x{n}", bounds=(0, 1)) for n in range(120)))
    rows = np.random.default_rng(0).random((500, 120))
    noisy, book = sketched(rows, wide, dimension=120)
    menu = make_menu(noisy, book, wide, 2, 0.1, 8)
    assert menu is not None
    assert set(menu.axes) == set(range(120))
    assert 500 < len(menu) <= MOST_OFFERED
    assert menu_from_json(menu.to_json()).axes == menu.axes


@pytest.mark.parametrize("own", [False, True])
def test_picks_are_the_first_bins_and_the_book_survives_the_wire(own: bool) -> None:
    menu, book = offered(own=own)
    picks, plain = (axis_of(menu, 4), axis_of(menu, 0)), replace(sent(menu), cells=36)
    chosen = chosen_book(book, plain, picks)
    assert chosen.cells == (72 if own else 36)
    received = code_book_from_json(json.loads(json.dumps(chosen.to_json())), SCHEMA)
    labels = np.arange(len(POOL)) % 2
    cells = received.cells_of(POOL, labels)
    assert np.array_equal(cells % 3 == 0, POOL[:, 4] > 0)
    middle = Projection(book.spec, SCHEMA)(POOL)[:, 0] > book.arrays["origin"][0]
    assert np.array_equal(cells // 3 % 3 > 0, middle)
    kept = chosen_book(book, replace(plain, factor=np.zeros((0, 0)), rests=np.zeros(0)), picks)
    assert np.array_equal(kept.cells_of(POOL, labels) // 9 % 2, book.cells_of(POOL, labels) & 1)
    one, other = POOL[:50], np.concatenate([OTHERS[:1], POOL[1:50]])
    moved = (counts(chosen.cells_of(rows, labels[:50]), chosen.cells) for rows in (one, other))
    assert np.abs(next(moved) - next(moved)).sum() in (0, SENSITIVITY)
    # No picks at all: D_v ends its picks at once, or the plan has no menu.
    assert chosen_book(book, menu, (menu.none,)).arrays["directions"].tolist() == (
        book.arrays["directions"].tolist()
    )
    assert chosen_book(book, menu, ()) is book
    assert chosen_book(book, None, ()) is book


def test_the_other_sign_bits_are_not_correlated_with_the_picks_in_the_pool() -> None:
    # A number with two humps that other numbers follow: the book's own directions say again what a cut of it
    # says, and D_v beyond the cut is on one side of them all.
    schema = Schema(columns=tuple(Numeric(name=f"x{n}", bounds=(0, 1)) for n in range(6)))
    rng = np.random.default_rng(0)
    level = np.where(rng.random(8_000) < 0.5, rng.normal(0.75, 0.05, 8_000), rng.normal(0.25, 0.05, 8_000))
    rows = np.column_stack([level, *(0.4 * level + 0.6 * rng.random(8_000) for _ in range(5))])
    noisy, book = sketched(rows, schema, multiplier=12.0)
    menu = make_menu(noisy, book, schema, 1, 0.1, 36)
    assert menu is not None
    plain = sent(menu)
    place = next(i for i in range(len(menu)) if menu.cuts[i] > 0.1)
    chosen = chosen_book(book, plain, (place,))
    z = Projection(book.spec, schema)(rows) - book.arrays["origin"]
    first, others = z[:, menu.axes[place]], (z @ chosen.arrays["directions"]).T
    assert len(others) == 3
    assert all(abs(np.corrcoef(first, other)[0, 1]) < 0.1 for other in others)
    own = chosen_book(book, replace(plain, factor=np.zeros((0, 0)), rests=np.zeros(0)), (place,))
    beyond = rows[level > 0.8]
    used = [np.bincount(each.cells_of(beyond) // 3 % 4, minlength=4) / len(beyond) for each in (chosen, own)]
    assert [np.count_nonzero(shares > 0.1) for shares in used] == [4, 2]


@given(st.integers(0, 2**32 - 1))
def test_no_factor_of_a_lying_curator_makes_a_pick_fail(seed: int) -> None:
    # A failure that depends on the pick would disclose it before the ledger has a line of it.
    menu, book = offered()
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-12, 11)
    factor = scale * rng.normal(size=(menu.factor.shape[0], 3)) * (rng.random(3) < 0.7)
    lies = replace(menu, factor=factor, rests=10.0 ** rng.uniform(-12, 12, len(menu)))
    picks = tuple(rng.choice(len(menu), 2, replace=False).tolist())
    assert chosen_book(book, lies, picks).cells <= book.cells


def test_picks_and_menus_that_do_not_fit_are_refused() -> None:
    menu, book = offered()
    for picks in ((0, 0), (0, 1, 2), (menu.none + 1,), (menu.none, 0), (-1,)):
        with pytest.raises(ProtocolError, match="not on the menu"):
            chosen_book(book, menu, picks)
    with pytest.raises(ProtocolError, match="not on the menu"):
        chosen_book(book, None, (0,))
    plain = menu.to_json()
    for wrong in (
        {"widths": [0.0] * len(menu)},
        {"cuts": plain["cuts"][1:]},
        {"levels": [float("nan")] * len(menu)},
        {"axes": [99] * len(menu.axes)},
        {"close": [[len(menu)]] * len(menu)},
        {"picks": 5},
        {"factor": [[1.0]]},
        {"rests": [1.0]},
        {"rests": [0.0] * len(menu)},
        {"share": 0.3},
        {"cells": 3},
        {"edges": [["1"]] * len(menu)},
        {"groups": plain["groups"][1:]},
        {"share": None},
    ):
        with pytest.raises(ConfigError):
            menu_from_json({**plain, **wrong})
    with pytest.raises(ConfigError, match="do not fit"):
        scores(replace(menu, factor=np.zeros((3, 1)), axes=(0,) * len(menu)), book, POOL)


def test_d_v_picks_a_far_direction_or_mostly_none() -> None:
    menu, book = offered(share=0.25)
    place, rows = axis_of(menu, 4), people(250, 7, (0.0, 0.0, 0.0, 1.0))
    event, noise = menu.event(1.0), simulated(5, "consumer", "picks")
    far, near = scores(menu, book, rows), scores(menu, book, people(250, 8))
    first = [pick(menu, far, 250, event, noise)[0] for _ in range(50)]
    assert first.count(place) > 45
    none = [pick(menu, near, 250, event, noise)[0] == menu.none for _ in range(200)]
    assert sum(none) > 100
    for picks in (pick(menu, near, 250, event, noise) for _ in range(200)):
        assert len(picks) <= 2
        assert menu.none not in picks[:-1]
        assert not set(picks[1:]) & set(menu.close[picks[0]] if picks[0] != menu.none else ())


def test_a_pick_for_almost_no_epsilon_does_not_depend_on_d_v() -> None:
    # A curator may name any share. Below the slack of a choice, the picks must not depend on D_v at all.
    menu, book = offered(share=1e-15)
    far = 1e9 * scores(menu, book, people(250, 7, (0.0, 0.0, 0.0, 1.0)))
    event = menu.event(1.0)
    picks = [
        [pick(menu, score, 250, event, simulated(seed, "consumer", "picks")) for seed in range(50)]
        for score in (far, 0.0 * far)
    ]
    assert picks[0] == picks[1]


@pytest.mark.parametrize(("picks", "share"), [(1, 0.5), (2, 0.1), (4, 0.125)])
def test_picks_and_histogram_together_cost_epsilon(picks: int, share: float) -> None:
    menu, _ = offered(picks, share)
    for epsilon in (0.3, 1.0, 8.0):
        events = [*menu.events(epsilon), histogram_of(menu, epsilon).event]
        assert Sound().epsilon(events, 0.0).epsilon == pytest.approx(epsilon, rel=1e-12)


def test_images_and_a_book_without_bits_have_no_menu() -> None:
    noisy, book = sketched(np.random.default_rng(0).random((400, 20)), IMAGES)
    assert make_menu(noisy, book, IMAGES, 2, 0.1, 8) is None
    noisy, book = sketched(POOL)
    assert make_menu(noisy, sketch_book(noisy, 0, book.spec, SCHEMA), SCHEMA, 2, 0.1, 8) is None
