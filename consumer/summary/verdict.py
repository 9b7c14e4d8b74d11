"""A verdict on a summary in words: how close it is to D_v beside what fresh rows of D_v's own law would be.

Of p rows drawn from the law that D_v's m rows were drawn from, the expected MMD^2 to D_v is
(1 - k) (1/p + 1/m), k the mean kernel of two different rows of D_v: what a consumer would get who could
simply draw more rows of its own. Grades compare the best form of a summary with that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Grade = Literal["good", "fair", "poor"]

GOOD = 1.25
"""MMD^2 over the yardstick up to which a summary is good; docs/metrics.md has what was measured."""
FAIR = 3.0
"""The same of a fair one."""
LOSS = 1.1
"""MMD^2 over that of uniform rows from which a run loses to them: draws of uniform rows differ by as much."""


@dataclass(frozen=True, slots=True)
class SummaryVerdict:
    """Quality of a summary in words.

    Attributes:
        grade: in one word; no number of D_v.
        sentence: why, with numbers of D_v.
        advice: what to try, empty where nothing needs to be; no number of D_v.
    """

    grade: Grade
    sentence: str
    advice: str

    def to_json(self) -> dict[str, str]:
        """Plain values."""
        return {"grade": self.grade, "sentence": self.sentence, "advice": self.advice}


def expected_mmd2(own: float, validation_rows: int, p: int) -> float | None:
    """The yardstick; None of a single row, which tells nothing of its law.

    Args:
        own: mean of k over all pairs of rows of D_v, a row with itself included; k(x, x) = 1.
        validation_rows: m.
        p: rows of the summary.
    """
    m = validation_rows
    if m < 2:
        return None
    others = (m * own - 1.0) / (m - 1)
    return max(1.0 - others, 0.0) * (1.0 / p + 1.0 / m)


def verdict_on(
    alike: float, best: float, expected: float | None, rival: float | None = None
) -> SummaryVerdict:
    """Judge a summary.

    Args:
        alike: MMD^2 to D_v of its p rows with equal weights.
        best: the same of its best form.
        expected: `expected_mmd2`.
        rival: the same of as many uniform rows, with weights, where somebody can know it.
    """
    if rival is not None and best > LOSS * rival:
        return SummaryVerdict(
            "poor",
            f"uniform rows would have been closer to D_v at as many rows accessed (MMD^2 {rival:#.3g}, "
            f"this run {best:#.3g})",
            "Take protocol=uniform with uniform_ratio and weights, or what `fedkme plan` recommends.",
        )
    if expected is None:
        return SummaryVerdict("fair", "D_v has one row, which is no yardstick", "Give more rows of D_v.")
    ratio = best / expected if expected > 0.0 else 1.0 if best < 1e-12 else float("inf")
    sentence = (
        f"MMD^2 to D_v is {best:#.3g}, {ratio:.2g} times what as many fresh rows of its own law would have"
    )
    if ratio > FAIR:
        return SummaryVerdict("poor", sentence, _POOR)
    grade: Grade = "good" if ratio <= GOOD else "fair"
    advice = "" if grade == "good" else _FAIR
    if expected > 0.0 and alike > max(GOOD * expected, 1.25 * best):
        advice = f"{_WEIGHTED} {advice}".rstrip()
    return SummaryVerdict(grade, sentence, advice)


_POOR = (
    "The rows that came do not hold D_v: try protocol=cells with a larger rho or epsilon, a larger D_v, or "
    "owners that have rows like it; `fedkme plan` compares protocols."
)
_FAIR = "A larger rho or epsilon brings it closer."
_WEIGHTED = "Use weighted.npz or repeats.npz: the rows of summary.npz alike are farther from D_v."
