"""No question and no choice of the curator's tells one owner's sums."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fedkme.cells.codebook import kmeans_book
from fedkme.cells.projection import ProjectionSpec, spec_for
from fedkme.directives import Proposal
from fedkme.errors import ConfigError, PolicyError, ProtocolError
from fedkme.features.counts import Groups, NumberScores
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.sums import Layout
from fedkme.protocol import Invitation, Security
from fedkme.secagg.noise import plan_noise, plan_of
from fedkme.sums.values import CellCounts, Marginals, Parities, ScoreProducts, SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.table import Table
from fedkme.wire import sums as wire
from fedkme.wire.directives import invitation_from_wire, invitation_to_wire
from fedkme.wire.v1 import pooling_pb2
from tests.owner.consent.host import NAME, SCHEMA, rows
from tests.owner.sums.owner_parties import (
    NAMES,
    NOISY,
    OTHER,
    QUERY,
    Lines,
    Together,
    changed,
    invitation,
    parameters,
    sum_responder,
)

MARGINALS = SumQuery((), Layout(), weights=(1, 2), marginals=Marginals(4, ((0,), (0, 4))))
PARITIES = SumQuery(
    (),
    Layout(),
    weights=(1, 2),
    parities=Parities(4, (Groups(0, (0, 0, 1, 1)), Groups(4, (0, 1))), (((0, 1),), ((0,),))),
)
PRODUCTS = SumQuery(
    (),
    Layout(),
    weights=(1,),
    products=ScoreProducts(4, (NumberScores(0, (-5, -1, 2, 5)), NumberScores(4, (3, 1))), ((0, 1),)),
)
SKETCH = SumQuery((), Layout(2), sketch=spec_for(SCHEMA, 7, 3))
BOOK = kmeans_book(np.eye(2, SCHEMA.encoded_width), 2, spec_for(SCHEMA, 1), SCHEMA, 1)
CELLS = SumQuery((), Layout(), cells=CellCounts(json.dumps(BOOK.to_json()), 0, (NAME, "south")))
QUESTIONS = (QUERY, OTHER, MARGINALS, PARITIES, PRODUCTS, SKETCH, CELLS)


def raw_invitation() -> Invitation:
    """Make an invitation without a word about noise, as a curator of an earlier release may send it."""
    message = invitation_to_wire(invitation(security=NOISY))
    message.sums.security.CopyFrom(pooling_pb2.Security(dropouts=1))
    return invitation_from_wire(message, "r")


def asking(gamma: float) -> SumQuery:
    return SumQuery((FourierMapSpec(dimension=8, gamma=gamma, seed=3),), Layout())


def test_the_difference_of_two_totals_does_not_reveal_an_owners_sums() -> None:
    # One total over a, b and c, one over a and b, with gammas that differ by 1e-12: without noise the
    # difference would be the exact sums of c.
    tables = [Table(rows(count).values, rows(count).labels) for count in (20, 5, 7)]
    owners = [sum_responder(name, table) for name, table in zip(NAMES, tables, strict=True)]
    everybody = Together(owners, NOISY)
    few: dict[str, Any] = {"owners": NAMES[:2], "dropouts": 0, "threshold": 2}
    first, second = asking(1.0), asking(1.0 + 1e-12)
    one = everybody.total(1, parameters(1, first), first)
    everybody.owners = owners[:2]
    two = everybody.total(2, parameters(2, second, **few), second)
    sums, noise = SumVector(first, SCHEMA).of(tables[2]), parameters(1, first).noise
    assert np.abs(SumVector(second, SCHEMA).of(tables[2]) - sums).max() < 4  # they are nearly the same
    off = (one.steps - two.steps - sums) / noise
    assert 0.5 < np.sqrt((off**2).mean()) / 5**0.5 < 2  # five shares of noise in 8 numbers; seeds are fixed


@pytest.mark.parametrize("noise", [0.0, 1e-9, 2.0**23])
def test_no_aggregation_goes_without_noise_whatever_the_curator_says(noise: float) -> None:
    lines = Lines()
    responder = sum_responder(lines=lines)
    responder.invite(raw_invitation())
    proposal = wire.PROPOSAL.to_wire(Proposal.of(parameters(), QUERY))
    proposal.noise = noise
    received, length = wire.PROPOSAL.from_wire(proposal), responder.length(QUERY)
    with pytest.raises(ProtocolError):
        responder.propose(1, received.parameters(length), QUERY)
    assert lines == []


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _changed(value: Any) -> Iterator[Any]:
    """Yield copies of a value, each with one change in one field of one part."""
    if isinstance(value, tuple):
        for place, part in enumerate(value):
            yield from ((*value[:place], other, *value[place + 1 :]) for other in _changed(part))
    elif isinstance(
        value,
        FourierMapSpec
        | ProjectionSpec
        | Layout
        | Marginals
        | Parities
        | Groups
        | ScoreProducts
        | NumberScores
        | CellCounts,
    ):
        fields = value.model_dump() if isinstance(value, FourierMapSpec) else _fields(value)
        for name, part in fields.items():
            for other in _changed(part):
                if isinstance(value, FourierMapSpec):
                    yield value.model_copy(update={name: other})
                else:
                    try:
                        yield dataclasses.replace(value, **{name: other})
                    except ConfigError:
                        continue  # not a valid part
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, float):
        yield np.nextafter(value, np.inf).item()
    elif isinstance(value, int):
        yield value + 1
    elif value == "row" or value == "domain":
        yield "domain" if value == "row" else "row"
    elif isinstance(value, str):
        yield f"{value} of others"


def test_every_field_of_a_question_changes_its_digest() -> None:
    # Specs, layout, counts, weights, marginals, sketch, cells, and any field that is added later.
    seen = {query.digest for query in QUESTIONS}
    assert len(seen) == len(QUESTIONS)
    touched = set()
    for query in QUESTIONS:
        for field in dataclasses.fields(query):
            for other in _changed(getattr(query, field.name)):
                try:
                    changed_query = dataclasses.replace(query, **{field.name: other})
                except ConfigError:
                    continue  # not a valid question
                assert changed_query.digest not in seen
                seen.add(changed_query.digest)
                touched.add(field.name)
    assert touched == {field.name for field in dataclasses.fields(SumQuery)}


@pytest.mark.parametrize("query", QUESTIONS)
def test_a_digest_survives_the_wire(query: SumQuery) -> None:
    assert wire.query_from_wire(wire.query_to_wire(query)).digest == query.digest


def test_a_number_that_comes_again_with_another_question_is_refused_before_it_is_computed() -> None:
    # Plain or masked: nothing leaves without a line of its own.
    lines = Lines()
    plain = sum_responder(lines=lines)
    plain.invite(invitation())
    plain.embed(1, QUERY)
    written = list(lines)
    columns = dataclasses.replace(QUERY, layout=Layout(), counts=False, weights=(1,))
    for query in (columns, OTHER, dataclasses.replace(QUERY, weights=(1, 8)), MARGINALS, SKETCH):
        with pytest.raises(ProtocolError, match="which had another question"):
            plain.embed(1, query)
    assert lines == written
    masked = sum_responder()
    masked.invite(invitation(security=NOISY))
    masked.propose(1, parameters(), QUERY)
    for query in (columns, OTHER):
        with pytest.raises(Exception, match=r"had another question|done twice"):
            masked.propose(1, parameters(1, query), query)


def test_two_questions_that_differ_anywhere_have_two_lines() -> None:
    lines = Lines()
    responder = sum_responder(lines=lines)
    responder.invite(invitation())
    for number, query in enumerate(QUESTIONS, start=1):
        responder.embed(number, query)
        responder.embed(number, query)
    nonces = [line.nonce for line in lines if line.nonce.startswith("sums")]
    assert nonces == [f"sums {n} {query.digest[:32]}" for n, query in enumerate(QUESTIONS, start=1)]


def test_owners_of_a_run_only_grow_fewer() -> None:
    # A share of noise counts on n - D - T others; an owner that comes later is not among them.
    responder = sum_responder()
    responder.invite(invitation(security=NOISY))
    more: dict[str, Any] = {"owners": (*NAMES, "owner-4"), "threshold": 3}
    others: dict[str, Any] = {"owners": (NAME, "owner-3", "owner-4")}
    responder.propose(1, parameters(), QUERY)
    for roster in (more, others):
        with pytest.raises(ProtocolError, match="owners that were not in it before"):
            responder.propose(2, parameters(2, **roster), QUERY)
    few: dict[str, Any] = {"owners": (NAME, "owner-3"), "dropouts": 0, "threshold": 2}
    responder.propose(2, parameters(2, **few), QUERY)
    with pytest.raises(ProtocolError, match="owners that were not in it before"):
        responder.propose(3, parameters(3), QUERY)


SIX = tuple(f"owner-{number}" for number in range(1, 7))
TOLERANT = Security(dropouts=1, colluders=2)


def planned_for(dropouts: int, colluders: int) -> Any:
    """An aggregation of six owners with noise planned for given numbers of dropouts and colluders."""
    vector = SumVector(QUERY, SCHEMA)
    plan = plan_noise(
        1.0, 1e-5, owners=6, dropouts=dropouts, colluders=colluders, length=vector.length,
        diameter=vector.diameter,
    )  # fmt: skip
    more: dict[str, Any] = {"owners": SIX, "threshold": 5, "dropouts": 1, "colluders": 2}
    return changed(parameters(), noise=plan.share, **more), plan.event


def test_noise_that_is_planned_for_owners_that_may_be_missing_or_collude_is_refused() -> None:
    # The noise is planned for n, n - D or n - T of six in place of n - D - T: the owner computes with its own
    # D and T, and finds that the total would disclose more than the plan.
    agreed, event = planned_for(1, 2)
    for dropouts, colluders, refused in ((1, 2, False), (0, 0, True), (1, 0, True), (0, 2, True)):
        responder = sum_responder()
        responder.invite(invitation(security=TOLERANT, planned=(event,)))
        proposed, _ = planned_for(dropouts, colluders)
        if refused:
            with pytest.raises(PolicyError, match="and the plan says"):
                responder.propose(1, proposed, QUERY)
        else:
            responder.propose(1, proposed, QUERY)
    assert plan_of(agreed, SumVector(QUERY, SCHEMA).diameter).event == event
