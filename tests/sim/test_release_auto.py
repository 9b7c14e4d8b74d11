"""`fedkme release auto`: the method by public facts, and where the reason is kept (docs/decisions/021)."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import pytest
from typer.testing import CliRunner

from fedkme.config import load_toml
from fedkme.errors import ConfigError, MissingOwnersError
from sim.release_cli import app
from sim.release_config import load_planned

SMALL = ("--engine", "inprocess", "--rows", "40", "--set", "coordinates=4")


def test_the_plan_is_printed_and_kept_in_the_record_and_on_the_page(tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = CliRunner().invoke(app, ["auto", "digits", *SMALL, "--out", str(out)])
    assert result.exit_code == 0, result.output
    metrics = json.loads((out / "metrics.json").read_text())
    plan = metrics["plan"]
    assert not metrics["security"]  # without --secure it was secure aggregation all the same
    assert plan["method"] == "moments"
    assert set(plan["errors"]) == {"marginals", "moments", "balog2"}
    assert plan["line"] in " ".join(result.output.split())
    assert plan["line"] in (out / "report.html").read_text()
    assert load_toml(out / "release.toml")["release"]["kind"] == "moments"


def test_secure_sums_and_epsilon_are_told_in_the_errors() -> None:
    changes = ("pooling.security.dropouts=1", "epsilon=0.5", "steps=3")  # `steps` is of some methods alone
    settings, _, plan = load_planned("digits", changes, "kernel")
    assert (plan.method, settings.release.epsilon) == ("balog2", 0.5)
    usual = load_planned("digits", ("epsilon=0.5",), "kernel")[2]
    assert all(error > usual.errors[name] for name, error in plan.errors.items())


def test_a_generator_is_trained_where_device_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What is in the environment is another's wish.
    if jax.default_backend() == "gpu":
        pytest.skip("skipped: jax has a GPU on this machine")

    def on(device: str, platform: str) -> BaseException | None:
        """Error of a release that too few owners join, which is looked at after the device."""
        monkeypatch.setenv("JAX_PLATFORMS", platform)
        arguments = ("--engine", "inprocess", "--device", device, "--out", str(tmp_path / device))
        return CliRunner().invoke(app, ["merf", "digits", *arguments, "--set", "pooling.quorum=99"]).exception

    refused = on("gpu", "cpu")
    assert isinstance(refused, ConfigError)
    assert "jax finds no device for JAX_PLATFORMS=gpu on the curator's host" in str(refused)
    assert isinstance(on("cpu", "gpu"), MissingOwnersError)
