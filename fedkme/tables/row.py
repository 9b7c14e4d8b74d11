"""Row that left its owner, as it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A row that left its owner.

    The token is the owner's name for it, `values` are its schema columns, (c,) float64, and its label is a
    class index where the data have labels.
    """

    token: int
    values: NDArray[np.float64]
    label: int | None
