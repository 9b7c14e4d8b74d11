"""Undeclared disclosures planted in the product, each with the case in which replay must find it."""

from __future__ import annotations

from collections.abc import Mapping

from tests.sim.replay.faults import algorithm3, cells, consumers, deaths, sums
from tests.sim.replay.faults.planting import Fault

FAULTS: Mapping[str, Fault] = {
    **consumers.FAULTS,
    **cells.FAULTS,
    **algorithm3.FAULTS,
    **sums.FAULTS,
    **deaths.FAULTS,
}
