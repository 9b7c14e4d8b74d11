"""Number of directions that D_v picks, where settings do not say it (docs/decisions/009)."""

import math

import pytest

from curator.cells.code_book import picking, picks_warning
from curator.summary.settings import CellsSettings, SummarySettings
from fedkme.exchange import SummaryRequest
from fedkme.tables.schema import Category, Numeric, Schema

AGE = Numeric(name="age", bounds=(0, 100))
PEOPLE = Schema(columns=(AGE, Category(name="job", categories=("a", "b", "c"))))


def picked(
    schema: Schema = PEOPLE, rows: int = 250, deviation: float = 0.0, **cells: float
) -> tuple[int, float]:
    settings = SummarySettings(protocol="cells", cells=CellsSettings.model_validate(cells))
    request = SummaryRequest("c", b"", schema.digest(), 100, rows, 1.0, count_deviation=deviation)
    return picking(settings, request, schema)


def test_one_direction_or_two_are_picked_where_d_v_has_enough_rows() -> None:
    epsilon = SummarySettings(protocol="cells").privacy.of_row
    count, share = picked()
    assert count == 2
    assert share == pytest.approx(37.5 / (250 * epsilon))
    least = math.ceil(75 / epsilon)
    assert picked(rows=least) == (2, 0.25)
    assert picked(rows=least - 1) == (1, 0.5)
    least = math.ceil(25 / epsilon)
    assert picked(rows=least) == (1, 0.5)
    assert picked(rows=least - 1)[0] == 0
    assert picked(Schema(columns=(AGE, AGE.model_copy(update={"name": "pay"}))))[0] == 2
    assert picked(dimension=3) == (2, share)  # rows are projected
    assert picked(Schema(columns=(AGE.model_copy(update={"count": 4}), AGE)), dimension=3)[0] == 0  # numbers
    assert picked(Schema(columns=(Numeric(name="x", bounds=(0, 1), count=9),)))[0] == 0  # images
    assert picked(deviation=4.0)[0] == 0  # counts that are no pure epsilon


def test_settings_that_name_picks_or_their_share_are_followed() -> None:
    assert picked(picks=0)[0] == 0
    assert picked(Schema(columns=(AGE,)), picks=1, pick_share=0.2) == (1, 0.2)
    assert picked(rows=80, picks=4) == (4, 0.125)
    assert picked(pick_share=0.05) == (2, 0.05)
    with pytest.raises(ValueError, match="half of its epsilon"):
        picked(pick_share=0.3)


def test_picks_without_a_menu_are_reported_with_a_remedy() -> None:
    """`cells.picks` of projected rows without categories had no effect, and nobody said so."""
    numbers = Schema(columns=(AGE.model_copy(update={"count": 4}), AGE.model_copy(update={"name": "pay"})))
    image = Schema(columns=(AGE.model_copy(update={"count": 4}),))

    def reason(schema: Schema, cells: dict[str, int | str], coalitions: bool = False) -> str:
        settings = SummarySettings.model_validate({"protocol": "cells", "cells": cells})
        return picks_warning(settings, schema, coalitions)

    assert reason(numbers, {"picks": 2, "dimension": 3}) == (
        "'cells.picks' = 2 has no effect, D_v picks no direction: 5 encoded columns, mostly numbers, are "
        "projected to 3. Set 'cells.dimension' to 5, or leave out 'cells.picks'"
    )
    assert reason(image, {"picks": 1}).endswith("one block of like numbers. Leave out 'cells.picks'")
    assert "coalitions. Set 'cells.coalitions' to false" in reason(PEOPLE, {"picks": 1}, coalitions=True)
    assert "Set 'cells.code_book' to \"sketch\"" in reason(PEOPLE, {"picks": 1, "code_book": "seeds"})
    assert not reason(numbers, {"dimension": 3})
    assert not reason(image, {"picks": 0})
    assert reason(PEOPLE, {"picks": 0}).startswith("'cells.picks' = 0: D_v picks no column")
    assert not reason(PEOPLE, {"picks": 2})
