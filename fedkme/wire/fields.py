"""Codecs of values that have a message's fields: a table of fields in place of two functions for each."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from fedkme.arrays import FloatArray, Numbers
from fedkme.errors import ConfigError, ProtocolError
from fedkme.wire.channel import MessageT, fitting

ValueT = TypeVar("ValueT")


class Field(NamedTuple):
    """A field that the value has in another form than the message, or under another name.

    Attributes:
        encode: makes the message's form of the value's.
        decode: makes the value's form of the message's; raises an error of fedkme for what is none.
        name: of the field in the value, where it is not the message's.
    """

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    name: str | None = None


class FieldCodec(Generic[ValueT, MessageT]):
    """Codec of a value and a message with the same fields.

    Attributes:
        kind: the class of the value.
    """

    def __init__(self, kind: type[ValueT], message: type[MessageT], **special: Field) -> None:
        """Pair a class of values with a class of messages.

        Args:
            kind: takes all fields by name, and refuses what is out of range where that is to be done here.
            message: takes them too.
            special: fields that are not the same in both, by their names in the message.
        """
        self.kind = kind
        self._message = message
        self._special = tuple((name, each.name or name, each) for name, each in special.items())
        names = (field.name for field in message.DESCRIPTOR.fields)
        self._same = tuple(name for name in names if name not in special)

    def to_wire(self, value: ValueT) -> MessageT:
        """The message.

        Raises:
            MessageTooLargeError: the channel would not carry it.
        """
        fields = {name: getattr(value, name) for name in self._same}
        for name, ours, field in self._special:
            fields[name] = field.encode(getattr(value, ours))
        return fitting(self._message(**fields))

    def from_wire(self, message: MessageT) -> ValueT:
        """The value.

        Raises:
            FedkmeError: the value's class or a field's `decode` refuses it.
        """
        fields = {name: getattr(message, name) for name in self._same}
        for name, ours, field in self._special:
            fields[ours] = field.decode(getattr(message, name))
        return self.kind(**fields)


def many(codec: FieldCodec[Any, Any], name: str | None = None) -> Field:
    """A tuple of values, each a message."""
    return Field(
        lambda values: [codec.to_wire(value) for value in values],
        lambda messages: tuple(codec.from_wire(message) for message in messages),
        name,
    )


def number(domain: Numbers, what: str) -> Field:
    """A number of a domain; ProtocolError for any other."""

    def decode(value: float) -> float:
        try:
            return domain.real(value, what)
        except ConfigError as error:
            raise ProtocolError(error.cause, error.remedy) from None

    return Field(float, decode)


def numbers(domain: Numbers, what: str) -> Field:
    """An array of numbers of a domain, (k,) float64; ProtocolError for any other."""

    def decode(values: Sequence[float]) -> FloatArray:
        try:
            return domain.array(np.array(values, np.float64), (None,), what)
        except ConfigError as error:
            raise ProtocolError(error.cause, error.remedy) from None

    return Field(np.ndarray.tolist, decode)


def json_of(text: str) -> Any:
    """Value of a JSON document of a peer; NaN and infinity, which JSON does not have, are none.

    Raises:
        ValueError: it cannot be read.
    """

    def no_number(name: str) -> None:
        raise ValueError(f"{name} is no number of JSON")

    try:
        return json.loads(text, parse_constant=no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


TEXTS = Field(tuple, tuple)
"""A tuple of texts, or of bytes."""
