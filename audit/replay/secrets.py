"""Audit of fresh secrets and bytes under keys: they must look random, and must not repeat.

The comparison of runs leaves out bytes under keys (`recorder.visible`), so they are checked here: bytes of
boxes, shares and keys do not compress, and do not occur in another run of the same parties; masked vectors
fill their ring, and no two vectors of an owner differ by little, as two vectors under one mask would.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from audit.replay.play import Played
from audit.replay.recorder import MASKED
from fedkme.directives import Proposal, WordVector

_LEAST = 16
"""Least length of a secret in bytes: two are equal by chance with probability 2^-128."""
_LONG = 64
_DENSE = 0.9
"""Bytes that compress below this share of their length are not random: zlib makes random bytes longer."""
_WORDS = 12
"""Number of words of a vector to check; all are small by chance with probability 2^-84."""
_SMALL_BITS = 8

Words = NDArray[np.uint64]


def exposed(played: Played) -> Iterator[str]:
    """Findings on fields under a key that do not look random, and on vectors without a mask."""
    fields: dict[str, bytes] = {}
    for name, value in _hidden(played):
        fields[name] = fields.get(name, b"") + value
    for name, value in sorted(fields.items()):
        alone = value[: 1 << 16]
        if len(alone) >= _LONG and len(zlib.compress(alone, 9)) < _DENSE * len(alone):
            yield f"the bytes of '{name}' are not as good as random"
    runs: dict[bytes, str] = {}
    for owner, exchanged in played.recorder.exchanged.items():
        for entry in exchanged:
            base = entry.directive.run.partition("/")[0]
            for name, value in entry.hidden:
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
    """Findings on secrets and masks of one run that occur in another run."""
    secrets, others = (_long_secrets(played) for played in (first, second))
    for name in sorted({secrets[value] for value in secrets.keys() & others.keys()}):
        yield f"bytes of '{name}' are those of another run"
    for (owner, bits, one), (same, _, other) in itertools.product(_masked(first), _masked(second)):
        if owner == same and len(one) == len(other) and _is_small(one - other, bits):
            yield f"a mask of {owner} is that of another run"


def _long_secrets(played: Played) -> dict[bytes, str]:
    return {value: name for name, value in _hidden(played) if len(value) >= _LEAST}


def _hidden(played: Played) -> Iterator[tuple[str, bytes]]:
    """Each secret once, with the name of its field; a secret may pass through several messages."""
    values: dict[bytes, str] = {}
    for exchanged in played.recorder.exchanged.values():
        for entry in exchanged:
            for name, value in entry.hidden:
                values.setdefault(value, name)
    yield from ((name, value) for value, name in values.items())


def _masked(played: Played) -> Iterator[tuple[str, int, Words]]:
    """Owner, bits of the ring and words of each masked vector."""
    for owner, exchanged in sorted(played.recorder.exchanged.items()):
        bits, seen = 64, set[bytes]()
        for entry in exchanged:
            if isinstance(entry.directive.body, Proposal):
                bits = entry.directive.body.bits
            if entry.directive.question != MASKED or not isinstance(entry.answer, WordVector):
                continue
            if len(entry.answer.words) >= _WORDS and (key := entry.answer.words.tobytes()) not in seen:
                seen.add(key)
                yield owner, bits, entry.answer.words


def _is_small(words: Words, bits: int) -> bool:
    """Check whether all words are near 0 modulo 2^bits."""
    ring = np.uint64(2**bits - 1)
    reach = np.uint64(2 ** (bits - _SMALL_BITS))
    near = np.minimum(words & ring, (np.uint64(0) - words) & ring)
    return bool(np.all(near[:_WORDS] < reach))
