"""`fedkme audit attack`: planted faults are caught, correct mechanisms pass (issue 3, item 6)."""

from __future__ import annotations

import itertools

import pytest

from curator.summary.auctions.clock import Clock
from sim.attacks import clock, h2, means
from sim.attacks.black_box import Experiment
from sim.attacks.clock import MakeClock
from sim.attacks.finding import MOST_STATISTICS, Effort
from sim.attacks.subjects import SUBJECTS
from tests.sim.attacks.faults import FAULTS
from tests.sim.attacks.faults.auction_faults import FaultyClock, FixedThreshold, ImpatientClock
from tests.sim.attacks.faults.mean_faults import ScaledNoise, gaussian_with

SOUND = [name for name, make in SUBJECTS.items() if make().standing == "sound"]
BY_PROCESSES = {"deployed-summary", "deployed-release", "deployed-secure-release"}
"""Subjects whose every repetition starts parties, in test_deployed.py."""


@pytest.mark.parametrize("fault", FAULTS)
def test_every_planted_fault_is_caught(fault: str) -> None:
    # "Planted faults (at least 12) are fixtures that must each be caught", here: by the layer meant for it.
    # Seeds are fixed; where it takes trials, another seed would miss with probability below 1e-3 in the last
    # round, which is the longest. Games are not played for what another layer is to find.
    layer, make = FAULTS[fault]
    assert len(FAULTS) >= 12
    checks = [check for check in make().checks if layer == "black box" or not isinstance(check, Experiment)]
    for scale, check in itertools.product((0.02, 0.25, 0.4), checks):
        finding = check(Effort(scale=scale))
        if finding.violated and finding.layer == layer:
            return
    pytest.fail(f"no check of the layer '{layer}' caught it")


@pytest.mark.parametrize("name", [name for name in SOUND if name not in BY_PROCESSES])
def test_correct_mechanisms_pass_every_repetition(name: str) -> None:
    # "Correct mechanisms must pass 100 of 100 repetitions", which is `fedkme audit attack all --repeat 100`;
    # here 6 and a hundredth of the trials: an audit that raises a false alarm in 4 of 10 repetitions is seen
    # with probability 0.95. A correct mechanism fails one audit of everything with probability 1e-4 at most
    # (Bonferroni), whatever the trials. Chance has no part in an exact check: it is made once.
    subject = SUBJECTS[name]()
    verdict = subject.audit(Effort(scale=0.01))
    assert not verdict.broken, [f for f in verdict.findings if f.violated]
    assert verdict.sentence() == "no violation found at this power"
    by_chance = [check for check, f in zip(subject.checks, verdict.findings, strict=True) if f.alpha]
    for seed in range(1, 6):
        findings = [check(Effort(scale=0.01, seed=seed)) for check in by_chance]
        assert not [(seed, f) for f in findings if f.violated]


@pytest.mark.parametrize("name", sorted(set(SUBJECTS) - set(SOUND)))
def test_what_is_not_sound_is_broken(name: str) -> None:
    # "Includes the attacks that break PRIVAUCTION and the miscounted h2": measured epsilon over the claim, by
    # the black box and not only on paper.
    verdict = SUBJECTS[name]().audit(Effort(scale=0.05))
    assert verdict.broken
    assert verdict.expected
    assert any(finding.violated for finding in verdict.findings if finding.layer == "black box")
    assert "measured epsilon >=" in verdict.sentence()


def test_h2_costs_more_than_published_by_the_factors_of_the_proof() -> None:
    # SARPATWAR.md, section 3: "exp(eps psi) is 4 eps-DP, Lap(1/eps) is 2 eps-DP", found by the search to 10 %
    # for the selection (the limit needs d to grow) and exactly for the value.
    by_statistic = {f.statistic: f for f in h2.h2().audit(Effort(scale=0.02)).findings}
    selection = by_statistic["log ratio of selecting the first coordinate"]
    value = by_statistic["change of a measured value in scales of its noise"]
    assert 0.9 * selection.claimed < selection.measured <= selection.claimed
    assert value.measured == pytest.approx(value.claimed, rel=1e-9)


@pytest.mark.parametrize("make", [FixedThreshold, ImpatientClock])
def test_the_black_box_alone_finds_a_clock_without_its_noise(make: MakeClock) -> None:
    # Whatever the other layers say: one stop tells the worlds apart.
    games = [check for check in clock.clock(make=make).checks if isinstance(check, Experiment)]
    assert any(game(Effort(scale=0.2)).violated for game in games[:2])


def test_an_open_clock_without_faults_is_the_real_one() -> None:
    # The faulty clocks differ from the real one by their fault alone: same coins, same stops.
    findings = [clock.clock(make=make).audit(Effort(scale=0.02)).findings for make in (Clock, FaultyClock)]
    assert findings[0] == findings[1]


@pytest.mark.parametrize(("factor", "found"), [(1.0, False), (0.4, True)])
def test_the_gaussian_bound_finds_what_it_says_it_finds(factor: float, found: bool) -> None:
    # The stated power: noise smaller by more than the factor is found with probability 0.9.
    subject = means.gaussian(make=gaussian_with(lambda noise: ScaledNoise(noise, factor)))
    (game,) = [check for check in subject.checks if isinstance(check, Experiment) and check.gaussian]
    finding = game(Effort(scale=0.04))
    assert finding.power is not None
    assert 1.0 < finding.power < 2.5
    assert finding.violated == found


def test_bonferroni_counts_every_statistic() -> None:
    # "Bonferroni over statistics": no more checks can raise a false alarm than alpha is divided by.
    assert sum(len(SUBJECTS[name]().checks) for name in SOUND) <= MOST_STATISTICS
