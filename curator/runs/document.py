"""Document of a run at the curator: all that the run is a function of, but for what its journal holds."""

from __future__ import annotations

from dataclasses import dataclass

from fedkme.exchange import Offer, Plan, ReleaseRequest, SummaryRequest
from fedkme.wire import codecs, releases, summaries
from fedkme.wire.v1 import journals_pb2


@dataclass(frozen=True, slots=True, eq=False)
class RunDocument:
    """One run, as it is on disk while it is open.

    Attributes:
        request: the consumer's; it decides whether the run makes a summary or a release.
        plan: of a summary, as the consumer hears it.
        offer: what the consumer offered for the plan; None before, and once the run is over.
        owners: names of the owners with which the run began; empty before.
        missing: names of expected owners without which it began.
    """

    request: SummaryRequest | ReleaseRequest
    plan: Plan | None = None
    offer: Offer | None = None
    owners: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def consumer(self) -> str:
        """Name of the consumer who asked for the run."""
        return self.request.consumer

    @property
    def summary(self) -> SummaryRequest:
        """The request, of a summary."""
        assert isinstance(self.request, SummaryRequest), "a release has no summary"
        return self.request

    @property
    def release(self) -> ReleaseRequest:
        """The request, of a release."""
        assert isinstance(self.request, ReleaseRequest), "a summary has no release"
        return self.request

    @property
    def planned(self) -> Plan:
        """The plan, of a summary."""
        assert self.plan is not None, "every summary has a plan from its first moment"
        return self.plan

    @property
    def offered(self) -> Offer:
        """The offer, of a summary that was accepted."""
        assert self.offer is not None, "a run is queued once its offer came"
        return self.offer


def document_to_bytes(document: RunDocument) -> bytes:
    """Encode a document."""
    message = journals_pb2.RunDocument(owners=document.owners, missing=document.missing)
    if isinstance(document.request, ReleaseRequest):
        message.release.CopyFrom(releases.request_to_wire(document.request))
    else:
        message.request.CopyFrom(summaries.request_to_wire(document.request))
    if document.plan is not None:
        message.plan.CopyFrom(summaries.plan_to_wire(document.plan, codecs.VERSIONS.newest))
    if document.offer is not None:
        message.offer.extend(summaries.offer_to_messages(document.offer))
    return message.SerializeToString()


def document_from_bytes(data: bytes) -> RunDocument:
    """Decode a document that this curator wrote."""
    message = journals_pb2.RunDocument.FromString(data)
    if message.HasField("release"):
        return RunDocument(
            releases.request_from_wire(message.release), None, None, (*message.owners,), (*message.missing,)
        )
    plan, offer = summaries.plan_from_wire(message.plan, message.plan.features.width), None
    if message.offer:
        rows = message.offer[0].validation.rows
        offer = summaries.offer_from_messages(message.offer, plan, len(rows[0].values) if rows else 0)
    request = summaries.request_from_wire(message.request)
    return RunDocument(request, plan, offer, (*message.owners,), (*message.missing,))
