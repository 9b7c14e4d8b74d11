"""Aggregations on a graph of neighbours: the plain sum, losses, curators that lie."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedkme.errors import ProtocolError, SecureAggregationError
from fedkme.secagg.graph import graph_of, root_of
from fedkme.secagg.messages import Delivery, Endorsements, KeyRoster, SealedShares, Survivors
from fedkme.secagg.owner import Phase
from fedkme.secagg.parameters import Parameters
from fedkme.secagg.signing import KeyBinding
from fedkme.wire import sums as wire
from fedkme.wire.v1 import pooling_pb2 as pb
from tests.fedkme.secagg.graphs import DROPOUTS, graphs_from_20, hasty_graphs, on_a_graph
from tests.fedkme.secagg.runs import Run, parameters, public_keys, vectors
from tests.fedkme.secagg.test_protocol import PHASES
from tests.silence import Silence

pytestmark = pytest.mark.usefixtures(graphs_from_20.__name__)
NAME = "o000"


def started(until: str, agreed: Parameters | None = None) -> Run:
    agreed = agreed or on_a_graph()
    return Run(agreed, vectors(agreed)).until(until)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    owners=st.integers(24, 40),
    when=st.lists(st.sampled_from(PHASES), min_size=DROPOUTS, max_size=DROPOUTS),
    who=st.lists(st.integers(0, 23), min_size=DROPOUTS, max_size=DROPOUTS, unique=True),
    seed=st.integers(0, 2**32),
)
def test_losses_anywhere_leave_the_sum_of_the_others(
    owners: int, when: list[str], who: list[int], seed: int
) -> None:
    agreed = on_a_graph(owners, colluders=0, length=5)
    lost: dict[str, list[str]] = {phase: [] for phase in PHASES}
    for phase, number in zip(when, who, strict=True):
        lost[phase].append(agreed.owners[number])
    run = Run(agreed, vectors(agreed, seed), seed, lost)
    total = run.total()
    np.testing.assert_array_equal(total.steps, sum(run.inputs[name] for name in total.owners))
    assert set(agreed.owners) - set(total.owners) == {*lost["advertise"], *lost["share"], *lost["mask"]}
    for message in run.unmaskings.values():
        seeds, keys = ({peer.about for peer in shares} for shares in (message.self_masks, message.mask_keys))
        assert not seeds & keys
        assert seeds | keys <= set(run.curator._graph.circle(message.sender))


@pytest.mark.usefixtures(hasty_graphs.__name__)
@pytest.mark.parametrize("phase", PHASES)
def test_a_circle_with_more_losses_than_planned_opens_nothing(phase: str) -> None:
    # At most D owners are lost in all, but fewer than t owners of o000's circle are left.
    agreed = on_a_graph(40, 10, 0)
    run = started("advertise", agreed)
    run.curator.roster()
    circle = [name for name in run.curator._graph.circle(NAME) if name != NAME]
    gone = circle[: agreed.neighbours + 2 - agreed.threshold]
    assert len(gone) <= agreed.dropouts
    run = Run(agreed, vectors(agreed), lost={phase: gone})
    if phase == "advertise":  # who is not there moves the order
        run.until("endorse")
    else:
        with pytest.raises(SecureAggregationError, match=r"owners (sent|of one circle) .* must"):
            run.total()


ROSTERS: dict[str, tuple[Callable[[KeyRoster, KeyRoster], KeyRoster], str]] = {
    "a neighbour is left out": (
        lambda mine, _: dataclasses.replace(mine, advertisements=mine.advertisements[:-1]),
        "shows other neighbours than the roster gives",
    ),
    "neighbours of another owner": (lambda _, theirs: theirs, "shows other neighbours than the roster gives"),
    "everybody as a neighbour": (
        lambda mine, theirs: dataclasses.replace(
            mine, advertisements=tuple({*mine.advertisements, *theirs.advertisements})
        ),
        "shows other neighbours than the roster gives",
    ),
    "another order": (
        lambda mine, _: dataclasses.replace(mine, fingerprints=(*mine.fingerprints[:-1], bytes(32))),
        "shows other neighbours than|not those of its roster",
    ),
    "fingerprints of others": (
        lambda mine, _: dataclasses.replace(mine, fingerprints=mine.fingerprints[::-1]),
        "not those of its roster",
    ),
    "too few fingerprints": (
        lambda mine, _: dataclasses.replace(mine, fingerprints=mine.fingerprints[:-1]),
        "is not of all owners",
    ),
    "a roster of all, as before": (
        lambda mine, _: dataclasses.replace(mine, fingerprints=()),
        "is not of all owners",
    ),
}


@pytest.mark.parametrize("lie", ROSTERS)
def test_a_curator_that_lies_about_the_graph_is_refused(lie: str) -> None:
    run = started("advertise")
    run.curator.roster()
    other = next(name for name in run.owners if name not in run.curator._graph.circle(NAME))
    change, message = ROSTERS[lie]
    roster = change(run.curator.roster_of(NAME), run.curator.roster_of(other))
    owner = run.owners[NAME]
    with pytest.raises(SecureAggregationError, match=message):
        owner.share(roster, public_keys(run.agreed.owners))
    assert owner.phase is Phase.LEFT


def test_an_owner_that_lacks_a_signing_key_of_the_committee_leaves() -> None:
    run = started("advertise")
    run.curator.roster()
    peers = public_keys(run.curator.known_to(NAME))
    peers.pop(next(name for name in sorted(run.curator._graph.committee) if name != NAME))
    with pytest.raises(SecureAggregationError, match="lacks signing keys"):
        run.owners[NAME].share(run.curator.roster_of(NAME), peers)


def test_owners_with_two_rosters_open_no_share_of_each_other() -> None:
    # A curator that wants another order hides o029 from half of the owners. Their shares do not unseal.
    run = started("advertise")
    whole = run.curator.roster()
    marks = (*whole.fingerprints[:-1], b"")
    graph = graph_of(run.agreed, root_of(run.agreed.context, marks))
    sharing_owners = [name for name in run.agreed.owners if name != "o029"]
    sent: dict[str, SealedShares] = {}
    for name in sharing_owners[:15]:
        sent[name] = run.owners[name].share(run.curator.roster_of(name), public_keys(run.agreed.owners))
    for name in sharing_owners[15:]:
        circle = [peer for peer in whole.advertisements if peer.sender in set(graph.circle(name)) - {"o029"}]
        roster = KeyRoster(run.agreed.context, tuple(circle), marks)
        sent[name] = run.owners[name].share(roster, public_keys(run.agreed.owners))
    sharing = tuple(sharing_owners)
    for name in (sharing_owners[0], sharing_owners[-1]):
        owner = run.owners[name]
        own = set(owner._keys) - {name, "o029"}
        shares = tuple(part for peer in own for part in sent[peer].shares if part.recipient == name)
        with pytest.raises(SecureAggregationError, match=r"did not seal|other shares than"):
            owner.mask(Delivery(name, run.agreed.context, shares, sharing), run.inputs[name], Silence())


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ("without a neighbour's share", "delivers other shares than those of its neighbours"),
        ("a neighbour that shared is said to have not", "delivers other shares than those of its neighbours"),
        ("too few shared", "27 owners shared in 'run-1' and 28 must"),
        ("nobody is said to have shared", "shared in 'run-1' and 28 must"),
    ],
)
def test_a_delivery_must_hold_the_shares_of_the_neighbours_that_shared(lie: str, message: str) -> None:
    run = started("share")
    mail = run.curator.deliveries()[NAME]
    gone, far = mail.shares[0].sender, sorted(set(mail.sharing) - set(run.curator._graph.circle(NAME)))
    changes: dict[str, dict[str, Any]] = {
        "without a neighbour's share": {"shares": mail.shares[1:]},
        "a neighbour that shared is said to have not": {
            "sharing": tuple(name for name in mail.sharing if name != gone)
        },
        "too few shared": {"sharing": tuple(name for name in mail.sharing if name not in far[:3])},
        "nobody is said to have shared": {"sharing": ()},
    }
    delivery: Delivery = dataclasses.replace(mail, **changes[lie])
    with pytest.raises(SecureAggregationError, match=message):
        run.owners[NAME].mask(delivery, run.inputs[NAME], Silence())


def test_an_owner_with_another_list_of_sharers_masks_so_that_no_sum_opens() -> None:
    # (b) of the proof: the key of every mask depends on the list of owners that shared. Circles are
    # unchanged.
    run = started("share")
    mail = run.curator.deliveries()
    far = next(name for name in run.owners if name not in run.curator._graph.circle(NAME))
    for name, owner in run.owners.items():
        own_delivery = mail[name]
        if name == NAME:
            own_delivery = dataclasses.replace(
                own_delivery, sharing=tuple(peer for peer in own_delivery.sharing if peer != far)
            )
        run.curator.masked(owner.mask(own_delivery, run.inputs[name], Silence()))
    survivors = run.curator.survivors()
    with pytest.raises(SecureAggregationError, match="counts an owner as a survivor that shared no masks"):
        run.owners.pop(NAME).endorse(survivors)
    for owner in run.owners.values():
        run.curator.endorsed(owner.endorse(survivors))
    run.unmask()
    with pytest.raises(SecureAggregationError, match="larger than vectors within the bound have"):
        run.curator.total()


@pytest.mark.usefixtures(hasty_graphs.__name__)
def test_no_owner_endorses_survivors_without_enough_of_their_circle() -> None:
    # (d) of the proof: a curator that leaves one owner alone in the sum gets no signature of any owner.
    agreed = on_a_graph(40, 10, 0)
    run = started("mask", agreed)
    circle = [name for name in run.curator._graph.circle(NAME) if name != NAME]
    gone = set(circle[: agreed.neighbours + 2 - agreed.threshold])
    assert len(gone) <= agreed.dropouts
    claim = Survivors(agreed.context, tuple(name for name in agreed.owners if name not in gone))
    for name in claim.owners:
        with pytest.raises(SecureAggregationError, match="owners of one circle are left in"):
            run.owners[name].endorse(claim)


def test_only_endorsements_of_the_committee_count() -> None:
    run = started("mask")
    survivors = run.curator.survivors()
    given = {name: owner.endorse(survivors) for name, owner in run.owners.items()}
    committee = run.curator._graph.committee
    outside = [given[name] for name in given if name not in committee][: run.agreed.threshold]
    inside = [given[name] for name in given if name in committee]
    context = run.agreed.context
    with pytest.raises(SecureAggregationError, match="not one each of survivors"):
        run.owners["o000"].unmask(Endorsements(context, tuple(outside)))
    with pytest.raises(SecureAggregationError, match="endorse the survivors in 'run-1' and"):
        run.owners["o001"].unmask(Endorsements(context, tuple(inside[: run.agreed.threshold - 1])))
    for peer in [*outside, *inside[: run.agreed.threshold - 1]]:
        run.curator.endorsed(peer)
    with pytest.raises(SecureAggregationError, match="owners sent endorsements"):
        run.curator.endorsements()


def test_a_second_list_of_survivors_is_not_endorsed() -> None:
    # So a curator cannot get both kinds of shares of one owner: owners endorse one list, once.
    run = started("mask")
    everybody = run.curator.survivors()
    fewer = Survivors(run.agreed.context, tuple(name for name in everybody.owners if name != "o029"))
    owner = run.owners[NAME]
    given = [peer.endorse(everybody) for peer in run.owners.values()]
    shown = tuple(peer for peer in given if peer.sender in run.curator._graph.committee)
    owner.unmask(Endorsements(run.agreed.context, shown))
    for step in (lambda: owner.endorse(fewer), lambda: owner.unmask(Endorsements(run.agreed.context, shown))):
        with pytest.raises(SecureAggregationError, match="when it is to be done"):
            step()


def test_rosters_and_deliveries_are_equal_after_the_wire_and_older_bytes_are_read() -> None:
    run = started("share")
    roster = dataclasses.replace(run.curator.roster_of(NAME), keys=(KeyBinding(b"", bytes(32), b"", NAME),))
    mail = run.curator.deliveries()[NAME]
    assert (
        wire.ROSTER.from_wire(pb.KeyRoster.FromString(wire.ROSTER.to_wire(roster).SerializeToString()))
        == roster
    )
    sent = wire.DELIVERY.to_wire(mail).SerializeToString()
    assert wire.DELIVERY.from_wire(pb.DeliveredParts.FromString(sent)) == mail
    # Bytes without the fields of neighbours are those of the previous release.
    older = started("share", parameters())
    plain = older.curator.deliveries()[NAME]
    as_sealed = pb.SealedParts.FromString(wire.DELIVERY.to_wire(plain).SerializeToString())
    assert wire.SEALED.from_wire(as_sealed).shares == plain.shares
    with pytest.raises((SecureAggregationError, ProtocolError)):
        KeyRoster(roster.context, roster.advertisements, (b"short",))
