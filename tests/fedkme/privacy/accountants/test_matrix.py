"""The privacy matrix from the lines of a ledger."""

import math
from dataclasses import replace
from typing import Any

import pytest

from fedkme.privacy.accountants import Published, Sound, matrix
from fedkme.privacy.events import Clock, Composed, Disclosure, Event, Gaussian, Laplace, RawRows
from fedkme.privacy.ledger import merged

SOUND, PUBLISHED = Sound(), Published()


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
