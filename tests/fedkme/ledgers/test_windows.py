"""Issue 12, B12: a clock that was set back frees no budget, whether it still is or was corrected."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.ledgers.windows import Readings, begin_of, place_in
from fedkme.store.memory import MemoryStore
from tests.owner.consent.host import NAME


def readings(store: MemoryStore, *times: float) -> Readings:
    clock = Readings(store)
    for line, at in enumerate(times, start=1):
        clock.add(line, at)
    return clock


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((10, 20, 30), (10, 20, 30)),
        ((10, 20, 5, 6), (10, 20, math.inf, math.inf)),  # it still is back
        ((10, 20, 5, 6, 25, 7), (10, 20, 25, 25, 25, math.inf)),  # it was corrected, and is back again
        ((10, 10, 10), (10, 10, 10)),
    ],
)
def test_a_line_gets_its_latest_possible_time(times: tuple[float, ...], expected: tuple[float, ...]) -> None:
    clock = readings(MemoryStore(NAME), *times)
    assert tuple(clock.latest(line, at) for line, at in enumerate(times, start=1)) == expected


def test_a_reading_is_stored_when_the_clock_is_right_again_and_no_line_shows_it() -> None:
    store = MemoryStore(NAME)
    clock = readings(store, 10, 20, 5)
    assert clock.latest(3, 5) == math.inf
    clock.note(15)  # still below what was read before
    assert clock.latest(3, 5) == math.inf
    clock.note(40)
    assert clock.latest(3, 5) == 40
    again = readings(store, 10, 20, 5)
    assert again.latest(3, 5) == 40
    # What happens behind the kept reading, with the clock back once more, did not happen before it.
    assert place_in(store, 2) == 2
    assert again.latest(place_in(store, 3), 6) == math.inf
    assert again.largest == 40


def test_no_reading_is_stored_while_the_clock_runs_forward() -> None:
    store = MemoryStore(NAME)
    clock = Readings(store)
    clock.add(1, 10)
    assert clock.latest(1, 10) == 10
    clock.note(50)
    assert store.keys() == []


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 60)), min_size=1, max_size=12))
def test_no_line_gets_an_earlier_time_than_its_true_time(steps: list[tuple[int, int]]) -> None:
    """Time passes, and each reading is right or below an earlier one: the bound is the true time or later."""
    true, read = 0, list[tuple[int, int]]()
    for passed, back in steps:
        true += passed
        largest = max((at for _, at in read), default=0)
        read.append((true, largest - back if back and read else true))
    clock = Readings(MemoryStore(NAME))
    for line, (_, at) in enumerate(read, start=1):
        clock.add(line, at)
    assert all(clock.latest(line, at) >= was for line, (was, at) in enumerate(read, start=1))


def test_a_window_begins_so_many_days_ago() -> None:
    assert begin_of(None, 1e9) == -math.inf
    assert begin_of(2, 1e9) == 1e9 - 2 * 86400
