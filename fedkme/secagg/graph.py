"""Graph of an aggregation: the pairs of owners that share masks and secrets.

Every party computes the graph by itself.

The order of owners is the order of hashes of their names under the root. Nobody can choose the root: it is
the hash of all advertisements (docs/decisions/005). Without neighbours (`Parameters.neighbours` is 0) every
owner shares with every other.
"""

import functools
import hashlib
from collections.abc import Mapping

import numpy as np

from fedkme.secagg.keys import framed
from fedkme.secagg.neighbours import offsets
from fedkme.secagg.parameters import Parameters


class Graph:
    """Circles of all owners, and the committee."""

    def __init__(self, parameters: Parameters, root: bytes) -> None:
        """Put owners in their order.

        Args:
            parameters: parameters of the aggregation.
            root: see `root_of`; not used without neighbours.
        """
        self._owners = parameters.owners
        self._steps: tuple[int, ...] = ()
        self._fewest: dict[frozenset[str], int] = {}
        if parameters.neighbours:
            distances = offsets(len(self._owners), parameters.neighbours)
            self._steps = (0, *distances, *(-distance for distance in distances))
            self._order = sorted(self._owners, key=functools.partial(_order_key, root))
            self._places = {name: place for place, name in enumerate(self._order)}

    def circle(self, owner: str) -> tuple[str, ...]:
        """An owner with its neighbours, in order of names."""
        if not self._steps:
            return self._owners
        place, owners = self._places[owner], len(self._owners)
        return tuple(sorted(self._order[(place + step) % owners] for step in self._steps))

    @functools.cached_property
    def committee(self) -> frozenset[str]:
        """Owners whose endorsements count."""
        return frozenset(self._order[: len(self._steps)] if self._steps else self._owners)

    def fewest(self, names: frozenset[str]) -> int:
        """The smallest number of `names` in any circle of an owner of `names`; counted once for each set."""
        if names not in self._fewest:
            self._fewest[names] = self._count_in_smallest_circle(names) if self._steps else len(names)
        return self._fewest[names]

    def _count_in_smallest_circle(self, names: frozenset[str]) -> int:
        owners = len(self._owners)
        present = np.zeros(owners, dtype=np.uint16)
        present[[self._places[name] for name in names]] = 1
        doubled, left_in_circle = np.tile(present, 2), np.zeros_like(present)
        for step in self._steps:
            left_in_circle += doubled[step % owners : step % owners + owners]
        return int(np.min(left_in_circle[present == 1], initial=len(self._steps)))


@functools.lru_cache(maxsize=8)
def set_of(names: tuple[str, ...]) -> frozenset[str]:
    """The set of many names, cached: the parties of a process, which may be thousands, share one set."""
    return frozenset(names)


@functools.lru_cache(maxsize=4)
def present(owners: tuple[str, ...], fingerprints: tuple[bytes, ...]) -> Mapping[str, bytes]:
    """Fingerprints of the owners that advertised, by name; cached like `set_of`."""
    return {name: mark for name, mark in zip(owners, fingerprints, strict=True) if mark}


@functools.lru_cache(maxsize=4)
def root_of(context: bytes, fingerprints: tuple[bytes, ...]) -> bytes:
    """The root of a roster: SHA-256 of its fingerprints.

    Args:
        context: context of the aggregation.
        fingerprints: fingerprints of all n owners' advertisements in order of names, b"" for none.
    """
    return hashlib.sha256(framed(b"fedkme secagg roster", context, *fingerprints)).digest()


@functools.lru_cache(maxsize=4)
def graph_of(parameters: Parameters, root: bytes) -> Graph:
    """The graph, cached: all parties of a process share one graph."""
    return Graph(parameters, root)


def _order_key(root: bytes, owner: str) -> bytes:
    return hashlib.sha256(framed(b"fedkme secagg order", root, owner.encode())).digest()
