"""Scenario `states`: the layout of Sarpatwar 2019, Figure 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from pyarrow import parquet as pq

from fedkme.config import validate
from fedkme.errors import ConfigError, DataError
from fedkme.tables.table import Table
from sim.config import load_simulation
from sim.scenarios import build_scenario
from sim.scenarios.base import Scenario, domain
from sim.scenarios.stand_ins import invented_columns
from sim.scenarios.states import States, read_acs, read_allstate
from tests.sim.scenarios.allstate import write_allstate


def built(path: Path, seed: int = 0, **changes: Any) -> Scenario:
    regions = {"crowd": "FL", "target": "CT", "public": "OH", "seeds": 10}
    values = {"kind": "states", "data": "allstate", "path": path} | regions | changes
    return build_scenario(validate(States, values, "file.toml"), seed)


def costs(table: Table | None) -> list[float]:
    assert table is not None
    return [float(cost) for cost in table.values[:, -1]]


def test_florida_is_shared_and_connecticut_is_at_one_owner(tmp_path: Path) -> None:
    # Section 4: "The Florida data is split uniformly among the four data owners and Connecticut data is given
    # to one of them"; 70 % of it trains, a quarter of the rest is D_v, and Ohio gives the seeds.
    states = write_allstate(tmp_path / "train.csv", {"FL": 80, "CT": 100, "OH": 30})
    scenario = built(tmp_path / "train.csv")
    assert {name: len(owner) for name, owner in scenario.owners.items()} == {
        "owner-1": 90,
        "owner-2": 20,
        "owner-3": 20,
        "owner-4": 20,
    }
    assert abs(len(scenario.validation) - 7.5) <= 1
    assert len(scenario.validation) + len(scenario.test) == 30
    assert scenario.validation.labels is None
    parties = [*scenario.owners.values(), scenario.validation, scenario.test]
    used = [cost for table in parties for cost in costs(table)]
    assert sorted(used) == sorted(states["FL"] + states["CT"])  # each row is in one party; costs are distinct
    assert set(costs(scenario.seeds)) < set(states["OH"])
    assert set(costs(scenario.owners["owner-2"])) < set(states["FL"])


def test_a_parquet_file_has_the_rows_of_its_csv(tmp_path: Path) -> None:
    # Parquet has whole numbers where a csv has texts: no customer had bought, and every income was low.
    write_allstate(tmp_path / "train.csv", {"FL": 5, "CT": 9, "OH": 3})
    people = invented_columns(domain("acs"), {"08-00803": 30, "13-04600": 20}, "PUMA")
    people = people | {"PINCP_DECILE": np.arange(50) % 10}
    people.pop("income")
    pq.write_table(pa.table(people), tmp_path / "acs.parquet")
    csv.write_csv(pa.table(people), tmp_path / "acs.csv")
    pq.write_table(csv.read_csv(tmp_path / "train.csv"), tmp_path / "train.parquet")
    for name, read in (("train", read_allstate), ("acs", read_acs)):
        (one, regions, _), (two, others, _) = (
            read(tmp_path / f"{name}{suffix}") for suffix in (".csv", ".parquet")
        )
        np.testing.assert_array_equal(one.values, two.values)
        assert one.labels is not None
        assert len({*one.labels.tolist()}) == 2
        np.testing.assert_array_equal(one.labels, two.labels)
        assert (regions == others).all()


def test_a_seed_decides_the_layout(tmp_path: Path) -> None:
    write_allstate(tmp_path / "train.csv", {"FL": 40, "CT": 40, "OH": 20})
    first, again, other = (built(tmp_path / "train.csv", seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.validation.values, again.validation.values)
    assert costs(first.validation) != costs(other.validation)


@pytest.mark.parametrize(
    ("changes", "error", "line"),
    [
        ({"crowd": "TX"}, DataError, "no row is of region 'TX'"),
        ({"public": "FL"}, ConfigError, "three regions"),
        ({"data": "acs"}, DataError, "no column 'PINCP_DECILE'"),
        ({"seeds": 99}, ConfigError, "asks for 99 rows and there are 20"),
    ],
)
def test_bad_regions(tmp_path: Path, changes: dict[str, Any], error: type[Exception], line: str) -> None:
    write_allstate(tmp_path / "train.csv", {"FL": 20, "CT": 20, "OH": 20})
    with pytest.raises(error, match=line):
        built(tmp_path / "train.csv", **changes)


def test_the_shipped_scenario_is_of_three_areas_of_the_survey() -> None:
    settings = load_simulation("states")
    survey = settings.scenario.model_dump()["path"]
    if not survey.is_file():
        pytest.skip(f"{survey.name} is not there: set FEDKME_DATA to the folder of the data sets")
    scenario = build_scenario(settings.scenario, 0)
    sizes = [len(owner) for owner in scenario.owners.values()]
    assert sizes[1:] == [624, 624, 624]
    assert sizes[0] - 624 + len(scenario.validation) + len(scenario.test) == 2298
    assert len(scenario.validation) == pytest.approx(0.3 * 0.25 * 2298, abs=2)
