"""Errors by their numbers, as they come from the wire and from children."""

from __future__ import annotations

from fedkme.errors import ApprovalError, PolicyError, StoreError, error_of


class _MineError(StoreError):
    """Error that has the number of another: modules make such for themselves."""


def test_every_error_code_in_the_documents_makes_its_class() -> None:
    assert _MineError.code == StoreError.code
    assert type(error_of(StoreError.code, "the disk is full", "Make room.")) is StoreError
    assert type(error_of(PolicyError.code, "no", "Ask.")) is PolicyError
    assert type(error_of(ApprovalError.code, "not yet", "Wait.")) is ApprovalError
    assert error_of(9999, "", "") is None
