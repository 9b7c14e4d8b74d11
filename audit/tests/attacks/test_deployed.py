"""Canary games through deployed processes find a quarter of the noise; `make audit` plays them without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from audit.attacks.deployed import Through, deployed_release, deployed_summary
from audit.attacks.finding import Effort, Subject

WEAK: Through = ("audit.planted_faults.quarter_noise",)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes import the modules of tests."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))


@pytest.mark.parametrize(("make", "scale"), [(deployed_summary, 0.2), (deployed_release, 0.6)])
def test_a_quarter_of_the_noise_in_deployed_processes_exceeds_the_claim(
    make: Callable[[Through], Subject], scale: float
) -> None:
    # Epsilon is about 4 where 1 is claimed: a bound that holds with probability 0.999 is above 1 but with
    # probability below 1e-4. A canary shifts a release by 1.07 deviations; 384 are in each world.
    verdict = make(WEAK).audit(Effort(scale=scale, alpha=1e-3))
    bounds = [finding.measured for finding in verdict.findings if finding.layer == "black box"]
    assert max(bounds) > verdict.subject.claim.epsilon
