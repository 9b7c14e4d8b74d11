"""Values to messages and back: nothing is changed on the way, and parts have the size that they should."""

from __future__ import annotations

import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from fedkme import errors
from fedkme.arrays import WIDTHS
from fedkme.errors import FedkmeError, ProtocolError
from fedkme.features.fixed_point import MAX_DIMENSION, MEAN_LIMIT
from fedkme.features.fourier import FourierSpec, Kind
from fedkme.tables.table import Row
from fedkme.wire import codecs
from fedkme.wire.channel import CHUNK_BYTES
from fedkme.wire.rows import any_rows_from_wire
from fedkme.wire.v1 import types_pb2

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, FedkmeError)]

means = npst.arrays(np.int32, st.integers(0, 300), elements=st.integers(-MEAN_LIMIT, MEAN_LIMIT))


@given(means)
def test_means(mean: np.ndarray[tuple[int], np.dtype[np.int32]]) -> None:
    wire = types_pb2.MeanVector.FromString(codecs.mean_to_wire(mean).SerializeToString())
    assert np.array_equal(codecs.mean_from_wire(wire, len(mean)), mean)
    with pytest.raises(ProtocolError, match="coordinates and the run"):
        codecs.mean_from_wire(wire, len(mean) + 1)


@given(st.integers(MEAN_LIMIT + 1, 2**31 - 1), st.sampled_from([1, -1]))
def test_means_beyond_exact_arithmetic(coordinate: int, sign: int) -> None:
    with pytest.raises(ProtocolError, match="out of range"):
        codecs.mean_from_wire(types_pb2.MeanVector(coordinates=[0, sign * coordinate]), 2)


@given(
    st.sampled_from(["paired", "offset"]),
    st.integers(1, MAX_DIMENSION // 2).map(lambda half: 2 * half),
    st.floats(WIDTHS.low, WIDTHS.high),
    st.integers(1, 2**32 - 1),
    st.integers(0, 2**64 - 1),
)
def test_features(kind: Kind, dimension: int, gamma: float, width: int, seed: int) -> None:
    spec = FourierSpec(kind, dimension, gamma, width, seed)
    wire = types_pb2.FeatureMap.FromString(codecs.features_to_wire(spec).SerializeToString())
    assert codecs.features_from_wire(wire, width) == spec


def same(one: Row, other: Row) -> bool:
    """Bit for bit: NaN and -0.0 too."""
    return (one.token, one.label, one.values.tobytes()) == (other.token, other.label, other.values.tobytes())


rows = st.builds(
    Row,
    st.integers(0, 2**64 - 1),
    npst.arrays(np.float64, st.integers(0, 40), elements=st.floats(allow_nan=True, allow_infinity=True)),
    st.none() | st.integers(0, 2**32 - 1),
)


@given(st.lists(rows, max_size=30))
def test_rows(sent: list[Row]) -> None:
    parts = [types_pb2.Rows.FromString(part.SerializeToString()) for part in codecs.rows_to_wire(sent)]
    assert [part.last for part in parts] == [False] * (len(parts) - 1) + [True]
    received = [row for row in any_rows_from_wire(parts, sealed=False) if isinstance(row, Row)]
    assert len(received) == len(sent)
    assert all(map(same, received, sent))


@settings(max_examples=20)
@given(st.integers(1, 400), st.integers(1, 30_000))
def test_parts_of_rows(count: int, width: int) -> None:
    # DESIGN, decision 2: bulk data goes in chunks of at most 1 MiB, and only the last of them is not full.
    count = min(count, 3 * CHUNK_BYTES // (8 * width) + 1)
    values = np.full(width, -np.pi)
    parts = list(codecs.rows_to_wire([Row(2**64 - 1, values, 2**32 - 1)] * count))
    assert all(part.rows for part in parts)
    assert all(part.ByteSize() <= CHUNK_BYTES for part in parts)
    assert sum(len(part.rows) for part in parts) == count
    row = parts[0].rows[0].ByteSize() + 32
    assert all(part.ByteSize() + row > CHUNK_BYTES - 32 * len(part.rows) for part in parts[:-1])


def test_rows_of_many_widths() -> None:
    sent = [Row(0, np.zeros(3), None), Row(1, np.zeros(2), None)]
    with pytest.raises(ProtocolError, match="3 columns"):
        codecs.values_of(sent, 3)
    assert codecs.values_of([], 3).shape == (0, 3)
    assert codecs.values_of(sent[:1], 3).shape == (1, 3)


words = st.text(string.ascii_letters + string.digits + " .,'", max_size=80).map(str.strip)


@given(st.sampled_from(KINDS[1:]), words, words)
def test_faults(kind: type[FedkmeError], cause: str, remedy: str) -> None:
    # The other side raises the same class, with the same number and words.
    sent = kind(" ".join(cause.split()), " ".join(remedy.split()))
    wire = types_pb2.Fault.FromString(codecs.fault_to_wire(sent).SerializeToString())
    received = codecs.fault_from_wire(wire)
    assert type(received) is kind
    assert str(received) == str(sent)


@given(st.text(max_size=2000), st.text(max_size=2000), st.integers(0, 2**32 - 1))
def test_faults_of_strangers(cause: str, remedy: str, code: int) -> None:
    # "One clear line": what a peer wrote cannot forge lines of a log or move a terminal's cursor.
    try:
        wire = types_pb2.Fault(code=code, cause=cause, remedy=remedy)
    except UnicodeEncodeError:
        return  # a lone surrogate does not go onto the wire
    line = str(codecs.fault_from_wire(wire))
    assert line.isprintable()
    assert len(line) < 1200
