"""Faults planted in the product: one list, with a column for each layer of the audit that finds a fault.

Columns are measured (`python -m audit.planted_faults`, which `make audit` runs): replay finds a fault in its
case, an attack finds it in its subject, the simulator after a number of schedules. A fault without a column
is one that all miss.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.planted_faults.planting import PlantedFault, TextChange


def _fault(row: Mapping[str, Any]) -> PlantedFault:
    protocol, _, note = row.get("replay", "").partition(": ")
    return PlantedFault(
        row["says"],
        [TextChange(*texts) for texts in row["edits"]],
        (protocol, note) if protocol else None,
        tuple(row.get("kinds", ("corner",))),
        row.get("attack", ""),
        row.get("layer", ""),
        row.get("chaos", 0),
    )


_ROWS = tomllib.loads(Path(__file__).with_name("faults.toml").read_text(encoding="utf-8"))
FAULTS: Mapping[str, PlantedFault] = {name: _fault(row) for name, row in _ROWS.items()}
