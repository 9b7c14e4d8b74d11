"""Four hospitals' patients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedkme.errors import DataError
from sim.scenarios import build_scenario
from sim.scenarios.hospitals import Hospitals
from tests.sim.scenarios.contents import classes, data, same, tables


def test_hospitals() -> None:
    # Four real hospitals as owners, one of them also the target.
    path = data("heart_disease_4hospitals.parquet")
    scenario = build_scenario(Hospitals(path=path), seed=0)
    sizes = {name: len(owner) for name, owner in scenario.owners.items()}
    assert {**sizes, "hungarian": 294} == {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}
    assert sizes["hungarian"] + len(scenario.validation) + len(scenario.test) == 294
    assert len(scenario.validation) == pytest.approx(294 / 4, abs=2)
    assert len(scenario.test) == pytest.approx(294 / 4, abs=2)
    assert set(classes(scenario.test)) == {0, 1}
    assert scenario.seeds is not None
    for name, table in tables(scenario).items():
        scenario.schema.check(table, name)
        encoded = scenario.schema.encode(table.values)
        assert np.isfinite(encoded).all()
        assert encoded.min() >= 0
        assert encoded.max() <= 1
    assert same(scenario, build_scenario(Hospitals(path=path), seed=0))
    assert not same(scenario, build_scenario(Hospitals(path=path), seed=1))


def test_no_patient_is_in_two_parties() -> None:
    # The target's D_v, test and owned rows come from one hospital: every row of the file is in one party.
    pandas = pytest.importorskip("pandas", reason="pandas reads the file a second time")
    path = data("heart_disease_4hospitals.parquet")
    scenario = build_scenario(Hospitals(path=path, target="va", seeds=0), seed=0)
    frame = pandas.read_parquet(path)
    ages = np.concatenate([table.values[:, 0] for table in tables(scenario).values()])
    np.testing.assert_array_equal(np.sort(ages), np.sort(frame["age"]))
    ill = sum(int(np.sum(table.labels)) for table in tables(scenario).values() if table.labels is not None)
    assert 0 <= (frame["num"] > 0).sum() - ill <= len(scenario.validation)


def test_cholesterol_of_zero_is_missing() -> None:
    # data/README.md: chol == 0 means missing (all 123 Swiss): encoded as the public stand-in.
    scenario = build_scenario(Hospitals(path=data("heart_disease_4hospitals.parquet")), seed=0)
    column = 1 + 2 + 4 + 1  # age, sex, cp, trestbps come before
    swiss = scenario.schema.encode(scenario.owners["switzerland"].values)[:, column]
    np.testing.assert_allclose(swiss, (220 - 50) / 650, rtol=1e-6)


def test_a_hospital_file_without_its_columns(tmp_path: Path) -> None:
    # One clear line with cause and remedy.
    header = "age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,num"
    path = tmp_path / "heart.csv"
    path.write_text(f"{header}\n60,1,4,140,200,0,0,120,0,1.5,2,,7,3\n")
    with pytest.raises(DataError, match="no column 'hospital'"):
        build_scenario(Hospitals(path=path), seed=0)
    path.write_text("age,hospital\n60,va\n")
    with pytest.raises(DataError, match="no column 'ca', 'chol', 'cp', 'exang'"):
        build_scenario(Hospitals(path=path), seed=0)
