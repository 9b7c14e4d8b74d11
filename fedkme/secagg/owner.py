"""An owner's part in an aggregation: five steps, each a message in and a message out.

Bonawitz et al. 2017, "Practical secure aggregation for privacy-preserving machine learning", figure 4, in its
variant against an active adversary. An owner trusts the authenticity of signing keys and its own memory. The
curator may drop, alter, repeat and invent messages. The first message that does not fit ends the owner's
part: the owner says why, forgets its secrets and answers no further message.
"""

import contextlib
import enum
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fedkme.errors import ConfigError, SecureAggregationError
from fedkme.privacy.noise import NoiseSource
from fedkme.secagg import shamir
from fedkme.secagg.graph import Graph, graph_of, present, root_of, set_of
from fedkme.secagg.keys import (
    KEY_BYTES,
    PAIR_MASK,
    SELF_MASK,
    KeyPair,
    PublicKey,
    add_keystreams,
    expand,
    public_bytes,
    seal,
    unseal,
    verified,
)
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
    advertised,
    committed,
    endorsed,
    sealed_about,
    session_of,
)
from fedkme.secagg.noise import draw_share
from fedkme.secagg.parameters import Parameters
from fedkme.secagg.ring import Steps, check_steps, reduce_words, to_words
from fedkme.secagg.shamir import SHARE_BYTES, Entropy

_DISTRUST = "This owner leaves the aggregation; compare what owners received before asking again."


class Phase(enum.Enum):
    """Phase of the protocol, named after the owner's next step."""

    ADVERTISE = "advertise"
    SHARE = "share"
    MASK = "mask"
    ENDORSE = "endorse"
    UNMASK = "unmask"
    DONE = "be done"
    LEFT = "stay away"


@dataclass(frozen=True, repr=False)
class _Secrets:
    cipher_key: bytes
    mask_key: bytes
    seed: bytes
    """Seed of the self-mask."""


class OwnerAggregator:
    """One owner in one aggregation; it alone holds the owner's secrets, so an owner that restarts is lost."""

    def __init__(
        self,
        parameters: Parameters,
        name: str,
        signing_key: Ed25519PrivateKey,
        peers: Mapping[str, Ed25519PublicKey],
        *,
        entropy: Entropy = secrets.token_bytes,
    ) -> None:
        """Begin the first phase.

        Args:
            parameters: those that this owner's policy accepted; owners with others reject its messages.
            name: this owner's name.
            signing_key: this owner's signing key.
            peers: the signing key of each owner of the parameters, from certificates
                (fedkme.secagg.signing) or from another trusted source, never on the curator's word alone;
                with neighbours these keys come in phase 2.
            entropy: source of random bytes; any source but the default protects nobody.

        Raises:
            ConfigError: an owner has no signing key, or `peers` has another key for this owner.
        """
        missing = set(() if parameters.neighbours else parameters.owners) - set(peers)
        if name not in parameters.owners or missing:
            cause = f"secure aggregation of {name!r} lacks signing keys of {len(missing)} owners, or itself"
            raise ConfigError(cause, "Give the signing key of every owner, this owner included.")
        own = signing_key.public_key()
        if peers.get(name, own).public_bytes_raw() != own.public_bytes_raw():
            raise ConfigError(f"{name!r} has another signing key than its peers say", "Give its own key.")
        self.name = name
        self.phase = Phase.ADVERTISE
        self._parameters = parameters
        self._context = parameters.context
        self._signing_key = signing_key
        self._peers = dict(peers) | {name: own}
        self._entropy = entropy
        self._secrets: _Secrets | None = None
        self._session = self._context
        """Context of shares; with neighbours it depends on the roster."""
        self._graph: Graph
        """Graph of the owners that share with each other, from phase 2 on."""
        self._keys: dict[str, Advertisement] = {}
        """Advertisements of this owner's circle, by name."""
        self._shares: dict[str, tuple[bytes, bytes]] = {}
        """This owner's shares of another owner's seed and mask key, by the other owner's name."""
        self._members: frozenset[str]
        """Owners on the roster; from phase 3 on, owners that shared."""
        self._survivors: tuple[str, ...] = ()
        self._masking = self._context
        """Context of masks; with neighbours it depends on the roster and on the owners that shared."""
        self._sealing: KeyPair | None = None
        self._statement = b""
        """Bytes that this owner endorsed."""

    def advertise(self) -> Advertisement:
        """Phase 1: fresh keys, signed."""
        with self._step(Phase.ADVERTISE, Phase.SHARE):
            ours = _Secrets(*(self._entropy(KEY_BYTES) for _ in range(3)))
            self._secrets = ours
            keys = public_bytes(ours.cipher_key), public_bytes(ours.mask_key)
            commitment = committed(self._context, self.name, ours.seed)
            signature = self._signing_key.sign(advertised(self._context, self.name, *keys, commitment))
            own = Advertisement(self.name, self._context, *keys, commitment, signature)
            self._keys = {self.name: own}
            return own

    def share(self, roster: KeyRoster, peers: Mapping[str, Ed25519PublicKey] | None = None) -> SealedShares:
        """Phase 2: shares of the self-mask's seed and of the mask key for every other owner of the circle.

        Args:
            roster: everybody's advertisement, or with neighbours the advertisements of the circle.
            peers: with neighbours: signing keys of circle and committee, verified like those of `__init__`.

        Raises:
            SecureAggregationError: too few owners; an advertisement that its owner did not sign for this
                aggregation; other neighbours than the graph has; or a call in another phase.
        """
        with self._step(Phase.SHARE, Phase.MASK):
            ours = self._require_secrets()
            self._check_context(roster.context)
            self._peers = dict(peers or {}) | self._peers
            self._compute_graph(roster)
            self._keys = self._check_advertisements(roster)
            names = sorted(self._keys)
            points = [self._parameters.point(name) for name in names]
            threshold = self._parameters.threshold
            seeds, keys = (
                shamir.split(int.from_bytes(secret, "big"), threshold, points, self._entropy)
                for secret in (ours.seed, ours.mask_key)
            )
            sealed = []
            for name, seed, key in zip(names, seeds, keys, strict=True):
                plain = shamir.to_bytes(seed), shamir.to_bytes(key)
                if name == self.name:
                    self._shares[name] = plain
                    continue
                about = sealed_about(self._session, self.name, name)
                sealed.append(
                    SealedShare(self.name, name, seal(self._sealing_key(name, about), b"".join(plain), about))
                )
            return SealedShares(self.name, self._context, tuple(sealed))

    def mask(self, delivery: Delivery, steps: Steps, noise: NoiseSource) -> MaskedInput:
        """Phase 3: the vector plus this owner's noise, the self-mask and a mask for every owner that shared.

        Args:
            delivery: the shares for this owner.
            steps: the vector, (length,) int64 within the bound.
            noise: source of this owner's noise.

        Raises:
            SecureAggregationError: too few owners, a share that does not open, or a vector out of range.
            ConfigError: the source of noise cannot draw integers of this deviation.
        """
        with self._step(Phase.MASK, Phase.ENDORSE):
            ours = self._require_secrets()
            self._check_context(delivery.context)
            self._open_shares(delivery)
            self._sealing = None  # this owner seals and opens no further shares
            check_steps(steps, self._parameters)
            noised = steps + draw_share(noise, self._parameters.noise, len(steps))
            words = to_words(noised, self._parameters.bits)
            plus, minus = [expand(ours.seed, self._context, SELF_MASK)], list[bytes]()
            pair = KeyPair(ours.mask_key, PublicKey(self.name, self._keys[self.name].mask_key))
            for peer in self._shares:
                if peer != self.name:
                    theirs = PublicKey(peer, self._keys[peer].mask_key)
                    key = pair.key(theirs, self._masking, PAIR_MASK)
                    (plus if self.name < peer else minus).append(key)
            add_keystreams(words, plus, minus)
            return MaskedInput(self.name, self._context, reduce_words(words, self._parameters.bits))

    def endorse(self, survivors: Survivors) -> Endorsement:
        """Phase 4: a signature of the survivors and of all earlier messages of the curator.

        Raises:
            SecureAggregationError: too few survivors; this owner answered and is missing among them; or a
                survivor did not share.
        """
        with self._step(Phase.ENDORSE, Phase.UNMASK):
            self._check_context(survivors.context)
            if self.name not in survivors.owners:
                raise self._deviation("counts this owner, which answered, as lost")
            if not self._members.issuperset(survivors.owners):
                raise self._deviation("counts an owner as a survivor that shared no masks")
            self._check_left(set_of(survivors.owners), "are left")
            self._survivors = survivors.owners
            self._statement = self._statement_to_endorse()
            return Endorsement(self.name, self._context, self._signing_key.sign(self._statement))

    def unmask(self, endorsements: Endorsements) -> Unmasking:
        """Phase 5: shares of survivors' self-masks and of lost owners' mask keys; never both of one owner.

        Raises:
            SecureAggregationError: fewer survivors than the threshold endorse the messages that this owner
                got.
        """
        with self._step(Phase.UNMASK, Phase.DONE):
            self._check_context(endorsements.context)
            signers = [endorsement.sender for endorsement in endorsements.endorsements]
            entitled = self._graph.committee.intersection(self._survivors)
            if len(set(signers)) != len(signers) or not entitled.issuperset(signers):
                raise self._deviation("shows endorsements that are not one each of survivors")
            self._check_count(len(signers), self._parameters.threshold, "endorse the survivors")
            for endorsement in endorsements.endorsements:
                if endorsement.context != self._context or not verified(
                    self._peers[endorsement.sender], endorsement.signature, self._statement
                ):
                    cause = f"told {endorsement.sender!r} something else, or that owner deviates"
                    raise self._deviation(cause)
            survivors = set(self._survivors)
            circle = sorted(self._shares)
            revealed = Unmasking(
                self.name,
                self._context,
                tuple(RevealedShare(name, self._shares[name][0]) for name in circle if name in survivors),
                tuple(RevealedShare(name, self._shares[name][1]) for name in circle if name not in survivors),
            )
            self._forget()
            return revealed

    @contextlib.contextmanager
    def _step(self, now: Phase, then: Phase) -> Iterator[None]:
        if self.phase is not now:
            cause = f"owner {self.name!r} is asked to {now.value} when it is to {self.phase.value}"
            raise SecureAggregationError(cause, "An owner takes each step once: send its first answer again.")
        self.phase = Phase.LEFT
        try:
            yield
        except BaseException:
            self._forget()
            raise
        self.phase = then

    def _forget(self) -> None:
        self._secrets = self._sealing = None
        self._shares = {}

    def _require_secrets(self) -> _Secrets:
        assert self._secrets is not None  # only LEFT and DONE have no secrets, and no step begins there
        return self._secrets

    def _compute_graph(self, roster: KeyRoster) -> None:
        """Compute the graph, and check that the roster is for this owner's circle."""
        parameters, marks = self._parameters, roster.fingerprints
        if not parameters.neighbours:
            self._graph = graph_of(parameters, b"")
            self._members = frozenset(advertisement.sender for advertisement in roster.advertisements)
            return
        if len(marks) != len(parameters.owners):
            raise self._deviation("shows a roster that is not of all owners")
        fingerprints = present(parameters.owners, marks)
        if any(
            fingerprints.get(advertisement.sender) != advertisement.fingerprint
            for advertisement in roster.advertisements
        ):
            raise self._deviation("shows keys that are not those of its roster")
        root = root_of(self._context, marks)
        self._graph, self._members = graph_of(parameters, root), set_of(tuple(fingerprints))
        self._session = session_of(self._context, root)
        circle = self._members.intersection(self._graph.circle(self.name))
        if circle != {advertisement.sender for advertisement in roster.advertisements}:
            raise self._deviation("shows other neighbours than the roster gives this owner")
        if not self._members.intersection(circle | self._graph.committee) <= set(self._peers):
            raise self._deviation("lacks signing keys of neighbours, or of the committee")

    def _check_advertisements(self, roster: KeyRoster) -> dict[str, Advertisement]:
        keys: dict[str, Advertisement] = {}
        for advertisement in roster.advertisements:
            if advertisement.sender in keys or not self._parameters.includes(advertisement.sender):
                raise self._deviation("shows keys of a party that is no owner of it, or two of one owner")
            # this owner's own advertisement needs no verification
            own = advertisement.sender == self.name and advertisement == self._keys[self.name]
            if not own and (
                advertisement.context != self._context
                or not verified(
                    self._peers[advertisement.sender], advertisement.signature, advertisement.signed
                )
            ):
                raise self._deviation(f"shows keys that {advertisement.sender!r} did not sign for it")
            keys[advertisement.sender] = advertisement
        if keys.get(self.name) != self._keys[self.name]:
            raise self._deviation("shows other keys of this owner than it advertised")
        public = [
            key
            for advertisement in keys.values()
            for key in (advertisement.cipher_key, advertisement.mask_key)
        ]
        if len(set(public)) != len(public):
            raise self._deviation("shows a key twice")
        self._check_left(self._members, "advertised keys")
        return keys

    def _open_shares(self, delivery: Delivery) -> None:
        if delivery.recipient != self.name:
            raise self._deviation("delivers shares for another owner")
        for share in delivery.shares:
            sender = share.sender
            if share.recipient != self.name or sender in self._shares or sender not in self._keys:
                raise self._deviation("delivers shares for another owner, or twice")
            about = sealed_about(self._session, sender, self.name)
            plain = unseal(self._sealing_key(sender, about), share.sealed, about)
            if plain is None:
                raise self._deviation(f"delivers a share that {sender!r} did not seal, or that was altered")
            parts = plain[:SHARE_BYTES], plain[SHARE_BYTES:]
            for part in parts:
                shamir.from_bytes(part)
            self._shares[sender] = parts
        sharing = set_of(delivery.sharing or tuple(self._shares))
        if not self._members >= sharing or sharing.intersection(self._keys) != set(self._shares):
            raise self._deviation("delivers other shares than those of its neighbours that shared")
        self._members = sharing
        self._check_left(sharing, "shared")
        if self._parameters.neighbours:
            self._masking = session_of(self._session, delivery.sharing)

    def _sealing_key(self, peer: str, about: bytes) -> bytes:
        """Key for one direction: `about` names sender and recipient, and each of the two seals once."""
        if self._sealing is None:
            mine = PublicKey(self.name, self._keys[self.name].cipher_key)
            self._sealing = KeyPair(self._require_secrets().cipher_key, mine)
        return self._sealing.key(PublicKey(peer, self._keys[peer].cipher_key), self._session, about)

    def _statement_to_endorse(self) -> bytes:
        keys = () if self._parameters.neighbours else self._keys.values()
        return endorsed(self._session, keys, self._members, set_of(self._survivors))

    def _check_context(self, context: bytes) -> None:
        if context != self._context:
            raise self._deviation("sends a message of another aggregation, or under other parameters")

    def _check_left(self, owners: frozenset[str], what: str) -> None:
        """Check that enough owners are left, in all and in the circle of each to open its secrets."""
        self._check_count(len(owners), self._parameters.least_survivors, what)
        if self._parameters.neighbours:
            fewest = self._graph.fewest(owners)
            self._check_count(fewest, self._parameters.threshold, f"of one circle {what}")

    def _check_count(self, count: int, least: int, what: str) -> None:
        if count < least:
            cause = f"{count} owners {what} in {self._parameters.run!r} and {least} must"
            remedy = "Ask again with the owners that are there, under another name."
            raise SecureAggregationError(cause, remedy)

    def _deviation(self, how: str) -> SecureAggregationError:
        cause = f"the curator of {self._parameters.run!r} {how}, says owner {self.name!r}"
        return SecureAggregationError(cause, _DISTRUST)
