"""Names for the kinds of arrays that signatures speak of; each says the shape in words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Rows = NDArray[np.floating[Any]]
"""Rows of numbers, (m, n), in whatever precision they are."""
