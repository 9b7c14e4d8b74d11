"""Issue 4, 'Done means', with real processes over TLS: a run that is interrupted by `kill -9` of the curator
three times and of each owner once ends equal to the undisturbed run, shown by `fedkme audit verify`.

tests/faults holds the same at every step of a run, over a simulated network.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fedkme.privacy.ledger import read_ledger

from .lives import CONSUMER, OWNERS, PARTIES, Town

Build = Callable[..., Town]

RUNS = {
    "privauction": (50, 150, '[summary]\nauction.kind = "privauction"\nfeatures.dimension = 40\n'),
    "clock": (200, 400, "[summary]\nfeatures.dimension = 40\n"),
}
"""p, rows of each owner and the curator's `[summary]`: an exchange or two a round, and the default."""

Wave = tuple[int, tuple[str, ...]]


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    """Makes towns, whose processes end with the test."""
    towns: list[Town] = []

    def make(name: str, *arguments: int | str) -> Town:
        towns.append(Town(tmp_path / name, *arguments))  # type: ignore[arg-type]
        return towns[-1]

    yield make
    for town in towns:
        town.close()


def waves(chance: random.Random, p: int) -> list[Wave]:
    """In which round who is killed: the curator three times, everybody else once.

    The curator's third death comes while it still does again what it did before the second.
    """
    first, second, third = chance.sample(OWNERS, 3)
    early, late = chance.sample([("curator",), (first,), (second, CONSUMER)], 3), ("curator", third)
    tenths = sorted(chance.sample(range(1, 7), 3))
    again = chance.randint(1, 3)
    points = [*tenths, 7, again]
    return [(tenth * p // 10, who) for tenth, who in zip(points, [*early, late, ("curator",)], strict=True)]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("auction", sorted(RUNS))
def test_a_run_in_which_everybody_dies_is_equal_to_the_undisturbed_one(auction: str, build: Build) -> None:
    # Equal byte for byte: summary, rounds but for times, who was accessed when, and all ledgers with the
    # nonce of every event and the noisy means that bids answered. Noise drawn anew, a row counted twice or an
    # answer computed again from another state would be another line, bid or row.
    p, rows, summary = RUNS[auction]
    undisturbed, troubled = build("undisturbed", p, rows, summary), build("troubled", p, rows, summary)
    deaths = waves(random.Random(auction), p)
    for number, victims in deaths:
        troubled.in_round(number)
        for party in victims:
            troubled.kill(party)
        for party in victims:
            troubled.start(party)
    for town in (undisturbed, troubled):
        town.finish()

    killed = Counter(party for _, victims in deaths for party in victims)
    assert killed == {"curator": 3, **dict.fromkeys((*OWNERS, CONSUMER), 1)}
    for party in PARTIES:
        assert len(undisturbed.lives[party]) == 1
        assert len(troubled.lives[party]) == 1 + killed[party]
    for name in OWNERS:  # the run knew both processes, and waited for the second
        assert {line["epoch"] for life in troubled.lives[name] for line in life.said("joined")} == {1, 2}
    assert troubled.lives[CONSUMER][-1].said("resumed", lambda line: line["run"] == "run-1")

    expected, happened = undisturbed.transcript(), troubled.transcript()
    assert expected["record"]["status"] == "complete"
    assert not expected["record"]["faults"]
    assert len(expected["rounds"]) == p
    assert happened == expected
    for town in (undisturbed, troubled):
        verdict = town.audit()
        assert "FAULT" not in verdict
        assert all(f"{name} and curator: " in verdict for name in (*OWNERS, CONSUMER))
        for path in town.ledgers().values():
            events = Counter(entry.disclosure for entry in read_ledger(path))
            assert events
            assert max(events.values()) == 1, f"{path.name}: an event was written twice"
