"""The default quorum of a deployment: more than half of the owners that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from curator.settings import CuratorSettings
from curator.summary.settings import SummarySettings
from curator.sums.settings import SumSettings


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
