"""The privacy matrix from the lines of a ledger, by named owner and by named consumer."""

import math
from dataclasses import replace
from typing import Any

import pytest

from fedkme.privacy.accountants import TOGETHER, Sound, by_owner, cells_of, composed, matrix, with_coalition
from fedkme.privacy.accountants.matrix import Cells, MatrixCell
from fedkme.privacy.events import (
    CURATOR,
    OWNERS,
    Clock,
    Composed,
    Disclosure,
    Event,
    ExactStatistic,
    Gaussian,
    Laplace,
    RawRows,
    is_validation,
    validation_of,
)
from fedkme.privacy.ledger import merged

SOUND = Sound()


def entry(observer: str, event: Event, nonce: str, **other: Any) -> Disclosure:
    plain = Disclosure("run-1", 1, "owner-1", observer, event, "replace-one", 2.0, nonce)
    return replace(plain, **other)


def test_the_matrix_composes_what_each_observer_saw() -> None:
    noisy = Gaussian(10.0)
    rows = matrix(
        [
            *(entry(observer, noisy, str(i)) for i in range(4) for observer in ("owner-2", "owner-3")),
            entry("owner-3", Laplace(10.0), "5"),
            entry("curator", Composed((RawRows(2), noisy)), "6"),
            entry("curator", RawRows(3), "7"),
            entry("owner-2", Gaussian(4.0), "8", protected="D_v"),
        ],
        SOUND,
        1e-5,
    )
    figures = {(row.protected, row.observer): row for row in rows}
    assert list(figures) == sorted(figures)
    assert len(figures) == 4
    assert figures["owner-1", "owner-2"].figure == SOUND.epsilon([Gaussian(5.0)], 1e-5)
    assert figures["owner-1", "owner-3"].figure.epsilon > figures["owner-1", "owner-2"].figure.epsilon
    assert figures["owner-1", "curator"].raw_rows == 5
    assert math.isinf(figures["owner-1", "curator"].figure.epsilon)
    assert figures["D_v", "owner-2"].figure == SOUND.epsilon([Gaussian(4.0)], 1e-5)


def test_each_line_of_a_ledger_is_a_draw_and_the_other_sides_copy_is_not_another() -> None:
    # 60 equal lines are 60 draws and cost 60 times. Both sides of an exchange hold the entry (DESIGN.md).
    once = entry("owner-2", Gaussian(5.0), "1")
    (row,) = matrix([once] * 60, SOUND, 1e-5)
    assert row.figure == SOUND.epsilon([Gaussian(5.0, 60)], 1e-5)
    (row,) = matrix(merged([[once, once], [once, replace(once), once], []]), SOUND, 1e-5)
    assert row.figure == SOUND.epsilon([Gaussian(5.0, 3)], 1e-5)


def test_a_runs_clocks_are_paid_once() -> None:
    # SARPATWAR.md, section 6: eps for ALL clocks of the run together; the next run pays again.
    stops = [entry("owner-2", Clock(0.2), "auction 1", round=i) for i in range(10)]
    (row,) = matrix(stops, SOUND, 0.0)
    assert row.figure.epsilon == pytest.approx(0.4)
    # Another run, or one of the same name with another g~, or the same lines again: another clock.
    clock = entry("owner-2", Clock(0.2), "auction 1", round=3)
    for other in (replace(clock, run="run-2"), replace(clock, nonce="auction 2"), clock):
        (row,) = matrix([*stops, other], SOUND, 0.0)
        assert row.figure.epsilon == pytest.approx(0.8)
    (row,) = matrix(stops * 3, SOUND, 0.0)
    assert row.figure.epsilon == pytest.approx(1.2)


def test_disclosures_under_different_relations_have_no_common_figure() -> None:
    mixed = [
        entry("owner-2", Gaussian(5.0), "1"),
        entry("owner-2", Gaussian(5.0), "2", relation="add-remove"),
    ]
    (row,) = matrix(mixed, SOUND, 1e-5)
    assert math.isinf(row.figure.epsilon)
    assert row.relation == "add-remove and replace-one"


NOISY = Gaussian(8.0)


def line(run: str, protected: str, observer: str, event: Event, nonce: str = "n") -> Disclosure:
    return Disclosure(run, 1, protected, observer, event, "replace-one", None, nonce)


TWO_RUNS = [
    line("r1", OWNERS, OWNERS, NOISY),
    line("r1", "a", CURATOR, RawRows(1)),
    line("r1", "a", "hospital-x", RawRows(2)),
    line("r2", OWNERS, OWNERS, NOISY),
    line("r2", "b", CURATOR, RawRows(1)),
    line("r2", "a", "hospital-y", RawRows(3)),
    line("r2", validation_of("hospital-y"), CURATOR, NOISY),
]


def rows(cells: Cells) -> dict[tuple[str, str], MatrixCell]:
    matrix_rows = composed(cells, Sound(), 1e-5)
    return {(row.protected, row.observer): row for row in matrix_rows}


def test_an_owner_pays_for_the_runs_that_it_was_in() -> None:
    # "Protected x observer ... for an owner's lifetime": what concerns any owner concerns each one present.
    once, twice = (Sound().epsilon([NOISY] * count, 1e-5) for count in (1, 2))
    matrix_rows = rows(by_owner(cells_of(TWO_RUNS), lambda owner, run: (owner, run) != ("b", "r1")))
    assert (OWNERS, OWNERS) not in matrix_rows
    assert matrix_rows["a", OWNERS].figure == twice
    assert matrix_rows["b", OWNERS].figure == once
    assert matrix_rows["a", CURATOR].raw_rows == 1
    everywhere = rows(by_owner(cells_of(TWO_RUNS), lambda owner, run: True))
    assert everywhere["b", OWNERS].figure == twice


def test_an_owner_whose_rows_were_seen_counts_as_present() -> None:
    # A figure must not become smaller because a ledger is missing.
    matrix_rows = rows(by_owner(cells_of(TWO_RUNS), lambda owner, run: False))
    assert matrix_rows["a", OWNERS].figure == Sound().epsilon([NOISY, NOISY], 1e-5)
    assert matrix_rows["b", OWNERS].figure == Sound().epsilon([NOISY], 1e-5)


def test_without_named_owners_the_cell_of_all_owners_stays() -> None:
    only = [line("r1", OWNERS, OWNERS, NOISY), line("r1", validation_of("x"), CURATOR, NOISY)]
    assert set(by_owner(cells_of(only), lambda owner, run: True)) == {(OWNERS, OWNERS), ("D_v of x", CURATOR)}


def test_consumers_together_see_what_each_of_them_saw() -> None:
    # Two consumers may collude; one that nobody joins is no coalition.
    matrix_rows = rows(with_coalition(cells_of(TWO_RUNS)))
    assert matrix_rows["a", "hospital-x"].raw_rows == 2
    assert matrix_rows["a", "hospital-y"].raw_rows == 3
    assert matrix_rows["a", TOGETHER].raw_rows == 5
    assert math.isinf(matrix_rows["a", TOGETHER].figure.epsilon)
    assert {pair for pair in matrix_rows if pair[1] == TOGETHER} == {("a", TOGETHER)}
    noisy = [line("r1", "a", "x", NOISY), line("r2", "a", "consumer", NOISY)]
    assert rows(with_coalition(cells_of(noisy)))["a", TOGETHER].figure == Sound().epsilon([NOISY] * 2, 1e-5)


def test_the_validation_sets_of_two_consumers_differ() -> None:
    both = [line("r1", validation_of(name), CURATOR, ExactStatistic("x")) for name in ("x", "y")]
    assert len(cells_of(both)) == 2
    assert is_validation(validation_of("x"))
    assert not is_validation("x")
