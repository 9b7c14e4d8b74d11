"""Release files of a hostile curator: each number is a value with bounds, or the file is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedkme.errors import DataError
from fedkme.releases import file
from fedkme.releases.counts import counts_from_bytes
from fedkme.tables.npz import npz_arrays, npz_bytes
from fedkme.tables.schema import schema_from
from sim.api.frames import rows_in
from tests.fedkme.answers.people import released

WRONG: list[NDArray[Any]] = [
    *(np.array([number]) for number in (math.nan, math.inf, 1e308, -1e300, 2.0**101)),
    *(np.array([word]) for word in (True, "1.0", 1j, b"1")),
]
COUNTS, SUMS = released(kind="marginals"), released(kind="marginals", mechanism="independent")


@given(st.data())
def test_no_number_of_counts_overflows(data: st.DataObject) -> None:
    # 1e308 for a count, which is finite, made answers infinite; complex numbers lost a part with a warning.
    arrays = npz_arrays(data.draw(st.sampled_from([COUNTS, SUMS])), "it")
    name = data.draw(st.sampled_from(sorted({*arrays} - {"about"})))
    values, wrong = arrays[name], data.draw(st.sampled_from(WRONG))
    arrays[name] = np.resize(wrong, values.shape)
    if wrong.dtype.kind == "f" and data.draw(st.booleans()):
        arrays[name] = values.copy()
        arrays[name].flat[data.draw(st.integers(0, values.size - 1))] = wrong[0]
    with pytest.raises(DataError):
        counts_from_bytes(npz_bytes(arrays))


@pytest.mark.parametrize("key", ["deviations", "rows"])
@pytest.mark.parametrize("wrong", [1e308, 2.0**101, 10**30, -1])
def test_no_number_beside_counts_is_too_large(key: str, wrong: float) -> None:
    arrays = npz_arrays(COUNTS, "it")
    about = json.loads(arrays["about"].tobytes())
    about[key] = [wrong] * len(about[key]) if key == "deviations" else wrong
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    if (key, wrong) != ("deviations", 10**30):  # below 2^100
        with pytest.raises(DataError):
            counts_from_bytes(npz_bytes(arrays))


def test_no_number_of_an_embedding_overflows() -> None:
    stored = released(kind="merf")
    for name in sorted({*npz_arrays(stored, "it")} - {"about"}):
        for wrong in WRONG:
            arrays = npz_arrays(stored, "it")
            arrays[name] = np.resize(wrong, arrays[name].shape)
            with pytest.raises(DataError):
                file.from_bytes(npz_bytes(arrays))


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"x": np.array([[math.nan, 0.0]])},
        {"x": np.array([[1.0, 7.0]])},
        {"x": np.array([[1j, 0.0]])},
        {"x": np.zeros((2, 2)), "y": np.array([0.5, 0.0])},
        {"x": np.zeros((2, 2)), "y": np.zeros(10**6)},
        {"x": np.zeros((2, 2)), "y": np.array([0, 9])},
    ],
)
def test_rows_of_a_file_that_do_not_fit_are_refused(arrays: dict[str, NDArray[Any]]) -> None:
    # `rel.rows` ended in tracebacks of pandas.
    columns = [
        {"kind": "numeric", "name": "age", "bounds": [0, 9], "integer": True},
        {"kind": "category", "name": "sex", "categories": ["f", "m"]},
    ]
    schema = schema_from({"columns": columns, "label": {"name": "ill", "classes": ["no", "yes"]}})
    with pytest.raises(DataError):
        rows_in(arrays, schema, "it")
