"""Whole aggregations in one process, with hooks where a party deviates."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from numpy.typing import NDArray

from fedkme.privacy.noise import NoiseSource
from fedkme.secagg.curator import CuratorAggregator, Total
from fedkme.secagg.messages import MaskedInput, Unmasking
from fedkme.secagg.owner import OwnerAggregator
from fedkme.secagg.parameters import Parameters, least_threshold
from fedkme.secagg.ring import Steps
from tests.silence import Silence

Lost = Mapping[str, Collection[str]]
"""Owners lost before they answer, by phase (advertise, share, mask, endorse, unmask)."""


@functools.lru_cache
def signing_key(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(random.Random(f"key of {name}").randbytes(32))


@functools.lru_cache
def public_key(name: str) -> Ed25519PublicKey:
    return signing_key(name).public_key()


def public_keys(names: Collection[str]) -> dict[str, Ed25519PublicKey]:
    return {name: public_key(name) for name in names}


def parameters(
    owners: int = 5, dropouts: int = 1, colluders: int = 0, length: int = 8, bits: int = 32, **more: Any
) -> Parameters:
    defaults: dict[str, Any] = {
        "run": "run-1",
        "owners": tuple(f"o{number:03d}" for number in range(owners)),
        "threshold": least_threshold(owners, colluders),
        "dropouts": dropouts,
        "colluders": colluders,
        "length": length,
        "bits": bits,
        "bound": 1000,
        "step": 2.0**-6,
        "noise": 2.0**24,
    }
    return Parameters(**(defaults | more))


def vectors(agreed: Parameters, seed: int = 1) -> dict[str, Steps]:
    generator = np.random.default_rng(seed)
    return {
        name: generator.integers(-agreed.bound, agreed.bound + 1, agreed.length, dtype=np.int64)
        for name in agreed.owners
    }


def party(agreed: Parameters, name: str, seed: int = 1) -> OwnerAggregator:
    entropy = random.Random(f"{seed} {name}").randbytes
    peers = {} if agreed.neighbours else public_keys(agreed.owners)  # with neighbours they come later
    return OwnerAggregator(agreed, name, signing_key(name), peers, entropy=entropy)


@dataclass
class Run:
    """One aggregation, phase by phase; a test may look at or change the messages in between."""

    agreed: Parameters
    inputs: dict[str, NDArray[np.int64]]
    seed: int = 1
    lost: Lost = field(default_factory=dict)
    noise: Callable[[str], NoiseSource] = lambda name: Silence()
    masked: dict[str, MaskedInput] = field(default_factory=dict)
    unmaskings: dict[str, Unmasking] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.owners = {name: party(self.agreed, name, self.seed) for name in self.agreed.owners}
        self.curator = CuratorAggregator(self.agreed, public_keys(self.agreed.owners))

    def left(self, phase: str) -> list[OwnerAggregator]:
        for name in self.lost.get(phase, ()):
            self.owners.pop(name, None)
        return list(self.owners.values())

    def advertise(self) -> None:
        for owner in self.left("advertise"):
            self.curator.advertised(owner.advertise())

    def share(self) -> None:
        self.curator.roster()
        for owner in self.left("share"):
            peers = public_keys(self.curator.known_to(owner.name)) if self.agreed.neighbours else None
            self.curator.shared(owner.share(self.curator.roster_of(owner.name), peers))

    def mask(self) -> None:
        mail = self.curator.deliveries()
        for owner in self.left("mask"):
            message = owner.mask(mail[owner.name], self.inputs[owner.name], self.noise(owner.name))
            self.masked[owner.name] = message
            self.curator.masked(message)

    def endorse(self) -> None:
        survivors = self.curator.survivors()
        for owner in self.left("endorse"):
            self.curator.endorsed(owner.endorse(survivors))

    def unmask(self) -> None:
        endorsements = self.curator.endorsements()
        for owner in self.left("unmask"):
            message = owner.unmask(endorsements)
            self.unmaskings[owner.name] = message
            self.curator.unmasked(message)

    def until(self, phase: str) -> Run:
        """Run all phases up to this one, itself included."""
        for step in ("advertise", "share", "mask", "endorse", "unmask"):
            getattr(self, step)()
            if step == phase:
                break
        return self

    def total(self) -> Total:
        return self.until("unmask").curator.total()
