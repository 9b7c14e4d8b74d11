"""The search for leaked rows finds each encoding, and nothing by chance."""

from __future__ import annotations

import base64
import csv
import io
import json
import struct
from collections.abc import Callable

import numpy as np
import pytest

from fedkme.arrays import FloatArray
from tests.leaks import SHORT, Seen

ROWS: FloatArray = np.random.default_rng(3).random((60, 8))
ROW: FloatArray = ROWS[0]
NOISE = np.random.default_rng(4).bytes(100_000)


def as_csv(row: FloatArray, form: str) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow([1, *(format(value, form) for value in row), "yes"])
    return text.getvalue().encode()


def scaled(row: FloatArray, unit: float, kind: str) -> bytes:
    return b"".join(struct.pack(kind, round(value / unit)) for value in row.tolist())


PLANTED: dict[str, Callable[[FloatArray], bytes]] = {
    "float64 <": lambda row: struct.pack("<d", row[4]),
    "float64 >": lambda row: struct.pack(">d", row[7]),
    "<f4 raw": lambda row: struct.pack("<8f", *row),
    ">f4 raw": lambda row: struct.pack(">8f", *row),
    "<i2 in units of 1/2**14": lambda row: scaled(row, 2.0**-14, "<h"),
    ">i2 in units of 1/2**15": lambda row: scaled(row, 2.0**-15, ">h"),
    "<i2 in units of 1/255": lambda row: scaled(row, 1.0 / 255.0, "<h"),
    "decimal digits": lambda row: json.dumps({"seconds": 0.25, "bid": row[2]}).encode(),
    "hexadecimal float": lambda row: f"at {row[1].hex()}".encode(),
    SHORT: lambda row: as_csv(row, ".6f"),
    "<f8 hex": lambda row: row.tobytes().hex().encode(),
    ">f8 HEX": lambda row: row.astype(">f8").tobytes().hex().upper().encode(),
    "<f4 hex": lambda row: row.astype("<f4").tobytes().hex().encode(),
    "<f8 base64+0": lambda row: base64.b64encode(row.tobytes()),
    "<f8 base64+1": lambda row: base64.b64encode(b"1234" + row.tobytes()),
    "<f8 base64+2": lambda row: base64.b64encode(b"12345" + row.tobytes()),
    ">f4 base64+1": lambda row: base64.b64encode(b"1" + row.astype(">f4").tobytes()),
}


@pytest.mark.parametrize("encoding", PLANTED)
def test_the_search_finds_a_row_in_each_encoding(encoding: str) -> None:
    for after in range(9):  # wherever it stands
        seen = Seen(NOISE[: 1000 + after] + b" " + PLANTED[encoding](ROW) + b" " + NOISE[2000:])
        assert encoding in seen.encodings(ROW)
    assert seen.rows([ROWS[:9]]) == 1


@pytest.mark.parametrize("form", [".5f", ".7g", ".9f", ".15g", ".17g", ""])
@pytest.mark.parametrize("row", [0, 20, 40])
def test_the_search_finds_a_row_with_few_decimals(form: str, row: int) -> None:
    assert Seen(b"log\n" + as_csv(ROWS[row], form)).rows([ROWS]) == 1


def test_a_time_in_a_log_is_no_row() -> None:
    # A row had 0.0028829...: its first seven characters stood in {"seconds": 0.00288}.
    rows = ROWS.copy()
    rows[5, 2] = 0.0028829147123456787
    times = "".join(
        json.dumps({"seconds": second / 1e5, "round": second}) + "\n" for second in range(100_000)
    )
    seen = Seen(NOISE + times.encode())
    assert f"{rows[5, 2]:.6f}"[:-1].encode() in seen.content  # what was searched for before
    assert seen.rows([rows]) == 0
    assert seen.chance([rows]) < 1e-4


def test_the_bound_on_chance_counts_every_pattern() -> None:
    seen = Seen(NOISE)
    assert 0.0 < seen.chance([ROWS[:1]]) < seen.chance([ROWS]) < 1e-5
    assert Seen(NOISE * 10).chance([ROWS]) == pytest.approx(10.0 * seen.chance([ROWS]))


def test_a_secret_is_found_as_it_is_and_as_text() -> None:
    secret = NOISE[-32:]
    for spelled in (secret, secret.hex().encode(), base64.b64encode(b"key:" + secret)):
        assert Seen(NOISE[:500] + spelled + b"=").secret(secret)
    assert not Seen(NOISE[:-32]).secret(secret)
