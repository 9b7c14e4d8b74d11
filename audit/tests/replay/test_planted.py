"""The list of planted faults: `make audit` measures its columns."""

from __future__ import annotations

import pytest

from audit.attacks.subjects import SUBJECTS
from audit.planted_faults import FAULTS
from audit.planted_faults.__main__ import case_of

MISSED = {"an accountant that forgets composition"}
"""Faults that unit tests find, and no layer of the audit."""


def test_every_fault_says_what_a_colleague_did_and_who_finds_it() -> None:
    for name, fault in FAULTS.items():
        assert fault.says, name
        assert fault.case or fault.attack or fault.chaos or name in MISSED
        assert not fault.attack or fault.attack in SUBJECTS, name
        if fault.case is not None:
            case_of(*fault.case)


def test_every_edit_fits_the_function_that_it_names() -> None:
    # Only `make audit` would tell that a function no longer has the text that a fault replaces.
    for fault in FAULTS.values():
        with pytest.MonkeyPatch.context() as patch:
            fault.plant(patch)
