"""The public code book of a run: cells of the seed set, or of the public domain where there is none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from curator.summary.settings import SummarySettings
from fedkme.cells.codebook import CodeBook, kmeans_book
from fedkme.cells.plan import bits_for
from fedkme.cells.projection import spec_for
from fedkme.errors import ConfigError
from fedkme.schema import Schema

MOST_OWNER_ROWS = 2**31
"""Sizes of owners are not known yet when a run is planned: D_v's alone limits the number of cells."""


def public_book(
    settings: SummarySettings,
    schema: Schema,
    seeds: NDArray[np.float32],
    validation_rows: int,
    seed: int,
) -> CodeBook:
    """k-means cells of public rows.

    Args:
        settings: of the summary.
        schema: of the rows.
        seeds: the public seed set, encoded, (s, n).
        validation_rows: |D_v|, public.
        seed: public.

    Raises:
        ConfigError: there are fewer seed rows than cells.
    """
    bits = settings.cells.bits
    if bits is None:
        bits = bits_for(
            validation_rows, [MOST_OWNER_ROWS], settings.privacy.epsilon, settings.privacy.epsilon
        )
    if len(seeds) < 2**bits:
        raise ConfigError(
            f"a code book of {2**bits} cells is made of public seed rows, and there are {len(seeds)}",
            "Give the curator more seed rows (drawn from the public schema will do), or set 'cells.bits'.",
        )
    return kmeans_book(seeds, 2**bits, spec_for(schema, seed, settings.cells.dimension), schema, seed)
