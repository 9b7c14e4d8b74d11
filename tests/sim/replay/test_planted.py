"""`fedkme audit replay`: undeclared disclosures that were planted are found (issue 12, item 9)."""

from __future__ import annotations

import pytest

from sim.replay.cases import Case, cases_of
from sim.replay.pairs import replay
from tests.sim.replay.faults import FAULTS


def case_of(protocol: str, note: str) -> Case:
    """The first case of a protocol with a note."""
    return next(case for case in cases_of(protocol) if note in case.note)


def test_there_are_fifty() -> None:
    # "50 planted undeclared disclosures of our own found".
    assert len(FAULTS) >= 50


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_disclosure_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[name]
    fault.plant(monkeypatch)
    found = replay(case_of(*fault.case), fault.kinds, 1).found
    assert found, name
