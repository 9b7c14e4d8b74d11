"""Shamir shares: any t of n give the secret, and fewer tell nothing."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.errors import SecureAggregationError
from fedkme.secagg import shamir

SMALL = 1613
WORKED = {1: 1494, 2: 329, 3: 965, 4: 176, 5: 1188, 6: 775}
"""The worked example of Wikipedia's article: 1234 + 166 x + 94 x^2 modulo 1613."""


def test_the_worked_example_gives_its_secret() -> None:
    assert shamir.evaluate([1234, 166, 94], list(WORKED), SMALL) == list(WORKED.values())
    for chosen in itertools.combinations(WORKED, 3):
        assert shamir.combine({point: WORKED[point] for point in chosen}, SMALL) == 1234


def test_the_prime_is_a_prime() -> None:
    # 2^521 - 1 is the thirteenth Mersenne prime; this is the test of Lucas and Lehmer.
    residue = 4
    for _ in range(521 - 2):
        residue = (residue * residue - 2) % shamir.PRIME
    assert residue == 0
    assert shamir.PRIME == 2**521 - 1


@given(
    data=st.data(), secret=st.integers(0, 2**256 - 1), count=st.integers(1, 12), seed=st.integers(0, 2**32)
)
def test_any_threshold_of_shares_gives_the_secret(
    data: st.DataObject, secret: int, count: int, seed: int
) -> None:
    threshold = data.draw(st.integers(1, count))
    points = data.draw(st.lists(st.integers(1, 10**6), min_size=count, max_size=count, unique=True))
    shares = shamir.split(secret, threshold, points, random.Random(seed).randbytes)
    sharing = dict(zip(points, shares, strict=True))
    chosen = data.draw(st.lists(st.sampled_from(points), min_size=threshold, unique=True))
    assert shamir.combine({point: sharing[point] for point in chosen}) == secret
    for share in shares:
        assert shamir.from_bytes(shamir.to_bytes(share)) == share


def test_fewer_shares_fit_every_secret_equally_often() -> None:
    # t - 1 shares say nothing: over all polynomials of degree 2 in a field of 7, each pair of values of two
    # shares occurs once for each secret.
    def seen(secret: int) -> list[tuple[int, ...]]:
        return sorted(
            tuple(shamir.evaluate([secret, a, b], [2, 5], 7))
            for a, b in itertools.product(range(7), repeat=2)
        )

    assert all(seen(secret) == seen(0) for secret in range(7))
    assert len(set(seen(0))) == 49


def test_coefficients_are_uniform_in_the_field() -> None:
    # By rejection, not modulo: 3 bits in a field of 5 would favour 0, 1 and 2. chi^2 with 4 degrees of
    # freedom exceeds 23.5 with probability 1e-4; the seed is fixed.
    entropy = random.Random(3).randbytes
    values = [shamir.split(0, 2, [1, 2], entropy, 5)[0] for _ in range(5000)]
    counts = [values.count(value) for value in range(5)]
    assert sum((count - 1000) ** 2 / 1000 for count in counts) < 23.5


@given(st.binary(max_size=80))
def test_any_bytes_are_a_share_or_raise_a_typed_error(raw: bytes) -> None:
    try:
        assert shamir.to_bytes(shamir.from_bytes(raw)) == raw
    except SecureAggregationError:
        assert len(raw) != shamir.SHARE_BYTES or int.from_bytes(raw, "big") >= shamir.PRIME


@pytest.mark.parametrize("points", [[0, 1], [1, 1]])
def test_a_point_at_zero_or_given_twice_is_refused(points: list[int]) -> None:
    with pytest.raises(ValueError, match="no such sharing"):
        shamir.split(5, 2, points, random.Random(1).randbytes)
