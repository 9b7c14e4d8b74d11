"""Every number that a curator sends, hostile, at a real owner of two tables that differ in one row.

Both end alike: with the same refusal, or with answers that differ by no more than the mechanism's proof says.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkme.cells.codebook import BEYOND
from fedkme.cells.histogram import HistogramNoise
from fedkme.cells.projection import spec_for
from fedkme.directives import Proposal
from fedkme.errors import FedkmeError
from fedkme.features.binning import MergedBins, OwnValues
from fedkme.features.counts import Groups, NumberScores
from fedkme.features.fourier_map import FourierMapSpec, MixedSpec
from fedkme.features.hermite import HermiteProductSpec, HermiteSumSpec
from fedkme.features.kernel_points import PointsSpec
from fedkme.features.sums import Layout
from fedkme.margins.density import DensityBook
from fedkme.moments.features import SecondMomentsSpec, ShellsSpec
from fedkme.party import noise_for
from fedkme.protocol import Consider, IntendedSummary, Security
from fedkme.store.memory import MemoryStore
from fedkme.sums.values import CellCounts, Marginals, Parities, ScoreProducts, SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.table import Table
from fedkme.wire import codecs, sums
from fedkme.wire.directives import invitation_to_wire
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import pooling_pb2, types_pb2
from owner.party import OwnerParty
from owner.runs import RunManager
from tests.hostile import test_cells, test_curators, test_lying_plans
from tests.hostile.numbers import hostile, neighbours
from tests.owner.consent.host import NAME, SCHEMA, rows
from tests.owner.over_wire import OverWire
from tests.owner.sums import owner_parties

WORLDS = neighbours(rows())
SKETCHED = replace(
    test_lying_plans.BOOK,
    spec=spec_for(SCHEMA, 3),
    arrays={
        "origin": np.full(4, 0.1),
        "directions": np.eye(4)[:, :1],
        "weights": np.ones((2, 4)),
        "offsets": np.array([0.0, 0.1]),
        "along": np.eye(SCHEMA.encoded_width + 4)[:, :1],
        "edges": np.array([[0.5, BEYOND]]),
    },
    schema=SCHEMA,
)
DENSITY = DensityBook(
    {
        "along": np.eye(SCHEMA.encoded_width)[:, :2],
        "edges": np.array([[0.2, 0.5], [0.5, BEYOND]]),
        "factors": np.array([[0.5, 1.0, 2.0], [1.0, 3.0, 1.0]]),
        "own": np.array([1.0, 2.0]),
    },
    20.0,
    2.0,
    7,
    SCHEMA,
)
MAP_SPECS = (
    FourierMapSpec(dimension=8, gamma=1.0, seed=3, scales=(1.0, 2.0)),
    MixedSpec(dimension=6, gamma=0.5, seed=4, weight=2.0),
    HermiteSumSpec(order=3, length=1.0),
    HermiteProductSpec(order=3, length=1.0, columns=(0, 2)),
    PointsSpec.of(np.eye(4)[:2] / 2.0, 1.0),
    ShellsSpec(shells=2),
    SecondMomentsSpec(chosen=(0, 2), centre=(0.5, 0.5), scale=(1.0, 2.0)),
)
MERGED = (MergedBins(SCHEMA.columns[0].name, 16, (2, 9)),)
OWN = (OwnValues(SCHEMA.columns[0].name, ("low", "high")),)
QUERIES = (
    *(SumQuery((spec,), Layout(2), counts=True, weights=(1, 7)) for spec in MAP_SPECS),
    SumQuery((), Layout(2), sketch=spec_for(SCHEMA, 3)),
    SumQuery((), Layout(), marginals=Marginals(4, ((0,),), merged=MERGED, own=OWN)),
    SumQuery((), Layout(), weights=(3, 1), marginals=Marginals(4, ((0,), (1, 4)))),
    SumQuery((), Layout(), weights=(3,), marginals=Marginals(4, ((1, 5),), (Groups(0, (0, 0, 1, 1)),))),
    SumQuery(
        (),
        Layout(),
        weights=(3, 2),
        parities=Parities(
            4, (Groups(0, (0, 0, 1, 1)), Groups(4, (0, 1))), (((0, 1), (1,)), ((0, 1),)), MERGED
        ),
    ),
    SumQuery(
        (),
        Layout(),
        weights=(3,),
        products=ScoreProducts(4, (NumberScores(0, (-9, -1, 0, 4)), NumberScores(4, (7, 2))), ((0, 1),)),
    ),
    SumQuery((), Layout(), weights=(2,), cells=CellCounts(json.dumps(SKETCHED.to_json()), 2, ("a", "p"))),
)


def directive(run: str, seq: int, number: int = 1, **body: Any) -> pb.Directive:
    return pb.Directive(at=pb.Position(run=run, round=number, seq=seq), **body)


def of_cells(book: Any) -> list[pb.Directive]:
    size = 2 * book.cells
    shares = [1.0 / size] * size
    return [
        test_cells.invite(code_book=book.to_json()),
        directive("run-1", 2, histogram=pb.AskHistogram()),
        directive("run-1", 3, fill_order=pb.FillOrder(count=4, shares=shares, uniform=1)),
        directive("run-1", 4, close=pb.Close()),
    ]


def of_sums(query: SumQuery) -> list[pb.Directive]:
    invited = invitation_to_wire(owner_parties.invitation("r"))
    message = pooling_pb2.Embed(query=sums.query_to_wire(query))
    return [directive("r", 1, 0, invite=invited), directive("r", 2, embed=message)]


def meant() -> IntendedSummary:
    return IntendedSummary("cells", 10, (HistogramNoise(2.0).event,), 0)


def secured() -> list[pb.Directive]:
    invited = owner_parties.invitation("r", security=Security(1), ahead=meant(), protocol="sketch")
    plain = owner_parties.invitation("r", security=Security(1))
    agreed = Proposal.of(owner_parties.parameters(), owner_parties.QUERY)
    message = pooling_pb2.Aggregate(propose=sums.PROPOSAL.to_wire(agreed))
    return [
        directive("s", 1, 0, invite=invitation_to_wire(replace(invited, run="s"))),
        directive("r", 1, 0, invite=invitation_to_wire(plain)),
        directive("r", 2, aggregate=message),
    ]


def others() -> list[pb.Directive]:
    considered = Consider("run-9", SCHEMA.digest(), "hospital", meant())
    head = types_pb2.Head(note=b"x", known=3)
    return [
        directive("run-9/considered", 1, consider=consider(considered)),
        directive("run-9/heads", 1, show_head=pb.ShowHead(known=1, origin="fedkme.ledger/curator/c")),
        directive("run-9/heads", 2, keep_head=pb.KeepHead(head=head)),
        pb.Directive(welcome=pb.Welcome(version=codecs.VERSIONS.newest, epoch=1)),
        pb.Directive(fault=types_pb2.Fault(code=34, cause="c", remedy="r")),
    ]


def consider(asked: Consider) -> pb.Consider:
    summary = asked.summary
    planned = map(codecs.event_to_wire, summary.planned)
    return pb.Consider(
        run=asked.run,
        schema_digest=asked.schema,
        consumer=asked.consumer,
        summary=pb.IntendedSummary(
            protocol=summary.protocol, rows=summary.rows, planned=planned, dimension=4
        ),
    )


CURATORS: dict[str, Callable[[], list[pb.Directive]]] = {
    "cells of centres": lambda: of_cells(test_cells.BOOK),
    "cells of a sketch": lambda: of_cells(SKETCHED),
    "cells of a density": lambda: of_cells(DENSITY),
    "clock": lambda: test_curators.scripts()[:3],
    "winner-only": lambda: test_curators.scripts()[3:6],
    "uniform": lambda: test_curators.scripts()[6:8],
    **{f"sums {place}": functools.partial(of_sums, query) for place, query in enumerate(QUERIES)},
    "secure sums": secured,
    "others": others,
}


def owner(script: Sequence[pb.Directive], table: Table) -> list[list[pb.OwnerMessage] | str]:
    """Answers of a real owner, behind its codecs, with the same noise in every world."""
    party = OwnerParty(
        name=NAME, table=table, schema=SCHEMA, store=MemoryStore(NAME), noise_for=noise_for(0, NAME)
    )
    wired, said = OverWire(RunManager(party, "curator:7700")), list[list[pb.OwnerMessage] | str]()
    for each in script:
        try:
            said.append(wired.answer(each))
        except FedkmeError as error:
            said.append(str(error))
    return said


def check_owner(script: Sequence[pb.Directive]) -> None:
    """Let two neighbours answer; refusals are the same, and what is protected moves as its proof says."""
    with np.errstate(all="ignore"):
        ends = [owner(script, world) for world in WORLDS]
    for said, first, other in zip(script, *ends, strict=True):
        if isinstance(first, str) or isinstance(other, str):
            assert first == other
            continue
        kinds = [[each.WhichOneof("body") for each in answer] for answer in (first, other)]
        assert kinds[0][-1:] == kinds[1][-1:]
        if not first:
            continue
        match kinds[0][-1]:
            case "fault":
                assert first[-1].fault == other[-1].fault
            case "histogram":
                moved = np.subtract(first[-1].histogram.cells, other[-1].histogram.cells)
                assert np.abs(moved).sum() <= 2
            case "words" if said.HasField("embed"):
                query = sums.query_from_wire(said.embed.query)
                one, two = (sums.words_from_wire(m.words for m in a).view(np.int64) for a in (first, other))
                apart = np.array([int(a) - int(b) for a, b in zip(one, two, strict=True)], np.float64)
                assert np.linalg.norm(apart) <= SumVector(query, SCHEMA).diameter


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("script", CURATORS)
def test_an_owner_answers_every_number_of_a_curator_alike(script: str) -> None:
    said = CURATORS[script]()
    check_owner(said)
    for place, each in enumerate(said):
        for name, mutant in hostile(each):
            if name.startswith("Position.") and place:
                continue
            check_owner([*said[:place], mutant, *said[place + 1 :]])
