"""The curator's part in an aggregation: it collects messages, passes them on and learns the sum alone.

In each phase the curator takes messages one by one, in any order, and closes the phase when it has waited
long enough. A message that does not fit changes nothing and raises an error that names its sender; the caller
then treats this owner as lost. Closing a phase with too few owners raises an error and ends the aggregation.
Memory: one vector, for any n.
"""

import enum
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedkme.errors import ConfigError, SecureAggregationError
from fedkme.secagg import shamir
from fedkme.secagg.graph import Graph, graph_of, root_of
from fedkme.secagg.keys import (
    PAIR_MASK,
    SELF_MASK,
    KeyPair,
    PublicKey,
    add_keystreams,
    expand,
    public_bytes,
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
    committed,
    endorsed,
    session_of,
)
from fedkme.secagg.parameters import Parameters
from fedkme.secagg.ring import Steps, from_words, reduce_words


class Stage(enum.Enum):
    """Stage of the aggregation, named after the messages that the curator waits for."""

    ADVERTISEMENTS = "advertisements"
    SHARES = "shares"
    INPUTS = "masked vectors"
    ENDORSEMENTS = "endorsements"
    UNMASKINGS = "shares of masks"
    DONE = "nothing"


@dataclass(frozen=True, eq=False, repr=False)
class Total:
    """Result of the aggregation.

    Attributes:
        owners: names of the owners whose vectors are in the sum.
        steps: the sum with everybody's noise, (length,) int64.
    """

    owners: tuple[str, ...]
    steps: Steps


class CuratorAggregator:
    """The curator in one aggregation; before the last phase it holds no secret."""

    def __init__(self, parameters: Parameters, peers: Mapping[str, Ed25519PublicKey]) -> None:
        """Begin the first phase.

        Args:
            parameters: the agreed parameters.
            peers: the signing key of each owner.

        Raises:
            ConfigError: an owner has no signing key.
        """
        missing = set(parameters.owners) - set(peers)
        if missing:
            cause = f"secure aggregation lacks signing keys of {len(missing)} owners"
            raise ConfigError(cause, "Give every owner's signing key.")
        self.stage = Stage.ADVERTISEMENTS
        self._parameters = parameters
        self._context = parameters.context
        self._peers = dict(peers)
        self._keys: dict[str, Advertisement] = {}
        self._used_keys: set[bytes] = set()
        """Keys that owners advertised."""
        self._roster: KeyRoster
        self._graph: Graph
        self._session = self._masking = self._context
        """Contexts of shares and masks; with neighbours they depend on roster and owners that shared."""
        self._sealed: dict[str, tuple[SealedShare, ...]] = {}
        self._masked = np.zeros(parameters.length, dtype=np.uint64)
        self._inputs: set[str] = set()
        self._survivors: tuple[str, ...] = ()
        self._statement = b""
        """Bytes that survivors are to endorse."""
        self._endorsements: dict[str, Endorsement] = {}
        self._unmaskings: set[str] = set()
        self._seeds: dict[str, dict[int, int]] = {}
        self._lost_keys: dict[str, dict[int, int]] = {}

    def advertised(self, message: Advertisement) -> None:
        """Take an advertisement.

        Raises:
            SecureAggregationError: the message does not fit.
        """
        name = message.sender
        self._admit(Stage.ADVERTISEMENTS, name, message.context, self._keys, self._parameters.owners)
        if not verified(self._peers[name], message.signature, message.signed):
            raise self._refusal(name, "did not sign its keys")
        if {message.cipher_key, message.mask_key} & self._used_keys or message.cipher_key == message.mask_key:
            raise self._refusal(name, "advertises a key that is already in use")
        self._keys[name] = message
        self._used_keys |= {message.cipher_key, message.mask_key}

    def roster(self) -> KeyRoster:
        """Close phase 1 and return the roster; with neighbours each owner gets a part, see `roster_of`.

        Raises:
            SecureAggregationError: too few owners.
        """
        self._close(Stage.ADVERTISEMENTS, Stage.SHARES, len(self._keys), self._parameters.least_survivors)
        marks: tuple[bytes, ...] = ()
        root = b""
        if self._parameters.neighbours:
            fingerprints = {name: advertisement.fingerprint for name, advertisement in self._keys.items()}
            marks = tuple(fingerprints.get(name, b"") for name in self._parameters.owners)
            root = root_of(self._context, marks)
            self._session = session_of(self._context, root)
        self._graph = graph_of(self._parameters, root)
        self._check_circles(self._keys, "advertised keys")
        advertisements = tuple(self._keys[name] for name in sorted(self._keys))
        self._roster = KeyRoster(self._context, advertisements, marks)
        return self._roster

    def roster_of(self, owner: str) -> KeyRoster:
        """The roster that an owner gets."""
        if not self._parameters.neighbours:
            return self._roster
        circle = tuple(self._keys[name] for name in self._graph.circle(owner) if name in self._keys)
        return KeyRoster(self._context, circle, self._roster.fingerprints)

    def known_to(self, owner: str) -> list[str]:
        """Owners whose signing keys an owner needs with its roster: its circle and the committee."""
        needed = self._graph.committee.union(self._graph.circle(owner))
        return sorted(needed.intersection(self._keys))

    def shared(self, message: SealedShares) -> None:
        """Take an owner's sealed shares.

        Raises:
            SecureAggregationError: the message does not fit.
        """
        name = message.sender
        self._admit(Stage.SHARES, name, message.context, self._sealed, self._keys)
        recipients = [share.recipient for share in message.shares]
        circle = self._keys.keys() & set(self._graph.circle(name))
        complete = len(recipients) == len(circle) - 1 and {*recipients, name} == circle
        if not complete or any(share.sender != name for share in message.shares):
            raise self._refusal(name, "sealed shares for others than the roster")
        self._sealed[name] = message.shares

    def deliveries(self) -> dict[str, Delivery]:
        """Close phase 2 and return each owner's delivery by name.

        Raises:
            SecureAggregationError: too few owners.
        """
        self._close(Stage.SHARES, Stage.INPUTS, len(self._sealed), self._parameters.least_survivors)
        mail: dict[str, list[SealedShare]] = {name: [] for name in sorted(self._sealed)}
        for sender in sorted(self._sealed):
            for share in self._sealed[sender]:
                if share.recipient in mail:
                    mail[share.recipient].append(share)
        self._check_circles(self._sealed, "shared")
        sharing: tuple[str, ...] = ()
        if self._parameters.neighbours:
            sharing = tuple(mail)
            self._masking = session_of(self._session, sharing)
        self._sealed = dict.fromkeys(self._sealed, ())  # the names stay, the shares leave with the deliveries
        return {name: Delivery(name, self._context, tuple(shares), sharing) for name, shares in mail.items()}

    def masked(self, message: MaskedInput) -> None:
        """Take a masked vector and add it to the sum.

        Raises:
            SecureAggregationError: the message does not fit.
        """
        name = message.sender
        self._admit(Stage.INPUTS, name, message.context, self._inputs, self._sealed)
        if len(message.words) != self._parameters.length:
            raise self._refusal(name, "sends a vector of another length")
        if np.any(message.words > np.uint64(2**self._parameters.bits - 1)):
            raise self._refusal(name, "sends words that are too large")
        self._masked += message.words
        self._inputs.add(name)

    def survivors(self) -> Survivors:
        """Close phase 3 and return the survivors.

        Raises:
            SecureAggregationError: too few owners.
        """
        self._close(Stage.INPUTS, Stage.ENDORSEMENTS, len(self._inputs), self._parameters.least_survivors)
        self._survivors = tuple(sorted(self._inputs))
        self._check_circles(self._survivors, "are left")
        keys = () if self._parameters.neighbours else self._keys.values()
        self._statement = endorsed(self._session, keys, self._sealed, self._survivors)
        return Survivors(self._context, self._survivors)

    def endorsed(self, message: Endorsement) -> None:
        """Take an endorsement.

        Raises:
            SecureAggregationError: the message does not fit.
        """
        name = message.sender
        self._admit(Stage.ENDORSEMENTS, name, message.context, self._endorsements, self._survivors)
        if not verified(self._peers[name], message.signature, self._statement):
            raise self._refusal(name, "endorses something else")
        self._endorsements[name] = message

    def endorsements(self) -> Endorsements:
        """Close phase 4 and return the endorsements.

        Raises:
            SecureAggregationError: too few owners.
        """
        entitled = sorted(self._graph.committee.intersection(self._endorsements))
        self._close(Stage.ENDORSEMENTS, Stage.UNMASKINGS, len(entitled), self._parameters.threshold)
        if self._parameters.neighbours:  # owners verify every endorsement: send no more than they need
            entitled = entitled[: self._parameters.threshold]
        return Endorsements(self._context, tuple(self._endorsements[name] for name in entitled))

    def unmasked(self, message: Unmasking) -> None:
        """Take an owner's shares of masks.

        Raises:
            SecureAggregationError: the message does not fit.
        """
        name = message.sender
        self._admit(Stage.UNMASKINGS, name, message.context, self._unmaskings, self._survivors)
        circle = [peer for peer in self._graph.circle(name) if peer in self._sealed]
        seeds = self._revealed_values(
            name, message.self_masks, [peer for peer in circle if peer in self._inputs]
        )
        keys = self._revealed_values(
            name, message.mask_keys, [peer for peer in circle if peer not in self._inputs]
        )
        point = self._parameters.point(name)
        for about, value in seeds.items():
            self._seeds.setdefault(about, {})[point] = value
        for about, value in keys.items():
            self._lost_keys.setdefault(about, {})[point] = value
        self._unmaskings.add(name)

    def total(self) -> Total:
        """Close phase 5: take all masks off and return the sum.

        Raises:
            SecureAggregationError: too few owners, shares that do not fit together, or a sum that vectors
                within the bound cannot have.
        """
        self._close(Stage.UNMASKINGS, Stage.DONE, len(self._unmaskings), self._parameters.threshold)
        context, bits = self._context, self._parameters.bits
        plus: list[bytes] = []
        minus: list[bytes] = []
        for name in self._survivors:
            commitment = self._keys[name].commitment
            seed = self._recover_secret(name, self._seeds, partial(committed, context, name), commitment)
            minus.append(expand(seed, context, SELF_MASK))
        for name in self._lost_owners:
            lost = PublicKey(name, self._keys[name].mask_key)
            pair = KeyPair(self._recover_secret(name, self._lost_keys, public_bytes, lost.key), lost)
            for survivor in self._graph.circle(name):
                if survivor not in self._inputs:
                    continue
                theirs = PublicKey(survivor, self._keys[survivor].mask_key)
                key = pair.key(theirs, self._masking, PAIR_MASK)
                # The survivor added this mask if its name comes first.
                (minus if survivor < name else plus).append(key)
        add_keystreams(self._masked, plus, minus)
        steps = from_words(reduce_words(self._masked, bits), bits)
        largest = len(self._survivors) * self._parameters.bound + self._parameters.noise_tail
        if np.any((steps > largest) | (steps < -largest)):
            cause = f"the sum of {self._parameters.run!r} is larger than vectors within the bound have"
            remedy = "An owner sent a wrong vector, or did not use the masks that it shared; the sum is void."
            raise SecureAggregationError(cause, remedy)
        return Total(self._survivors, steps)

    @property
    def _lost_owners(self) -> tuple[str, ...]:
        return tuple(sorted(set(self._sealed) - set(self._survivors)))

    def _recover_secret(
        self,
        owner: str,
        shares: Mapping[str, Mapping[int, int]],
        public: Callable[[bytes], bytes],
        expected: bytes,
    ) -> bytes:
        """Combine a secret from as many shares as the threshold; if one is wrong, try other shares.

        Args:
            owner: owner of the secret.
            shares: shares by owner, point and value.
            public: computes the public value of a secret.
            expected: the public value that the right secret has.
        """
        values = sorted(shares.get(owner, {}).items())
        self._check_enough(len(values), self._parameters.threshold, f"sent a share of a secret of {owner!r}")
        for start in range(len(values)):
            chosen = dict((values[start:] + values[:start])[: self._parameters.threshold])
            secret = shamir.combine(chosen)
            if secret < 2 ** (8 * shamir.SECRET_BYTES):
                candidate = secret.to_bytes(shamir.SECRET_BYTES, "big")
                if public(candidate) == expected:
                    return candidate
        remedy = "That owner or one that revealed shares deviates: ask again without it, under another name."
        raise SecureAggregationError(f"shares of a secret of owner {owner!r} do not fit together", remedy)

    def _revealed_values(
        self, sender: str, shares: Sequence[RevealedShare], owners: Sequence[str]
    ) -> dict[str, int]:
        if tuple(share.about for share in shares) != tuple(owners):
            raise self._refusal(sender, "reveals shares of other secrets than it should")
        return {share.about: shamir.from_bytes(share.share) for share in shares}

    def _admit(
        self, stage: Stage, sender: str, context: bytes, already: Container[str], expected: Container[str]
    ) -> None:
        if self.stage is not stage:
            raise self._refusal(sender, f"sends {stage.value} while the curator waits for {self.stage.value}")
        if context != self._context:
            raise self._refusal(sender, "sends a message of another aggregation, or under other parameters")
        if sender not in expected:
            raise self._refusal(sender, f"is not among the owners that send {stage.value}")
        if sender in already:
            raise self._refusal(sender, f"sends {stage.value} twice")

    def _close(self, stage: Stage, then: Stage, count: int, least: int) -> None:
        if self.stage is not stage:
            cause = f"the phase of {stage.value} is not open, the curator waits for {self.stage.value}"
            raise SecureAggregationError(cause, "Close each phase once, in order.")
        self._check_enough(count, least, f"sent {stage.value}")
        self.stage = then

    def _check_circles(self, owners: Collection[str], what: str) -> None:
        """Check that each owner's circle has enough members left to open the owner's secrets."""
        if self._parameters.neighbours:
            fewest = self._graph.fewest(frozenset(owners))
            self._check_enough(fewest, self._parameters.threshold, f"of one circle {what}")

    def _check_enough(self, count: int, least: int, action: str) -> None:
        if count < least:
            self.stage = Stage.DONE
            cause = f"{count} owners {action} for {self._parameters.run!r} and {least} must"
            remedy = "Ask again with the owners that are there, under another name."
            raise SecureAggregationError(cause, remedy)

    def _refusal(self, sender: str, how: str) -> SecureAggregationError:
        cause = f"owner {sender!r} {how}, in {self._parameters.run!r}"
        return SecureAggregationError(cause, "Go on without that owner.")
