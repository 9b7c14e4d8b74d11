"""Entries of the journals of open runs to bytes and back: what parties keep on disk of directives."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedkme.directives import Answer, Directive, OwnerEntry, Refusal, StepTaken
from fedkme.wire import codecs
from fedkme.wire.directives import answer_from_wire, answer_to_wire, directive_from_wire, directive_to_wire
from fedkme.wire.v1 import journals_pb2 as pb


def document_to_bytes(data: bytes) -> bytes:
    """A run at an owner: SHA-256 of the rows that it was begun with."""
    return pb.OwnerDocument(data=data).SerializeToString()


def document_from_bytes(document: bytes) -> bytes:
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
            lost=None if kept.lost is None else codecs.refusal_to_wire(kept.lost),
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
            codecs.refusal_from_wire(kept.lost) if kept.HasField("lost") else None,
        )
        for kept in message.answers
    ]
    draws = [(each.purpose, np.frombuffer(each.values, "<f8").astype(np.float64)) for each in message.draws]
    return CuratorEntry(answers, draws, list(message.lines))
