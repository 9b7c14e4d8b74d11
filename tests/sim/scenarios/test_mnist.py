"""MNIST's images, dealt to owners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedkme.errors import ConfigError, DataError
from sim.scenarios import build_scenario
from sim.scenarios.base import Scenario, anchored, locate
from sim.scenarios.images import Mnist
from tests.sim.scenarios.contents import classes, content, data, same, tables


def images(rows: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (rows, 2, 3), dtype=np.uint8), rng.integers(0, 10, rows, dtype=np.uint8)


def small_mnist(path: Path, **more: NDArray[Any]) -> Path:
    x_train, y_train = images(600, 0)
    x_test, y_test = images(400, 1)
    arrays: dict[str, Any] = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
    np.savez(path, **(arrays | more))
    return path


def check_mnist(scenario: Scenario, train: int) -> None:
    assert sum(map(len, scenario.owners.values())) == train
    for owner, group in zip(scenario.owners.values(), [{0, 1}, {3, 4}, {5, 6}, {7, 8}, {9, 2}], strict=True):
        assert set(classes(owner)) == group
        assert owner.values.dtype == np.uint8
    assert classes(scenario.test)[3] / len(scenario.test) == pytest.approx(0.7, abs=0.02)
    assert len(scenario.validation) / (len(scenario.validation) + len(scenario.test)) == pytest.approx(
        0.25, abs=0.02
    )
    assert scenario.seeds is not None
    assert not {3, 4} & set(classes(scenario.seeds))
    held = [row for name in ("D_v", "test", "seeds") for row in content(tables(scenario)[name])]
    assert len(set(held)) == len(held)


def test_mnist_layout(tmp_path: Path) -> None:
    # Appendix G on an .npz of MNIST's layout, with Fashion-MNIST's extra array, beside the scenario's file.
    small_mnist(tmp_path / "images.npz", split_exact_train=np.ones(600, bool))
    config = anchored(Mnist(path=Path("images.npz"), seeds=100), tmp_path)
    scenario = build_scenario(config, 0)
    check_mnist(scenario, 600)
    assert same(scenario, build_scenario(config, 0))
    assert not same(scenario, build_scenario(config, 1))
    part = build_scenario(config.model_copy(update={"rows": 250}), 0)
    assert sum(map(len, part.owners.values())) == 250
    assert content(part.test) == content(scenario.test)


@pytest.mark.parametrize("name", ["mnist.npz", "fashion_mnist.npz"])
def test_mnist_itself(name: str) -> None:
    # The same from an .npz path; 25 % of the test rows are D_v.
    scenario = build_scenario(Mnist(path=data(name), rows=5000), seed=0)
    check_mnist(scenario, 5000)
    assert scenario.schema.width == 784
    assert 350 <= len(scenario.validation) <= 361


BAD_MNIST: dict[str, tuple[dict[str, NDArray[Any]], str]] = {
    "labels": ({"y_test": np.full(400, 10)}, "test part: label 'class'.*rows: 400"),
    "number of labels": ({"y_train": np.zeros(3, int)}, "labels of shape"),
    "pixels": ({"x_train": np.full((600, 6), 256)}, "'pixel': outside the public bounds, rows: 600"),
    "size": ({"x_test": np.zeros((400, 7))}, r"shape \(400, 7\) and the schema has 6"),
    "no images": ({"x_train": np.zeros(600)}, "no images x_train"),
}


@pytest.mark.parametrize("case", BAD_MNIST)
def test_a_bad_mnist_file(tmp_path: Path, case: str) -> None:
    # Wrong shapes, values outside the schema.
    arrays, message = BAD_MNIST[case]
    with pytest.raises(DataError, match=message):
        build_scenario(Mnist(path=small_mnist(tmp_path / "images.npz", **arrays)), seed=0)


def test_a_missing_file_names_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Cause and remedy. A path of the environment starts at the current folder.
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"--set scenario\.path=FILE\.$"):
        build_scenario(Mnist(path=Path("absent.npz")), 0)
    monkeypatch.delenv("FEDKME_DATA", raising=False)
    with pytest.raises(ConfigError, match="variable of the environment"):
        build_scenario(Mnist(path=Path("$FEDKME_DATA/mnist.npz")), 0)
    (tmp_path / "mnist.npz").touch()
    monkeypatch.setenv("FEDKME_DATA", ".")
    config = anchored(Mnist(path=Path("$FEDKME_DATA/mnist.npz")), Path("elsewhere"))
    assert config.path == tmp_path / "mnist.npz"
    # Without the variable, a data folder beside the current one is looked into.
    monkeypatch.delenv("FEDKME_DATA")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mnist.npz").touch()
    assert locate(Path("$FEDKME_DATA/mnist.npz"), "path") == tmp_path / "data" / "mnist.npz"
