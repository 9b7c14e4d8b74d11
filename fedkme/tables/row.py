"""Row that left its owner, as it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A row that left its owner.

    Attributes:
        token: the owner's name for it.
        values: one number per schema column, (c,) float64.
        label: class index, where the data have labels.
    """

    token: int
    values: NDArray[np.float64]
    label: int | None
