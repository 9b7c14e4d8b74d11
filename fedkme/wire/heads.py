"""Codecs of heads of ledgers to messages of the wire and back."""

from __future__ import annotations

from fedkme.errors import ProtocolError
from fedkme.heads.log import Cosignature, Head
from fedkme.wire.fields import Field, FieldCodec
from fedkme.wire.v1 import owners_pb2, types_pb2


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ProtocolError("a head is not text") from None


HEAD = FieldCodec(Head, types_pb2.Head, note=Field(str.encode, _text))
"""Head that a party shows."""
COSIGNATURE = FieldCodec(Cosignature, owners_pb2.Cosignature, line=Field(str.encode, _text))
"""Signature of another party's head."""
