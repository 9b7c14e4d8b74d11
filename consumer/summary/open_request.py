"""A request that was made and not yet answered: asking again sends the same bytes."""

from __future__ import annotations

from dataclasses import dataclass

from consumer.sealed.keys import RunKeys
from fedkme.exchange import Offer, Plan, SummaryRequest
from fedkme.privacy.events import Disclosure
from fedkme.sealed import GroupSecret, PartyKeys
from fedkme.wire import codecs, summaries
from fedkme.wire.v1 import journals_pb2


@dataclass(frozen=True, slots=True, eq=False)
class OpenRequest:
    """Parts of its request that a consumer keeps until the summary is here.

    Attributes:
        request: as it was made.
        disclosures: what the request itself disclosed of D_v.
        plan: the curator's answer, as far as the offer depends on it; None before it came.
        offer: what was offered for it.
        keys: of the run, where its rows go sealed.
    """

    request: SummaryRequest
    disclosures: tuple[Disclosure, ...] = ()
    plan: Plan | None = None
    offer: Offer | None = None
    keys: RunKeys | None = None

    def offer_for(self, plan: Plan) -> Offer | None:
        """The offer, where it was made for this very plan."""
        known = self.plan
        if known is None or (known.run, known.features, known.cells) != (plan.run, plan.features, plan.cells):
            return None
        return self.offer

    def to_bytes(self) -> bytes:
        """Encode it for the disk."""
        message = journals_pb2.RequestDocument(
            request=summaries.request_to_wire(self.request),
            disclosures=[codecs.disclosure_to_wire(about) for about in self.disclosures],
        )
        if self.plan is not None and self.offer is not None:
            message.run = self.plan.run
            message.features.CopyFrom(codecs.features_to_wire(self.plan.features))
            if self.plan.cells is not None:
                message.cells.CopyFrom(summaries.cells_to_wire(self.plan.cells))
            message.offer.extend(summaries.offer_to_messages(self.offer))
        if self.keys is not None:
            message.box_key, message.signing_key = self.keys.keys.box, self.keys.keys.signing
            message.secret = self.keys.secret.exposed()
        return message.SerializeToString()

    @staticmethod
    def from_bytes(data: bytes) -> OpenRequest:
        """Decode it.

        Raises:
            DecodeError: it is no message.
            ProtocolError: it is not what `to_bytes` writes.
        """
        message = journals_pb2.RequestDocument.FromString(data)
        request = summaries.request_from_wire(message.request)
        plan, offer, keys = None, None, None
        if message.offer:
            plan = Plan(
                message.run,
                codecs.features_from_wire(message.features, message.features.width),
                cells=summaries.cells_from_wire(message.cells) if message.HasField("cells") else None,
                sealed=bool(message.secret),
                secret_draw=bool(message.offer[0].reference),
            )
            rows = message.offer[0].validation.rows
            offer = summaries.offer_from_messages(message.offer, plan, len(rows[0].values) if rows else 0)
        if message.secret:
            party = PartyKeys(request.consumer, message.run, message.box_key, message.signing_key)
            keys = RunKeys(party, GroupSecret(message.run, message.secret))
        declared = codecs.disclosures_from_wire(message.disclosures, codecs.MOST_DECLARED)
        return OpenRequest(request, tuple(declared), plan, offer, keys)
