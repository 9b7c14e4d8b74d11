"""Row in the clear that left its owner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A row that left its owner.

    Attributes:
        token: the owner's name for the row.
        values: columns of the schema, (c,) float64.
        label: class index; None without labels.
    """

    token: int
    values: NDArray[np.float64]
    label: int | None
