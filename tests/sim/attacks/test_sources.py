"""`fedkme audit attack secure-noise`: bad sources are found by what they do, the deployed one passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.attacks import sources
from sim.attacks.finding import Effort
from sim.attacks.public import secure_noise
from tests.sim.attacks.faults.sources import SOURCES

QUICK = Effort(scale=0.5)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes import the modules of tests."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))


@pytest.mark.parametrize("fault", SOURCES)
def test_a_bad_source_is_found(fault: str) -> None:
    # By the statistic that is meant for it, and not only because its class is another one. A statistic with
    # chance in it misses with probability below 1e-6 at these draws: half a scale, a Laplace law and a bit
    # that is missing are more than ten deviations away.
    make, words = SOURCES[fault]
    for check in secure_noise(make).checks:
        finding = check(QUICK)
        if words in finding.statistic and finding.violated:
            return
    pytest.fail(f"no statistic of '{words}' found it")


def test_the_deployed_source_passes() -> None:
    # A false alarm has probability 9e-6 at most: nine statistics with chance in them at 1e-4 / 120 each, and
    # windows that come again by chance below 1e-20.
    findings = secure_noise().audit(QUICK).findings
    assert [finding for finding in findings if finding.violated] == []
    assert sum(finding.alpha > 0 for finding in findings) <= 9


def test_sources_are_those_that_settings_make() -> None:
    made = sources.deployed_sources()
    assert set(made) == {"curator", "owner", "consumer"}
