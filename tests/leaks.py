"""Search for numbers and secrets in what a party saw: its traffic, its files, its logs.

Encodings that chance could hit are not searched for. Each pattern holds at least 46 bits that bytes which
know nothing of the numbers would have to guess: one number as float64 (52) or with 14 to 16 digits (46 to
53), three neighbours as float32 (66), three neighbours with five decimals (49.8), a whole row in fixed point
(14 bits a column, or 8 in bytes; 48 at least). In n such bytes a pattern of b bits is found with a
probability of at most n / 2**b; `Seen.chance` adds this up for all patterns, as if every byte could begin
each of them. Times in logs, which have seven digits, cannot match.
"""

from __future__ import annotations

import base64
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray

RUN = 3
"""Neighbours of a row that are searched for together where a single number could be there by chance."""

_DECIMALS = 5
_SHOWN = (_DECIMALS, _DECIMALS + 1, 17)
_WAYS: int = len(_SHOWN) ** RUN
SHORT = f"{RUN} numbers of {_DECIMALS} decimals"
_DECIMAL = re.compile(rb"-?\d+\.\d{%d,}" % _DECIMALS)
_UNITS = {"1/2**14": 2.0**-14, "1/2**15": 2.0**-15, "1/255": 1.0 / 255.0}


@dataclass(frozen=True)
class Pattern:
    """Bytes that a number, or some, may be written as.

    Attributes:
        encoding: its name.
        content: the bytes, at least eight.
        bits: information in them that nobody knows who does not know the numbers.
    """

    encoding: str
    content: bytes
    bits: float


def _texts(value: float) -> Iterator[Pattern]:
    """Up to 16 significant digits as JSON has them, and the hexadecimal form."""
    shown = re.match(r"[0.]*((?:\d\.?){14,16})", repr(abs(value)))
    if shown is not None:
        digits = len(shown[1].replace(".", ""))
        yield Pattern("decimal digits", shown[0].encode(), digits * math.log2(10.0))
        yield Pattern("hexadecimal float", value.hex().partition("p")[0].lstrip("-").encode(), 52.0)


def spellings(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Bytes as they are, in hexadecimal, and in base64 wherever in a longer text they begin."""
    yield "raw", content
    yield "hex", content.hex().encode()
    yield "HEX", content.hex().upper().encode()
    for shift in range(3):
        coded = base64.b64encode(bytes(shift) + content)
        whole = (shift + len(content)) * 8 // 6
        yield f"base64+{shift}", coded[math.ceil(shift * 8 / 6) : whole]


def patterns(numbers: FloatArray) -> Iterator[Pattern]:
    """Every pattern of a row, or of a vector, (n,) float64."""
    for value in numbers.tolist():
        yield Pattern("float64 <", np.asarray(value, "<f8").tobytes(), 52.0)
        yield Pattern("float64 >", np.asarray(value, ">f8").tobytes(), 52.0)
        yield from _texts(value)
    for start in range(0, len(numbers) - RUN + 1, RUN):
        few = numbers[start : start + RUN]
        for kind, bits in (("<f8", 52.0), (">f8", 52.0), ("<f4", 23.0), (">f4", 23.0)):
            for spelling, content in spellings(few.astype(kind).tobytes()):
                yield Pattern(f"{kind} {spelling}", content, (RUN - 1) * bits + min(bits, 20.0))
    for name, unit in _UNITS.items():
        bits = len(numbers) * (8.0 if unit > 2.0**-9 else 14.0)
        scaled = np.clip(np.rint(numbers / unit), -(2**15), 2**15 - 1)
        for kind in ("<i2", ">i2") if bits >= 48.0 else ():
            yield Pattern(f"{kind} in units of {name}", scaled.astype(kind).tobytes(), bits)


def _rounded(value: float) -> set[bytes]:
    """First decimals of a number: cut off, and rounded to as many or to one more."""
    return {f"{value:.{shown}f}".encode()[: len(f"{value:.{_DECIMALS}f}")] for shown in _SHOWN}


class Seen:
    """Bytes that a party saw, in an order in which patterns are found fast."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        whole = content + bytes(16)
        views = (np.frombuffer(whole, "<u8", count=(len(whole) - at) // 8, offset=at) for at in range(8))
        self._starts = np.sort(np.concatenate(list(views)))
        decimals = [found[: found.index(b".") + 1 + _DECIMALS] for found in _DECIMAL.findall(content)]
        self._runs = set(zip(*(decimals[at:] for at in range(RUN)), strict=False))

    def holds(self, content: bytes) -> bool:
        """Check whether bytes are there, eight of them or more."""
        assert len(content) >= 8, f"{content!r} may be there by chance"
        (start,) = np.frombuffer(content[:8], "<u8")
        at = np.searchsorted(self._starts, start)
        return at < len(self._starts) and self._starts[at] == start and content in self.content

    def encodings(self, numbers: FloatArray) -> set[str]:
        """Encodings in which some of the numbers of a row are there."""
        there = {pattern.encoding for pattern in patterns(numbers) if self.holds(pattern.content)}
        for start in range(0, len(numbers) - RUN + 1, RUN):
            ways = itertools.product(*map(_rounded, numbers[start : start + RUN].tolist()))
            if any(way in self._runs for way in ways):
                there.add(SHORT)
        return there

    def rows(self, tables: Sequence[NDArray[Any]]) -> int:
        """Number of rows of the tables that are there in any encoding."""
        return sum(bool(self.encodings(row)) for table in tables for row in table)

    def secret(self, content: bytes) -> bool:
        """Check whether a secret is there, as it is or as text."""
        return any(self.holds(way) for _, way in spellings(content))

    def chance(self, tables: Sequence[NDArray[Any]]) -> float:
        """Probability, at most, that a row is found in as many bytes that know nothing of the tables."""
        rows = [row for table in tables for row in table]
        hits = sum(math.exp2(-pattern.bits) for row in rows for pattern in patterns(row)) * len(self.content)
        runs = sum(len(row) // RUN for row in rows) * _WAYS * len(self._runs)
        return hits + runs * 0.1 ** (RUN * _DECIMALS)
