"""Issue 4, 'Done means', with real processes over TLS: a run that is interrupted by `kill -9` of the curator
three times and of each owner once ends equal to the undisturbed run, shown by `fedkme audit verify`.

audit/tests/chaos holds the same at every step of a run, over a simulated network.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from fedkme.privacy.ledger import read_ledger
from tests.system.lives import CONSUMER, OWNERS, PARTIES, Town


class Build(Protocol):
    """Builder of a `Town`."""

    def __call__(self, name: str, auction: str, *, paced: bool = True, seeded: bool = True) -> Town: ...


RUNS = {
    "privauction": (50, 150, '[summary]\nauction.kind = "privauction"\nfeatures.dimension = 40\n'),
    "clock": (200, 400, '[summary]\nprotocol = "algorithm3"\nfeatures.dimension = 40\n'),
}
"""p, rows of each owner and the curator's `[summary]`: an exchange or two a round, and the clock."""

Wave = tuple[int, tuple[str, ...]]


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    """Makes towns, whose processes end with the test."""
    towns: list[Town] = []

    def make(name: str, auction: str, *, paced: bool = True, seeded: bool = True) -> Town:
        towns.append(Town(tmp_path / name, *RUNS[auction], paced=paced, seeded=seeded))
        return towns[-1]

    yield make
    for town in towns:
        town.close()


def waves(chance: random.Random, p: int) -> list[Wave]:
    """Rounds and who is killed in each: the curator three times, each other party once.

    The curator's third death comes while it still does again what it did before the second.
    """
    first, second, third = chance.sample(OWNERS, 3)
    early, late = chance.sample([("curator",), (first,), (second, CONSUMER)], 3), ("curator", third)
    tenths = sorted(chance.sample(range(1, 7), 3))
    again = chance.randint(1, 3)
    points = [*tenths, 7, again]
    return [(tenth * p // 10, who) for tenth, who in zip(points, [*early, late, ("curator",)], strict=True)]


def trouble(town: Town, deaths: list[Wave]) -> None:
    """Let everybody die in turn, each started again at once, and the run come to its end."""
    drawn = []
    for number, victims in deaths:
        town.in_round(number)
        for party in victims:
            town.kill(party)
        if "curator" in victims:
            drawn.append(town.drawn())
        for party in victims:
            town.start(party)
    town.finish()
    killed = Counter(party for _, victims in deaths for party in victims)
    assert killed == {"curator": 3, **dict.fromkeys((*OWNERS, CONSUMER), 1)}
    assert all(len(town.lives[party]) == 1 + killed[party] for party in PARTIES)
    for name in OWNERS:
        assert all(life.said("joined") for life in town.lives[name])
    assert town.lives[CONSUMER][-1].said("resumed", lambda line: line["run"].startswith("run-1"))
    first, second, third = drawn
    assert {"broadcast", "auction"} <= first.keys()
    for purpose, values in second.items():
        kept = first.get(purpose, [])
        assert values[: len(kept)] == kept
        assert len(set(values)) == len(values)
    assert third == second  # the curator was doing again what it did before, and drew nothing for it


def audit(town: Town) -> None:
    """Every chain is whole, both sides of each exchange say the same, and no event is there twice."""
    verdict = town.audit()
    assert "FAULT" not in verdict
    assert all(f"{name} and curator: " in verdict for name in (*OWNERS, CONSUMER))
    for path in town.ledgers().values():
        events = Counter(entry.disclosure for entry in read_ledger(path))
        assert events
        assert max(events.values()) == 1, f"{path.name}: an event was written twice"


@pytest.mark.timeout(900)
def test_a_run_in_which_everybody_dies_is_equal_to_the_undisturbed_one(build: Build) -> None:
    # Byte for byte: the summary, rounds but for times, the curator's record, and the ledgers of all parties,
    # with who was accessed when and a nonce for each event. A row counted twice, or an answer computed from
    # another state, would be another line. PRIVAUCTION's runs are held to it in audit/chaos; here it is the
    # one whose noise is the system's.
    undisturbed = build("undisturbed", "clock", paced=False)
    troubled = build("troubled", "clock")
    trouble(troubled, waves(random.Random("clock"), RUNS["clock"][0]))
    undisturbed.finish()
    assert all(len(lives) == 1 for lives in undisturbed.lives.values())
    expected = undisturbed.transcript()
    assert expected["record"]["status"] == "complete"
    assert not expected["record"]["faults"]
    assert len(expected["rounds"]) == RUNS["clock"][0]
    assert troubled.transcript() == expected
    for town in (undisturbed, troubled):
        audit(town)


@pytest.mark.timeout(900)
def test_noise_of_the_system_is_drawn_once_whoever_dies(build: Build) -> None:
    # "Noise that has left is never drawn anew": a seed would draw the same again, the operating system never
    # does. `trouble` looks at what the journal holds of it at each death of the curator.
    town = build("troubled", "privauction", seeded=False)
    trouble(town, waves(random.Random("noise"), RUNS["privauction"][0]))
    record = town.transcript()["record"]
    assert record["status"] == "complete"
    assert not record["faults"]
    audit(town)
