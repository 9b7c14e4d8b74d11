"""The list of planted faults: `make audit` measures all of it, here a part by each kind of column."""

from __future__ import annotations

import pytest

from sim.attacks.subjects import SUBJECTS
from tests.sim.replay.faults import FAULTS
from tests.sim.replay.faults.__main__ import case_of, measured

PART = 8
"""One fault of so many is planted here: a column that is no longer true may be seen in `make audit` alone."""


def test_every_fault_says_what_a_colleague_did_and_who_finds_it() -> None:
    for name, fault in FAULTS.items():
        assert fault.says, name
        assert fault.case or fault.game or fault.attack or fault.test, name
        assert not fault.attack or fault.attack in SUBJECTS, name
        if fault.case is not None:
            case_of(*fault.case)


@pytest.mark.parametrize("name", list(FAULTS)[::PART])
def test_a_planted_fault_is_found_by_the_layers_of_its_columns(name: str) -> None:
    assert measured(name).missed == ()
