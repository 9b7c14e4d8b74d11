"""A verdict on a summary in words: its distance from D_v, compared with fresh rows of D_v's own law.

A grade is about rows of D_v's law that nobody has seen. Of p rows drawn from the law that D_v's m rows were
drawn from, the expected MMD^2 to the law is (1 - k) / p, k the mean kernel of two different rows: a consumer
that could draw more rows of its own would get this distance. Each grade is a one-sided test at 95 %, by rows
of D_v that a form was not fitted to (`judging.cross_validated`); D_v itself says little, as the forms are
fitted to it. **Good**: MMD^2 of the form to the law is at most `PROMISE` times that of p fresh rows.
**Fair**: at most `FAIR_PROMISE` times. **Poor**: it is more than `PROMISE` times, and not shown to be fair.
A form of which none of these can be shown has the grade "cannot tell".

**Without an estimate** (few rows of D_v) a form can be poor alone. Let d be its distance to D_v's mean
embedding, d^2 its MMD^2 to D_v. Its distance to the law is at least d minus that of D_v's mean from the law,
however the form was fitted. The square of the latter is a weighted sum of squared normal variables with the
mean (1 - k) / m for many rows, and exceeds `FARTHEST` times this mean once in twenty at most, whatever the
weights are (Szekely and Bakirov 2003).

lab/results/verdicts.md has how often grades held on layouts that the tests were not chosen on. The kernel
reads columns and no labels: shares of classes have a yardstick of their own (`judging.classes_apart`).
"""

import math
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass

from fedkme.tables.numbers import CLIPPED
from fedkme.tables.table import Reading
from fedkme.verdict import CANNOT_TELL, GRADES, Grade, QualityVerdict, at_most_fair

PROMISE = 1.5
"""MMD^2 of a good form to the law of D_v, at most, over that of p fresh rows."""
FAIR_PROMISE = 3.0
"""MMD^2 of a fair form to the law of D_v, at most, over that of p fresh rows."""
CERTAIN = 1.645
"""Deviations of the estimate for unseen rows between it and the end of a one-sided interval at 95 %."""
FARTHEST = 3.84
"""95 % quantile of a squared normal variable."""
LOSS = 1.1
"""Ratio of MMD^2 to that of uniform rows above which a run is behind; draws of uniform rows differ as
much."""
LOST = 0.1
"""Share of the yardstick by which a run must be behind to have lost; less says nothing about D_v's law."""
CHANCE = 5.0
"""Distance of class shares that serves as yardstick; fresh rows exceed MIXED times it once in a hundred."""
MIXED, APART = 1.25, 2.0
"""Distances of class shares over CHANCE above which a form is not good, and above which it is poor."""


@dataclass(frozen=True, slots=True)
class UnseenDistance:
    """MMD^2 of a form to the law of D_v, estimated by rows that it was not fitted to.

    Attributes:
        estimate: the estimate.
        deviation: its standard deviation.
        excess: most by which its mean is too large, since forms were fitted to a part of D_v.
    """

    estimate: float
    deviation: float
    excess: float = 0.0

    @property
    def most(self) -> float:
        """Upper end of an interval that is open below, at 95 %."""
        return self.estimate + CERTAIN * self.deviation

    @property
    def least(self) -> float:
        """Lower end of an interval that is open above, at 95 %."""
        return self.estimate - self.excess - CERTAIN * self.deviation


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
    """A form's MMD^2 to D_v, and the distance of its class shares from D_v's.

    `classes` is None where D_v has labels and the rows have none. `unseen` is None without an estimate.
    """

    mmd2: float
    classes: float | None = 0.0
    unseen: UnseenDistance | None = None


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
    forms: Mapping[str, FormQuality],
    by: Yardstick,
    rival: float | None = None,
    added: tuple[str, str] = ("weight", "alike"),
) -> QualityVerdict:
    """Judge each form of a summary; the verdict is that of the best.

    Args:
        forms: quality of `alike`, p rows with equal weights, and of the other forms.
        by: the yardstick.
        rival: MMD^2 to D_v of equally many uniform rows, with weights, if it can be known.
        added: names of summary.csv's columns of weights and of rows alike (`forms.added_names`).
    """
    closest = min(form.mmd2 for form in forms.values())
    behind = rival is not None and closest > LOSS * rival
    if behind and rival is not None and closest - rival > LOST * (by.expected or 0.0):
        return QualityVerdict(
            "poor",
            f"uniform rows with weights would have been closer to D_v at as many rows accessed (MMD^2 "
            f"{rival:#.3g}, this run {closest:#.3g})",
            "Take protocol=uniform with a uniform_ratio above 1, or what `fedkme plan` recommends: as many "
            "rows drawn at random, with weights, would have been closer to D_v.",
            dict.fromkeys(forms, "poor"),
        )
    grades = {name: _grade(form, by) for name, form in forms.items()}
    best = min(forms, key=lambda name: (GRADES.index(grades[name]), _nearness(forms[name])))
    form, grade = forms[best], grades[best]
    sentence = f"MMD^2 to D_v is {closest:#.3g}; {_judged(form, by)}"
    if behind:
        sentence += f"; uniform rows with weights were as close, within the noise of D_v ({rival:#.3g})"
    mixed = (form.classes or 0.0) > MIXED * CHANCE
    if mixed:
        times = f"{form.classes:.3g} times as much as those of fresh rows"
        sentence += f"; shares of classes differ from D_v's {times}"
    if grade == "poor":
        why = _CLASSES if mixed else _FEW if closest <= (by.expected or 0.0) else _POOR
    else:
        why = (
            "" if grade == "good" else _CLASSES if mixed else _SMALL if _is_small(form, grade, by) else _FAIR
        )
    train = "" if grade == "poor" else _training({name for name in forms if grades[name] == grade}, added)
    if form.classes is not None:
        return QualityVerdict(grade, sentence, f"{train} {why}".strip(), grades)
    verdict = QualityVerdict(grade, sentence, f"{_UNLABELLED} {why}".strip(), grades)
    return QualityVerdict(**at_most_fair(asdict(verdict), ["no row came with its label"]))


def _grade(form: FormQuality, by: Yardstick) -> Grade:
    mixed = (form.classes or 0.0) / CHANCE
    if mixed > APART:
        return "poor"
    if by.spread is None:
        return CANNOT_TELL
    near, most = _promised(by), math.inf if form.unseen is None else form.unseen.most
    if most <= near and mixed <= MIXED:
        return "good"
    if most <= FAIR_PROMISE / PROMISE * near:
        return "fair"
    return "poor" if _least(form, by.spread, by.validation_rows) > near else CANNOT_TELL


def _least(form: FormQuality, spread: float, validation_rows: int) -> float:
    """MMD^2 to the law of D_v that a form has at least, at 95 %, by unseen rows or by its MMD^2 to D_v."""
    if form.unseen is not None:
        return form.unseen.least
    return max(math.sqrt(form.mmd2) - math.sqrt(FARTHEST * spread / validation_rows), 0.0) ** 2


def _nearness(form: FormQuality) -> float:
    """Key that orders forms of one grade, the nearest first."""
    return form.mmd2 if form.unseen is None else form.unseen.estimate


def _promised(by: Yardstick) -> float:
    """MMD^2 to the law of D_v up to which a form keeps the promise of a good one."""
    return PROMISE * (by.spread or 0.0) / by.rows + 1e-12


def _is_small(form: FormQuality, grade: Grade, by: Yardstick) -> bool:
    """Check whether more rows of D_v might show a better grade."""
    return grade == CANNOT_TELL or form.unseen is None or form.unseen.estimate <= _promised(by)


def _training(best: Set[str], added: tuple[str, str]) -> str:
    """Say how to train on the best forms."""
    if "weighted" not in best:
        return "Train on the rows of summary.npz." if "alike" in best else "Train on the rows of repeats.npz."
    weight, alike = added
    alone = "" if "alike" not in best else f"; the rows with {alike} = 1 do as well without weights"
    return f"Train on summary.csv, sample_weight = {weight}{alone}."


def _judged(form: FormQuality, by: Yardstick) -> str:
    """Say how far a form is, by unseen rows if there is an estimate, and how far fresh rows are."""
    if by.expected is None:
        return "D_v has one row, which is no yardstick"
    if form.unseen is None or not by.spread:
        return f"that of {by.rows} fresh rows of D_v's own law is {by.expected:#.3g} on average"
    estimate, most = (
        max(each, 0.0) * by.rows / by.spread for each in (form.unseen.estimate, form.unseen.most)
    )
    source = "the best form has, by rows of D_v that it was not fitted to,"
    times = f"{estimate:.2g} times, and at 95 % confidence at most {most:.2g} times,"
    return f"{source} {times} that of {by.rows} fresh rows of D_v's own law"


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
_UNLABELLED = "To train on rows, ask without the owners that have no labels: beside theirs no row has one."
_FAIR = "A larger rho or epsilon brings it closer."
MOST_MOVED = 0.01
"""Share of a column's cells that `clip` may move before a grade is at most fair."""


def doubts_of(readings: Mapping[str, Reading | None], rows: Mapping[str, int]) -> list[str]:
    """Reason why a result with parties' rows is at most fair: `clip` moved too many of a column's cells.

    The reason holds counts of each party's rows; only a party itself, or a run in one process, may see them.

    Args:
        readings: what reading changed, by party; None for rows that were not read.
        rows: number of rows of each party.
    """
    cells: dict[str, Counter[str]] = {}
    for party, reading in readings.items():
        for change in () if reading is None else reading.changes:
            if change.what == CLIPPED:
                cells.setdefault(change.column, Counter())[party] += change.cells
    shares = {column: by.total() / sum(rows[party] for party in readings) for column, by in cells.items()}
    moved = []
    for column, share in shares.items():
        ((party, _),) = cells[column].most_common(1)
        where = f" at {party}" if len(readings) == 1 else f", most at {party},"
        if share > MOST_MOVED:
            moved.append((share, f"{share:.1%} of {column}{where} was moved to the bounds"))
    if not moved:
        return []
    others = "" if len(moved) == 1 else ", and less of another column"
    others = f", and less of {len(moved) - 1} other columns" if len(moved) > 2 else others
    return [max(moved)[1] + others]
