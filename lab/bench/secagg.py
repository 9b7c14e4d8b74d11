"""`secagg`: one secure sum over K owners in one process, from keys to the total, without a wire.

A tenth of the owners is lost after they shared their masks, which costs the curator most; a twentieth may
collude. Owners and curator are those of deployments; an owner's noise is drawn as in deployments by one of
them and measured apart, the others draw it by numpy. Owners share a process, where a signature is verified
once for all of them; `alone ms` is of the first, who finds nothing done and pays as in a process of its own.
Bytes are those of one owner's messages, without certificates, which add about a kilobyte for each key.
"""

from __future__ import annotations

import contextlib
import random
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedkme.privacy.noise import SecureNoise, simulated
from fedkme.secagg.curator import CuratorAggregator
from fedkme.secagg.graph import graph_of, root_of
from fedkme.secagg.keys import verified_once
from fedkme.secagg.noise import LEAST_SHARE
from fedkme.secagg.owner import OwnerAggregator
from fedkme.secagg.parameters import Parameters, sharing
from fedkme.wire.fields import FieldCodec
from fedkme.wire.sums import (
    ADVERTISEMENT,
    DELIVERY,
    ENDORSEMENT,
    ENDORSEMENTS,
    ROSTER,
    SEALED,
    SURVIVORS,
    UNMASKING,
)
from lab.bench.result import BenchSettings, Cell, Result, timed
from sim.scenarios.base import owner_names

_LOST, _COLLUDE = 10, 20
"""One owner in so many is lost, or colludes."""
_CACHED = (verified_once, graph_of, root_of)
"""Functions with a cache, which owners do not share with the curator in deployments."""
_BOUND = 1_000
_BITS = 48


def measure(settings: BenchSettings) -> Result:
    """A line for each number of owners."""
    rows = [_Sum(owners, settings.secagg_length).line() for owners in settings.secagg_owners]
    title = f"a secure sum of {settings.secagg_length} numbers, a tenth of the owners lost, processor time"
    return Result("secagg", title, rows)


class _Sum:
    """One aggregation, with the time of each side and the bytes of its first owner."""

    def __init__(self, owners: int, length: int) -> None:
        dropouts, colluders = owners // _LOST, owners // _COLLUDE
        self._neighbours, threshold = sharing(owners, dropouts, colluders)
        names = tuple(sorted(owner_names(owners)))
        self._agreed = Parameters(
            run="bench/1",
            owners=names,
            threshold=threshold,
            dropouts=dropouts,
            colluders=colluders,
            length=length,
            bits=_BITS,
            bound=_BOUND,
            step=1.0,
            noise=LEAST_SHARE,
            neighbours=self._neighbours,
        )
        self._lost = set(random.Random(0).sample(names[1:], dropouts))
        keys = {name: Ed25519PrivateKey.generate() for name in names}
        self._public = {name: key.public_key() for name, key in keys.items()}
        own = bool(self._neighbours)  # signing keys of others come in phase 2
        self._owners = [
            OwnerAggregator(self._agreed, name, key, {name: self._public[name]} if own else self._public)
            for name, key in keys.items()
        ]
        self._curator = CuratorAggregator(self._agreed, self._public)
        self._seconds = {"owners": 0.0, "curator": 0.0}
        self._alone = 0.0
        self._bytes = 0

    def line(self) -> dict[str, Cell]:
        """Sum up, and check the sum."""
        self._share()
        noisy = self._mask()
        total = self._open()
        if not np.array_equal(total, noisy):
            raise AssertionError("the total is not the sum of what owners sent")
        owners = len(self._agreed.owners)
        return {
            "K": owners,
            "neighbours": self._neighbours or owners - 1,
            "all s": sum(self._seconds.values()),
            "curator s": self._seconds["curator"],
            "owner ms": 1e3 * self._seconds["owners"] / owners,
            "alone ms": 1e3 * self._alone,
            "noise ms": 1e3 * self._noise_seconds(),
            "owner KiB": self._bytes / 2**10,
            "process MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
        }

    def _share(self) -> None:
        for owner in self._owners:
            with self._by(owner):
                advertisement = owner.advertise()
            self._count(owner, ADVERTISEMENT, advertisement)
            with self._of("curator"):
                self._curator.advertised(advertisement)
        with self._of("curator"):
            self._curator.roster()
        _forget()
        for owner in self._owners:
            with self._of("curator"):
                roster = self._curator.roster_of(owner.name)
                context = self._curator.known_to(owner.name)
            self._count(owner, ROSTER, roster)
            with self._by(owner):
                sealed = owner.share(roster, {name: self._public[name] for name in context})
            self._count(owner, SEALED, sealed)
            with self._of("curator"):
                self._curator.shared(sealed)

    def _mask(self) -> np.ndarray:
        """Let the owners that are left send masked vectors; returns the plain sum with noise."""
        with self._of("curator"):
            mail = self._curator.deliveries()
        self._owners = [owner for owner in self._owners if owner.name not in self._lost]
        plain = np.random.default_rng(0).integers(-_BOUND, _BOUND + 1, self._agreed.length)
        noisy = np.zeros_like(plain)
        for number, owner in enumerate(self._owners):
            delivery = mail.pop(owner.name)
            self._count(owner, DELIVERY, delivery)
            drawn = simulated(number, owner.name, "noise").gaussian(LEAST_SHARE, len(plain))
            noisy += plain + np.rint(drawn).astype(np.int64)
            with self._by(owner):
                masked = owner.mask(delivery, plain, simulated(number, owner.name, "noise"))
            self._bytes += masked.words.nbytes if owner is self._owners[0] else 0
            with self._of("curator"):
                self._curator.masked(masked)
        return noisy

    def _open(self) -> np.ndarray:
        with self._of("curator"):
            survivors = self._curator.survivors()
        self._exchange((SURVIVORS, survivors), OwnerAggregator.endorse, (ENDORSEMENT, self._curator.endorsed))
        with self._of("curator"):
            endorsements = self._curator.endorsements()
        _forget()
        self._exchange(
            (ENDORSEMENTS, endorsements), OwnerAggregator.unmask, (UNMASKING, self._curator.unmasked)
        )
        with self._of("curator"):
            return self._curator.total().steps

    def _exchange(
        self,
        sent: tuple[FieldCodec[Any, Any], Any],
        answer: Callable[[OwnerAggregator, Any], Any],
        received: tuple[FieldCodec[Any, Any], Callable[[Any], None]],
    ) -> None:
        """Send one message to all owners and pass their answers to the curator."""
        for owner in self._owners:
            self._count(owner, *sent)
            with self._by(owner):
                message = answer(owner, sent[1])
            self._count(owner, received[0], message)
            with self._of("curator"):
                received[1](message)

    def _count(self, owner: OwnerAggregator, codec: FieldCodec[Any, Any], message: object) -> None:
        """Count the bytes of a message, if it is the first owner's."""
        if owner is self._owners[0]:
            self._bytes += codec.to_wire(message).ByteSize()

    @contextlib.contextmanager
    def _by(self, owner: OwnerAggregator) -> Iterator[None]:
        before = self._seconds["owners"]
        with self._of("owners"):
            yield
        if owner is self._owners[0]:
            self._alone += self._seconds["owners"] - before

    @contextlib.contextmanager
    def _of(self, party: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self._seconds[party] += time.process_time() - began

    def _noise_seconds(self) -> float:
        return timed(lambda: SecureNoise().gaussian(LEAST_SHARE, self._agreed.length))[1]


def _forget() -> None:
    for kind in _CACHED:
        kind.cache_clear()
