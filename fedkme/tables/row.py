"""Row that left its owner, as it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A row that left its owner.

    The owner's name for it, (c,) float64 schema columns, and a class where data have labels.
    """

    token: int
    values: NDArray[np.float64]
    label: int | None
