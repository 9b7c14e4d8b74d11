"""Rows that pass through a curator unread: it sees their hashes, and only the consumer opens the rows.

A sealed row opens with the consumer's private key and the group secret of the run, for the hash and the token
that it was sealed with. So the curator, which lacks the secret, cannot read a row, attach it to another hash,
use it in another run, or invent one. Other owners have the secret but lack the consumer's key. All sealed
rows of a schema have the same length. The consumer checks that each hash belongs to its row (`mismatched`);
nobody else can.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedkme.features.fixed_point import Features
from fedkme.features.fourier import FourierFeatures
from fedkme.sealed.boxes import BoxKey, box_bytes, seal, shut
from fedkme.sealed.group import GroupSecret
from fedkme.secagg.keys import framed
from fedkme.tables.schema import Schema
from fedkme.tables.table import Row

_HEAD = struct.Struct(">?qI")  # whether there is a label, the label, the count of numbers
_PAD = 256
_LABEL = b"fedkme sealed row"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HashedRow:
    """A row as it leaves its owner for a curator that handles hashes only.

    Attributes:
        token: the owner's number for the row.
        features: h1 under the secret draw, in fixed point, (d,) int16.
        box: the row, or its label alone, sealed for the consumer.
    """

    token: int
    features: Features
    box: bytes


AnyRow: TypeAlias = Row | HashedRow
"""A row that left its owner, in the open or sealed."""


def row_box_bytes(columns: int) -> int:
    """Length of every sealed row with so many columns."""
    return box_bytes(_padded_size(_HEAD.size + 8 * columns))


def seal_rows(
    rows: Sequence[Row], features: Features, recipient: bytes, secret: GroupSecret
) -> list[HashedRow]:
    """Seal each row for the consumer.

    Args:
        rows: rows of one owner.
        features: h1 of the rows, (k, d).
        recipient: the consumer's key for this run, from a checked offer.
        secret: group secret of the run.

    Raises:
        SealedBoxError: the recipient's key cannot be sealed for.
    """
    shared = _sealing_secret(secret)
    hashed = []
    for row, h in zip(rows, features, strict=True):
        box = seal(_pack(row), recipient, _box_context(secret, row.token, h), shared)
        hashed.append(HashedRow(row.token, h, box))
    return hashed


def without_hashes(rows: int) -> Features:
    """Make an empty array, (k, 0), in place of h1, for rows among which the curator does not choose."""
    return np.empty((rows, 0), dtype=np.int16)


def seal_empty(tokens: Sequence[int], columns: int, recipient: bytes, secret: GroupSecret) -> list[HashedRow]:
    """Seal boxes without a row, which look like any other box.

    So the curator sees the number of ordered rows, not of existing rows. Such boxes open as rows without
    values.

    Raises:
        SealedBoxError: the recipient's key cannot be sealed for.
    """
    shared, no_hash = _sealing_secret(secret), without_hashes(1)[0]
    plain = _HEAD.pack(False, 0, 0).ljust(_padded_size(_HEAD.size + 8 * columns), b"\0")
    return [
        HashedRow(t, no_hash, seal(plain, recipient, _box_context(secret, t, no_hash), shared))
        for t in tokens
    ]


def open_rows(hashed: Sequence[HashedRow], key: BoxKey, secret: GroupSecret) -> list[Row]:
    """Open rows; a box without a row opens as a row without values, (0,).

    Raises:
        SealedBoxError: a row was altered, was attached to another hash or token, or belongs to another run or
            key; the message names its place.
    """
    shared = _sealing_secret(secret)
    rows = []
    for place, sealed in enumerate(hashed):
        about = _box_context(secret, sealed.token, sealed.features)
        try:
            rows.append(_unpack(sealed.token, key.open(sealed.box, about, shared)))
        except ValueError:
            raise shut(f"sealed row {place} holds no row") from None
    return rows


def mismatched(
    rows: Sequence[Row], hashed: Sequence[HashedRow], schema: Schema, h1: FourierFeatures
) -> list[int]:
    """Places of opened rows whose hash is not theirs: their owner sent one hash and sealed another row.

    A difference of one unit of fixed point passes: cosines of two machines may differ by that.

    Args:
        rows: opened rows, with values that fit the schema.
        hashed: the hashed rows that they were sealed in.
        schema: schema of the rows.
        h1: the run's secret draw.
    """
    if not rows:
        return []
    values: NDArray[np.float64] = np.array([row.values for row in rows])
    hashes_of_rows = h1.fixed_point(schema.encode(values)).astype(np.int32)
    hashes: NDArray[Any] = np.array([row.features for row in hashed], dtype=np.int32)
    return [int(place) for place in np.flatnonzero(np.abs(hashes_of_rows - hashes).max(axis=1) > 1)]


def _pack(row: Row) -> bytes:
    values = row.values.astype("<f8").tobytes()
    plain = _HEAD.pack(row.label is not None, row.label or 0, len(values) // 8) + values
    return plain.ljust(_padded_size(len(plain)), b"\0")


def _unpack(token: int, plain: bytes) -> Row:
    if len(plain) < _HEAD.size:
        raise ValueError
    labelled, label, count = _HEAD.unpack_from(plain)
    values = np.frombuffer(plain, dtype="<f8", count=count, offset=_HEAD.size).astype(np.float64)
    return Row(token, values, label if labelled else None)


def _padded_size(size: int) -> int:
    return -(-size // _PAD) * _PAD


def _sealing_secret(secret: GroupSecret) -> bytes:
    return secret.derive(b"sealed rows")


def _box_context(secret: GroupSecret, token: int, features: Features) -> bytes:
    digest = sha256(features.astype("<i2").tobytes()).digest()
    return framed(_LABEL, secret.run.encode(), str(token).encode(), digest)
