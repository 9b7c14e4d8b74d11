"""Choice of a protocol: what `auto` takes, what a named protocol is told, and in which words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from curator.planning.plan import choose
from curator.summary.settings import SummarySettings
from fedkme.errors import NotEnoughRowsError
from fedkme.exchange import SummaryChoice, SummaryRequest
from fedkme.privacy.presets import PrivacyTarget
from fedkme.tables.schema import Numeric, Schema

SCHEMA = Schema(columns=(Numeric(name="x", bounds=(0, 1), count=60),))
FIVE = {f"owner-{n}": 2400 for n in range(5)}


def chosen(
    settings: SummarySettings | None = None,
    sizes: Mapping[str, int] = FIVE,
    *,
    p: int = 100,
    validation: int = 250,
    silent: int = 0,
    deviation: float = 0.0,
) -> SummaryChoice:
    request = SummaryRequest(
        "consumer", b"1" * 16, SCHEMA.digest(), p, validation, 0.1, count_deviation=deviation
    )
    owners = [*sizes, *(f"silent-{n}" for n in range(silent))]
    return choose(settings or SummarySettings(), SCHEMA, request, owners, sizes, 0)


def taken(**facts: Any) -> tuple[str, float]:
    choice = chosen(**facts)
    return choice.protocol, choice.ratio


def test_the_plan_says_cells_with_rho_2() -> None:
    # Issue 37: no range that decides nothing, but how often the choice was right on data that did not set it.
    choice = chosen()
    assert choice == SummaryChoice("cells", 2.0, choice.relative_mmd2, 200, choice.line)
    words = "nearer to D_v than as many random rows in 53 of 58 trials on other data"
    assert choice.line == f"plan: cells, rho 2, 200 rows accessed; {words}"
    (forecast,) = choice.relative_mmd2
    assert 0 < forecast < 1


def test_public_facts_change_the_choice() -> None:
    assert taken(p=1100, sizes={"a": 1200, "b": 1200}) == ("cells", 1.5)
    assert taken(validation=20) == ("cells", 2.0)
    assert taken(validation=9)[0] == "uniform"
    assert taken(validation=9)[1] > 1
    tiny = SummarySettings(privacy=PrivacyTarget(epsilon=0.01))
    assert taken(settings=tiny)[0] == "uniform"
    assert taken(sizes={f"owner-{n}": 4 for n in range(500)}) == ("cells", 2.0)
    assert taken(sizes=dict.fromkeys("abc", 40)) == ("uniform", 1.0)


def test_noisier_counts_change_the_choice() -> None:
    # `asks = 20` of a consumer at (1, 1e-5): deviation 5.28 in place of 2.8, so 18 rows of D_v are as good as
    # 9.6, of which the plan takes no cells.
    assert [taken(validation=18, deviation=noise)[0] for noise in (0.0, 5.28)] == ["cells", "uniform"]
    once, often = chosen().relative_mmd2[0], chosen(deviation=5.28).relative_mmd2[0]
    assert once < often < 1.1 * once


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 10.0, 1000.0])
@pytest.mark.parametrize("validation", [5, 100, 10000])
def test_algorithm3_is_never_taken_where_it_is_no_better(epsilon: float, validation: int) -> None:
    # Decision 008: only if the formulas say that it is clearly better.
    for sizes in (FIVE, dict.fromkeys("abc", 150), {f"owner-{n}": 24 for n in range(200)}):
        settings = SummarySettings(privacy=PrivacyTarget(epsilon=epsilon))
        assert taken(settings=settings, sizes=sizes, validation=validation)[0] in ("cells", "uniform")


def test_a_named_protocol_is_taken_and_the_plan_says_that_it_disagrees() -> None:
    clock = chosen(SummarySettings(protocol="algorithm3"))
    assert clock.protocol == "algorithm3"
    assert clock.relative_mmd2 == ()
    assert clock.disagrees.startswith(
        "algorithm3, clock was named; the plan would take cells, rho 2, 200 rows"
    )
    assert "no forecast: MMD^2 was 0.1 to 4 times that of p random rows" in clock.line
    one = chosen(SummarySettings(protocol="uniform"))
    assert (one.ratio, one.accessed) == (1.0, 100)
    assert one.relative_mmd2 > chosen().relative_mmd2
    assert "the plan would take cells" in one.disagrees
    assert not chosen(SummarySettings(protocol="cells")).disagrees
    five = chosen(SummarySettings(protocol="cells", cells={"rho": 2.5}))
    assert (five.ratio, five.accessed, five.disagrees) == (2.5, 250, "")


def test_settings_of_algorithm3_choose_algorithm3() -> None:
    for values in ({"preset": "published"}, {"auction": {"kind": "winner-only"}}):
        assert SummarySettings.model_validate(values).protocol == "algorithm3"
    published = SummarySettings.model_validate({"preset": "published", "protocol": "auto"})
    assert chosen(published).line.startswith("plan: algorithm3, published")
    other = chosen(SummarySettings.model_validate({"auction": {"kind": "winner-only"}}))
    assert (
        other.line
        == "plan: algorithm3 by winner-only, as named; nothing was measured that says how near it comes"
    )
    again = SummarySettings.model_validate(SummarySettings().model_dump())
    assert again == SummarySettings(), "settings that were written down are read as they were"


def test_owners_without_a_size_count_as_the_median_and_the_plan_says_so() -> None:
    some = chosen(sizes={"a": 1000, "b": 2000, "c": 9000}, silent=2)
    with_sizes = chosen(sizes={"a": 1000, "b": 2000, "c": 9000, "d": 2000, "e": 2000})
    assert some.relative_mmd2 == with_sizes.relative_mmd2
    assert some.line == f"{with_sizes.line}; 2 of 5 owners do not say how many rows they have"
    assert chosen(sizes={}, silent=4).protocol == "cells"


def test_too_few_rows_are_refused_before_an_offer() -> None:
    with pytest.raises(
        NotEnoughRowsError, match=r"11 rows are asked for and the 2 owners have 10\. Ask for at most 10"
    ):
        chosen(sizes={"a": 6, "b": 4}, p=11)


def test_unresolved_settings_have_no_protocol() -> None:
    # `settings.summary.row` of an unresolved "auto" is impossible.
    settings = SummarySettings()
    for read in (lambda: settings.row, lambda: settings.drawn(5), lambda: settings.between_owners(5, 5)):
        with pytest.raises(ValueError, match="resolve these settings first"):
            read()
    assert settings.resolved(chosen()).row.name == "cells"
    hashed = SummarySettings(content="hashed")
    assert hashed.resolved(chosen(hashed)).row.name == "cells-sealed"
    assert hashed.resolved(chosen(hashed, validation=9)).row.name == "uniform-sealed"
