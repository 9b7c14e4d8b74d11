"""Parts of an audit: claims, checks, findings, verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Layer = Literal["sensitivity", "law", "black box", "recount"]
Standing = Literal["sound", "published", "none"]
"""`sound`: claims a guarantee. `published`: reproduces a published claim that does not hold. `none`: claims
nothing."""

AUDIT_ALPHA = 1e-4
"""Upper bound of the chance that an audit of all mechanisms finds a violation that does not exist."""
MOST_STATISTICS = 120
"""Bonferroni: every statistic of an audit of all mechanisms gets AUDIT_ALPHA / MOST_STATISTICS."""
FULL_SCALE = 10.0
"""Trials of a full audit as a multiple of a quick audit's."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim about one mechanism, as the audit sets it up.

    Attributes:
        epsilon: inf if no privacy is claimed, NaN if the claim is not about privacy.
        delta: 0 for pure differential privacy.
        relation: neighbouring relation, and the observer.
    """

    epsilon: float
    delta: float
    relation: str


@dataclass(frozen=True, slots=True)
class Effort:
    """Effort of an audit.

    Attributes:
        scale: trials as a multiple of a quick audit's; a quick audit of all mechanisms takes some minutes.
        seed: of all simulated randomness of the audit.
        alpha: false alarm rate of one statistic.
    """

    scale: float = 1.0
    seed: int = 0
    alpha: float = AUDIT_ALPHA / MOST_STATISTICS

    def trials(self, quick: int) -> int:
        """Trials of a check that takes `quick` trials in a quick audit; at least 4."""
        return max(4, round(self.scale * quick))


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Finding of one check.

    Attributes:
        layer: of the check.
        statistic: the measured quantity in words, fixed in advance.
        violated: true if the claim does not hold.
        claimed: value in the units of the statistic; for the black box an epsilon.
        measured: value in the same units; for the black box a lower bound that holds with probability
            1 - alpha.
        trials: per world, in the half that counts; 0 for an exact check.
        alpha: chance of a false alarm; 0 for an exact check.
        power: smallest violation, as a factor of the claim, found with probability 0.9 or more. 1 for an
            exact check; None if a factor has no meaning.
        note: further remarks.
    """

    layer: Layer
    statistic: str
    violated: bool
    claimed: float
    measured: float
    trials: int = 0
    alpha: float = 0.0
    power: float | None = 1.0
    note: str = ""


Check = Callable[[Effort], CheckResult]


@dataclass(frozen=True, slots=True)
class Subject:
    """A mechanism under audit.

    Attributes:
        name: on the command line.
        standing: gives the expected verdict: a sound mechanism holds, any other is broken.
        claim: of the mechanism, which the checks test.
        checks: cheapest first.
    """

    name: str
    standing: Standing
    claim: Claim
    checks: tuple[Check, ...]

    def audit(self, effort: Effort, progress: Callable[[], None] = lambda: None) -> AuditVerdict:
        """Run every check; `done` is called after each."""
        findings = []
        for check in self.checks:
            findings.append(check(effort))
            progress()
        return AuditVerdict(self, tuple(findings))


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """Verdict on one mechanism from all its checks."""

    subject: Subject
    findings: tuple[CheckResult, ...]

    @property
    def broken(self) -> bool:
        """Check whether any check found a violation."""
        return any(finding.violated for finding in self.findings)

    @property
    def expected(self) -> bool:
        """Check that the verdict fits the standing: a sound mechanism held, or any other was broken."""
        return self.broken == (self.subject.standing != "sound")

    @property
    def measured(self) -> float | None:
        """The largest lower bound of epsilon; None without a black box."""
        bounds = [finding.measured for finding in self.findings if finding.layer == "black box"]
        return max(bounds) if bounds else None

    @property
    def trials(self) -> int:
        """Trials of the largest black box; 0 without a black box."""
        return max((f.trials for f in self.findings if f.layer == "black box"), default=0)

    @property
    def power(self) -> float | None:
        """Smallest violation factor that a black box would have found; None without a black box."""
        powers = [f.power for f in self.findings if f.layer == "black box" and f.power is not None]
        return min(powers) if powers else None

    def sentence(self) -> str:
        """The verdict in words."""
        claimed, measured = self.subject.claim.epsilon, self.measured
        if not self.broken:
            return "no violation found at this power"
        if self.subject.standing == "none":
            return f"not private, and does not claim it: measured epsilon >= {measured or 0.0:.3g}"
        if measured is not None and measured > claimed:
            return f"BROKEN: measured epsilon >= {measured:.3g} > claimed {claimed:.3g}"
        first = next(finding for finding in self.findings if finding.violated)
        return f"BROKEN: {first.layer}: {first.statistic}"

    def violations(self) -> list[str]:
        """Violations, a line each."""
        return [
            f"{f.layer}: {f.statistic}: {f.measured:.5g}, claimed {f.claimed:.5g}"
            for f in self.findings
            if f.violated
        ]

    def to_json(self) -> dict[str, Any]:
        """Values for `print_json`."""
        return {
            "mechanism": self.subject.name,
            "standing": self.subject.standing,
            "claim": self.subject.claim,
            "measured_epsilon": self.measured,
            "power": self.power,
            "broken": self.broken,
            "expected": self.expected,
            "verdict": self.sentence(),
            "findings": self.findings,
        }
