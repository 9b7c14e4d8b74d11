"""Parts of an audit: claims, checks, findings, verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Layer = Literal["sensitivity", "law", "black box", "recount"]
Standing = Literal["sound", "published", "none"]
"""Claims a guarantee; is kept to reproduce a claim that does not hold; claims nothing."""

AUDIT_ALPHA = 1e-4
"""Chance that an audit of everything finds a violation where there is none, at most."""
MOST_STATISTICS = 120
"""Bonferroni: every statistic of an audit of everything gets AUDIT_ALPHA / MOST_STATISTICS."""
FULL_SCALE = 10.0
"""Trials of a full audit over those of a quick one."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim about one mechanism, as the audit sets it up.

    Attributes:
        epsilon: inf where nothing is claimed, NaN where it is not about privacy.
        delta: 0 for pure differential privacy.
        relation: neighbouring relation, and who looks.
    """

    epsilon: float
    delta: float
    relation: str


@dataclass(frozen=True, slots=True)
class Effort:
    """Effort that an audit makes.

    Attributes:
        scale: trials as a multiple of a quick audit's, which takes some minutes for everything.
        seed: seed of all simulated randomness of the audit.
        alpha: false alarm of one statistic.
    """

    scale: float = 1.0
    seed: int = 0
    alpha: float = AUDIT_ALPHA / MOST_STATISTICS

    def trials(self, quick: int) -> int:
        """Trials of a check that takes `quick` of them in a quick audit; at least 4."""
        return max(4, round(self.scale * quick))


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Finding of one check.

    Attributes:
        layer: which of the four.
        statistic: what was looked at, fixed in advance.
        violated: the claim does not hold.
        claimed: in the units of the statistic; for the black box an epsilon.
        measured: likewise; for the black box a lower bound that holds with probability 1 - alpha.
        trials: number of trials per world, in the half that counts; 0 for an exact check.
        alpha: chance of a false alarm; 0 for an exact check.
        power: the smallest violation, as a factor of what is claimed, found with probability 0.9 or more.
            1 for an exact check; None where a factor has no meaning.
        note: what there is to add.
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
        name: name on the command line.
        standing: decides what is expected: a sound mechanism holds, every other is broken.
        claim: what the checks hold it to.
        checks: cheapest first.
    """

    name: str
    standing: Standing
    claim: Claim
    checks: tuple[Check, ...]

    def audit(self, effort: Effort) -> AuditVerdict:
        """Run every check."""
        return AuditVerdict(self, tuple(check(effort) for check in self.checks))


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
        """Check that a sound mechanism held, or that an unsound one was broken."""
        return self.broken == (self.subject.standing != "sound")

    @property
    def measured(self) -> float | None:
        """The largest lower bound of epsilon; None without a black box."""
        bounds = [finding.measured for finding in self.findings if finding.layer == "black box"]
        return max(bounds) if bounds else None

    @property
    def trials(self) -> int:
        """Trials of the largest black box; 0 without one."""
        return max((f.trials for f in self.findings if f.layer == "black box"), default=0)

    @property
    def power(self) -> float | None:
        """The smallest violation factor that some black box would have found; None without one."""
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
