"""An owner behind the codecs of the wire, without a network."""

from __future__ import annotations

from typing import Any

from fedkme.wire.directives import answer_to_wire, directive_from_wire
from fedkme.wire.v1 import owners_pb2 as pb
from owner.runs import RunManager


class OverWire:
    """A `RunManager` behind its codecs."""

    def __init__(self, manager: RunManager) -> None:
        self.manager = manager

    def answer(self, message: pb.Directive) -> list[pb.OwnerMessage]:
        """Answer a message as the owner's process does."""
        directive = directive_from_wire(message)
        answer = self.manager.answer(directive)
        return [] if answer is None else answer_to_wire(answer, directive)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.manager, name)
