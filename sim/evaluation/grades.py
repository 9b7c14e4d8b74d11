"""Grades of a release by the owners' rows: columns, pairs and models, which a simulation alone can measure.

They take the place of the grades that the data card has for these uses; questions keep the card's grade, and
models where the trained ones cannot tell and a screen of the release does.
"""

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from fedkme.answers.card import advice_on
from fedkme.verdict import CANNOT_TELL, GRADES, Grade, at_most_fair, overall

FAR, FAR_ANYHOW = 0.1, 0.25
"""Distance of a distribution from which on it is far: a tenth of the rows are elsewhere. Where two halves of
the real rows are farther apart, it is their distance, up to FAR_ANYHOW."""
FAR_MEAN = 0.5
"""Distance of a number's mean from which on it is far, in standard deviations of the owners' rows."""
FEW = 0.05
"""Share of columns or pairs that may be far in a good release."""
ABOUT = 1.25
"""Mean distance, over FAR or that of two halves of the real rows, up to which a release is fair."""
KEPT, USABLE = 0.9, 0.75
"""Parts of what models learn of the owners' rows, above chance, from which on a release is good and fair."""
CERTAIN = 4.0
"""Standard deviations of an AUC at chance that models of the owners' rows must be above chance."""
_NONE_TRAINED = (CANNOT_TELL, "none was trained")


def by_rows(verdict: Mapping[str, Any] | None, evaluation: Mapping[str, Any]) -> dict[str, Any] | None:
    """Put measurements on owners' rows into a card's verdict; None if both are empty.

    Args:
        verdict: plain values of the card's verdict, or None.
        evaluation: result of `sim.evaluation.releases.evaluate_rows`; empty if nobody looked.
    """
    if "columns" not in evaluation:
        return None if verdict is None else dict(verdict)
    before: dict[str, Any] = {"doubts": [], "grades": {}, "reasons": {}} | dict(verdict or {})
    nothing = {"questions": (CANNOT_TELL, "no answer has an interval")} if verdict is None else {}
    measured = nothing | dict(_measured(evaluation))
    untold = measured["models"] == _NONE_TRAINED and "models" in before["reasons"]
    if untold or (measured["models"][0] == CANNOT_TELL and before["grades"].get("models") == "poor"):
        del measured["models"]  # a screen of the release sees what the trained models do not
    grades = before["grades"] | {use: grade for use, (grade, _) in measured.items()}
    grades["pairs"] = _no_better(grades["pairs"], grades["columns"])
    reasons = before["reasons"] | {use: why for use, (_, why) in measured.items()}
    sentence = "; ".join(f"{use}: {why}" for use, why in reasons.items())
    merged = before | {
        "grade": overall(grades),
        "sentence": sentence,
        "advice": advice_on(grades),
        "grades": grades,
        "reasons": reasons,
    }
    return at_most_fair(merged, before["doubts"])


def _measured(evaluation: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, str]]]:
    for use, halves in (("columns", "real_halves"), ("pairs", "real_halves_pairs")):
        if by_name := evaluation.get(use, {}).get("by_name", {}):
            grade, why = _of_distances(by_name, evaluation.get(halves, {}).get("by_name", {}))
            yield use, _with_means(grade, why, evaluation) if use == "columns" else (grade, why)
        elif use == "pairs":
            yield use, (CANNOT_TELL, "there is one column")
    yield "models", _of_models(evaluation)


def _of_distances(by_name: Mapping[str, float], floor: Mapping[str, float]) -> tuple[str, str]:
    """Grade distances of distributions: far is beyond FAR and beyond two halves of the real rows."""
    floor = {name: min(value, FAR_ANYHOW) for name, value in floor.items()}
    far = [name for name, value in by_name.items() if value > max(FAR, floor.get(name, 0.0))]
    far.sort(key=lambda name: -by_name[name])
    near_on_average = fmean(by_name.values()) <= ABOUT * max(FAR, fmean(floor.values() or [0.0]))
    grade: Grade = "good" if len(far) <= FEW * len(by_name) else "fair" if near_on_average else "poor"
    where = f"off by {fmean(by_name.values()):.2g} on average"
    return grade, f"{where}, {far[0]} by {by_name[far[0]]:.2g}" if far else where


def _with_means(grade: str, why: str, evaluation: Mapping[str, Any]) -> tuple[str, str]:
    """Grade of columns, fair at most where a number's mean is far off: a tail of few rows can do that."""
    by_name = evaluation.get("means", {}).get("by_name", {})
    worst = max(by_name, key=by_name.__getitem__, default="")
    if not worst or by_name[worst] <= FAR_MEAN:
        return grade, why
    lowered = "fair" if grade == "good" else grade
    return lowered, f"{why}; the mean of {worst} by {by_name[worst]:.2g} deviations"


def _of_models(evaluation: Mapping[str, Any]) -> tuple[str, str]:
    """Grade models by their skill learnt from the release over that from the owners' rows."""
    made, real = (evaluation.get(f"trained_on_{name}", {}) for name in ("synthetic", "real"))
    names = [name for name in ("auc", "roc") if name in made and name in real][:1]
    if not names:
        return _NONE_TRAINED
    names += [name for name in ("boosted",) if name in made and name in real]
    least = CERTAIN * evaluation.get("noise_of_auc", 0.0)
    # What boosted trees alone can learn of the owners' rows, they are to learn of the release, too.
    known = [name for name in names if real[name] - 0.5 > least]
    share, name = min(((made[name] - 0.5) / (real[name] - 0.5), name) for name in known or names[:1])
    by = " by boosted trees" if name == "boosted" else ""
    figures = f"AUC {made[name]:.2f}{by}, of owners' rows {real[name]:.2f}"
    if not known:
        return CANNOT_TELL, f"{figures}, too little to compare"
    return "good" if share >= KEPT else "fair" if share >= USABLE else "poor", figures


def _no_better(pairs: str, columns: str) -> str:
    """Lower the grade of pairs of columns to that of single columns: a pair is no better than its columns."""
    if CANNOT_TELL in (pairs, columns):
        return pairs
    return max(pairs, columns, key=GRADES.index)
