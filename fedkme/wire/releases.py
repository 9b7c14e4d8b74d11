"""Codecs of a consumer's call for a release: values to messages of the wire and back."""

from fedkme.arrays import Numbers
from fedkme.exchange import ReleaseRequest, StageProgress
from fedkme.wire import codecs
from fedkme.wire.fields import WHOLE, Field, FieldCodec, number
from fedkme.wire.v1 import releases_pb2 as pb

_REQUEST = FieldCodec(
    ReleaseRequest,
    pb.ReleaseRequest,
    ("versions", "attach"),
    name=Field(str, str, "consumer"),
    schema_digest=Field(str, str, "schema"),
    settings=WHOLE,
)


def request_to_wire(request: ReleaseRequest) -> pb.ReleaseRequest:
    """Encode a request.

    Raises:
        MessageTooLargeError: the settings do not fit into a message.
    """
    return _REQUEST.to_wire(request, versions=codecs.VERSIONS)


def request_from_wire(message: pb.ReleaseRequest) -> ReleaseRequest:
    """Decode a request."""
    return _REQUEST.from_wire(message)


STAGE = FieldCodec(
    StageProgress, pb.ReleaseProgress, fraction=number(Numbers(0.0, 1.0), "the fraction of a stage")
)
"""Progress of a release."""
