"""`fedkme audit attack secure-noise`: bad sources are found by what they do."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.attacks import sources
from audit.attacks.finding import Effort
from audit.attacks.public import secure_noise
from audit.planted_faults.sources import SOURCES

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


def test_sources_are_those_that_settings_make() -> None:
    made = sources.deployed_sources()
    assert set(made) == {"curator", "owner", "consumer"}
