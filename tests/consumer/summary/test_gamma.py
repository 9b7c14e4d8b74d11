"""gamma of a request: public by default, the paper's under its preset (docs/decisions/008)."""

from __future__ import annotations

from typing import Any

import pytest

from consumer.settings import RequestSettings
from consumer.summary.offers import gamma_of
from fedkme.tables.schema import Category, Numeric, Schema
from sim.config import SummaryTable

SCHEMA = Schema(
    columns=(Numeric(name="x", bounds=(0, 1), count=3), Category(name="job", categories=("a", "b")))
)


@pytest.mark.parametrize("settings", [RequestSettings, SummaryTable])
@pytest.mark.parametrize(
    ("values", "gamma"),
    [
        ({}, 2.0),  # E = 3/6 + 1/2
        ({"kernel": {"gamma": 0.3}}, 0.3),
        ({"kernel": {"gamma": "median-seeds"}}, None),
        ({"preset": "published"}, 0.1),
        ({"preset": "published", "kernel": {"gamma": "domain"}}, 2.0),
    ],
)
def test_gamma_of_a_request(
    settings: type[RequestSettings], values: dict[str, Any], gamma: float | None
) -> None:
    request = settings.model_validate({"p": 2, **values})
    assert gamma_of(request.kernel, SCHEMA) == gamma
    again = settings.model_validate(request.model_dump())
    assert again == request, "settings that were written down are read as they were"
