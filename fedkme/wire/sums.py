"""Runs of sums: their values to messages of the wire and back, docs/decisions/007.

Whatever a peer sends, what is read of it is a value that is whole by itself, or one of two errors:
ProtocolError, or SecureAggregationError for a message of an aggregation. What it means is checked by whom
it is for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from fedkme.cells.projection import ProjectionSpec
from fedkme.directives import Proposal
from fedkme.errors import ConfigError, ProtocolError, SecureAggregationError
from fedkme.features.maps import spec_from_json, spec_to_json
from fedkme.features.sums import Layout
from fedkme.secagg import (
    Advertisement,
    Delivery,
    Endorsement,
    Endorsements,
    KeyBinding,
    KeyRoster,
    RevealedShare,
    SealedShare,
    SealedShares,
    Survivors,
    Unmasking,
)
from fedkme.secagg.parameters import MAX_LENGTH, MAX_OWNERS
from fedkme.sums.values import MOST_MAPS, Marginals, SumQuery
from fedkme.wire.channel import CHUNK_BYTES
from fedkme.wire.codecs import fitting
from fedkme.wire.v1 import pooling_pb2 as pb

WORDS_AT_ONCE = CHUNK_BYTES // 8
"""Words in a part of a vector."""

_REMEDY = "Install the same release of fedkme on both sides."


def query_to_wire(query: SumQuery) -> pb.Query:
    """A question.

    Raises:
        MessageTooLargeError: its maps do not fit into a message.
    """
    return fitting(
        pb.Query(
            maps=[json.dumps(spec_to_json(spec), separators=(",", ":")) for spec in query.specs],
            classes=query.layout.classes or 0,
            counts=query.counts,
            weights=query.weights,
            sketch="" if query.sketch is None else json.dumps(query.sketch.to_json(), sort_keys=True),
            marginals="" if query.marginals is None else json.dumps(asdict(query.marginals)),
        )
    )


def query_from_wire(message: pb.Query) -> SumQuery:
    """A question; whether its maps go with a schema shows when they are made.

    Raises:
        ProtocolError: the question cannot be read, or one of its maps cannot.
    """
    if len(message.maps) > MOST_MAPS:
        raise ProtocolError(f"a question asks for more than {MOST_MAPS} sums", "Ask in parts.")
    try:
        if message.sketch:
            projection = ProjectionSpec(**json.loads(message.sketch))
            return SumQuery((), Layout(message.classes or None), message.counts, sketch=projection)
        if message.marginals:
            said = json.loads(message.marginals)
            cliques = tuple(tuple(int(column) for column in clique) for clique in said["cliques"])
            marginals = Marginals(int(said["bins"]), cliques)
            return SumQuery((), Layout(), message.counts, tuple(message.weights), marginals=marginals)
        specs = tuple(spec_from_json(json.loads(text)) for text in message.maps)
        return SumQuery(specs, Layout(message.classes or None), message.counts, tuple(message.weights))
    except ConfigError as error:
        raise ProtocolError(f"a question cannot be read: {error.cause}", error.remedy) from None
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError):
        raise ProtocolError("a question asks for a feature map that cannot be read", _REMEDY) from None


def words_to_wire(vector: NDArray[np.int64] | NDArray[np.uint64]) -> Iterator[pb.Words]:
    """A vector in parts of 1 MiB, the last one marked; one empty part for no words."""
    words = vector.view(np.uint64)
    for start in range(0, max(1, len(words)), WORDS_AT_ONCE):
        end = start + WORDS_AT_ONCE
        yield pb.Words(words=words[start:end].tolist(), last=end >= len(words))


def words_from_wire(parts: Iterable[pb.Words], length: int | None = None) -> NDArray[np.uint64]:
    """A vector of all its parts, in order; `view(np.int64)` where its words are signed.

    Args:
        parts: of one vector.
        length: of the vector, where it is known.

    Raises:
        ProtocolError: parts are missing, too many or empty, or the vector has another length.
    """
    most = MAX_LENGTH if length is None else length
    found: list[NDArray[np.uint64]] = []
    read, over = 0, False
    for part in parts:
        read += len(part.words)
        if over or read > most or not (part.words or part.last):
            raise ProtocolError(f"a vector of {most} words at most comes in other parts", _REMEDY)
        found.append(np.array(part.words, dtype=np.uint64))
        over = part.last
    if not over or (length is not None and read != length):
        raise ProtocolError(f"a vector of {most} words at most has {read} words, or no end", _REMEDY)
    return np.concatenate(found)


def proposal_to_wire(said: Proposal) -> pb.Proposal:
    """Encode what is aggregated and how; the length and the step follow from the question."""
    return fitting(
        pb.Proposal(
            name=said.name,
            query=query_to_wire(said.query),
            owners=said.owners,
            threshold=said.threshold,
            dropouts=said.dropouts,
            colluders=said.colluders,
            bits=said.bits,
            bound=said.bound,
            noise=said.noise,
        )
    )


def proposal_from_wire(message: pb.Proposal) -> Proposal:
    """Decode what is aggregated and how; `Proposal.parameters` checks the numbers.

    Raises:
        ProtocolError: the question cannot be read.
    """
    return Proposal(
        query_from_wire(message.query),
        message.name,
        tuple(message.owners),
        message.threshold,
        message.dropouts,
        message.colluders,
        message.bits,
        message.bound,
        message.noise,
    )


def key_to_wire(binding: KeyBinding) -> pb.SigningKey:
    """A signing key of one aggregation; `owner` says whose it is where there is no certificate."""
    return pb.SigningKey(
        owner=binding.owner, key=binding.key, chain=binding.chain, signature=binding.signature
    )


def key_from_wire(message: pb.SigningKey) -> KeyBinding:
    """A signing key of one aggregation, neither verified nor believed."""
    return KeyBinding(message.chain, message.key, message.signature, message.owner)


def keys_to_wire(bindings: Sequence[KeyBinding]) -> pb.KeyBindings:
    """Everybody's signing keys."""
    return fitting(pb.KeyBindings(keys=map(key_to_wire, bindings)))


def keys_from_wire(message: pb.KeyBindings) -> list[KeyBinding]:
    """Everybody's signing keys.

    Raises:
        ProtocolError: more than an aggregation has owners.
    """
    if len(message.keys) > MAX_OWNERS:
        raise ProtocolError(f"an aggregation has more than {MAX_OWNERS} signing keys", _REMEDY)
    return [key_from_wire(key) for key in message.keys]


def advertisement_to_wire(said: Advertisement) -> pb.KeyAdvertisement:
    """Phase 1, an owner's."""
    return pb.KeyAdvertisement(
        sender=said.sender,
        context=said.context,
        cipher_key=said.cipher_key,
        mask_key=said.mask_key,
        commitment=said.commitment,
        signature=said.signature,
    )


def advertisement_from_wire(message: pb.KeyAdvertisement) -> Advertisement:
    """Phase 1, an owner's; SecureAggregationError for what cannot be read, as of all messages of a phase."""
    return Advertisement(
        message.sender,
        message.context,
        message.cipher_key,
        message.mask_key,
        message.commitment,
        message.signature,
    )


def roster_to_wire(said: KeyRoster) -> pb.KeyRoster:
    """Phase 1, the curator's."""
    return fitting(
        pb.KeyRoster(context=said.context, advertisements=map(advertisement_to_wire, said.advertisements))
    )


def roster_from_wire(message: pb.KeyRoster) -> KeyRoster:
    """Phase 1, the curator's."""
    return KeyRoster(message.context, tuple(map(advertisement_from_wire, message.advertisements)))


def sealed_to_wire(said: SealedShares) -> pb.SealedParts:
    """Phase 2, of an owner for all others."""
    return _sealed_parts(said.sender, said.context, said.shares)


def sealed_from_wire(message: pb.SealedParts) -> SealedShares:
    """Phase 2, of an owner for all others."""
    return SealedShares(message.party, message.context, _shares(message))


def delivery_to_wire(said: Delivery) -> pb.SealedParts:
    """Phase 2, of all others for an owner."""
    return _sealed_parts(said.recipient, said.context, said.shares)


def delivery_from_wire(message: pb.SealedParts) -> Delivery:
    """Phase 2, of all others for an owner."""
    return Delivery(message.party, message.context, _shares(message))


def survivors_to_wire(said: Survivors) -> pb.SurvivorList:
    """Phase 3, the curator's."""
    return fitting(pb.SurvivorList(context=said.context, owners=said.owners))


def survivors_from_wire(message: pb.SurvivorList) -> Survivors:
    """Phase 3, the curator's."""
    return Survivors(message.context, tuple(message.owners))


def endorsement_to_wire(said: Endorsement) -> pb.EndorsementOf:
    """Phase 4, an owner's."""
    return pb.EndorsementOf(sender=said.sender, context=said.context, signature=said.signature)


def endorsement_from_wire(message: pb.EndorsementOf) -> Endorsement:
    """Phase 4, an owner's."""
    return Endorsement(message.sender, message.context, message.signature)


def endorsements_to_wire(said: Endorsements) -> pb.EndorsementList:
    """Phase 4, the curator's."""
    return fitting(
        pb.EndorsementList(context=said.context, endorsements=map(endorsement_to_wire, said.endorsements))
    )


def endorsements_from_wire(message: pb.EndorsementList) -> Endorsements:
    """Phase 4, the curator's."""
    return Endorsements(message.context, tuple(map(endorsement_from_wire, message.endorsements)))


def unmasking_to_wire(said: Unmasking) -> pb.Unmasked:
    """Phase 5, an owner's."""
    return fitting(
        pb.Unmasked(
            sender=said.sender,
            context=said.context,
            self_masks=[pb.ShareOf(about=each.about, share=each.share) for each in said.self_masks],
            mask_keys=[pb.ShareOf(about=each.about, share=each.share) for each in said.mask_keys],
        )
    )


def unmasking_from_wire(message: pb.Unmasked) -> Unmasking:
    """Phase 5, an owner's."""
    self_masks, mask_keys = (
        tuple(RevealedShare(each.about, each.share) for each in shares)
        for shares in (message.self_masks, message.mask_keys)
    )
    return Unmasking(message.sender, message.context, self_masks, mask_keys)


def _sealed_parts(party: str, context: bytes, shares: Sequence[SealedShare]) -> pb.SealedParts:
    parts = [pb.SealedPart(sender=s.sender, recipient=s.recipient, sealed=s.sealed) for s in shares]
    return fitting(pb.SealedParts(party=party, context=context, parts=parts))


def _shares(message: pb.SealedParts) -> tuple[SealedShare, ...]:
    if len(message.parts) > MAX_OWNERS:
        raise SecureAggregationError(f"a message has more than {MAX_OWNERS} shares", _REMEDY)
    return tuple(SealedShare(part.sender, part.recipient, part.sealed) for part in message.parts)
