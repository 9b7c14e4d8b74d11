"""The default quorum of a deployment: more than half of the owners that it names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from curator.run.roster import Roster
from curator.settings import CuratorSettings
from curator.summary.settings import SummarySettings
from curator.sums.settings import SumSettings
from fedkme.errors import BudgetError, FedkmeError, OwnerLostError, PolicyError


def quorums(**values: Any) -> tuple[int, int]:
    settings = CuratorSettings(directory=Path("runs"), schema_file=Path("schema.toml"), **values)
    return settings.summary.quorum, settings.release.quorum


@pytest.mark.parametrize(("owners", "quorum"), [("", 1), ("a", 1), ("ab", 2), ("abc", 2), ("abcd", 3)])
def test_more_than_half_of_the_named_owners_are_the_default(owners: str, quorum: int) -> None:
    # Issue 36, item 6: three owners were expected, and a run with one of them was good.
    assert quorums(owners=[*owners]) == (quorum, quorum)
    assert quorums(owners=tuple(owners), summary={"preset": "sound"}) == (quorum, quorum)
    assert quorums(owners=tuple(owners), summary=SummarySettings(), release=SumSettings()) == (quorum, quorum)


def test_a_given_quorum_stays_and_so_does_that_of_a_simulation() -> None:
    assert quorums(owners=["a", "b", "c"], summary={"quorum": 1}, release=SumSettings(quorum=3)) == (1, 3)
    assert quorums(owners=["a", "b", "c"], simulation_seed=0) == (1, 1)


@pytest.mark.parametrize(
    ("errors", "remedy"),
    [
        ((BudgetError, PolicyError), "They run, and do not allow it"),
        ((BudgetError, OwnerLostError), "missing owners"),
    ],
)
def test_owners_that_refuse_are_not_to_be_started(errors: Sequence[type[FedkmeError]], remedy: str) -> None:
    # Budgets were used up, and the consumer was told to start the owners, which ran.
    owners = [Mock() for _ in errors]
    for number, owner in enumerate(owners):
        owner.name = f"owner-{number}"
    roster: Roster[Any] = Roster(owners, len(owners), lambda fault: None, [])
    for number, error in enumerate(errors):
        roster.remove(1, f"owner-{number}", error("no", "Do."))
    shortfall = roster.below_quorum()
    assert shortfall is not None
    assert remedy in shortfall.remedy
