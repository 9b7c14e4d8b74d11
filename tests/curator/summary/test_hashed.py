"""Hashed rows: the curator handles hashes of h1 alone, and selected rows are end-to-end encrypted."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from audit.attacks.hashes import hashed_kernel
from curator.summary.task import HashedContent
from fedkme.embeddings.kernels import rbf
from fedkme.errors import DataError, SealedBoxError
from fedkme.features.fixed_point import Features, normalised_features, quantize_mean
from fedkme.features.fourier import Kind
from fedkme.features.hashes import fault_of_hashes
from fedkme.sealed.boxes import PRIVATE_BYTES, BoxKey
from fedkme.sealed.group import GroupSecret, SecretGiver, SecretTaker
from fedkme.sealed.offers import PartyKeys, offer_keys, taken_at_their_word
from fedkme.sealed.rows import HashedRow, mismatched, open_rows, row_box_bytes, seal_rows
from fedkme.tables.table import Row
from tests.fedkme.sealed.maps import GAMMA, ROWS, SCHEMA, SECRET, WIDTH, secret_map, spec
from tests.leaks import Seen

PRIVATE = random.Random("consumer").randbytes(PRIVATE_BYTES)
KEY = BoxKey(PRIVATE)
CONSUMER = KEY.public
H1 = secret_map()
PLAIN = [Row(token, values, token % 2) for token, values in enumerate(ROWS)]
HASHES: Features = H1.fixed_point(SCHEMA.encode(ROWS))
SEALED = seal_rows(PLAIN, HASHES, CONSUMER, SECRET)


def test_the_consumer_opens_exactly_the_rows_that_were_sealed() -> None:
    opened = open_rows(SEALED, KEY, SECRET)
    for row, original in zip(opened, PLAIN, strict=True):
        assert (row.token, row.label) == (original.token, original.label)
        assert row.values.tobytes() == original.values.tobytes()
    assert mismatched(opened, SEALED, SCHEMA, H1) == []
    assert mismatched([], [], SCHEMA, H1) == []


def test_a_row_without_a_label_stays_so() -> None:
    (row,) = open_rows(seal_rows([Row(0, ROWS[0], None)], HASHES[:1], CONSUMER, SECRET), KEY, SECRET)
    assert row.label is None


def test_size_says_nothing_about_content() -> None:
    odd = [np.zeros(WIDTH), np.full(WIDTH, 1e-300), np.full(WIDTH, np.pi), ROWS[0]]
    rows = [
        Row(10**token, x, label) for token, (x, label) in enumerate(zip(odd, (None, 0, 1, 1), strict=True))
    ]
    sizes = {len(row.box) for row in seal_rows(rows, HASHES[:4], CONSUMER, SECRET)}
    assert sizes == {row_box_bytes(WIDTH)}


def moved(row: HashedRow, **change: Any) -> HashedRow:
    return dataclasses.replace(row, **change)


@pytest.mark.parametrize(
    "change",
    [
        {"token": 1},
        {"features": HASHES[1]},
        {"features": HASHES[0] ^ np.eye(1, 140, 3, dtype=np.int16)[0]},
        {"box": SEALED[1].box},
        {"box": SEALED[0].box[:-1]},
        {"box": b""},
    ],
)
def test_a_curator_cannot_put_a_row_to_another_hash_or_token_or_alter_it(change: dict[str, Any]) -> None:
    with pytest.raises(SealedBoxError):
        open_rows([moved(SEALED[0], **change)], KEY, SECRET)


def test_only_the_consumer_opens_rows_of_its_run_and_only_the_group_seals_them() -> None:
    outsider = GroupSecret("run-1", bytes(32))
    for private, secret in ((bytes(32), SECRET), (PRIVATE, GroupSecret("run-2", SECRET.exposed()))):
        with pytest.raises(SealedBoxError):  # another owner has the secret and lacks the key
            open_rows(SEALED[:1], BoxKey(private), secret)
    forged = seal_rows(
        PLAIN[:1], HASHES[:1], CONSUMER, outsider
    )  # a curator has the key and lacks the secret
    with pytest.raises(SealedBoxError):
        open_rows(forged, KEY, SECRET)


def test_the_consumer_finds_an_owner_whose_hash_is_not_its_rows() -> None:
    hashes = HASHES.copy()
    hashes[7] = HASHES[8]
    hashes[9] += np.where(hashes[9] > 0, -1, 1).astype(np.int16)  # another machine's cosines
    sealed = seal_rows(PLAIN, hashes, CONSUMER, SECRET)
    assert mismatched(open_rows(sealed, KEY, SECRET), sealed, SCHEMA, H1) == [7]


def test_what_the_curator_sees_contains_neither_rows_nor_secret_nor_draw() -> None:
    # "A test shows that the curator's whole state and traffic do not contain rows or draw".
    giver = SecretGiver(PartyKeys.fresh("consumer", "run-1"), None, taken_at_their_word)
    consumer = PartyKeys.fresh("consumer", "run-1")
    view: list[bytes] = []
    sent: list[HashedRow] = []
    for name, part in (("a", slice(0, 20)), ("b", slice(20, 40))):
        taker = SecretTaker(PartyKeys.fresh(name, "run-1"), None, "consumer", taken_at_their_word)
        offer = taker.offer()
        gift = giver.give(offer)
        secret = taker.take(gift)
        h1 = secret_map(secret=secret)
        hashes = h1.fixed_point(SCHEMA.encode(ROWS[part]))
        hashed = seal_rows(PLAIN[part], hashes, offer_keys(consumer, None).box, secret)
        view += [offer.box, offer.signing, gift.commitment, gift.box, gift.signature, gift.giver.box]
        view += [part for row in hashed for part in (row.features.tobytes(), row.box)]
        sent += hashed
    content = HashedContent(spec(secret=giver.secret), WIDTH)
    target = quantize_mean(normalised_features(content.features_of(sent)).mean(axis=0))
    view += [target.tobytes(), repr(content).encode()]
    seen = Seen(b"|".join(view))

    draw = secret_map(secret=giver.secret)
    assert draw._offset is not None
    hidden: list[NDArray[Any]] = [ROWS, SCHEMA.encode(ROWS), draw._omega, draw._omega.T, draw._offset[None]]
    assert seen.rows(hidden) == 0
    assert seen.chance(hidden) < 1e-6
    for key in (giver.secret.exposed(), giver.secret.derive(b"sealed rows"), consumer.box):
        assert not seen.secret(key)
    # The search finds what is there: the hashes, and what the consumer opens.
    assert seen.holds(content.features_of(sent)[3].tobytes())
    opened = open_rows(sent[:10], consumer.opener, giver.secret)
    assert Seen(b"|".join(row.values.tobytes() for row in opened)).rows([ROWS]) == 10


@pytest.mark.parametrize("kind", ["paired", "offset"])
def test_hashes_of_rows_are_hashes(kind: Kind) -> None:
    h1 = secret_map(kind, dimension=512)
    many = np.random.default_rng(0).random((2000, WIDTH))
    assert fault_of_hashes(h1.fixed_point(many), h1.spec) == ""


def altered(place: tuple[int, int], value: int) -> NDArray[Any]:
    hashes = HASHES.copy()
    hashes[place] = value
    return hashes


@pytest.mark.parametrize(
    "features",
    [
        HASHES[:, :-1],
        HASHES.astype(np.int32),
        HASHES[0],
        altered((3, 5), 2**14 + 1),
        altered((3, 5), -(2**15)),
        altered((3, 5), int(HASHES[3, 5]) // 2 - 3000),
        np.zeros_like(HASHES),
    ],
)
def test_features_that_are_no_hash_of_any_row_are_refused(features: NDArray[Any]) -> None:
    assert fault_of_hashes(features, spec())


def test_the_curator_checks_hashes_and_boxes() -> None:
    content = HashedContent(spec(), WIDTH)
    assert content.fault("a", SEALED) is None
    assert content.fault("a", []) is None
    assert np.array_equal(content.features_of(SEALED), HASHES)
    for change in ({"box": SEALED[0].box + b"0"}, {"features": HASHES[0][:-1]}, {"features": 0 * HASHES[0]}):
        assert isinstance(content.fault("a", [SEALED[1], moved(SEALED[0], **change)]), DataError)


def test_hashed_kernel_is_in_units_of_the_kernel() -> None:
    h = secret_map(dimension=8000).fixed_point(ROWS)
    assert np.abs(hashed_kernel(h, h[:3]) - rbf(ROWS, ROWS[:3], GAMMA)).max() < 0.1
