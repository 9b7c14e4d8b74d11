"""Every number that a peer names on the wire: where they are, and messages in which one is hostile.

The table is made of the descriptors of the wire: numbers, and the numbers in JSON documents and in packed
bytes that fields carry. A sample that a party of ours sends is walked field by field, also fields that it
leaves out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message import Message

from fedkme.tables.table import Table
from fedkme.wire.v1 import owners_pb2, pooling_pb2, releases_pb2, summaries_pb2, types_pb2

MessageT = TypeVar("MessageT", bound=Message)
WIRE = tuple(each.DESCRIPTOR for each in (types_pb2, pooling_pb2, owners_pb2, releases_pb2, summaries_pb2))
"""Files of the contract; journals are never on the wire."""
REALS = (
    0.0,
    5e-324,
    -5e-324,
    1e-154,
    -1e-154,
    1e154,
    -1e154,
    1e300,
    -1e300,
    1.797e308,
    -1.797e308,
    math.nan,
    math.inf,
    -math.inf,
    2.0**53 - 1,
    2.0**53,
    2.0**53 + 2,
)
FEW = (0.0, 5e-324, -1e154, 1.797e308, math.nan, 2.0**53)
FEW_COUNTS = (0, 1, 2**31 - 1, 2**53 + 1, 2**64 - 1)
"""Numbers for messages each of which costs a whole run."""
COUNTS = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**64 - 1)
NO_NUMBERS: tuple[Any, ...] = (True, "1", None, [], [1.0], {}, 10**400, 1.5)
"""Values of JSON in the place of a number."""
ODD_TEXTS = ("\x1b[2J\x9b31m", "a\nb", "\u202e\u2028", "x" * 2**17)
"""Texts that are no line of a log or a terminal."""
_BITS = {
    Field.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    Field.CPPTYPE_UINT32: (0, 2**32 - 1),
    Field.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    Field.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_NUMERIC = {*_BITS, Field.CPPTYPE_DOUBLE, Field.CPPTYPE_FLOAT}
DOCUMENTS = frozenset(
    {
        "CellsPlan.code_book",
        "CellsPlan.menu",
        "Query.maps",
        "Query.sketch",
        "Query.marginals",
        "Query.cells",
        "Query.parities",
        "Query.products",
        "Invite.planned",
        "IntendedSummary.planned",
        "AuctionTerms.heard",
        "ConsumerMessage.disclosures",
        "ReleaseRequest.settings",
    }
)
"""Texts that are JSON."""
PACKED = {"ConsumerMessage.reference": "<i2", "Row.features": "<i2", "Rows.values": "<f8"}
"""Bytes that are numbers."""
TEXTS = frozenset(
    {
        *(f"Fault.{name}" for name in ("cause", "remedy")),
        *(f"KeyOffer.{name}" for name in ("name", "box", "signing", "chain", "signature")),
        *(f"Gift.{name}" for name in ("taker", "commitment", "box", "signature")),
        *(f"Head.{name}" for name in ("note", "leaves", "certificates")),
        *("FeatureMap.commitment", "Row.box"),
        *(f"SigningKey.{name}" for name in ("owner", "key", "chain", "signature")),
        *(
            f"KeyAdvertisement.{name}"
            for name in ("sender", "context", "cipher_key", "mask_key", "commitment", "signature")
        ),
        *("KeyRoster.context", "KeyRoster.fingerprints"),
        *(f"SealedPart.{name}" for name in ("sender", "recipient", "sealed")),
        *("SealedParts.party", "SealedParts.context"),
        *(f"DeliveredParts.{name}" for name in ("party", "context", "sharing")),
        *("SurvivorList.context", "SurvivorList.owners"),
        *(f"EndorsementOf.{name}" for name in ("sender", "context", "signature")),
        *("EndorsementList.context", "ShareOf.about", "ShareOf.share", "Unmasked.sender", "Unmasked.context"),
        *("Proposal.name", "Proposal.owners", "Position.run", "ShowHead.origin"),
        *(
            "Cosignature.line",
            "Cosignature.certificates",
            "Hello.name",
            "Hello.instance",
            "Hello.schema_digest",
            "Welcome.runs",
        ),
        *(f"Invite.{name}" for name in ("schema_digest", "consumer", "protocol", "expected", "above")),
        "IntendedSummary.protocol",
        *(f"Consider.{name}" for name in ("run", "schema_digest", "consumer", "expected")),
        *("OfferKeys.run", "RunQuery.name", "RunQuery.run", "RunState.run", "RunState.status"),
        *("RunState.kind", "Plan.run", "SummaryRequest.schema_digest", "SummaryRequest.name"),
        *("SummaryRequest.request_id", "SummaryRequest.replaces", "SummaryChoice.protocol"),
        *("SummaryChoice.line", "SummaryChoice.disagrees", "Outcome.reason", "ReleasePlan.run"),
        *("ReleaseProgress.stage", "ReleaseProgress.line", "FilePart.name", "FilePart.data"),
        *(f"ReleaseRequest.{name}" for name in ("name", "request_id", "schema_digest", "attach")),
    }
)
"""Texts and bytes that are no numbers."""


def neighbours(table: Table) -> tuple[Table, Table]:
    """A table, and the one in which a row is another, with its label."""
    values = table.values.copy()
    values[7] = 1.0 - values[7] if values.max() <= 1.0 else values[0]
    labels = None if table.labels is None else table.labels.copy()
    if labels is not None:
        labels[7] = 1 - labels[7]
    return table, Table(values, labels)


def name_of(field: Any) -> str:
    """Name of a field with its message's."""
    return f"{field.containing_type.name}.{field.name}"


def fields(files: Iterable[FileDescriptor] = WIRE) -> Iterator[Any]:
    """All fields of all messages."""

    def inside(message: Descriptor) -> Iterator[Any]:
        yield from message.fields
        for nested in message.nested_types:
            yield from inside(nested)

    for file in files:
        for message in file.message_types_by_name.values():
            yield from inside(message)


def numeric(files: Iterable[FileDescriptor] = WIRE) -> set[str]:
    """Names of all fields that carry numbers; a text of which nobody said what it is counts as one."""
    named = set()
    for field in fields(files):
        is_text = field.cpp_type == Field.CPPTYPE_STRING and name_of(field) not in TEXTS
        if is_text or field.cpp_type in _NUMERIC:
            named.add(name_of(field))
    return named


def hostile(
    sample: MessageT, values: Sequence[float] = REALS, counts: Sequence[int] = COUNTS
) -> Iterator[tuple[str, MessageT]]:
    """Copies of a message in each of which one number, named first, is hostile."""
    for path, field in _places(sample, ()):
        for change in _changes(_at(sample, path), field, values, counts):
            mutant = type(sample)()
            mutant.CopyFrom(sample)
            _put(_at(mutant, path), field, change)
            yield name_of(field), mutant


def worded(sample: MessageT) -> Iterator[tuple[str, MessageT]]:
    """Copies of a message in each of which one text, named first, is odd."""
    for path, field in _places(sample, (), lambda field: field.type == Field.TYPE_STRING):
        for text in ODD_TEXTS:
            mutant = type(sample)()
            mutant.CopyFrom(sample)
            _put(_at(mutant, path), field, [text] if field.is_repeated else text)
            yield name_of(field), mutant


def _is_numeric(field: Any) -> bool:
    return field.cpp_type in _NUMERIC or name_of(field) in DOCUMENTS or name_of(field) in PACKED


def _places(
    message: Any, path: tuple[Any, ...], wanted: Callable[[Any], bool] = _is_numeric
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    for field in message.DESCRIPTOR.fields:
        if field.cpp_type == Field.CPPTYPE_MESSAGE:
            inner: list[tuple[str, int | None]]
            if field.is_repeated:
                inner = [(field.name, place) for place in range(min(1, len(getattr(message, field.name))))]
            else:
                inner = [(field.name, None)] if message.HasField(field.name) else []
            for step in inner:
                yield from _places(_at(message, (step,)), (*path, step), wanted)
        elif wanted(field):
            yield path, field


def _at(message: Any, path: Sequence[tuple[str, int | None]]) -> Any:
    for name, place in path:
        message = getattr(message, name) if place is None else getattr(message, name)[place]
    return message


def _changes(message: Any, field: Any, values: Sequence[float], counts: Sequence[int]) -> Iterator[Any]:
    name, now = name_of(field), getattr(message, field.name)
    if name in DOCUMENTS:
        texts = list(now) if field.is_repeated else [now] if now else []
        for place, text in enumerate(texts):
            for changed in documents(text, values):
                yield [*texts[:place], changed, *texts[place + 1 :]] if field.is_repeated else changed
        return
    if name in PACKED:
        kind = np.dtype(PACKED[name])
        array = np.frombuffer(now, kind)
        odd = values if kind.kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max, 0)
        for value in odd if len(array) else ():
            mutant = array.copy()
            with np.errstate(over="ignore"):
                mutant[-1] = value
            yield mutant.tobytes()
        return
    if field.cpp_type in _BITS:
        low, high = _BITS[field.cpp_type]
        odd = [each for each in (*counts, *(-count for count in counts), low) if low <= each <= high]
    else:
        odd = list(values)
    for value in odd:
        yield [value, *list(now)[1:]] if field.is_repeated else value


def _put(message: Any, field: Any, value: Any) -> None:
    if field.is_repeated:
        del getattr(message, field.name)[:]
        getattr(message, field.name).extend(value)
    else:
        setattr(message, field.name, value)


def documents(text: str, values: Sequence[float] = REALS) -> Iterator[str]:
    """A JSON document with each of its numbers hostile, one of a list for all of it."""
    plain = json.loads(text)
    for path in numbers_in(plain):
        for value in (*values, *NO_NUMBERS):
            yield json.dumps(_replaced(plain, path, value))


def numbers_in(plain: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Places of the numbers of a document; the last of a list stands for the list."""
    if isinstance(plain, dict):
        for key, value in plain.items():
            yield from numbers_in(value, (*path, key))
    elif isinstance(plain, list):
        if plain:
            yield from numbers_in(plain[-1], (*path, len(plain) - 1))
    elif isinstance(plain, int | float) and not isinstance(plain, bool):
        yield path


def _replaced(plain: Any, path: Sequence[Any], value: Any) -> Any:
    if not path:
        return value
    changed = dict(plain) if isinstance(plain, dict) else list(plain)
    changed[path[0]] = _replaced(plain[path[0]], path[1:], value)
    return changed
