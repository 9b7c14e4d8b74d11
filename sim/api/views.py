"""Views of results: privacy statements as a data frame, and a report in a frame of a notebook.

A frame of its own keeps report and notebook from styling each other.
"""

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

import pandas as pd

from fedkme.verdict import QualityVerdict

_COLUMNS = ["protected", "observer", "accountant", "unit", "epsilon", "delta", "raw_points", "reason"]


def frame_of_statements(entries: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Frame with a line for each privacy statement of metrics.json; epsilon is inf if no bound is proven."""
    lines = pd.DataFrame(list(entries), columns=_COLUMNS)
    typed = lines.astype({"epsilon": float, "delta": float, "raw_points": int})
    return typed.rename(columns={"raw_points": "rows_seen", "reason": "how"})


_ATTRIBUTES = {
    r"consumer-only\.train\.csv, sample_weight = weight_*": ".train, whose last column is the weight",
    r"summary\.csv, sample_weight = weight_*": ".weighted, sample_weight = .weights",
    r"the rows with alike_* = 1 do": ".rows do",
    r"the rows of summary\.npz": ".rows",
    r"the rows of repeats\.npz": ".repeats",
    r"`fedkme ask`": "`.ask`",
}
"""Attributes of a result, by the pattern of the words for them in an advice about files."""


def verdict_of(metrics: Mapping[str, Any]) -> QualityVerdict | None:
    """Make the verdict of metrics.json, whose advice names attributes of the result in place of files."""
    values = metrics.get("verdict")
    if values is None:
        return None
    advice = values["advice"]
    for words, attribute in _ATTRIBUTES.items():
        advice = re.sub(words, attribute, advice)
    return QualityVerdict(**{**values, "advice": advice})


HEIGHT = "34rem"


def framed(page: str, title: str) -> str:
    """Put a page, which loads nothing and runs nothing, into a frame whose height a reader can change.

    Args:
        page: a whole HTML document.
        title: title of the frame, for screen readers.
    """
    style = f"width: 100%; height: {HEIGHT}; border: 1px solid #8886; border-radius: 6px; resize: vertical"
    rights = 'sandbox="allow-same-origin"'  # no scripts; the notebook's own process draws it at once
    return f'<iframe title="{escape(title)}" {rights} style="{style}" srcdoc="{escape(page)}"></iframe>'
