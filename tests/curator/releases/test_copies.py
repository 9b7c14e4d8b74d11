"""Copies of a release of marginals: further tables that differ as much as the release is uncertain."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from consumer.releases.client import is_of_release
from curator.releases.method import make_method
from fedkme.answers.answer import ask
from fedkme.answers.folder import evidence_of
from fedkme.releases.settings import release_settings
from tests.fedkme.answers.people import released, schema

COPIES = 16
SETTINGS: dict[str, Any] = {
    "kind": "marginals",
    "mechanism": "independent",
    "seed": 5,
    "rows": 4000,
    "iterations": 100,
}


def files(release: bytes, **changes: int) -> Mapping[str, bytes]:
    method = make_method(release_settings({**SETTINGS, **changes}), schema(), None, 1)
    return method.finish(release, lambda *_: None).files


def test_copies_have_as_many_rows_as_the_release_and_differ_by_its_noise_and_sampling() -> None:
    # fedkme.releases.combining: b has the noise of a release and the drawing of as many rows. Its deviation
    # over 16 copies is a third of it, so that a third and three times are two and six away.
    release = released(**SETTINGS)
    contents = files(release, copies=COPIES, rows=100)
    (answer,) = ask(evidence_of(release), "share(sex = 'male')")
    shares = [
        np.mean(
            [
                line["sex"] == "male"
                for line in csv.DictReader(io.StringIO(contents[f"copy-{i}.csv"].decode()))
            ]
        )
        for i in range(1, COPIES + 1)
    ]
    doubt = float(np.var(shares, ddof=1))
    assert [contents[name].count(b"\n") for name in ("synthetic.csv", "copy-1.csv")] == [101, 4001]
    expected = answer.noise**2 + answer.sampling**2
    assert 0.3 * expected < doubt < 3.0 * expected
    assert abs(np.mean(shares) - answer.estimate) < 3.0 * np.sqrt(expected / COPIES) + 0.01


def test_copies_leave_the_table_unchanged_and_are_repeatable() -> None:
    release = released(**SETTINGS)
    plain, one, again = files(release), files(release, copies=2), files(release, copies=2)
    assert one == again
    assert plain == {name: data for name, data in one.items() if name in plain and "card" not in name} | {
        name: data for name, data in plain.items() if "card" in name
    }
    assert sorted(set(one) - set(plain)) == ["copy-1.csv", "copy-2.csv"]
    assert all(map(is_of_release, one))  # a consumer refused copies as files of an odd name
    assert one["copy-1.csv"] != one["copy-2.csv"]
