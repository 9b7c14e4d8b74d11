"""Codecs of values with the same fields as a message: tables of fields in place of pairs of functions."""

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from google.protobuf.descriptor import FieldDescriptor

from fedkme.arrays import FloatArray, Numbers
from fedkme.directives import one_line
from fedkme.errors import ConfigError, ProtocolError
from fedkme.wire.channel import MessageT, fitting

ValueT = TypeVar("ValueT")


class Field(NamedTuple):
    """Field with different forms, or different names, in value and message.

    Attributes:
        encode: converts the value's form to the message's.
        decode: converts the message's form to the value's; raises a FedkmeError for a malformed one.
        name: name of the field in the value; None: the same as in the message.
        optional: True where None in the value is a field that the message does not have.
    """

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    name: str | None = None
    optional: bool = False


class FieldCodec(Generic[ValueT, MessageT]):
    """Codec of a value and a message with the same fields.

    A peer's text becomes one line of limited length, which fits names, logs and terminals, unless its field
    is special.

    Attributes:
        kind: the class of the value.
    """

    def __init__(
        self, kind: type[ValueT], message: type[MessageT], besides: Collection[str] = (), /, **special: Field
    ) -> None:
        """Pair a class of values with a class of messages.

        Args:
            kind: class of the value; its constructor takes all fields by name, and may refuse values.
            message: class of the message.
            besides: fields of the message that the codec leaves to its callers.
            special: fields that differ between the two, by their names in the message.
        """
        self.kind = kind
        self._message = message
        self._special = tuple((name, entry.name or name, entry) for name, entry in special.items())
        same = [each for each in message.DESCRIPTOR.fields if each.name not in {*special, *besides}]
        self._same = tuple(each.name for each in same)
        self._texts = tuple(each.name for each in same if each.type == FieldDescriptor.TYPE_STRING)

    def to_wire(self, value: ValueT, **besides: Any) -> MessageT:
        """Encode a value, with the message's fields `besides`.

        Raises:
            MessageTooLargeError: the message is over the limit.
        """
        fields = {name: getattr(value, name) for name in self._same}
        for name, ours, field in self._special:
            plain = getattr(value, ours)
            fields[name] = None if field.optional and plain is None else field.encode(plain)
        return fitting(self._message(**fields, **besides))

    def from_wire(self, message: MessageT, **besides: Any) -> ValueT:
        """Decode a message, into a value with the fields `besides`.

        Raises:
            FedkmeError: the value's class or a field's `decode` refuses the content.
        """
        fields = {name: getattr(message, name) for name in self._same}
        for name in self._texts:
            fields[name] = one_line(fields[name])
        for name, ours, field in self._special:
            absent = field.optional and not message.HasField(name)
            fields[ours] = None if absent else field.decode(getattr(message, name))
        return self.kind(**fields, **besides)


def maybe(codec: FieldCodec[Any, Any]) -> Field:
    """Field of a value that is encoded as a message, or of None."""
    return Field(codec.to_wire, codec.from_wire, optional=True)


def many(codec: FieldCodec[Any, Any], name: str | None = None) -> Field:
    """Field of a tuple of values, each encoded as a message."""
    return Field(
        lambda values: [codec.to_wire(value) for value in values],
        lambda messages: tuple(codec.from_wire(message) for message in messages),
        name,
    )


def number(domain: Numbers, what: str) -> Field:
    """Field of a number in a domain; any other value is a ProtocolError."""

    def decode(value: float) -> float:
        try:
            return domain.real(value, what)
        except ConfigError as error:
            raise ProtocolError(error.cause, error.remedy) from None

    return Field(float, decode)


def numbers(domain: Numbers, what: str) -> Field:
    """Field of an array of numbers in a domain, (k,) float64; any other value is a ProtocolError."""

    def decode(values: Sequence[float]) -> FloatArray:
        try:
            return domain.array(np.array(values, np.float64), (None,), what)
        except ConfigError as error:
            raise ProtocolError(error.cause, error.remedy) from None

    return Field(np.ndarray.tolist, decode)


def json_of(text: str) -> Any:
    """Parse a peer's JSON document; NaN and infinity are refused, since JSON has neither.

    Raises:
        ValueError: the document cannot be read.
    """

    def no_number(name: str) -> None:
        raise ValueError(f"{name} is no number of JSON")

    try:
        return json.loads(text, parse_constant=no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


TEXTS = Field(tuple, tuple)
"""Field of a tuple of texts, or of bytes."""
WHOLE = Field(str, str)
"""Field of a text of any length, which somebody else checks."""
