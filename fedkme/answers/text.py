"""Answers as text for people, and as numbers of a few digits for files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fedkme.answers.answer import Answer


def rows_of(answers: Sequence[Answer]) -> list[tuple[str, ...]]:
    """Answers as cells of a table, method aside."""
    return [
        (
            answer.question,
            answer.group,
            _text(answer.estimate),
            "none" if math.isnan(answer.low) else f"{_text(answer.low)} to {_text(answer.high)}",
            *(_text(part) for part in (answer.noise, answer.sampling, answer.unseen)),
            answer.target,
        )
        for answer in answers
    ]


def rounded(answer: Answer) -> dict[str, Any]:
    """Values of an answer, to six digits; None where there is none."""
    return {name: _plain(value) for name, value in asdict(answer).items()}


def _plain(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else float(f"{value:.6g}")


def _text(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
