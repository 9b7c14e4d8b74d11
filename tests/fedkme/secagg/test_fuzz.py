"""Fuzzed messages raise typed errors only, and never give a wrong sum."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkme.errors import SecureAggregationError
from fedkme.secagg.messages import (
    Advertisement,
    Delivery,
    Endorsement,
    Endorsements,
    KeyRoster,
    MaskedInput,
    RevealedShare,
    SealedShare,
    SealedShares,
    Survivors,
    Unmasking,
)
from tests.fedkme.secagg.runs import Run, parameters, vectors
from tests.silence import Silence

KINDS = (
    Advertisement,
    KeyRoster,
    SealedShare,
    SealedShares,
    Delivery,
    MaskedInput,
    Survivors,
    Endorsement,
    Endorsements,
    RevealedShare,
    Unmasking,
)
ANYTHING = st.one_of(
    st.none(),
    st.integers(),
    st.binary(max_size=70),
    st.text(max_size=5),
    st.sampled_from([bytes(32), bytes(64), bytes(66), bytes(148), "a", "o001", (), ("b", "a"), np.zeros(8)]),
    st.lists(st.sampled_from(["a", b"x", None, "\ud800", ""]), max_size=3).map(tuple),
)


@settings(max_examples=400, deadline=None)
@given(kind=st.sampled_from(KINDS), data=st.data())
def test_a_decoded_message_is_well_formed_or_raises_a_typed_error(kind: Any, data: st.DataObject) -> None:
    fields = {field.name: data.draw(ANYTHING) for field in dataclasses.fields(kind)}
    try:
        message = kind(**fields)
    except SecureAggregationError:
        return
    assert dataclasses.asdict(message).keys() == fields.keys()


def mutated(value: Any, draw: random.Random) -> Any:
    """A value of the same type with one change: a bit, an item, a number."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        field = draw.choice(dataclasses.fields(value))
        return dataclasses.replace(value, **{field.name: mutated(getattr(value, field.name), draw)})
    if isinstance(value, bytes):
        place = draw.randrange(len(value))
        return value[:place] + bytes([value[place] ^ 1 << draw.randrange(8)]) + value[place + 1 :]
    if isinstance(value, str):
        return draw.choice(["o000", "o001", "o004", "o999", value + "x", ""])
    if isinstance(value, np.ndarray):
        return draw.choice(
            [value[:-1], np.append(value, value[:1]), value ^ np.uint64(1 << draw.randrange(64))]
        )
    assert isinstance(value, tuple)
    if not value:
        return ("o001",)
    place = draw.randrange(len(value))
    return draw.choice(
        [
            value[:place] + value[place + 1 :],
            (*value, value[place]),
            (*value[:place], mutated(value[place], draw), *value[place + 1 :]),
            value[::-1],
        ]
    )


STEPS = ("advertised", "share", "shared", "mask", "masked", "endorse", "endorsed", "unmask", "unmasked")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("seed", range(25))
def test_a_mangled_message_is_refused_or_harmless(step: str, seed: int) -> None:
    # One message of one step, to or from o001, is changed. Its receiver refuses it with a typed error, or the
    # end is a typed error, or the sum is right: nothing else. (A masked vector is its owner's to choose.)
    agreed = parameters(owners=5, dropouts=1, length=16)
    draw = random.Random(f"{step} {seed}")
    run = Run(agreed, vectors(agreed), seed)

    def passed(name: str, at: str, message: Any) -> Any:
        return mutated(message, draw) if (name, at) == ("o001", step) else message

    def each(before: Any, there: str, back: str) -> None:
        for name in list(run.owners):
            owner = run.owners[name]
            try:
                original = before[name] if isinstance(before, dict) else before
                arguments = () if original is None else (passed(name, there, original),)
                inputs = (run.inputs[name], Silence()) if there == "mask" else ()
                answer = getattr(owner, there)(*arguments, *inputs)
                getattr(run.curator, back)(passed(name, back, answer))
            except SecureAggregationError:
                del run.owners[name]

    try:
        each(None, "advertise", "advertised")
        each(run.curator.roster(), "share", "shared")
        each(run.curator.deliveries(), "mask", "masked")
        each(run.curator.survivors(), "endorse", "endorsed")
        each(run.curator.endorsements(), "unmask", "unmasked")
        total = run.curator.total()
    except SecureAggregationError:
        return
    expected = sum(run.inputs[name] for name in total.owners)
    if step == "masked" and "o001" in total.owners:
        assert np.abs(total.steps).max() <= agreed.largest_total  # which the noise makes wide
    else:
        np.testing.assert_array_equal(total.steps, expected)
