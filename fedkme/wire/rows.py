"""Codecs of rows, in the clear or sealed in boxes, to messages of the wire and back."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from fedkme.errors import ProtocolError
from fedkme.features.fixed_point import MAX_DIMENSION, Features
from fedkme.sealed.rows import AnyRow, HashedRow, row_box_bytes
from fedkme.wire import codecs
from fedkme.wire.v1 import types_pb2

_OVERHEAD = 48  # bytes of a sealed row beside hash and box


def any_rows_to_wire(rows: Sequence[AnyRow]) -> Iterator[types_pb2.Rows]:
    """Encode rows, in the clear or in boxes, in parts as `codecs.rows_to_wire` makes them."""
    if not rows or not isinstance(rows[0], HashedRow):
        return codecs.rows_to_wire(row for row in rows if not isinstance(row, HashedRow))
    hashed = [row for row in rows if isinstance(row, HashedRow)]
    assert len(hashed) == len(rows), "an owner sends rows of one kind"
    return codecs.in_parts(
        (len(row.box) + 2 * len(row.features) + _OVERHEAD, hashed_to_wire(row)) for row in hashed
    )


def hashed_to_wire(row: HashedRow) -> types_pb2.Row:
    """Encode one row in its box."""
    return types_pb2.Row(token=row.token, features=row.features.astype("<i2").tobytes(), box=row.box)


def hashed_from_wire(message: types_pb2.Row) -> HashedRow:
    """Decode a hashed or sealed row.

    Raises:
        ProtocolError: the row is not in a box, or its hash has an impossible length.
    """
    if not message.box or message.values or message.HasField("label"):
        raise _violation("a row that is not sealed")
    if len(message.features) % 2 or len(message.features) > 2 * MAX_DIMENSION:
        raise _violation("a hash of a length that no hash has")
    features = np.frombuffer(message.features, dtype="<i2").astype(np.int16)
    return HashedRow(message.token, features, message.box)


def any_rows_from_wire(parts: Iterable[types_pb2.Rows], sealed: bool) -> Sequence[AnyRow]:
    """Decode the rows of several parts, in order; all must be sealed, or none.

    Raises:
        ProtocolError: a row is of the other kind.
    """
    if sealed:
        return [hashed_from_wire(row) for part in parts for row in part.rows]
    messages = [row for part in parts for row in part.rows]
    if any(row.box or row.features for row in messages):
        raise _violation("a sealed row in a run of rows as they are")
    return [codecs.row_from_wire(row) for row in messages]


def hashes_to_wire(features: Features) -> bytes:
    """Encode hashes, (k, d) int16."""
    return features.astype("<i2").tobytes()


def hashes_from_wire(data: bytes, rows: int, dimension: int) -> Features:
    """Decode (rows, dimension) hashes; `fault_of_hashes` checks whether they can be hashes of rows.

    Raises:
        ProtocolError: the number of hashes differs.
    """
    if len(data) != 2 * rows * dimension:
        raise _violation("another number of hashes than it should")
    return np.frombuffer(data, dtype="<i2").astype(np.int16).reshape(rows, dimension)


def too_large(row: types_pb2.Row, width: int) -> bool:
    """Check whether a row, in the clear or sealed, is larger than a row of `width` columns can be."""
    return (
        len(row.values) > width
        or len(row.box) > row_box_bytes(width)
        or len(row.features) > 2 * MAX_DIMENSION
    )


def _violation(what: str) -> ProtocolError:
    return ProtocolError(f"the peer sends {what}")
