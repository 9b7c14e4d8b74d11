"""Aggregations among honest parties: the plain sum, drop-outs in every phase, thresholds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkme.errors import ConfigError, SecureAggregationError
from fedkme.secagg.curator import CuratorAggregator, Stage
from fedkme.secagg.messages import Delivery, Endorsements, KeyRoster, Survivors
from fedkme.secagg.owner import OwnerAggregator, Phase
from tests.fedkme.secagg.runs import Run, parameters, party, public_keys, signing_key, vectors
from tests.silence import Silence

PHASES = ("advertise", "share", "mask", "endorse", "unmask")


@pytest.mark.parametrize(("owners", "bits"), [(2, 40), (3, 64), (5, 32), (20, 33)])
def test_the_result_is_the_plain_sum(owners: int, bits: int) -> None:
    agreed = parameters(owners=owners, dropouts=0, bits=bits, length=20_000)
    run = Run(agreed, vectors(agreed))
    total = run.total()
    np.testing.assert_array_equal(total.steps, sum(run.inputs.values()))
    assert total.owners == agreed.owners


@settings(max_examples=60, deadline=None)
@given(
    owners=st.integers(5, 9),
    when=st.lists(st.sampled_from(PHASES), min_size=2, max_size=2),
    who=st.lists(st.integers(0, 4), min_size=2, max_size=2, unique=True),
    seed=st.integers(0, 2**32),
)
def test_two_losses_anywhere_leave_the_sum_of_the_others(
    owners: int, when: list[str], who: list[int], seed: int
) -> None:
    agreed = parameters(owners=owners, dropouts=2, length=5)
    names = [agreed.owners[number] for number in who]
    lost: dict[str, list[str]] = {phase: [] for phase in PHASES}
    for phase, name in zip(when, names, strict=True):
        lost[phase].append(name)
    run = Run(agreed, vectors(agreed, seed), seed, lost)
    total = run.total()
    np.testing.assert_array_equal(total.steps, sum(run.inputs[name] for name in total.owners))
    assert set(agreed.owners) - set(total.owners) == {*lost["advertise"], *lost["share"], *lost["mask"]}


def test_nobody_reveals_both_secrets_of_a_peer() -> None:
    agreed = parameters(owners=7, dropouts=2)
    run = Run(agreed, vectors(agreed), lost={"mask": ("o002",)})
    run.total()
    assert run.unmaskings
    for message in run.unmaskings.values():
        seeds, keys = (
            {participant.about for participant in shares}
            for shares in (message.self_masks, message.mask_keys)
        )
        assert not seeds & keys
        assert keys == {"o002"}


@pytest.mark.parametrize("phase", PHASES[:3])
def test_the_curator_stops_below_the_least_number_of_survivors(phase: str) -> None:
    agreed = parameters(owners=5, dropouts=1)
    run = Run(agreed, vectors(agreed), lost={phase: ("o000", "o001")})
    with pytest.raises(SecureAggregationError, match=r"3 owners sent .* and 4 must"):
        run.total()
    assert run.curator.stage is Stage.DONE
    with pytest.raises(SecureAggregationError, match="is not open"):
        run.curator.survivors()


@pytest.mark.parametrize("phase", PHASES[3:])
def test_the_curator_stops_below_the_threshold(phase: str) -> None:
    agreed = parameters(owners=5, dropouts=1)  # t = 3
    run = Run(agreed, vectors(agreed), lost={phase: ("o000", "o001", "o002")})
    with pytest.raises(SecureAggregationError, match=r"2 owners sent .* and 3 must"):
        run.total()


def test_owners_check_the_counts_themselves() -> None:
    # A curator that goes on below the bounds gets no answer: owners check the bounds themselves.
    agreed = parameters(owners=5, dropouts=1)
    run = Run(agreed, vectors(agreed)).until("advertise")
    roster = run.curator.roster()
    with pytest.raises(SecureAggregationError, match="3 owners advertised keys in 'run-1' and 4 must"):
        run.owners["o000"].share(KeyRoster(agreed.context, roster.advertisements[:3]))
    run = Run(agreed, vectors(agreed)).until("share")
    mail = run.curator.deliveries()["o000"]
    with pytest.raises(SecureAggregationError, match="3 owners shared in 'run-1' and 4 must"):
        run.owners["o000"].mask(
            Delivery("o000", agreed.context, mail.shares[:2]), run.inputs["o000"], Silence()
        )
    run = Run(agreed, vectors(agreed)).until("mask")
    with pytest.raises(SecureAggregationError, match="3 owners are left in 'run-1' and 4 must"):
        run.owners["o000"].endorse(Survivors(agreed.context, agreed.owners[:3]))
    run = Run(agreed, vectors(agreed)).until("endorse")
    shown = run.curator.endorsements().endorsements
    with pytest.raises(SecureAggregationError, match="2 owners endorse the survivors in 'run-1' and 3 must"):
        run.owners["o000"].unmask(Endorsements(agreed.context, shown[:2]))


def test_each_step_is_taken_once_and_in_order() -> None:
    agreed = parameters()
    run = Run(agreed, vectors(agreed)).until("advertise")
    owner = run.owners["o000"]
    with pytest.raises(SecureAggregationError, match="is asked to advertise when it is to share"):
        owner.advertise()
    run.share()  # the wrong call changed nothing
    mail = run.curator.deliveries()
    owner.mask(mail["o000"], run.inputs["o000"], Silence())
    with pytest.raises(SecureAggregationError, match="asked to mask when it is to endorse"):
        owner.mask(
            mail["o000"], run.inputs["o000"], Silence()
        )  # a second vector under the same masks would show the difference


def test_secrets_are_forgotten_when_an_owner_leaves_or_is_done() -> None:
    agreed = parameters()
    run = Run(agreed, vectors(agreed))
    run.total()
    leaving = Run(agreed, vectors(agreed)).until("share")
    owner = leaving.owners["o000"]
    with pytest.raises(SecureAggregationError):
        owner.mask(leaving.curator.deliveries()["o001"], leaving.inputs["o000"], Silence())
    assert owner.phase is Phase.LEFT
    for participant in (*run.owners.values(), owner):
        assert participant._secrets is None
        assert not participant._shares


def test_a_vector_out_of_range_ends_the_owners_part_without_showing_a_value() -> None:
    agreed = parameters()
    run = Run(agreed, vectors(agreed)).until("share")
    mail = run.curator.deliveries()
    with pytest.raises(SecureAggregationError, match="1 coordinates of a vector are over") as failure:
        run.owners["o000"].mask(mail["o000"], np.array([0, 0, 0, 4711, 0, 0, 0, 0]), Silence())
    assert "4711" not in str(failure.value)


def test_a_sum_beyond_the_bound_of_its_vectors_is_refused() -> None:
    # An owner that does not use the masks that it shared.
    agreed = parameters(length=64)
    run = Run(agreed, vectors(agreed)).until("share")
    mail = run.curator.deliveries()
    for name, owner in run.owners.items():
        message = owner.mask(mail[name], run.inputs[name], Silence())
        if name == "o003":
            message = dataclasses.replace(message, words=message.words[::-1].copy())
        run.curator.masked(message)
    run.endorse()
    run.unmask()
    with pytest.raises(SecureAggregationError, match="larger than vectors within the bound have"):
        run.curator.total()


def test_signing_keys_of_everybody_are_needed() -> None:
    agreed = parameters()
    keys = public_keys(agreed.owners)
    some = {name: key for name, key in keys.items() if name != "o004"}
    with pytest.raises(ConfigError, match="lacks signing keys of 1 owners"):
        CuratorAggregator(agreed, some)
    with pytest.raises(ConfigError, match="lacks signing keys of 1 owners"):
        OwnerAggregator(agreed, "o000", signing_key("o000"), some)
    with pytest.raises(ConfigError, match="or itself"):
        party(agreed, "o009")
    with pytest.raises(ConfigError, match="has another signing key than its peers say"):
        OwnerAggregator(agreed, "o000", signing_key("o001"), keys)
