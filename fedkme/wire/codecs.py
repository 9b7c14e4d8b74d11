"""Codecs of the protocol: values to messages of the wire and back, without any change of a number."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import WIDTHS, Numbers
from fedkme.directives import Refusal
from fedkme.errors import (
    SAME_RELEASE,
    ConfigError,
    FedkmeError,
    MessageTooLargeError,
    ProtocolError,
    ProtocolVersionError,
)
from fedkme.exchange import CellsPlan, Participation
from fedkme.features.fixed_point import MAX_DIMENSION, MEAN_LIMIT, MeanVector, check_dimension
from fedkme.features.fourier import FourierSpec, Kind, SecretFourierSpec
from fedkme.privacy.events import Disclosure, Event, disclosure_from_json, event_from_json
from fedkme.tables.table import Row
from fedkme.wire.channel import CHUNK_BYTES, MOST_BYTES
from fedkme.wire.fields import WHOLE, Field, FieldCodec, ValueT, json_of, number
from fedkme.wire.v1 import types_pb2

VERSIONS = types_pb2.VersionRange(oldest=4, newest=4)
"""Versions of the wire contract that this package implements."""

_KINDS: dict[Kind, types_pb2.FeatureMap.Kind] = {
    "paired": types_pb2.FeatureMap.KIND_PAIRED,
    "offset": types_pb2.FeatureMap.KIND_OFFSET,
}
MOST_RHO = 2.0**20
"""Limit of owners' rows for each row of a summary."""
MOST_DECLARED = 20
"""Events about one request that a consumer may declare: of four picks, their margins, and D_v itself."""

_DISCLOSURE = 4096  # letters of one event
_ROW_OVERHEAD = 32  # bytes: token, label, tags and lengths


def common_version(other: types_pb2.VersionRange, party: str) -> int:
    """Newest version of the contract that both sides implement.

    Raises:
        ProtocolVersionError: the sides have no version in common.
    """
    newest = min(VERSIONS.newest, other.newest)
    if newest < max(VERSIONS.oldest, other.oldest):
        raise ProtocolVersionError(
            f"{party} speaks versions {other.oldest} to {other.newest} of the protocol "
            f"and this party {VERSIONS.oldest} to {VERSIONS.newest}",
            SAME_RELEASE,
        )
    return newest


def mean_to_wire(mean: MeanVector) -> types_pb2.MeanVector:
    """Encode a mean, (d,) int32."""
    return types_pb2.MeanVector(coordinates=mean.tolist())


def mean_from_wire(message: types_pb2.MeanVector, dimension: int | None = None) -> MeanVector:
    """Decode a mean, of the run's dimension if it is given.

    Raises:
        ProtocolError: the length differs, or a coordinate exceeds the limit of exact arithmetic.
    """
    message.DiscardUnknownFields()
    # packed words of 4 bytes end the message; reading them one by one is slow
    count = len(message.coordinates)
    mean = np.frombuffer(message.SerializeToString()[-4 * count or None :], "<i4").astype(np.int32)
    if dimension is not None:
        check_dimension(mean, dimension)
    if len(mean) and np.maximum.reduce(np.abs(mean).view(np.uint32)) > MEAN_LIMIT:  # -2^31 has no int32 |.|
        raise ProtocolError("a coordinate of a mean is out of range", "Check the peer's software.")
    return mean


def features_to_wire(spec: FourierSpec | SecretFourierSpec) -> types_pb2.FeatureMap:
    """Encode a draw of h1; of a secret draw, the public part."""
    message = types_pb2.FeatureMap(
        kind=_KINDS[spec.kind], dimension=spec.dimension, gamma=spec.gamma, width=spec.width
    )
    if isinstance(spec, FourierSpec):
        message.seed = spec.seed
    else:
        message.commitment = spec.commitment
    return message


def any_features_from_wire(message: types_pb2.FeatureMap, width: int) -> FourierSpec | SecretFourierSpec:
    """Decode a public draw of h1, or the public part of a secret draw; see `features_from_wire`.

    Raises:
        ProtocolError: an unknown kind or unusable parameters.
    """
    if not message.commitment:
        return features_from_wire(message, width)
    public = types_pb2.FeatureMap()
    public.CopyFrom(message)
    public.ClearField("commitment")
    return secret_draw_of(features_from_wire(public, width), message.commitment)


def secret_draw_of(spec: FourierSpec, commitment: bytes) -> SecretFourierSpec:
    """Secret draw with the form of a public draw, and a commitment.

    Raises:
        ProtocolError: the commitment is malformed, or the map is too large for a secret draw.
    """
    try:
        return SecretFourierSpec(spec.kind, spec.dimension, spec.gamma, spec.width, commitment)
    except ConfigError as error:
        raise ProtocolError(f"the peer asks for unusable features: {error.cause}", error.remedy) from None


def features_from_wire(message: types_pb2.FeatureMap, width: int) -> FourierSpec:
    """Decode a draw of h1, for a party whose encoded rows have `width` columns.

    Raises:
        ProtocolError: an unknown kind or unusable parameters.
    """
    kinds = [kind for kind, number in _KINDS.items() if number == message.kind]
    if not kinds or message.dimension > MAX_DIMENSION:
        raise ProtocolError("the peer asks for features that are not known here", "Update this party.")
    if message.commitment:
        raise ProtocolError("the peer speaks of a secret draw where none is", "Check the peer's software.")
    if message.width != width:
        cause = "the curator's features do not fit this party's schema"
        raise ProtocolError(cause, "Give both the same schema file.")
    try:
        return FourierSpec(kinds[0], message.dimension, message.gamma, message.width, message.seed)
    except ConfigError as error:
        raise ProtocolError(f"the peer asks for unusable features: {error.cause}", error.remedy) from None


def row_to_wire(row: Row) -> types_pb2.Row:
    """Encode one row."""
    return types_pb2.Row(token=row.token, values=row.values.tolist(), label=row.label)


def row_from_wire(message: types_pb2.Row) -> Row:
    """Decode one row."""
    label = message.label if message.HasField("label") else None
    return Row(message.token, np.array(message.values, dtype=np.float64), label)


def disclosures_from_wire(texts: Sequence[str], most: int) -> tuple[Disclosure, ...]:
    """Decode disclosures that a peer wrote in its ledger.

    Raises:
        ProtocolError: there are more than `most`, or one is too long or no disclosure.
    """
    return _read_events("declares", disclosure_from_json, texts, most)


def disclosure_to_wire(disclosure: Disclosure) -> str:
    """Encode one disclosure."""
    return disclosure.canonical().decode("ascii")


def event_to_wire(event: Event) -> str:
    """Encode one event."""
    return json.dumps(event.to_json(), sort_keys=True, separators=(",", ":"))


def events_from_wire(texts: Sequence[str], most: int) -> tuple[Event, ...]:
    """Decode events that a peer plans.

    Raises:
        ProtocolError: there are more than `most`, or one is too long or no event.
    """
    return _read_events("plans", event_from_json, texts, most)


def _read_events(
    does: str, read: Callable[[Any], ValueT], texts: Sequence[str], most: int
) -> tuple[ValueT, ...]:
    if len(texts) > most or any(len(text) > _DISCLOSURE for text in texts):
        raise ProtocolError(f"a peer {does} too many events")
    try:
        return tuple(read(json_of(text)) for text in texts)
    except ValueError:
        raise ProtocolError(f"a peer {does} an event that cannot be read") from None


def in_parts(rows: Iterable[tuple[int, types_pb2.Row]]) -> Iterator[types_pb2.Rows]:
    """Split rows, each given with its size in bytes, into parts of at most a chunk, the last part marked.

    Without rows, one empty part.
    """
    part: list[types_pb2.Row] = []
    filled = 0
    for size, row in rows:
        if part and filled + size > CHUNK_BYTES:
            yield types_pb2.Rows(rows=part)
            part, filled = [], 0
        part.append(row)
        filled += size
    yield types_pb2.Rows(rows=part, last=True)


def rows_to_wire(rows: Iterable[Row]) -> Iterator[types_pb2.Rows]:
    """Encode rows in the clear, in parts.

    Raises:
        MessageTooLargeError: a single row is over the message limit.
    """
    return in_parts(_sized(rows))


def _sized(rows: Iterable[Row]) -> Iterator[tuple[int, types_pb2.Row]]:
    for row in rows:
        if (size := 8 * len(row.values) + _ROW_OVERHEAD) > MOST_BYTES:
            cause = f"a row of {len(row.values)} columns is over {MOST_BYTES} bytes"
            raise MessageTooLargeError(cause, "Use fewer columns.")
        yield size, row_to_wire(row)


def values_to_wire(values: NDArray[np.float64]) -> Iterator[types_pb2.Rows]:
    """Encode rows without labels, (m, c) with c >= 1, in packed parts of at most a chunk, the last marked."""
    at_once = max(1, CHUNK_BYTES // (8 * values.shape[1]))
    for start in range(0, max(len(values), 1), at_once):
        part = values[start : start + at_once].astype("<f8").tobytes()
        last = start + at_once >= len(values)
        yield types_pb2.Rows(values=part, columns=values.shape[1], last=last)


def values_from_wire(part: types_pb2.Rows, columns: int | None = None) -> NDArray[np.float64]:
    """Decode one packed part of rows without labels, to (m, columns) float64; None: as many as it says.

    Raises:
        ProtocolError: a row has another number of columns.
    """
    width = part.columns if columns is None else columns
    if part.rows or part.columns != width or not width or len(part.values) % (8 * width):
        raise _of_another_width(width)
    return np.frombuffer(part.values, dtype="<f8").astype(np.float64).reshape(-1, width)


def values_of(rows: Sequence[Row], width: int) -> NDArray[np.float64]:
    """Stack rows that a peer sent into one array, (m, width) float64.

    Raises:
        ProtocolError: a row has another number of columns.
    """
    if any(len(row.values) != width for row in rows):
        raise _of_another_width(width)
    return np.array([row.values for row in rows], dtype=np.float64).reshape(len(rows), width)


def _of_another_width(width: int) -> ProtocolError:
    return ProtocolError(f"a row does not have the schema's {width} columns", "Check the peer's software.")


def counts_from_wire(counts: Sequence[int]) -> NDArray[np.int64]:
    """Decode counts of rows, (k,) int64; those with noise may be below 0.

    Raises:
        ProtocolError: a count is out of range.
    """
    if any(abs(count) >= 2**53 for count in counts):
        raise ProtocolError("a count of rows is out of range", "Check the peer's software.")
    return np.array(counts, dtype=np.int64)


def _book_from_wire(text: str) -> dict[str, Any]:
    try:
        book = json_of(text)
    except ValueError:
        book = None
    if not isinstance(book, dict):
        raise ProtocolError("a plan has no code book", "Check the peer's software.")
    return book


def _menu_to_wire(menu: Mapping[str, Any] | None) -> str:
    return "" if menu is None else _SPELLED(menu)


def _menu_from_wire(text: str) -> dict[str, Any] | None:
    return _book_from_wire(text) if text else None


def _kernel_from_wire(gamma: float) -> float:
    if not WIDTHS.low <= gamma <= WIDTHS.high:
        raise ProtocolError("a plan has no kernel", "Check the peer's software.")
    return gamma


_SPELLED = partial(json.dumps, sort_keys=True, separators=(",", ":"))


CELLS = FieldCodec(
    CellsPlan,
    types_pb2.CellsPlan,
    code_book=Field(_SPELLED, _book_from_wire),
    menu=Field(_menu_to_wire, _menu_from_wire),
    gamma=Field(float, _kernel_from_wire),
    rho=number(Numbers(0.0, MOST_RHO), "rho of a plan"),
    sketch_share=number(Numbers(0.0, 1.0), "the sketch's share of a plan"),
)
"""Public part of a summary by cells; code book and menu are plain values, which their users check."""


REFUSAL = FieldCodec(Refusal, types_pb2.Fault, cause=WHOLE, remedy=WHOLE)
"""Expected failure of a peer, with its text."""


def fault_to_wire(error: FedkmeError) -> types_pb2.Fault:
    """Encode an expected failure."""
    return REFUSAL.to_wire(Refusal.of(error))


def fault_from_wire(message: types_pb2.Fault) -> FedkmeError:
    """Decode a failure into the class that the peer raised; its text becomes one short line."""
    return REFUSAL.from_wire(message).error()


FAULT = Field(
    lambda reason: None if reason is None else REFUSAL.to_wire(reason),
    lambda message: Refusal.of(fault_from_wire(message)) if message.code else None,
)
"""Field of a reason in words of a peer, each a short line; None where there is none."""
MOST_LOST = 64
_PARTICIPATION = FieldCodec(
    Participation, types_pb2.Participation, lost=Field(list, lambda codes: tuple(codes[:MOST_LOST]))
)
PARTICIPATION = Field(
    lambda value: None if value is None else _PARTICIPATION.to_wire(value),
    lambda message: _PARTICIPATION.from_wire(message) if message.expected else None,
)
"""Field of a run's participation; None where an earlier release says nothing of it."""
