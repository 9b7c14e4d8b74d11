"""Canary games through deployed processes: claims hold, and a quarter of the noise is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sim.attacks.deployed import Through, deployed_release, deployed_summary
from sim.attacks.finding import Effort, Subject

WEAK: Through = ("tests.sim.attacks.faults.quarter_noise",)
GAMES = [pytest.param(deployed_summary, id="summary"), pytest.param(deployed_release, id="release")]


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes import the modules of tests."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))


@pytest.mark.parametrize("make", GAMES)
def test_deployed_parties_keep_to_their_claim(make: Callable[[Through], Subject]) -> None:
    # 4 requests in each of two launches. A false alarm has probability 3e-6 at most: 1e-6 for each of two
    # games and for the law of the noise.
    verdict = make(()).audit(Effort(scale=0.2, alpha=1e-6))
    assert not verdict.broken, verdict.violations()


@pytest.mark.parametrize(("make", "scale"), [(deployed_summary, 0.2), (deployed_release, 0.6)])
def test_a_quarter_of_the_noise_in_deployed_processes_exceeds_the_claim(
    make: Callable[[Through], Subject], scale: float
) -> None:
    # Epsilon is about 4 where 1 is claimed: a bound that holds with probability 0.999 is above 1 but with
    # probability below 1e-4. A canary shifts a release by 1.07 deviations; 384 are in each world.
    verdict = make(WEAK).audit(Effort(scale=scale, alpha=1e-3))
    bounds = [finding.measured for finding in verdict.findings if finding.layer == "black box"]
    assert max(bounds) > verdict.subject.claim.epsilon
