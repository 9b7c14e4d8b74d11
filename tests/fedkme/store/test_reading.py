"""A store is read beside the process that has it open, on every backend that lasts."""

from __future__ import annotations

import contextlib

import pytest

from fedkme.errors import StoreError
from fedkme.store.reading import read_store
from tests.fedkme.store.places import Place


def test_a_store_is_read_beside_its_party_and_not_written(lasting: Place) -> None:
    # `fedkme owner status` "must work while the owner runs"; one transaction reads one state.
    with lasting.open() as store:
        store.extend_ledger(["a line"])
        with contextlib.closing(read_store(lasting.spec, "curator")) as reader:
            with reader.transaction():
                assert [line.line for line in reader.ledger()] == ["a line"]
                store.extend_ledger(["another"])
                assert len(reader.ledger()) == 1
            assert len(reader.ledger()) == 2
            with pytest.raises(StoreError, match=r"read-?only"):
                reader.put("k", b"v")
            with pytest.raises(StoreError, match=r"read-?only"):
                reader.extend_ledger(["mine"])
        store.put("k", b"v")
    with contextlib.closing(read_store(lasting.spec, "curator")) as reader:  # and when nobody has it open
        assert reader.get("k") == b"v"
        assert len(reader.ledger()) == 2


def test_the_store_of_another_party_is_not_read(lasting: Place) -> None:
    with lasting.open(), pytest.raises(StoreError, match=r"to curator, not to|holds nothing of owner-2"):
        read_store(lasting.spec, "owner-2")


def test_a_reader_does_not_make_a_missing_store(lasting: Place) -> None:
    with pytest.raises(StoreError, match=r"is not there|holds nothing of"):
        read_store(lasting.spec, "curator")
    with lasting.open() as store:
        assert store.ledger() == []
