"""Releases of moments at (1, 1e-5), by owners in memory whose noise goes on from question to question."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from audit.in_memory import OwnersInMemory
from curator.releases.method import make_method
from fedkme.privacy.noise import NoiseSource, simulated
from fedkme.releases.file import StoredRelease, from_bytes
from fedkme.releases.settings import MomentsSettings
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table


def released_moments(
    schema: Schema, owners: Sequence[Table], seed: int, edges: bool = False
) -> StoredRelease:
    """Release moments of the owners' rows."""
    method = make_method(MomentsSettings(seed=seed, edges=edges), schema, None, seed)
    return from_bytes(asyncio.run(method.ask(_Owners(owners, schema, seed))))


class _Owners(OwnersInMemory):
    """Owners in memory with one stream of noise for all questions, by seed."""

    def __init__(self, owners: Sequence[Table], schema: Schema, seed: int) -> None:
        super().__init__(Table(np.zeros((0, schema.width))), schema, 1)
        self.tables = list(owners)
        self._stream = simulated(seed, "curator", "moments")

    @property
    def noise(self) -> NoiseSource:
        """One stream for all questions."""
        return self._stream
