"""Group secrets of owners and consumer, agreed through the curator."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from fedkme.errors import FedkmeError, IdentityError, SealedBoxError
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import Role
from fedkme.pki.identity import Identity
from fedkme.sealed.group import MOST_OFFERS, Gift, GroupSecret, SecretGiver, SecretTaker, Taking, check_same
from fedkme.sealed.offers import KeyOffer, PartyKeys, certified, offer_keys, taken_at_their_word

RUN = "run-1"


@dataclasses.dataclass(frozen=True)
class World:
    authority: Authority
    consumer: Identity
    owners: dict[str, Identity]
    curator: Identity

    def giver(self, run: str = RUN, **more: Any) -> SecretGiver:
        check = certified(self.authority.pem, run, (Role.OWNER,))
        return SecretGiver(PartyKeys.fresh("consumer", run), self.consumer, check, **more)

    def taker(self, name: str = "a", run: str = RUN) -> SecretTaker:
        check = certified(self.authority.pem, run, (Role.CONSUMER,))
        return SecretTaker(PartyKeys.fresh(name, run), self.owners[name], "consumer", check)


@pytest.fixture(scope="module")
def world() -> World:
    authority = Authority()
    return World(
        authority,
        authority.issue("consumer", role=Role.CONSUMER),
        {name: authority.issue(name, role=Role.OWNER) for name in ("a", "b", "late")},
        authority.issue("curator", role=Role.CURATOR),
    )


def wire(*messages: KeyOffer | Gift) -> bytes:
    """Bytes of messages that a curator relays."""
    seen = b""
    for message in messages:
        for value in vars(message).values():
            part: bytes | str = wire(value) if isinstance(value, KeyOffer) else value
            seen += part.encode() if isinstance(part, str) else part
    return seen


def test_owners_and_consumer_agree_on_a_secret_that_is_not_on_the_wire(world: World) -> None:
    giver, takers = world.giver(), [world.taker("a"), world.taker("b")]
    offers = [taker.offer() for taker in takers]
    gifts = [giver.give(offer) for offer in offers]
    secrets = [taker.take(gift) for taker, gift in zip(takers, gifts, strict=True)]
    assert secrets == [giver.secret, giver.secret]
    assert [taker.phase for taker in takers] == [Taking.DONE, Taking.DONE]
    seen = wire(*offers, *gifts)
    for hidden in (
        giver.secret.exposed(),
        giver.secret.derive(b"draw of h1"),
        giver.secret.derive(b"sealed rows"),
    ):
        assert hidden not in seen
    assert giver.secret.commitment() in seen
    check_same(secrets[0], gifts[1].commitment)


def test_a_late_or_returning_owner_gets_the_same_secret(world: World) -> None:
    giver = world.giver()
    giver.give(world.taker("a").offer())
    for _ in range(2):  # its process started again: other keys
        late = world.taker("late")
        offer = late.offer()
        assert giver.give(offer) is giver.give(offer)
        assert late.take(giver.give(offer)) == giver.secret
    assert giver.given == {"a": 1, "late": 2}
    giver.close()
    with pytest.raises(SealedBoxError, match="closed"):
        giver.give(world.taker("b").offer())


def test_a_giver_keeps_its_secret_after_a_restart(world: World) -> None:
    secret = GroupSecret(RUN, bytes(range(32)))
    taker = world.taker()
    assert world.giver(secret=secret).give(taker.offer()).commitment == secret.commitment()
    assert taker.take(world.giver(secret=secret).give(taker.offer())) == secret


def test_the_number_of_keys_of_one_owner_is_limited(world: World) -> None:
    giver = world.giver()
    for _ in range(MOST_OFFERS):
        giver.give(world.taker().offer())
    with pytest.raises(SealedBoxError, match="keys in one run"):
        giver.give(world.taker().offer())
    giver.give(world.taker("b").offer())


def test_the_curator_gets_no_gift(world: World) -> None:
    giver = world.giver()
    own = PartyKeys.fresh("curator", RUN)
    with pytest.raises(IdentityError):
        giver.give(offer_keys(own, world.curator))
    nosy = world.authority.issue("nosy", role=Role.CONSUMER)
    with pytest.raises(IdentityError, match="which has another role"):
        giver.give(offer_keys(PartyKeys.fresh("nosy", RUN), nosy))
    honest = world.taker().offer()
    mine = offer_keys(own, None)
    swapped = [
        dataclasses.replace(honest, box=mine.box),
        dataclasses.replace(honest, signing=mine.signing),
        dataclasses.replace(honest, name="b"),
        dataclasses.replace(offer_keys(own, world.curator), name="a"),
        dataclasses.replace(mine, name="a"),
        offer_keys(PartyKeys.fresh("a", RUN), Authority().issue("a", role=Role.OWNER)),
        offer_keys(PartyKeys.fresh("a", "run-0"), world.owners["a"]),  # of an earlier run
    ]
    for offer in swapped:
        with pytest.raises(IdentityError):
            giver.give(offer)
    assert giver.given == {}


def test_the_giver_itself_gets_nothing() -> None:
    giver = SecretGiver(PartyKeys.fresh("consumer", RUN), None, taken_at_their_word)
    with pytest.raises(IdentityError, match="may not have"):
        giver.give(offer_keys(PartyKeys.fresh("consumer", RUN), None))


def test_a_revoked_owner_gets_nothing(world: World) -> None:
    def refuse(certificate: bytes) -> None:
        raise IdentityError("it was revoked", "Ask for another one.")

    check = certified(world.authority.pem, RUN, (Role.OWNER,), check=refuse)
    giver = SecretGiver(PartyKeys.fresh("consumer", RUN), world.consumer, check)
    with pytest.raises(IdentityError, match="revoked"):
        giver.give(world.taker().offer())


Tamper = Callable[[Gift, World, KeyOffer], Gift]


def of_the_curator(gift: Gift, world: World, offer: KeyOffer) -> Gift:
    """A gift of the curator's own secret for the owner's true key, in the consumer's name."""
    everyone = certified(world.authority.pem, RUN, (Role.OWNER,))
    own = SecretGiver(PartyKeys.fresh("curator", RUN), world.curator, everyone).give(offer)
    return dataclasses.replace(own, giver=gift.giver)


def of_the_curator_by_its_own_certificate(gift: Gift, world: World, offer: KeyOffer) -> Gift:
    gift_of_curator = of_the_curator(gift, world, offer)
    keys = PartyKeys.fresh("curator", RUN)
    return dataclasses.replace(
        gift_of_curator, giver=dataclasses.replace(offer_keys(keys, world.curator), name="consumer")
    )


def of_an_owner(gift: Gift, world: World, offer: KeyOffer) -> Gift:
    everyone = certified(world.authority.pem, RUN, (Role.OWNER,))
    return SecretGiver(PartyKeys.fresh("b", RUN), world.owners["b"], everyone).give(offer)


def another_run(gift: Gift, world: World, offer: KeyOffer) -> Gift:
    return world.giver("run-0").give(world.taker("a", "run-0").offer())


def another_key(gift: Gift, world: World, offer: KeyOffer) -> Gift:
    return world.giver().give(world.taker("a").offer())


def another_taker(gift: Gift, world: World, offer: KeyOffer) -> Gift:
    return world.giver().give(world.taker("b").offer())


TAMPERS: list[Tamper] = [
    of_the_curator,
    of_the_curator_by_its_own_certificate,
    of_an_owner,
    another_run,
    another_key,
    another_taker,
    lambda gift, world, offer: dataclasses.replace(another_taker(gift, world, offer), taker="a"),
    lambda gift, world, offer: dataclasses.replace(gift, commitment=bytes(32)),
    lambda gift, world, offer: dataclasses.replace(gift, box=gift.box[:-1] + bytes([gift.box[-1] ^ 1])),
    lambda gift, world, offer: dataclasses.replace(gift, box=b""),
    lambda gift, world, offer: dataclasses.replace(gift, signature=bytes(64)),
    lambda gift, world, offer: dataclasses.replace(gift, signature=b""),
    lambda gift, world, offer: dataclasses.replace(
        gift, giver=dataclasses.replace(gift.giver, signature=b"")
    ),
]


@pytest.mark.parametrize("tamper", TAMPERS)
def test_a_gift_of_another_giver_taker_key_or_run_is_refused(world: World, tamper: Tamper) -> None:
    taker = world.taker("a")
    offer = taker.offer()
    gift = world.giver().give(offer)
    with pytest.raises((IdentityError, SealedBoxError)):
        taker.take(tamper(gift, world, offer))
    assert taker.phase is Taking.LEFT
    with pytest.raises(SealedBoxError):  # its keys are gone: not even the true gift opens
        taker.take(gift)
    with pytest.raises(SealedBoxError):
        taker.offer()


def test_a_signed_gift_of_a_giver_that_lies_about_its_secret_is_refused(world: World) -> None:
    class Liar(GroupSecret):
        def commitment(self) -> bytes:
            return bytes(32)

    taker = world.taker()
    with pytest.raises(SealedBoxError, match="committed"):
        taker.take(world.giver(secret=Liar(RUN, bytes(32))).give(taker.offer()))


def test_a_gift_before_an_offer_or_a_second_one_is_refused(world: World) -> None:
    taker = world.taker()
    offer = taker.offer()
    gift = world.giver().give(offer)
    with pytest.raises(SealedBoxError, match="does not expect"):
        world.taker().take(gift)
    taker.take(gift)
    with pytest.raises(SealedBoxError, match="does not expect"):
        taker.take(gift)


def test_an_identity_of_another_party_is_refused(world: World) -> None:
    with pytest.raises(IdentityError, match="the identity is"):
        SecretGiver(PartyKeys.fresh("consumer", RUN), world.owners["a"], taken_at_their_word)


def test_plaintext_has_no_certificates_and_does_not_mix_with_them(world: World) -> None:
    # In plaintext nothing proves keys and names; the protocol is the same.
    giver = SecretGiver(PartyKeys.fresh("consumer", RUN), None, taken_at_their_word)
    taker = SecretTaker(PartyKeys.fresh("a", RUN), None, "consumer", taken_at_their_word)
    assert taker.take(giver.give(taker.offer())) == giver.secret
    with pytest.raises(IdentityError, match="this run has none"):
        giver.give(world.taker().offer())
    with pytest.raises(IdentityError):
        world.giver().give(offer_keys(PartyKeys.fresh("a", RUN), None))


@pytest.mark.parametrize(
    "change", [{"box": b""}, {"box": bytes(31)}, {"signing": bytes(33)}, {"chain": bytes(2**17)}, {"name": 7}]
)
def test_a_malformed_offer_is_refused(change: dict[str, Any]) -> None:
    giver = SecretGiver(PartyKeys.fresh("consumer", RUN), None, taken_at_their_word)
    offer = offer_keys(PartyKeys.fresh("a", RUN), None)
    with pytest.raises(IdentityError):
        giver.give(dataclasses.replace(offer, **change))


def test_a_secret_is_neither_printed_nor_pickled(world: World) -> None:
    giver = world.giver(secret=GroupSecret(RUN, b"0123456789abcdef0123456789abcdef"))
    keys = PartyKeys("a", RUN, b"k" * 96, b"s" * 32)
    for shown in (repr(giver.secret), str(giver.secret), repr(keys), repr(vars(giver))):
        assert "0123456789abcdef" not in shown
        assert "kkkk" not in shown
    with pytest.raises(TypeError):
        pickle.dumps(giver.secret)
    with pytest.raises(SealedBoxError):
        GroupSecret(RUN, b"short")


def test_derived_keys_differ_between_runs_purposes_and_facts() -> None:
    secret, other = GroupSecret("run-1", bytes(32)), GroupSecret("run-2", bytes(32))
    keys = {
        secret.derive(b"a"),
        secret.derive(b"b"),
        secret.derive(b"a", b"b"),
        secret.derive(b"ab"),
        other.derive(b"a"),
        secret.commitment(),
        other.commitment(),
    }
    assert len(keys) == 7
    assert secret != other
    with pytest.raises(FedkmeError, match="not the one that its features are drawn from"):
        check_same(secret, other.commitment())
