"""Checks of hashes alone, without the draw of h1.

Hashes are rows of h1 in fixed point, (m, d) int16. Their inner products estimate the kernel. So every step of
the summary protocols that scores rows works on hashes; a step that needs a row's values does not.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.features.fixed_point import FEATURE_UNIT
from fedkme.features.fourier import FourierShape

REFERENCE_HASHES = 256
"""Number of random rows from which an auction sets prices."""
_ONE = round(1.0 / FEATURE_UNIT)
_SLACK = 2**16
"""Truncation takes at most 2 sqrt(2) units of 2^14 from a pair's squared norm of 2^28."""


def fault_of_hashes(features: NDArray[Any], shape: FourierShape) -> str:
    """Reason, in one line, why an array cannot be hashes of rows; empty if it can.

    Without the draw nobody can check more: coordinates are in [-1, 1], and in the paired form two coordinates
    are cosine and sine of one angle.

    Args:
        features: features as received, (k, d).
        shape: public part of the draw.
    """
    if features.dtype != np.int16 or features.ndim != 2 or features.shape[1] != shape.dimension:
        return f"hashes of shape {features.shape} and type {features.dtype.name} are of another map"
    wide = features.astype(np.int32)
    if (np.abs(wide) > _ONE).any():
        return "a hash has a coordinate outside [-1, 1]"
    if shape.kind == "paired":
        half = shape.dimension // 2
        norms = wide[:, :half] ** 2 + wide[:, half:] ** 2
        if ((norms > _ONE**2) | (norms < _ONE**2 - _SLACK)).any():
            return "a hash has a pair of coordinates that is no cosine and sine"
    return ""
