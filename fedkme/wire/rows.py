"""Rows as they are, or in boxes, to messages of the wire and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from fedkme.errors import ProtocolError
from fedkme.features.fixed_point import MAX_DIMENSION, Features
from fedkme.sealed.rows import AnyRow, HashedRow, row_box_bytes
from fedkme.wire import codecs
from fedkme.wire.v1 import types_pb2

_OVERHEAD = 48  # bytes of a sealed row beside hash and box


def any_rows_to_wire(rows: Sequence[AnyRow]) -> Iterator[types_pb2.Rows]:
    """Rows as they are or in boxes, in parts as `codecs.rows_to_wire` makes them."""
    if not rows or not isinstance(rows[0], HashedRow):
        return codecs.rows_to_wire(row for row in rows if not isinstance(row, HashedRow))
    hashed = [row for row in rows if isinstance(row, HashedRow)]
    assert len(hashed) == len(rows), "an owner sends rows of one kind"
    return codecs.in_parts(
        (len(row.box) + 2 * len(row.features) + _OVERHEAD, hashed_to_wire(row)) for row in hashed
    )


def hashed_to_wire(row: HashedRow) -> types_pb2.Row:
    """One row in its box."""
    return types_pb2.Row(token=row.token, features=row.features.astype("<i2").tobytes(), box=row.box)


def hashed_from_wire(message: types_pb2.Row) -> HashedRow:
    """Decode a hashed or sealed row.

    Raises:
        ProtocolError: it is not in a box, or its hash is of no length that there is.
    """
    if not message.box or message.values or message.HasField("label"):
        raise _odd("a row that is not sealed")
    if len(message.features) % 2 or len(message.features) > 2 * MAX_DIMENSION:
        raise _odd("a hash of a length that no hash has")
    features = np.frombuffer(message.features, dtype="<i2").astype(np.int16)
    return HashedRow(message.token, features, message.box)


def any_rows_from_wire(parts: Iterable[types_pb2.Rows], sealed: bool) -> Sequence[AnyRow]:
    """All rows of some parts, in order, which are to be sealed or not.

    Raises:
        ProtocolError: one is of the other kind.
    """
    if sealed:
        return [hashed_from_wire(row) for part in parts for row in part.rows]
    messages = [row for part in parts for row in part.rows]
    if any(row.box or row.features for row in messages):
        raise _odd("a sealed row in a run of rows as they are")
    return [codecs.row_from_wire(row) for row in messages]


def hashes_to_wire(features: Features) -> bytes:
    """Hashes, (k, d) int16."""
    return features.astype("<i2").tobytes()


def hashes_from_wire(data: bytes, rows: int, dimension: int) -> Features:
    """Decode so many hashes; `fault_of_hashes` says whether they can be hashes of rows.

    Raises:
        ProtocolError: another number of them.
    """
    if len(data) != 2 * rows * dimension:
        raise _odd("another number of hashes than it should")
    return np.frombuffer(data, dtype="<i2").astype(np.int16).reshape(rows, dimension)


def too_large(row: types_pb2.Row, width: int) -> bool:
    """Check whether a row has more in it than one of so many columns can have, in the open or sealed."""
    return (
        len(row.values) > width
        or len(row.box) > row_box_bytes(width)
        or len(row.features) > 2 * MAX_DIMENSION
    )


def _odd(what: str) -> ProtocolError:
    return ProtocolError(f"the peer sends {what}")
