"""A curator for summaries by cells, with its owners, and what they leave."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from curator.summary.settings import CellsSettings, FeatureSettings, SummarySettings
from fedkme.ledgers.reconcile import verify
from tests.system.launches import read_json
from tests.system.market import DIMENSION, Market, market

SMALL = FeatureSettings(dimension=DIMENSION)
CELLS = SummarySettings(features=SMALL, protocol="cells", cells=CellsSettings(bits=2))


@asynccontextmanager
async def town(folder: Path, owners: Sequence[str] = ("a", "b"), **changes: Any) -> AsyncIterator[Market]:
    """A curator for summaries by cells, and its owners."""
    async with market(folder, owners, **{"summary": CELLS, **changes}) as at:
        for name in owners:
            at.owner(name)
        yield at


def record_of(folder: Path, run: str = "run-1") -> Any:
    return read_json(folder / "runs" / run / "record.json")


def faults_in(folder: Path) -> list[str]:
    """Faults that `fedkme audit verify` finds in the ledgers of a market."""
    others = sorted(folder.glob("*.jsonl"))
    return [
        f"{verdict.about}: {verdict.fault}" for verdict in verify(folder / "runs", others) if verdict.fault
    ]
