"""Errors by their numbers, as they come from the wire and from children."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.errors import (
    ApprovalError,
    CommandLineError,
    DataError,
    FedkmeError,
    PolicyError,
    ProtocolError,
    StoreError,
    error_of,
)


class _MineError(StoreError):
    """Error that has the number of another: modules make such for themselves."""


def test_every_error_code_in_the_documents_makes_its_class() -> None:
    assert _MineError.code == StoreError.code
    assert type(error_of(StoreError.code, "the disk is full", "Make room.")) is StoreError
    assert type(error_of(PolicyError.code, "no", "Ask.")) is PolicyError
    assert type(error_of(ApprovalError.code, "not yet", "Wait.")) is ApprovalError
    assert error_of(9999, "", "") is None


@pytest.mark.parametrize(
    "error", [CommandLineError("no verb", "Give one."), ProtocolError("out of turn"), _MineError("full", "x")]
)
def test_an_error_comes_out_of_a_pool_of_processes_as_it_went_in(error: FedkmeError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert (type(again), str(again), again.args) == (type(error), str(error), error.args)
        assert (again.cause, again.remedy) == (error.cause, error.remedy)


@given(st.text(st.characters(exclude_categories=())))
def test_an_error_is_one_line_that_any_terminal_prints(name: str) -> None:
    # A column's name with an escape sequence coloured a terminal; one with a line break forged a line.
    line = str(DataError(f"column '{name}' is not in the schema", f"Rename '{name}'."))
    assert line.isprintable()
    assert line.encode("utf-8").decode("utf-8") == line
    if name.isprintable():
        assert f"column '{name}' is" in line
