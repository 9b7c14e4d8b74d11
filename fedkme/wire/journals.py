"""Documents and journals of what is open, to bytes and back: what parties keep on disk until it is over."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedkme.directives import Answer, Directive, OwnerEntry, Refusal, StepTaken
from fedkme.errors import FedkmeError
from fedkme.exchange import Coalition, Offer, Plan, ReleaseRequest, SummaryRequest
from fedkme.privacy.events import Disclosure
from fedkme.sealed.group import GroupSecret
from fedkme.sealed.offers import PartyKeys
from fedkme.wire import codecs, releases, summaries
from fedkme.wire.directives import answer_from_wire, answer_to_wire, directive_from_wire, directive_to_wire
from fedkme.wire.fields import TEXTS, Field, FieldCodec
from fedkme.wire.v1 import journals_pb2 as pb
from fedkme.wire.v1 import releases_pb2

_COALITION = FieldCodec(Coalition, pb.Coalition, owners=TEXTS, counts=Field(tuple, tuple))


@dataclass(frozen=True, slots=True, eq=False)
class RunDocument:
    """A run at the curator: all that it is a function of, but for what its journal holds.

    Attributes:
        request: the consumer's; it decides whether the run makes a summary or a release.
        plan: of a summary, as the consumer hears it.
        offer: what the consumer offered for the plan; None before, and once the run is over. On disk,
            rows of D_v in it stand beside the document.
        owners: names of the owners with which the run began; empty before.
        missing: names of expected owners without which it began.
        coalitions: owners that counted together for this run, in place of histograms.
        fault: why a summary failed before it was offered anything, for a consumer that did not hear it.
    """

    request: SummaryRequest | ReleaseRequest
    plan: Plan | None = None
    offer: Offer | None = None
    owners: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    coalitions: tuple[Coalition, ...] = ()
    fault: FedkmeError | None = None

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

    def to_bytes(self) -> bytes:
        """Encode it for the disk, without rows of D_v: who lists runs reads documents; see `RunQueue`."""
        message = pb.RunDocument(owners=self.owners, missing=self.missing)
        if isinstance(self.request, ReleaseRequest):
            message.release.CopyFrom(releases.request_to_wire(self.request))
        else:
            message.request.CopyFrom(summaries.request_to_wire(self.request))
        if self.plan is not None:
            message.plan.CopyFrom(summaries.plan_to_wire(self.plan, codecs.VERSIONS.newest))
        if self.offer is not None:
            message.offer.extend(summaries.offer_to_messages(replace(self.offer, validation=None)))
        message.coalitions.extend(map(_COALITION.to_wire, self.coalitions))
        if self.fault is not None:
            message.fault.CopyFrom(codecs.fault_to_wire(self.fault))
        return message.SerializeToString()

    @staticmethod
    def from_bytes(data: bytes) -> RunDocument:
        """Decode a document that this curator wrote."""
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
        return RunDocument(request, plan, offer, owners, missing, coalitions, fault)


@dataclass(frozen=True, slots=True, eq=False)
class RequestDocument:
    """A consumer's request for a summary: asking again sends the same bytes.

    Attributes:
        request: as it was made.
        output: folder for the rows.
        data: digest of D_v.
        disclosures: what the request itself disclosed of D_v.
        plan: the curator's answer, as far as the offer depends on it; None before it came.
        offer: what was offered for it, until the rows are here.
        secrets: keys and group secret of the run, where its rows go sealed, likewise.
    """

    request: SummaryRequest
    output: str
    data: bytes
    disclosures: tuple[Disclosure, ...] = ()
    plan: Plan | None = None
    offer: Offer | None = None
    secrets: tuple[PartyKeys, GroupSecret] | None = None

    @property
    def name(self) -> str:
        """Name in the store."""
        return self.request.request_id.hex()

    def asks_the_same(self, other: RequestDocument) -> bool:
        """Check whether another document is of the same request over the same D_v, but for its id."""
        same = replace(other.request, request_id=self.request.request_id)
        return (self.request, self.data) == (same, other.data)

    def planned(self, plan: Plan) -> bool:
        """Check whether the offer was made for this very plan, as far as it depends on it."""
        return self.plan is not None and _terms_of(self.plan) == _terms_of(plan)

    def to_bytes(self) -> bytes:
        """Encode it for the disk."""
        message = pb.RequestDocument(
            request=summaries.request_to_wire(self.request),
            disclosures=[codecs.disclosure_to_wire(about) for about in self.disclosures],
            output=self.output,
            data=self.data,
        )
        if self.plan is not None:
            message.plan.CopyFrom(summaries.plan_to_wire(self.plan, codecs.VERSIONS.newest))
        if self.offer is not None:
            message.offer.extend(summaries.offer_to_messages(self.offer, packed=True))
        if self.secrets is not None:
            keys, secret = self.secrets
            message.box_key, message.signing_key, message.secret = keys.box, keys.signing, secret.exposed()
        return message.SerializeToString()

    @staticmethod
    def from_bytes(data: bytes) -> RequestDocument:
        """Decode it.

        Raises:
            DecodeError: it is no message.
            ProtocolError: it is not what `to_bytes` writes.
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
        declared = codecs.disclosures_from_wire(message.disclosures, codecs.MOST_DECLARED)
        return RequestDocument(request, message.output, message.data, declared, plan, offer, secrets)


def _terms_of(plan: Plan) -> Plan:
    """Name what an offer depends on: not who offers keys, nor words that a curator's update adds."""
    return replace(plan, offered=False, offers=(), choice=None, packs=False)


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


@dataclass(frozen=True, slots=True, eq=False)
class KeptAnswer:
    """An answer of an owner that came into a run.

    Attributes:
        owner: whose it is.
        seq: number of the directive.
        step: its round and question.
        answer: None where the owner was lost, or broken off with.
        lost: why.
    """

    owner: str
    seq: int
    step: str
    answer: Answer | None
    lost: Refusal | None = None


@dataclass(slots=True, eq=False)
class CuratorEntry:
    """Inputs of a run at the curator since the entry before.

    Attributes:
        answers: of owners.
        draws: of noise sources, by purpose.
        lines: SHA-256 of every line that went to the ledger with this entry.
    """

    answers: list[KeptAnswer] = field(default_factory=list)
    draws: list[tuple[str, NDArray[np.float64]]] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)


def curator_entry_to_bytes(entry: CuratorEntry) -> bytes:
    """Write inputs of a run."""
    message = pb.CuratorEntry(lines=entry.lines)
    for kept in entry.answers:
        message.answers.add(
            owner=kept.owner,
            seq=kept.seq,
            step=kept.step,
            messages=() if kept.answer is None else answer_to_wire(kept.answer),
            lost=None if kept.lost is None else codecs.REFUSAL.to_wire(kept.lost),
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
