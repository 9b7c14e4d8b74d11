"""Codecs of documents and of journals' entries (`fedkme.documents`), to the bytes on disk and back."""

from dataclasses import replace

import numpy as np

from fedkme.directives import Directive, StepTaken
from fedkme.documents import CuratorEntry, Fault, KeptAnswer, OwnerEntry, RequestDocument, RunDocument
from fedkme.exchange import Coalition, ReleaseRequest
from fedkme.sealed.group import GroupSecret
from fedkme.sealed.offers import PartyKeys
from fedkme.wire import codecs, releases, summaries
from fedkme.wire.directives import answer_from_wire, answer_to_wire, directive_from_wire, directive_to_wire
from fedkme.wire.fields import TEXTS, WHOLE, Field, FieldCodec
from fedkme.wire.v1 import journals_pb2 as pb
from fedkme.wire.v1 import releases_pb2

_COALITION = FieldCodec(Coalition, pb.Coalition, owners=TEXTS, counts=Field(tuple, tuple))
_DEPARTURE = FieldCodec(Fault, pb.Departure, line=WHOLE)


def run_document_to_bytes(document: RunDocument) -> bytes:
    """Encode a run for the disk, without rows of D_v: lists of runs read every document (`RunQueue`)."""
    message = pb.RunDocument(owners=document.owners, missing=document.missing)
    if isinstance(document.request, ReleaseRequest):
        message.release.CopyFrom(releases.request_to_wire(document.request))
    else:
        message.request.CopyFrom(summaries.request_to_wire(document.request))
    if document.plan is not None:
        message.plan.CopyFrom(summaries.plan_to_wire(document.plan, codecs.VERSIONS.newest))
    if document.offer is not None:
        message.offer.extend(summaries.offer_to_messages(replace(document.offer, validation=None)))
    message.coalitions.extend(map(_COALITION.to_wire, document.coalitions))
    message.left.extend(map(_DEPARTURE.to_wire, document.left))
    if document.fault is not None:
        message.fault.CopyFrom(codecs.fault_to_wire(document.fault))
    return message.SerializeToString()


def run_document_from_bytes(data: bytes) -> RunDocument:
    """Decode a run that this curator wrote."""
    message = pb.RunDocument.FromString(data)
    owners, missing = (*message.owners,), (*message.missing,)
    if message.HasField("release"):
        return RunDocument(releases.request_from_wire(message.release), None, None, owners, missing)
    plan, offer = summaries.plan_from_wire(message.plan, message.plan.features.width), None
    if message.offer:
        offer = summaries.offer_from_messages(message.offer, plan)
    request = summaries.request_from_wire(message.request)
    coalitions = tuple(map(_COALITION.from_wire, message.coalitions))
    fault = codecs.fault_from_wire(message.fault) if message.HasField("fault") else None
    left = tuple(map(_DEPARTURE.from_wire, message.left))
    return RunDocument(request, plan, offer, owners, missing, coalitions, fault, left)


def request_document_to_bytes(document: RequestDocument) -> bytes:
    """Encode a consumer's request for the disk."""
    message = pb.RequestDocument(
        request=summaries.request_to_wire(document.request), output=document.output, data=document.data
    )
    if document.plan is not None:
        message.plan.CopyFrom(summaries.plan_to_wire(document.plan, codecs.VERSIONS.newest))
    if document.offer is not None:
        message.offer.extend(summaries.offer_to_messages(document.offer))
    if document.secrets is not None:
        keys, secret = document.secrets
        message.box_key, message.signing_key, message.secret = keys.box, keys.signing, secret.exposed()
    return message.SerializeToString()


def request_document_from_bytes(data: bytes) -> RequestDocument:
    """Decode a consumer's request.

    Raises:
        DecodeError: the bytes are no message.
        ProtocolError: the message is none that `request_document_to_bytes` writes.
    """
    message = pb.RequestDocument.FromString(data)
    request = summaries.request_from_wire(message.request)
    plan, offer, secrets = None, None, None
    if message.HasField("plan"):
        plan = summaries.plan_from_wire(message.plan, message.plan.features.width)
    if plan is not None and message.offer:
        offer = summaries.offer_from_messages(message.offer, plan)
    if message.secret:
        assert plan is not None, "keys are those of a run"
        keys = PartyKeys(request.consumer, plan.run, message.box_key, message.signing_key)
        secrets = keys, GroupSecret(plan.run, message.secret)
    return RequestDocument(request, message.output, message.data, plan, offer, secrets)


def release_request_to_bytes(request: ReleaseRequest) -> bytes:
    """Encode a request for a release whose files have not come."""
    return releases.request_to_wire(request).SerializeToString()


def release_request_from_bytes(data: bytes) -> ReleaseRequest:
    """Decode it.

    Raises:
        DecodeError: it is no message.
    """
    return releases.request_from_wire(releases_pb2.ReleaseRequest.FromString(data))


def digest_to_bytes(data: bytes) -> bytes:
    """A run at an owner: SHA-256 of the rows that it was begun with."""
    return pb.OwnerDocument(data=data).SerializeToString()


def digest_from_bytes(document: bytes) -> bytes:
    """Read the digest of the rows that a run was begun with."""
    return pb.OwnerDocument.FromString(document).data


def owner_entry_to_bytes(entry: OwnerEntry) -> bytes:
    """One directive that an owner answered."""
    replies = () if entry.answer is None else answer_to_wire(entry.answer, entry.directive)
    return pb.OwnerEntry(
        directive=directive_to_wire(entry.directive), replies=replies, named=entry.named
    ).SerializeToString()


def owner_entry_from_bytes(body: bytes) -> OwnerEntry:
    """Read one directive that an owner answered."""
    message = pb.OwnerEntry.FromString(body)
    at, step = message.directive.at, message.directive.aggregate.WhichOneof("body")
    if step in (None, "propose"):
        directive = directive_from_wire(message.directive)
    else:
        directive = Directive(at.run, at.round, at.seq, StepTaken(step))
    answer = answer_from_wire(message.replies) if message.replies else None
    return OwnerEntry(directive, answer, tuple(message.named))


def curator_entry_to_bytes(entry: CuratorEntry) -> bytes:
    """Write inputs of a run."""
    message = pb.CuratorEntry(lines=entry.lines)
    for each in entry.answers:
        message.answers.add(
            owner=each.owner,
            seq=each.seq,
            step=each.step,
            messages=() if each.answer is None else answer_to_wire(each.answer),
            lost=None if each.lost is None else codecs.REFUSAL.to_wire(each.lost),
        )
    for purpose, values in entry.draws:
        message.draws.add(purpose=purpose, values=values.astype("<f8").tobytes())
    return message.SerializeToString()


def curator_entry_from_bytes(body: bytes) -> CuratorEntry:
    """Read inputs of a run."""
    message = pb.CuratorEntry.FromString(body)
    answers = [
        KeptAnswer(
            kept.owner,
            kept.seq,
            kept.step,
            answer_from_wire(kept.messages) if kept.messages else None,
            codecs.REFUSAL.from_wire(kept.lost) if kept.HasField("lost") else None,
        )
        for kept in message.answers
    ]
    draws = [(each.purpose, np.frombuffer(each.values, "<f8").astype(np.float64)) for each in message.draws]
    return CuratorEntry(answers, draws, list(message.lines))
