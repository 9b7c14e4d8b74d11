"""Codecs of runs of sums: values to messages of the wire and back, docs/decisions/006.

Any message of a peer decodes to a well-formed value, or raises one of two errors: ProtocolError, or
SecureAggregationError for a message of an aggregation. The receiver of a value checks its meaning.
"""

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from fedkme.cells.projection import ProjectionSpec
from fedkme.directives import Proposal, SigningKeys
from fedkme.errors import SAME_RELEASE, ConfigError, FedkmeError, ProtocolError, SecureAggregationError
from fedkme.features.maps import spec_from_json, spec_to_json
from fedkme.features.sums import Layout
from fedkme.secagg import messages
from fedkme.secagg.parameters import MAX_LENGTH, MAX_OWNERS
from fedkme.secagg.signing import KeyBinding
from fedkme.sums.values import MOST_MAPS, CellCounts, Marginals, Parities, ScoreProducts, SumQuery
from fedkme.wire.channel import CHUNK_BYTES, fitting
from fedkme.wire.fields import TEXTS, Field, FieldCodec, json_of, many
from fedkme.wire.v1 import pooling_pb2 as pb

WORDS_AT_ONCE = CHUNK_BYTES // 8
"""Number of words in a part of a vector."""


def query_to_wire(query: SumQuery) -> pb.Query:
    """Encode a query.

    Raises:
        MessageTooLargeError: the query's maps do not fit into a message.
    """
    return fitting(
        pb.Query(
            maps=[json.dumps(spec_to_json(spec), separators=(",", ":")) for spec in query.specs],
            classes=query.layout.classes or 0,
            counts=query.counts,
            weights=query.weights,
            sketch="" if query.sketch is None else json.dumps(query.sketch.to_json(), sort_keys=True),
            **{name: _json_or_empty(getattr(query, name)) for name in _QUESTIONS},
        )
    )


def query_from_wire(message: pb.Query) -> SumQuery:
    """Decode a query; whether its maps fit a schema is checked when they are made.

    Raises:
        ProtocolError: the query, or one of its maps, cannot be read.
    """
    if len(message.maps) > MOST_MAPS:
        raise ProtocolError(f"a question asks for more than {MOST_MAPS} sums", "Ask in parts.")
    try:
        if message.sketch:
            projection = ProjectionSpec(**json_of(message.sketch))
            return SumQuery((), Layout(message.classes or None), message.counts, sketch=projection)
        for name in _QUESTIONS:
            if text := getattr(message, name):
                question: dict[str, Any] = {name: _reader(name).validate_json(text, strict=True)}
                return SumQuery((), Layout(), message.counts, tuple(message.weights), **question)
        specs = tuple(spec_from_json(json_of(text)) for text in message.maps)
        return SumQuery(specs, Layout(message.classes or None), message.counts, tuple(message.weights))
    except ConfigError as error:
        raise ProtocolError(f"a question cannot be read: {error.cause}", error.remedy) from None
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError):
        raise ProtocolError("a question, or a feature map in it, cannot be read") from None


def _json_or_empty(question: Marginals | Parities | ScoreProducts | CellCounts | None) -> str:
    return "" if question is None else json.dumps(asdict(question))


_QUESTIONS: Mapping[str, type] = {
    "marginals": Marginals,
    "parities": Parities,
    "products": ScoreProducts,
    "cells": CellCounts,
}
"""Questions that take the place of maps, by their field; a message's first one counts."""


@functools.cache
def _reader(name: str) -> TypeAdapter[Any]:
    """Reader of a question of a kind; the types of its fields bound every number."""
    return TypeAdapter(_QUESTIONS[name])


def words_to_wire(vector: NDArray[np.int64] | NDArray[np.uint64]) -> Iterator[pb.Words]:
    """Encode a vector in parts of 1 MiB, the last part marked; an empty vector is one empty part."""
    words = vector.view(np.uint64)
    for start in range(0, max(1, len(words)), WORDS_AT_ONCE):
        end = start + WORDS_AT_ONCE
        yield pb.Words(words=words[start:end].tolist(), last=end >= len(words))


def words_from_wire(parts: Iterable[pb.Words]) -> NDArray[np.uint64]:
    """Join a vector's parts, in order; use `view(np.int64)` if its words are signed.

    Raises:
        ProtocolError: parts are missing, too many or empty, or the vector has another length.
    """
    vectors: list[NDArray[np.uint64]] = []
    read, over = 0, False
    for part in parts:
        read += len(part.words)
        if over or read > MAX_LENGTH or not (part.words or part.last):
            raise ProtocolError("a vector comes in other parts than it should")
        vectors.append(np.array(part.words, dtype=np.uint64))
        over = part.last
    if not over:
        raise ProtocolError(f"a vector has no end after {read} words")
    return np.concatenate(vectors)


def _at_most_owners(what: str, entries: str, error: type[FedkmeError], field: Field) -> Field:
    """Limit a field's entries to the number of owners of an aggregation."""

    def decode(listed: Sequence[Any]) -> Any:
        if len(listed) > MAX_OWNERS:
            raise error(f"{what} has more than {MAX_OWNERS} {entries}", SAME_RELEASE)
        return field.decode(listed)

    return field._replace(decode=decode)


PROPOSAL = FieldCodec(Proposal, pb.Proposal, query=Field(query_to_wire, query_from_wire), owners=TEXTS)
"""Proposal of an aggregation; the length and the step follow from the query. `Proposal.parameters` checks
the numbers."""
KEY = FieldCodec(KeyBinding, pb.SigningKey)
"""Signing key of one aggregation, not verified; `owner` names its owner if there is no certificate."""
KEYS = FieldCodec(
    SigningKeys,
    pb.KeyBindings,
    keys=_at_most_owners("an aggregation", "signing keys", ProtocolError, many(KEY)),
)
"""Signing keys of all owners."""
ADVERTISEMENT = FieldCodec(messages.Advertisement, pb.KeyAdvertisement)
"""Phase 1, from an owner; as for every message of a phase, SecureAggregationError if it cannot be read."""
ROSTER = FieldCodec(
    messages.KeyRoster,
    pb.KeyRoster,
    advertisements=many(ADVERTISEMENT),
    fingerprints=TEXTS,
    keys=_at_most_owners("a roster", "signing keys", ProtocolError, many(KEY)),
)
"""Phase 1, from the curator."""
_SHARES = _at_most_owners(
    "a message",
    "shares",
    SecureAggregationError,
    many(FieldCodec(messages.SealedShare, pb.SealedPart), "shares"),
)
SEALED = FieldCodec(messages.SealedShares, pb.SealedParts, party=Field(str, str, "sender"), parts=_SHARES)
"""Phase 2, from an owner for all other owners."""
DELIVERY = FieldCodec(
    messages.Delivery, pb.DeliveredParts, party=Field(str, str, "recipient"), parts=_SHARES, sharing=TEXTS
)
"""Phase 2, from all other owners for an owner."""
SURVIVORS = FieldCodec(messages.Survivors, pb.SurvivorList, owners=TEXTS)
"""Phase 3, from the curator."""
ENDORSEMENT = FieldCodec(messages.Endorsement, pb.EndorsementOf)
"""Phase 4, from an owner."""
ENDORSEMENTS = FieldCodec(messages.Endorsements, pb.EndorsementList, endorsements=many(ENDORSEMENT))
"""Phase 4, from the curator."""
_REVEALED = many(FieldCodec(messages.RevealedShare, pb.ShareOf))
UNMASKING = FieldCodec(messages.Unmasking, pb.Unmasked, self_masks=_REVEALED, mask_keys=_REVEALED)
"""Phase 5, from an owner."""
