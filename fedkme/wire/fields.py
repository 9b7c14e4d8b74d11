"""Codecs of values that have a message's fields: a table of fields in place of two functions for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

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


TEXTS = Field(tuple, tuple)
"""A tuple of texts, or of bytes."""
NUMBERS = Field(np.ndarray.tolist, lambda numbers: np.array(numbers, dtype=np.float64))
"""An array of numbers, (k,) float64."""
