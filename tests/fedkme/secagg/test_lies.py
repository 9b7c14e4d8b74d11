"""Curators and owners that lie are caught where the protocol can catch them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkme.errors import SecureAggregationError
from fedkme.secagg import shamir
from fedkme.secagg.keys import public_bytes
from fedkme.secagg.messages import (
    Advertisement,
    Delivery,
    Endorsements,
    KeyRoster,
    SealedShare,
    Survivors,
    advertised,
)
from fedkme.secagg.owner import Phase
from tests.fedkme.secagg.runs import Run, parameters, party, signing_key, vectors
from tests.silence import Silence

AGREED = parameters(owners=5, dropouts=1)
CONTEXT = AGREED.context


def started(until: str, seed: int = 1) -> Run:
    return Run(AGREED, vectors(AGREED), seed).until(until)


def forged(name: str, signer: str, context: bytes = CONTEXT, seed: int = 7) -> Advertisement:
    """Keys that the curator invents for an owner, with a signature that the curator can make."""
    draw = random.Random(seed).randbytes
    keys = public_bytes(draw(32)), public_bytes(draw(32)), draw(32)
    return Advertisement(name, context, *keys, signing_key(signer).sign(advertised(context, name, *keys)))


def swap(advertisements: tuple[Advertisement, ...], other: Advertisement) -> tuple[Advertisement, ...]:
    return tuple(other if entry.sender == other.sender else entry for entry in advertisements)


REPLAYED = next(entry for entry in [party(parameters(run="run-0"), "o001").advertise()])
OWN = party(AGREED, "o000", seed=99).advertise()
ROSTERS: dict[str, Callable[[KeyRoster], KeyRoster]] = {
    "replaced keys": lambda roster: KeyRoster(
        CONTEXT, swap(roster.advertisements, forged("o001", "the curator's own"))
    ),
    "an owner's keys under another's name": lambda roster: KeyRoster(
        CONTEXT, swap(roster.advertisements, dataclasses.replace(roster.advertisements[2], sender="o001"))
    ),
    "keys of an earlier run": lambda roster: KeyRoster(CONTEXT, swap(roster.advertisements, REPLAYED)),
    "keys of an earlier run, relabelled": lambda roster: KeyRoster(
        CONTEXT, swap(roster.advertisements, dataclasses.replace(REPLAYED, context=CONTEXT))
    ),
    "other keys of the owner itself": lambda roster: KeyRoster(CONTEXT, swap(roster.advertisements, OWN)),
    "an invented owner": lambda roster: KeyRoster(CONTEXT, (*roster.advertisements, forged("o999", "o999"))),
    "an owner twice": lambda roster: KeyRoster(CONTEXT, (*roster.advertisements, roster.advertisements[1])),
    "without the owner itself": lambda roster: KeyRoster(CONTEXT, roster.advertisements[1:]),
    "another run": lambda roster: KeyRoster(bytes(32), roster.advertisements),
    "too few": lambda roster: KeyRoster(CONTEXT, roster.advertisements[:3]),
}


@pytest.mark.parametrize("lie", ROSTERS)
def test_a_roster_that_differs_from_the_advertisements_is_refused(lie: str) -> None:
    run = started("advertise")
    owner = run.owners["o000"]
    with pytest.raises(SecureAggregationError):
        owner.share(ROSTERS[lie](run.curator.roster()))
    assert owner.phase is Phase.LEFT


def test_a_key_that_occurs_twice_is_refused() -> None:
    # A colluder that signs another's key as its own, or uses one key for both purposes.
    run = started("advertise")
    roster = run.curator.roster()
    honest = roster.advertisements[2]
    for keys in (
        (honest.cipher_key, roster.advertisements[1].mask_key),
        (honest.mask_key, roster.advertisements[1].mask_key),
        (roster.advertisements[1].mask_key,) * 2,
    ):
        signed = advertised(CONTEXT, "o001", *keys, bytes(32))
        copy = Advertisement("o001", CONTEXT, *keys, bytes(32), signing_key("o001").sign(signed))
        owner = started("advertise").owners["o000"]
        with pytest.raises(SecureAggregationError, match="shows a key twice"):
            owner.share(KeyRoster(CONTEXT, swap(roster.advertisements, copy)))
        fresh = Run(AGREED, vectors(AGREED))
        fresh.curator.advertised(honest)
        with pytest.raises(SecureAggregationError, match="'o001' advertises a key that is already in use"):
            fresh.curator.advertised(copy)


def test_the_curator_refuses_an_endorsement_of_another_statement() -> None:
    # Such an endorsement would make every honest owner leave; the curator goes on without its sender.
    run = started("mask")
    survivors = run.curator.survivors()
    good = run.owners["o000"].endorse(survivors)
    for signature in (bytes(64), run.owners["o001"].endorse(survivors).signature):
        with pytest.raises(SecureAggregationError, match="'o000' endorses something else"):
            run.curator.endorsed(dataclasses.replace(good, signature=signature))
    run.curator.endorsed(good)


def other_run(name: str) -> SealedShare:
    """A share that an owner sealed for o000 in a run of the same name with other keys."""
    run = started("advertise", seed=5)
    sealed = run.owners[name].share(run.curator.roster())
    return next(entry for entry in sealed.shares if entry.recipient == "o000")


DELIVERIES: dict[str, Callable[[Delivery, Delivery], tuple[SealedShare, ...]]] = {
    "a tampered share": lambda mine, _: (
        dataclasses.replace(
            mine.shares[0], sealed=bytes([mine.shares[0].sealed[0] ^ 1]) + mine.shares[0].sealed[1:]
        ),
        *mine.shares[1:],
    ),
    "another's share": lambda mine, theirs: (theirs.shares[-1], *mine.shares[1:]),
    "another's share, relabelled": lambda mine, theirs: (
        dataclasses.replace(theirs.shares[-1], recipient="o000"),
        *mine.shares[:-1],
    ),
    "shares under each other's names": lambda mine, _: (
        dataclasses.replace(mine.shares[0], sealed=mine.shares[1].sealed),
        *mine.shares[1:],
    ),
    "a share of an earlier run": lambda mine, _: (other_run("o001"), *mine.shares[1:]),
    "a share twice": lambda mine, _: (*mine.shares, mine.shares[0]),
    "too few": lambda mine, _: mine.shares[:2],
}


@pytest.mark.parametrize("lie", DELIVERIES)
def test_shares_sealed_by_or_for_another_owner_are_refused(lie: str) -> None:
    run = started("share")
    mail = run.curator.deliveries()
    owner = run.owners["o000"]
    with pytest.raises(SecureAggregationError):
        owner.mask(
            Delivery("o000", CONTEXT, DELIVERIES[lie](mail["o000"], mail["o001"])),
            run.inputs["o000"],
            Silence(),
        )
    assert owner.phase is Phase.LEFT


def test_a_live_owner_that_the_curator_calls_lost_raises_an_error() -> None:
    run = started("mask")
    claim = Survivors(CONTEXT, ("o000", "o001", "o002", "o003"))
    with pytest.raises(SecureAggregationError, match="counts this owner, which answered, as lost"):
        run.owners["o004"].endorse(claim)


def test_the_vector_of_a_live_owner_called_lost_stays_masked() -> None:
    # Double masking: other owners cannot know that the claim is false, and reveal shares of the owner's mask
    # key. The vector is still under the self-mask, and no share of its seed leaves.
    run = started("mask")
    claim = Survivors(CONTEXT, ("o000", "o001", "o002", "o003"))
    others = [run.owners[name] for name in claim.owners]
    endorsements = Endorsements(CONTEXT, tuple(owner.endorse(claim) for owner in others))
    answers = [owner.unmask(endorsements) for owner in others]
    about = {entry.about for answer in answers for entry in answer.self_masks}
    assert "o004" not in about
    shares = {AGREED.point(answer.sender): shamir.from_bytes(answer.mask_keys[0].share) for answer in answers}
    key = shamir.combine(shares).to_bytes(32, "big")  # the curator can open the pairwise masks,
    assert public_bytes(key) == run.curator._keys["o004"].mask_key
    # A second claim, that the owner is alive after all, gets no answer: every owner is done.
    everybody = Survivors(CONTEXT, AGREED.owners)
    for owner in others:
        with pytest.raises(SecureAggregationError, match="when it is to be done"):
            owner.endorse(everybody)


def test_owners_with_different_survivor_lists_open_nothing() -> None:
    # Consistency check of Bonawitz et al. 2017: without it the curator would get o003's seed from some
    # owners, and its key from others.
    run = started("mask")
    survivor_lists = {name: Survivors(CONTEXT, AGREED.owners) for name in ("o000", "o001")} | {
        name: Survivors(CONTEXT, ("o000", "o001", "o002", "o004")) for name in ("o002", "o004")
    }
    given = {name: run.owners[name].endorse(survivor_list) for name, survivor_list in survivor_lists.items()}
    for name in survivor_lists:
        with pytest.raises(SecureAggregationError, match=r"told 'o00.' something else"):
            run.owners[name].unmask(Endorsements(CONTEXT, tuple(given.values())))
        assert run.owners[name].phase is Phase.LEFT


@pytest.mark.parametrize("lie", ["who shared", "keys"])
def test_owners_with_different_rosters_or_deliveries_open_nothing(lie: str) -> None:
    # The survivors are the same; one owner saw another roster, or other shares.
    run = started("advertise")
    roster = run.curator.roster()
    if lie == "keys":
        short = KeyRoster(CONTEXT, tuple(entry for entry in roster.advertisements if entry.sender != "o004"))
        for name, owner in run.owners.items():
            if name != "o004":
                sent = owner.share(short if name == "o000" else roster)
                if name == "o000":  # the curator does not have a share for o004, and needs none
                    run.curator._sealed[name] = sent.shares
                else:
                    run.curator.shared(sent)
        run.owners.pop("o004")
        mail = run.curator.deliveries()
    else:
        for owner in run.owners.values():
            run.curator.shared(owner.share(roster))
        mail = run.curator.deliveries()
        kept_shares = tuple(entry for entry in mail["o000"].shares if entry.sender != "o004")
        mail["o000"] = Delivery("o000", CONTEXT, kept_shares)
    for name, owner in run.owners.items():
        owner.mask(mail[name], run.inputs[name], Silence())
    survivors = Survivors(CONTEXT, ("o000", "o001", "o002", "o003"))
    signed = [run.owners[name].endorse(survivors) for name in survivors.owners]
    with pytest.raises(SecureAggregationError, match="told 'o001' something else"):
        run.owners["o000"].unmask(Endorsements(CONTEXT, tuple(signed)))
    with pytest.raises(SecureAggregationError, match="told 'o000' something else"):
        run.owners["o001"].unmask(Endorsements(CONTEXT, tuple(signed)))


def test_endorsements_count_once_and_only_from_survivors() -> None:
    run = started("endorse")
    full = run.curator.endorsements().endorsements
    for name, shown in {
        "o000": full[:2],
        "o001": (full[0],) * 3,
        "o002": tuple(dataclasses.replace(full[0], sender=name) for name in ("o001", "o002", "o003")),
        "o003": (*full[:2], dataclasses.replace(full[2], sender="somebody")),
        "o004": (*full[:2], dataclasses.replace(full[2], context=bytes(32))),
    }.items():
        with pytest.raises(SecureAggregationError):
            run.owners[name].unmask(Endorsements(CONTEXT, shown))


def test_survivors_that_never_shared_are_refused() -> None:
    run = Run(AGREED, vectors(AGREED), lost={"share": ("o004",)}).until("mask")
    with pytest.raises(SecureAggregationError, match="counts an owner as a survivor that shared no masks"):
        run.owners["o000"].endorse(Survivors(CONTEXT, AGREED.owners))


@pytest.mark.parametrize("what", ["run", "dropouts", "bound", "length", "noise", "owners"])
def test_owners_with_other_parameters_refuse_each_others_messages(what: str) -> None:
    # Every message is bound to all parameters: a curator cannot tell one owner of less noise than another.
    values: dict[str, Any] = {"run": "run-2", "dropouts": 0, "bound": 999, "length": 9, "noise": 2.0**25}
    other = (
        parameters(owners=6, dropouts=1, bits=64)
        if what == "owners"
        else parameters(**({"owners": 5, "dropouts": 1, "bits": 64, what: values[what]}))
    )
    agreed = parameters(owners=5, dropouts=1, bits=64)
    assert other.context != agreed.context
    owners = {name: party(agreed, name) for name in agreed.owners[:-1]} | {"o004": party(other, "o004")}
    sent = tuple(owner.advertise() for owner in owners.values())
    for name in ("o000", "o004"):
        for context in (agreed.context, other.context):
            again = {entry: party(other if entry == "o004" else agreed, entry) for entry in owners}
            again[name].advertise()
            with pytest.raises(SecureAggregationError):
                again[name].share(KeyRoster(context, sent))


def test_owners_that_deviate_are_named_and_left_out() -> None:
    # The curator's side: forged, repeated and foreign messages change nothing; the run goes on.
    run = Run(AGREED, vectors(AGREED), lost={"share": ("o004",)})
    with pytest.raises(SecureAggregationError, match="'o001' did not sign"):
        run.curator.advertised(forged("o001", "somebody else"))
    with pytest.raises(SecureAggregationError, match="is not among the owners that"):
        run.curator.advertised(forged("o999", "o999"))
    with pytest.raises(SecureAggregationError, match="another aggregation"):
        run.curator.advertised(REPLAYED)
    run.advertise()
    with pytest.raises(SecureAggregationError, match="'o001' sends advertisements twice"):
        run.curator.advertised(run.curator._keys["o001"])
    run.share()
    run.mask()
    with pytest.raises(SecureAggregationError, match="'o001' sends masked vectors twice"):
        run.curator.masked(run.masked["o001"])
    with pytest.raises(SecureAggregationError, match="'o004' is not among the owners that"):
        run.curator.masked(dataclasses.replace(run.masked["o001"], sender="o004"))
    run.endorse()
    run.unmask()
    with pytest.raises(SecureAggregationError, match="'o001' sends shares of masks twice"):
        run.curator.unmasked(run.unmaskings["o001"])
    total = run.curator.total()
    np.testing.assert_array_equal(total.steps, sum(run.inputs[name] for name in total.owners))


@pytest.mark.parametrize("secret", ["self_masks", "mask_keys"])
@pytest.mark.parametrize("spare", [False, True])
def test_a_wrong_share_never_gives_a_wrong_sum(secret: str, spare: bool) -> None:
    # With one share to spare a tampered share is left out; without, the aggregation raises an error.
    agreed = parameters(owners=5, dropouts=1)  # t = 3
    lost = {"mask": ("o004",), "unmask": () if spare else ("o003",)}
    run = Run(agreed, vectors(agreed), lost=lost).until("endorse")
    endorsements = run.curator.endorsements()
    for owner in run.left("unmask"):
        message = owner.unmask(endorsements)
        if owner.name == "o000":
            shares = getattr(message, secret)
            wrong = dataclasses.replace(shares[0], share=shares[0].share[:-1] + b"?")
            changed: dict[str, Any] = {secret: (wrong, *shares[1:])}
            message = dataclasses.replace(message, **changed)
        run.curator.unmasked(message)
    if spare:
        np.testing.assert_array_equal(run.curator.total().steps, sum(run.inputs[f"o00{k}"] for k in range(4)))
    else:
        with pytest.raises(SecureAggregationError, match="do not fit together"):
            run.curator.total()
