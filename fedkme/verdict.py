"""Verdict on a result in two plain lines: what it is good for, and what to do next.

Summaries and releases, the terminal, the page, the data card and the API have this class and these lines.
`consumer.summary.verdict` grades the forms of a summary, `fedkme.answers.card` the answers of a release, and
`sim.evaluation.grades` the rows of a release by the owners' rows, which a simulation alone can see.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from fedkme.pages.html import judged

Grade = Literal["good", "fair", "cannot tell", "poor"]
GRADES: tuple[Grade, ...] = ("good", "fair", "cannot tell", "poor")
CANNOT_TELL: Literal["cannot tell"] = "cannot tell"
"""Grade of a form or use where nothing that was measured supports another."""
FORMS: Mapping[str, str] = {"weighted": "with weights", "repeats": "with repeats", "alike": "as rows alike"}
"""Forms of a summary, in words."""
USES = ("columns", "pairs", "models", "questions")
"""Uses of a release: distributions of single columns and of two columns, models, answers."""
MEANINGS: Mapping[str, str] = {
    "good": "about as near to the consumer's rows as equally many fresh rows of their kind",
    "fair": "usable, but equally many fresh rows of the consumer's kind may be nearer",
    CANNOT_TELL: "the consumer has too few rows to show how near these are",
    "poor": "far from the consumer's rows; equally many fresh rows of their kind would be nearer",
}
"""Grades of a summary, for a first reader; no number about D_v."""


@dataclass(frozen=True, slots=True)
class QualityVerdict:
    """Quality of a summary or a release in words; its text is two lines.

    Attributes:
        grade: the verdict in one word: of a summary the grade of its best form; of a release good or poor
            where every use that has a grade is, else fair.
        sentence: the reason; of a summary with numbers about D_v.
        advice: what to do next; no number about D_v.
        grades: good, fair, poor or "cannot tell", by form of a summary or use of a release.
        reasons: reason for the grade of each use of a release.
        doubts: reasons why no grade is above fair.
    """

    grade: Grade
    sentence: str
    advice: str
    grades: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    doubts: Sequence[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Two lines: what the result is good for, and what to do next."""
        return "\n".join(lines_of(asdict(self)))

    def _repr_html_(self) -> str:
        return judged(self.grade, lines_of(asdict(self)), self.sentence)


def overall(grades: Mapping[str, str]) -> Grade:
    """One word for several uses: good or poor where all uses with a grade are, else fair."""
    graded = {grade for grade in grades.values() if grade != CANNOT_TELL}
    return "good" if graded == {"good"} else "poor" if graded == {"poor"} else "fair"


def lines_of(verdict: Mapping[str, Any] | None, doubts: bool = True) -> list[str]:
    """Render a verdict as two lines: what the result is good for, and what to do next.

    Args:
        verdict: plain values, as metrics.json has them; None: there is no verdict, and no line.
        doubts: false leaves out the doubts, which may count cells of D_v: for what goes to a log.
    """
    if not verdict:
        return []
    first = " ".join(_good_for(verdict))
    if doubts and (why := verdict.get("doubts")):
        first += f" At most fair, because {'; '.join(why)}."
    return [first, *([f"Next: {verdict['advice']}"] if verdict["advice"] else [])]


def _good_for(verdict: Mapping[str, Any]) -> Iterator[str]:
    grades: Mapping[str, str] = verdict.get("grades") or {}
    reasons: Mapping[str, str] = verdict.get("reasons") or {}
    if not grades:  # of an earlier fedkme
        yield f"{verdict['grade'].capitalize()}: {verdict['sentence']}."
        return
    kinds = FORMS if grades.keys() & FORMS.keys() else dict.fromkeys(USES, "")
    order = GRADES if kinds is FORMS else sorted(GRADES, key=lambda grade: grade == CANNOT_TELL)
    for place, grade in enumerate(name for name in order if name in grades.values()):
        names = [name for name in kinds if grades.get(name) == grade]
        if kinds is FORMS:
            each = "in any form" if grade == CANNOT_TELL else "in every form"
            where = each if len(names) == len(grades) > 1 else _and([FORMS[name] for name in names])
            doubted = grade == "fair" and verdict.get("doubts")  # it may have been good
            meaning = "usable" if doubted else MEANINGS[grade]
            yield f"{grade.capitalize()} {where}" + ("." if place else f": {meaning}.")
        else:
            about = [f"{name} ({reasons[name]})" if reasons.get(name) else name for name in names]
            yield f"{grade.capitalize()} for {_and(about)}."


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def at_most_fair(verdict: Mapping[str, Any], doubts: Sequence[str]) -> dict[str, Any]:
    """Lower good grades to fair where rows or owners are in doubt, and say why.

    Args:
        verdict: plain values of a verdict.
        doubts: reasons; without any the verdict stays.
    """
    if not doubts:
        return dict(verdict)
    lowered = {"good": "fair"}
    return {
        **verdict,
        "grade": lowered.get(verdict["grade"], verdict["grade"]),
        "grades": {name: lowered.get(grade, grade) for name, grade in verdict.get("grades", {}).items()},
        "doubts": [*dict.fromkeys((*verdict.get("doubts", ()), *doubts))],
    }
