"""Fresh secrets and what is under them: bytes that must look random, and must not come again.

What is under a key is left out where runs are compared (`recorder.visible`), so it is looked at by itself:
bytes of boxes, shares and keys do not compress; none of them is in another run of the same parties; masked
vectors fill their ring, and no two of an owner differ by little, as they would under one mask.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedkme.directives import Proposal, WordVector
from sim.replay.recorder import MASKED
from sim.replay.world import Played

_LEAST = 16
"""Bytes of a secret, at least: chance gives two alike with probability 2^-128."""
_LONG = 64
_DENSE = 0.9
"""Share of its length to which random bytes do not compress: zlib makes them longer."""
_WORDS = 12
"""Words of a vector that are looked at; that all of them are small by chance has probability 2^-84."""
_SMALL_BITS = 8

Words = NDArray[np.uint64]


def exposed(played: Played) -> Iterator[str]:
    """Fields that are to be under a key and do not look so, and vectors that no mask hides."""
    fields: dict[str, bytes] = {}
    for name, value in _hidden(played):
        fields[name] = fields.get(name, b"") + value
    for name, value in sorted(fields.items()):
        alone = value[: 1 << 16]
        if len(alone) >= _LONG and len(zlib.compress(alone, 9)) < _DENSE * len(alone):
            yield f"the bytes of '{name}' are not as good as random"
    runs: dict[bytes, str] = {}
    for owner, exchanged in played.recorder.exchanged.items():
        for each in exchanged:
            base = each.directive.run.partition("/")[0]
            for name, value in each.hidden:
                if len(value) >= _LEAST and runs.setdefault(value, base) != base:
                    yield f"bytes of '{name}' at {owner} are those of an earlier run"
    vectors = list(_masked(played))
    for owner, bits, words in vectors:
        if _is_small(words, bits):
            yield f"a vector of {owner} is under no mask"
    for (owner, bits, one), (same, _, other) in itertools.combinations(vectors, 2):
        if owner == same and len(one) == len(other) and _is_small(one - other, bits):
            yield f"two vectors of {owner} are under one mask"


def repeated(first: Played, second: Played) -> Iterator[str]:
    """Secrets of one run that are used in another, masks among them."""
    here, there = (_long_ones(each) for each in (first, second))
    for name in sorted({here[value] for value in here.keys() & there.keys()}):
        yield f"bytes of '{name}' are those of another run"
    for (owner, bits, one), (same, _, other) in itertools.product(_masked(first), _masked(second)):
        if owner == same and len(one) == len(other) and _is_small(one - other, bits):
            yield f"a mask of {owner} is that of another run"


def _long_ones(played: Played) -> dict[bytes, str]:
    return {value: name for name, value in _hidden(played) if len(value) >= _LEAST}


def _hidden(played: Played) -> Iterator[tuple[str, bytes]]:
    """Each secret once, with the name of its field: what comes again by another way is the same."""
    values: dict[bytes, str] = {}
    for exchanged in played.recorder.exchanged.values():
        for each in exchanged:
            for name, value in each.hidden:
                values.setdefault(value, name)
    yield from ((name, value) for value, name in values.items())


def _masked(played: Played) -> Iterator[tuple[str, int, Words]]:
    """Owner, bits of the ring and words of each masked vector."""
    for owner, exchanged in sorted(played.recorder.exchanged.items()):
        bits, seen = 64, set[bytes]()
        for each in exchanged:
            if isinstance(each.directive.body, Proposal):
                bits = each.directive.body.bits
            if each.directive.question != MASKED or not isinstance(each.answer, WordVector):
                continue
            if len(each.answer.words) >= _WORDS and (key := each.answer.words.tobytes()) not in seen:
                seen.add(key)
                yield owner, bits, each.answer.words


def _is_small(words: Words, bits: int) -> bool:
    """Check whether all words are near 0 modulo 2^bits."""
    ring = np.uint64(2**bits - 1)
    reach = np.uint64(2 ** (bits - _SMALL_BITS))
    near = np.minimum(words & ring, (np.uint64(0) - words) & ring)
    return bool(np.all(near[:_WORDS] < reach))
