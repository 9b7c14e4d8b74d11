"""Views: an owner's message is uniform, and a curator with colluding owners learns one sum.

Chi-square tests of 255 degrees of freedom: 380 is exceeded with probability 5e-7; all seeds are fixed.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from fedkme.secagg import shamir
from fedkme.secagg.keys import PAIR_MASK, SELF_MASK, KeyPair, PublicKey, add_keystreams, expand, public_bytes
from fedkme.secagg.ring import reduce_words
from tests.fedkme.secagg.runs import Run, parameters

LIMIT = 380.0
LENGTH = 4096


def chi_square(words: NDArray[np.uint64], bits: int) -> float:
    """Chi-square of the highest eight bits, over 256 cells."""
    high = (words >> np.uint64(bits - 8)).astype(np.int64)
    counts = np.bincount(high, minlength=256)
    expected = len(high) / 256
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("bits", [30, 32, 64])
def test_any_one_masked_message_is_uniform_over_seeds(bits: int) -> None:
    # Always the same constant vector, the most revealing one; every message of each of 8 runs.
    agreed = parameters(owners=3, dropouts=0, length=LENGTH, bits=bits, bound=10)
    inputs = {name: np.full(LENGTH, 10, dtype=np.int64) for name in agreed.owners}
    seen: dict[str, list[NDArray[np.uint64]]] = {name: [] for name in agreed.owners}
    for seed in range(8):
        for name, message in Run(agreed, inputs, seed).until("mask").masked.items():
            seen[name].append(message.words)
            assert chi_square(message.words, bits) < LIMIT
    for words in seen.values():
        assert chi_square(np.concatenate(words), bits) < LIMIT
        assert chi_square(words[0] - words[1] & np.uint64(2**bits - 1), bits) < LIMIT  # nor do seeds agree


def test_the_measure_sees_a_vector_that_is_not_masked() -> None:
    assert chi_square(np.full(LENGTH, 10, dtype=np.uint64), 8) > 1e5
    assert chi_square(np.arange(LENGTH, dtype=np.uint64) % np.uint64(200), 8) > LIMIT


def what_is_left(run: Run, name: str, mask_keys: dict[str, bytes]) -> NDArray[np.uint64]:
    """An honest owner's message without its opened self-mask and without its masks with colluders.

    Args:
        run: after its last phase.
        name: the honest owner.
        mask_keys: private keys of the colluders.
    """
    keys, context = run.curator._keys, run.agreed.context
    shares = {
        run.agreed.point(sender): shamir.from_bytes(share.share)
        for sender, message in run.unmaskings.items()
        for share in message.self_masks
        if share.about == name
    }
    rest = run.masked[name].words.copy()
    add_keystreams(rest, [], [expand(shamir.combine(shares).to_bytes(32, "big"), context, SELF_MASK)])
    honest = PublicKey(name, keys[name].mask_key)
    for colluder, private in mask_keys.items():
        key = KeyPair(private, PublicKey(colluder, keys[colluder].mask_key)).key(honest, context, PAIR_MASK)
        add_keystreams(rest, *(([], [key]) if name < colluder else ([key], [])))
    return reduce_words(rest, run.agreed.bits)


@pytest.mark.parametrize("colluders", [("o002", "o003"), ("o000", "o003"), ("o000", "o001")])
@pytest.mark.parametrize("seed", range(3))
def test_a_coalition_learns_only_the_sum_of_the_honest_vectors(colluders: tuple[str, ...], seed: int) -> None:
    # n = 4: the curator and two owners together take off every mask that they know at the end. The rest of
    # each honest owner's message is uniform; both messages together reveal the sum of the two vectors.
    agreed = parameters(owners=4, dropouts=0, colluders=2, length=LENGTH, bits=32, bound=10, threshold=4)
    inputs = {name: np.full(LENGTH, number, dtype=np.int64) for number, name in enumerate(agreed.owners)}
    run = Run(agreed, inputs, seed).until("mask")
    mask_keys = {name: run.owners[name]._require_secrets().mask_key for name in colluders}
    run.endorse()
    run.unmask()
    honest = [name for name in agreed.owners if name not in colluders]
    one, other = (what_is_left(run, name, mask_keys) for name in honest)
    assert chi_square(one, 32) < LIMIT
    assert chi_square(other, 32) < LIMIT
    together = int(inputs[honest[0]][0] + inputs[honest[1]][0])
    np.testing.assert_array_equal(reduce_words(one + other, 32), together)


@pytest.mark.parametrize("seed", range(3))
def test_a_live_owners_vector_stays_uniform_after_its_pairwise_masks_open(seed: int) -> None:
    # The curator has the private mask key of the owner that it calls lost, and all other opened secrets.
    # Without the self-mask's seed the message stays uniform; with the seed it would give the vector.
    agreed = parameters(owners=4, dropouts=1, length=LENGTH, bits=32, bound=10)
    inputs = {name: np.full(LENGTH, 7, dtype=np.int64) for name in agreed.owners}
    run = Run(agreed, inputs, seed).until("mask")
    victim = run.owners["o001"]._require_secrets()
    keys = run.curator._keys
    rest = run.masked["o001"].words.copy()
    for peer in ("o000", "o002", "o003"):
        mine, theirs = (PublicKey(name, keys[name].mask_key) for name in ("o001", peer))
        key = KeyPair(victim.mask_key, mine).key(theirs, agreed.context, PAIR_MASK)
        add_keystreams(rest, *(([], [key]) if peer > "o001" else ([key], [])))
    assert chi_square(reduce_words(rest, 32), 32) < LIMIT
    add_keystreams(rest, [], [expand(victim.seed, agreed.context, SELF_MASK)])
    np.testing.assert_array_equal(reduce_words(rest, 32), 7)


def test_keys_differ_between_pairs_uses_and_aggregations() -> None:
    # HKDF over the whole shared secret, bound to run, both names and both public keys.
    draw = random.Random(1).randbytes
    one, other, third = (draw(32) for _ in range(3))

    def end(name: str, private: bytes) -> PublicKey:
        return PublicKey(name, public_bytes(private))

    def key(
        mine: str, a: bytes, theirs: str, b: bytes, context: bytes = b"run", label: bytes = b"use"
    ) -> bytes:
        return KeyPair(a, end(mine, a)).key(end(theirs, b), context, label)

    assert key("a", one, "b", other) == key("b", other, "a", one)
    keys = [
        key("a", one, "b", other),
        key("a", one, "c", other),
        key("a", one, "b", third),
        key("b", one, "a", other),
        key("a", one, "b", other, context=b"run 2"),
        key("a", one, "b", other, label=b"another use"),
    ]
    assert len(set(keys)) == len(keys)
    assert all(len(share) == 32 for share in keys)
