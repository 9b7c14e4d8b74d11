"""Every number of the wire has a case in which it is hostile; a field of which no sample has one fails."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool

from fedkme.features.maps import MAPS
from fedkme.protocols import PROTOCOLS
from fedkme.wire.directives import answer_to_wire
from fedkme.wire.v1 import summaries_pb2
from tests.hostile import test_lying_plans
from tests.hostile.numbers import NO_NUMBERS, REALS, WIRE, documents, hostile, numbers_in, numeric
from tests.hostile.test_numbers_at_consumers import PLANS, RECEIVED, ROWS, plan_message
from tests.hostile.test_numbers_at_curators import (
    ASKED,
    CONSUMERS,
    HELLO,
    OWNERS,
    honest_answer,
    play_consumer,
    release_request,
)
from tests.hostile.test_numbers_at_owners import CURATORS, MAP_SPECS


def samples() -> Iterator[Any]:
    """Messages of every kind, as honest parties send them."""
    for script in CURATORS.values():
        yield from script()
    yield from map(plan_message, PLANS)
    yield from (said for said, _ in RECEIVED.values())
    yield from map(release_request, ASKED)
    for what in OWNERS:
        yield from answer_to_wire(honest_answer(what))
    for what in CONSUMERS:
        yield from asyncio.run(play_consumer(what, 0, None, 0))[1]
    yield HELLO
    yield summaries_pb2.ConsumerMessage(reference=bytes(16), picks=[0], validation=ROWS)


@functools.cache
def covered() -> frozenset[str]:
    """Fields that some case makes hostile."""
    return frozenset(name for sample in samples() for name, _ in hostile(sample, REALS[:1]))


def test_every_number_of_the_wire_has_a_case() -> None:
    assert covered() == numeric()


def test_a_number_that_is_added_to_the_wire_fails_without_a_case() -> None:
    # A copy of the contract with a number, a text and bytes more: each is missed until it has its case.
    pool = descriptor_pool.DescriptorPool()
    files = []
    for file in WIRE:
        copy = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(copy)
        if file.name.endswith("types.proto"):
            row = next(each for each in copy.message_type if each.name == "Row")
            for place, (name, kind) in enumerate((("price", 1), ("document", 9), ("packed", 12))):
                row.field.add(name=name, number=90 + place, type=kind, label=1)
        pool.Add(copy)
        files.append(file.name)
    grown = [pool.FindFileByName(name) for name in files]
    assert numeric(grown) - covered() == {"Row.price", "Row.document", "Row.packed"}


def test_every_kind_of_document_of_the_wire_has_a_case() -> None:
    # A map, or a method, that is added is sampled here, and a document's numbers are found in its sample.
    assert {type(spec) for spec in MAP_SPECS} == set(MAPS.classes())
    assert {name for name, row in PROTOCOLS.items() if row.family == "sums" and row.settings} == set(ASKED)
    numbers = list(numbers_in(test_lying_plans.MENU.to_json()))
    lists = {"axes", "cuts", "widths", "levels", "close", "edges", "groups"}
    assert {path[0] for path in numbers} == {*lists, "picks", "share", "cells"}
    changed = list(documents(json.dumps(test_lying_plans.MENU.to_json())))
    assert len(changed) == len(numbers) * (len(REALS) + len(NO_NUMBERS))
