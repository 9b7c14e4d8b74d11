"""The privacy matrix by named owner and by named consumer."""

from __future__ import annotations

import math

from fedkme.privacy.accountants import TOGETHER, Sound, by_owner, cells_of, composed, with_coalition
from fedkme.privacy.accountants.matrix import Cells, MatrixCell
from fedkme.privacy.events import (
    CURATOR,
    OWNERS,
    Disclosure,
    Event,
    ExactStatistic,
    Gaussian,
    RawRows,
    is_validation,
    validation_of,
)

NOISY = Gaussian(8.0)


def told(run: str, protected: str, observer: str, event: Event, nonce: str = "n") -> Disclosure:
    return Disclosure(run, 1, protected, observer, event, "replace-one", None, nonce)


TWO_RUNS = [
    told("r1", OWNERS, OWNERS, NOISY),
    told("r1", "a", CURATOR, RawRows(1)),
    told("r1", "a", "hospital-x", RawRows(2)),
    told("r2", OWNERS, OWNERS, NOISY),
    told("r2", "b", CURATOR, RawRows(1)),
    told("r2", "a", "hospital-y", RawRows(3)),
    told("r2", validation_of("hospital-y"), CURATOR, NOISY),
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
    only = [told("r1", OWNERS, OWNERS, NOISY), told("r1", validation_of("x"), CURATOR, NOISY)]
    assert set(by_owner(cells_of(only), lambda owner, run: True)) == {(OWNERS, OWNERS), ("D_v of x", CURATOR)}


def test_consumers_together_see_what_each_of_them_saw() -> None:
    # Two consumers may collude; one that nobody joins is no coalition.
    matrix_rows = rows(with_coalition(cells_of(TWO_RUNS)))
    assert matrix_rows["a", "hospital-x"].raw_rows == 2
    assert matrix_rows["a", "hospital-y"].raw_rows == 3
    assert matrix_rows["a", TOGETHER].raw_rows == 5
    assert math.isinf(matrix_rows["a", TOGETHER].figure.epsilon)
    assert {pair for pair in matrix_rows if pair[1] == TOGETHER} == {("a", TOGETHER)}
    noisy = [told("r1", "a", "x", NOISY), told("r2", "a", "consumer", NOISY)]
    assert rows(with_coalition(cells_of(noisy)))["a", TOGETHER].figure == Sound().epsilon([NOISY] * 2, 1e-5)


def test_the_validation_sets_of_two_consumers_differ() -> None:
    both = [told("r1", validation_of(name), CURATOR, ExactStatistic("x")) for name in ("x", "y")]
    assert len(cells_of(both)) == 2
    assert is_validation(validation_of("x"))
    assert not is_validation("x")
