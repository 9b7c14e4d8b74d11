"""Privacy statements as a data frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

COLUMNS = ("protected", "observer", "accountant", "unit", "epsilon", "delta", "rows_seen", "how")


def frame_of_statements(entries: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Frame with a line for each privacy statement of metrics.json; epsilon is inf if no bound is proven."""
    lines = [
        (
            entry["protected"],
            entry["observer"],
            entry["accountant"],
            entry["unit"],
            float(entry["epsilon"]),
            float(entry["delta"]),
            int(entry["raw_points"]),
            entry["reason"],
        )
        for entry in entries
    ]
    return pd.DataFrame(lines, columns=list(COLUMNS))
