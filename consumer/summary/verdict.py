"""A verdict on a summary in words: its distance from D_v, compared with fresh rows of D_v's own law.

Of p rows drawn from the law that D_v's m rows were drawn from, the expected MMD^2 to D_v is (1 - k) (1/p +
1/m), k the mean kernel of two different rows of D_v. A consumer that could draw more rows of its own would
get this distance: it is the yardstick. Weights and repeats are fitted to D_v, which hides how few rows carry
the weight: a form of effective sample size e is charged (1 - k) (1/e - 1/p), the excess variance of a mean of
e rows over one of p rows. The charge is too high if few rows represent the law of D_v well: so for a form
that is not good with the charge, weights are fitted to one half of D_v and judged by the other (`by_halves`),
which hides nothing. Grades compare the best form, by either figure, with the yardstick. A grade is a promise
about unseen rows of D_v's law: MMD^2 to them is at most 1.5 (good) or 2.5 times (fair) that of p fresh rows.
docs/metrics.md has how often the promise held on layouts that the grades were not set on. The kernel reads
columns and no labels: shares of classes have a yardstick of their own (classes.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fedkme.tables.columns import CLIPPED
from fedkme.tables.table import Reading

Grade = Literal["good", "fair", "poor"]

GOOD = 1.25
"""MMD^2 over the yardstick up to which a summary is good."""
FAIR = 2.0
"""MMD^2 over the yardstick up to which a summary is fair."""
SMALL = 1.0
"""p over m above which no summary is good: a perfect fit to D_v is 1/m from its law, p fresh rows are 1/p."""
LOSS = 1.1
"""Ratio of MMD^2 to that of uniform rows above which a run is behind; draws of uniform rows differ as
much."""
LOST = 0.1
"""Share of the yardstick by which a run must be behind to have lost; less says nothing about D_v's law."""
CHANCE = 5.0
"""Distance of class shares that serves as yardstick; fresh rows exceed GOOD times it once in a hundred."""


@dataclass(frozen=True, slots=True)
class SummaryVerdict:
    """Quality of a summary in words.

    Attributes:
        grade: the verdict in one word; no number about D_v.
        sentence: the reason, with numbers about D_v.
        advice: what to try, empty if nothing is needed; no number about D_v.
    """

    grade: Grade
    sentence: str
    advice: str


@dataclass(frozen=True, slots=True)
class Yardstick:
    """Facts about D_v by which a summary of p rows is judged.

    Attributes:
        spread: 1 - k; None if D_v is a single row, which says nothing about its law.
        rows: p.
        validation_rows: m.
    """

    spread: float | None
    rows: int
    validation_rows: int

    @property
    def expected(self) -> float | None:
        """Mean MMD^2 to D_v of p fresh rows of its law."""
        return None if self.spread is None else self.spread * (1.0 / self.rows + 1.0 / self.validation_rows)


@dataclass(frozen=True, slots=True)
class FormQuality:
    """A form's MMD^2 to D_v, its effective sample size, and the distance of its class shares from D_v's."""

    mmd2: float
    effective: float
    classes: float = 0.0


def yardstick(own: float, validation_rows: int, p: int) -> Yardstick:
    """Make the yardstick.

    Args:
        own: mean of k over all pairs of rows of D_v, a row with itself included; k(x, x) = 1.
        validation_rows: m.
        p: number of requested rows.
    """
    m = validation_rows
    return Yardstick(max(m * (1.0 - own) / (m - 1), 0.0) if m > 1 else None, p, m)


def verdict_on(
    alike: FormQuality,
    others: Sequence[FormQuality],
    by: Yardstick,
    rival: float | None = None,
    halves: float | None = None,
) -> SummaryVerdict:
    """Judge a summary.

    Args:
        alike: quality of the p rows with equal weights.
        others: quality of the other forms.
        by: the yardstick.
        rival: MMD^2 to D_v of equally many uniform rows, with weights, if it can be known.
        halves: MMD^2 of weights to the law of D_v, estimated by `by_halves`; None without an estimate.
    """
    closest = min(form.mmd2 for form in (alike, *others))
    behind = rival is not None and closest > LOSS * rival
    if behind and rival is not None and closest - rival > LOST * (by.expected or 0.0):
        return SummaryVerdict(
            "poor",
            f"uniform rows with weights would have been closer to D_v at as many rows accessed (MMD^2 "
            f"{rival:#.3g}, this run {closest:#.3g})",
            "Take protocol=uniform with a uniform_ratio above 1, or what `fedkme plan` recommends.",
        )
    if by.expected is None:
        return SummaryVerdict("fair", "D_v has one row, which is no yardstick", "Give more rows of D_v.")
    forms = (alike, *others)
    best = min(forms, key=lambda form: _farther(form, by))
    columns, what = _ratio(best, by), "the best form, charged for uneven weights, has"
    if halves is not None and by.spread and (across := _across(halves, by)) < columns:
        columns, what = across, "weights fitted to one half of D_v have, to the other,"
    ratio = max(columns, best.classes / CHANCE)
    times = f"{columns:.2g} times that of {by.rows} fresh rows of D_v's own law"
    sentence = f"MMD^2 to D_v is {closest:#.3g}; {what} {times}"
    if behind:
        sentence += f"; uniform rows with weights were as close, within the noise of D_v ({rival:#.3g})"
    mixed = best.classes > GOOD * CHANCE
    if mixed:
        times = f"{best.classes:.3g} times as much as those of fresh rows"
        sentence += f"; shares of classes differ from D_v's {times}"
    if ratio > FAIR:
        few = _CLASSES if mixed else _FEW
        return SummaryVerdict("poor", sentence, few if closest <= GOOD * by.expected else _POOR)
    small = by.rows > SMALL * by.validation_rows
    grade: Grade = "good" if ratio <= GOOD and not small else "fair"
    advice = _SMALL if small else "" if grade == "good" else _CLASSES if mixed else _FAIR
    if _farther(alike, by) > max(GOOD, 1.25 * ratio):
        advice = f"{_WEIGHTED} {advice}".rstrip()
    return SummaryVerdict(grade, sentence, advice)


def _ratio(form: FormQuality, by: Yardstick) -> float:
    """MMD^2 of a form, with the charge for its effective sample size, over the yardstick."""
    assert by.spread is not None, "there is a yardstick"
    charged = form.mmd2 + by.spread * max(1.0 / form.effective - 1.0 / by.rows, 0.0)
    if by.expected:
        return charged / by.expected
    return 1.0 if charged < 1e-12 else float("inf")


def _farther(form: FormQuality, by: Yardstick) -> float:
    """Distance of a form over its yardstick: the larger of columns' and classes'."""
    return max(_ratio(form, by), form.classes / CHANCE)


def _across(halves: float, by: Yardstick) -> float:
    """Cross-validated MMD^2 to the law of D_v, as a distance to m rows of it, over the yardstick."""
    assert by.spread is not None
    assert by.expected is not None, "there is a yardstick"
    return max(halves + by.spread / by.validation_rows, 0.0) / by.expected


_POOR = (
    "The rows that came do not hold D_v. Where no owner has rows like it (a simulation says how much of D_v "
    "is in cells of none) only other owners help; else try a larger rho or epsilon, or a larger D_v."
)
_FEW = (
    "Few of the rows that came are like D_v, and carry the weights: ask for fewer rows (p), a larger rho, or "
    "owners that have more rows like it."
)
_CLASSES = (
    "Rows of D_v's classes are too few among those that came: ask for fewer rows (p), a larger rho, or "
    "owners that have more of these classes."
)
_SMALL = "D_v has few rows for a summary of so many: give more of them, or ask for fewer rows (p)."
_FAIR = "A larger rho or epsilon brings it closer."
_WEIGHTED = "Use weighted.npz or repeats.npz: the rows of summary.npz alike are farther from D_v."
MOST_MOVED = 0.01
"""Share of a column's cells that `clip` may move before a grade is at most fair."""


def doubts_of(readings: Mapping[str, Reading | None]) -> list[str]:
    """Reasons why a result with parties' rows is at most fair: `clip` moved too many of their cells.

    The reasons hold counts of each party's rows; only a party itself, or a run in one process, may see them.
    """
    return [
        f"{change.share:.1%} of {change.column} at {party} was moved to the bounds"
        for party, reading in readings.items()
        for change in (() if reading is None else reading.changes)
        if change.what == CLIPPED and change.share > MOST_MOVED
    ]
