"""Messages that no party of ours sends: valid ones with odd fields, and bytes that are not a message."""

from __future__ import annotations

import contextlib
import math
import random
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message import DecodeError, Message

from fedkme.errors import FedkmeError
from fedkme.wire import codecs
from fedkme.wire.v1 import owners_pb2 as pb

MessageT = TypeVar("MessageT", bound=Message)
GROWTH = 200 * 2**20
"""Bytes by which a process may grow while it is fed with fuzz: a few times the largest message, and what
the allocator keeps."""

_TEXTS = ("", "\0", "\n", "run-1", "run-2", "a", "consumer", "owners", "../..", "x" * 300, "\u202e")
_INTEGERS = (0, 1, 2, 7, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
_NUMBERS = (0.0, -0.0, 1.0, -1.0, 5e-324, 1e-100, 1e308, 1.7e308, math.inf, -math.inf, math.nan)
_BITS = {Field.CPPTYPE_UINT32: 32, Field.CPPTYPE_UINT64: 64, Field.CPPTYPE_INT32: 31, Field.CPPTYPE_INT64: 63}


def fuzzed(samples: Sequence[MessageT], count: int, seed: int) -> Iterator[MessageT | None]:
    """Mutants of valid messages, each sample as often as the others; None where the bytes are no message."""
    rng = random.Random(seed)
    for number in range(count):
        sample = samples[number % len(samples)]
        mutant = type(sample)()
        mutant.CopyFrom(sample)
        for _ in range(rng.choice((0, 1, 1, 2, 5))):
            _change(mutant, rng)
        yield mutant if rng.random() < 0.8 else _garbled(mutant, rng)


def fault_of(replies: Sequence[pb.OwnerMessage]) -> FedkmeError:
    """The fault that is an owner's whole answer."""
    (reply,) = replies
    assert reply.HasField("fault"), reply.WhichOneof("body")
    return codecs.fault_from_wire(reply.fault)


def _garbled(message: MessageT, rng: random.Random) -> MessageT | None:
    garbled = type(message)()
    try:
        garbled.ParseFromString(garble(message.SerializeToString(), rng))
    except DecodeError:
        return None
    return garbled


def garble(raw: bytes, rng: random.Random) -> bytes:
    """The bytes with some of them changed, cut off or added."""
    changed = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(changed) + 1)
        match rng.randrange(3):
            case 0:
                changed[place : place + 1] = bytes([rng.randrange(256)])
            case 1:
                del changed[place : place + rng.randint(1, 20)]
            case _:
                changed[place:place] = rng.randbytes(rng.randint(1, 20))
    return bytes(changed)


def _change(message: Any, rng: random.Random) -> None:
    """One field of a message, or of one in it, is another."""
    field = rng.choice(message.DESCRIPTOR.fields)
    if field.is_repeated:
        _change_list(getattr(message, field.name), field, rng)
    elif field.cpp_type == Field.CPPTYPE_MESSAGE:
        if rng.random() < 0.1:
            message.ClearField(field.name)
        else:
            inner = getattr(message, field.name)
            inner.SetInParent()
            if inner.DESCRIPTOR.fields:
                _change(inner, rng)
    else:
        setattr(message, field.name, _odd(field, rng))


def _change_list(values: Any, field: Any, rng: random.Random) -> None:
    match rng.randrange(4):
        case 0:
            del values[rng.randrange(len(values) + 1) :]
        case 1 if values:
            values.extend(list(values) * rng.randint(1, 50))
        case 2 if values and field.cpp_type == Field.CPPTYPE_MESSAGE:
            _change(rng.choice(values), rng)
        case _ if field.cpp_type == Field.CPPTYPE_MESSAGE:
            _change(values.add(), rng)
        case _ if values:
            values[rng.randrange(len(values))] = _odd(field, rng)
        case _:
            values.append(_odd(field, rng))


def _odd(field: Any, rng: random.Random) -> Any:
    match field.cpp_type:
        case Field.CPPTYPE_STRING if field.type == Field.TYPE_BYTES:
            return rng.randbytes(rng.choice((0, 1, 16, 64, 65, 1000)))
        case Field.CPPTYPE_STRING:
            return rng.choice(_TEXTS)
        case Field.CPPTYPE_DOUBLE:
            return rng.choice(_NUMBERS)
        case Field.CPPTYPE_BOOL:
            return rng.random() < 0.5
        case Field.CPPTYPE_ENUM:
            return rng.randrange(5)
        case kind:
            value = rng.choice(_INTEGERS) % 2 ** _BITS[kind]
            return (
                -value if kind in (Field.CPPTYPE_INT32, Field.CPPTYPE_INT64) and rng.random() < 0.5 else value
            )


def at_rest() -> int:
    """Bytes that this process takes up, from which `resident` counts anew where the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return resident()


def resident() -> int:
    """Bytes that this process took up at most since `at_rest`."""
    try:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError):
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
