"""Codecs of a consumer's call for a release: values to messages of the wire and back."""

from fedkme.arrays import Numbers
from fedkme.exchange import ReleaseRequest, StageProgress
from fedkme.wire import codecs
from fedkme.wire.fields import FieldCodec, number
from fedkme.wire.v1 import releases_pb2 as pb


def request_to_wire(request: ReleaseRequest) -> pb.ReleaseRequest:
    """Encode a request."""
    return pb.ReleaseRequest(
        versions=codecs.VERSIONS,
        name=request.consumer,
        request_id=request.request_id,
        schema_digest=request.schema,
        settings=request.settings,
    )


def request_from_wire(message: pb.ReleaseRequest) -> ReleaseRequest:
    """Decode a request."""
    return ReleaseRequest(message.name, message.request_id, message.schema_digest, message.settings)


STAGE = FieldCodec(
    StageProgress, pb.ReleaseProgress, fraction=number(Numbers(0.0, 1.0), "the fraction of a stage")
)
"""Progress of a release."""
