"""Shamir's secret sharing over a prime field: any `threshold` shares give the secret, fewer tell nothing.

A. Shamir, "How to share a secret", 1979. The prime is 2**521 - 1, the field of NIST's curve P-521; the field
contains every secret of 32 bytes. Python's integers do not run in constant time. But an attacker that can
measure a party's time so closely sits on its host and could read its memory (docs/decisions/005).
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence

from fedkme.errors import SecureAggregationError

PRIME = 2**521 - 1
SECRET_BYTES = 32
SHARE_BYTES = 66

Entropy = Callable[[int], bytes]
"""Function that draws so many random bytes."""


def split(
    secret: int, threshold: int, points: Sequence[int], entropy: Entropy, prime: int = PRIME
) -> list[int]:
    """Split a secret: evaluate a random polynomial of degree threshold - 1 with the secret at 0.

    Args:
        secret: 0 <= secret < prime.
        threshold: t, 1 <= t <= number of points.
        points: distinct, 1 <= point < prime.
        entropy: source of the coefficients.
        prime: order of the field.

    Returns:
        The polynomial's value at each point.
    """
    distinct = len(set(points)) == len(points) and all(0 < point < prime for point in points)
    if not (0 <= secret < prime and 1 <= threshold <= len(points) and distinct):
        raise ValueError("no such sharing exists")
    return evaluate([secret, *(_field_element(entropy, prime) for _ in range(threshold - 1))], points, prime)


def evaluate(coefficients: Sequence[int], points: Sequence[int], prime: int = PRIME) -> list[int]:
    """Values at each point of the polynomial with these coefficients, the constant first."""
    values = []
    for point in points:
        value = 0
        for coefficient in reversed(coefficients):
            value = value * point + coefficient
        values.append(value % prime)  # reduced once: points are small, so the sum has a few thousand bits
    return values


def combine(shares: Mapping[int, int], prime: int = PRIME) -> int:
    """The value at 0 of the polynomial of least degree through the shares.

    The value is the secret if at least `threshold` shares are given and all are right. Otherwise it is
    unrelated to the secret, so callers compare it with a public value of the secret.

    Args:
        shares: point to value.
        prime: order of the field.
    """
    points = tuple(sorted(shares))
    weights = _weights(points, prime)
    return sum(weight * shares[point] for weight, point in zip(weights, points, strict=True)) % prime


def to_bytes(share: int) -> bytes:
    """A share in the default field as 66 bytes."""
    return share.to_bytes(SHARE_BYTES, "big")


def from_bytes(share: bytes) -> int:
    """A share in the default field.

    Raises:
        SecureAggregationError: the bytes are no share.
    """
    value = int.from_bytes(share, "big")
    if len(share) != SHARE_BYTES or value >= PRIME:
        raise SecureAggregationError("a share is no element of the field", "Ask the owner that sent it.")
    return value


@functools.lru_cache(maxsize=64)
def _weights(points: tuple[int, ...], prime: int) -> tuple[int, ...]:
    """Lagrange's weights at 0: with P the product of all points, P / (x (product of the others - x))."""
    product = math.prod(points)
    denominators = [
        point * math.prod(other - point for other in points if other != point) for point in points
    ]
    return tuple(product * inverse % prime for inverse in _inverses(denominators, prime))


def _inverses(values: Sequence[int], prime: int) -> list[int]:
    """Inverses of all values by a single inversion, of their product (Montgomery's trick)."""
    products = [1]
    for value in values:
        products.append(products[-1] * value % prime)
    suffix_inverse, inverses = pow(products.pop(), -1, prime), []
    for value in reversed(values):
        inverses.append(suffix_inverse * products.pop() % prime)
        suffix_inverse = suffix_inverse * value % prime
    return inverses[::-1]


def _field_element(entropy: Entropy, prime: int) -> int:
    """Uniform in the field, by rejection."""
    bits = prime.bit_length()
    size = (bits + 7) // 8
    while True:
        value = int.from_bytes(entropy(size), "big") >> (8 * size - bits)
        if value < prime:
            return value
