"""Base of the records of all runs: end of the run, rows of its owners, and owners that left."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from fedkme.documents import Fault
from fedkme.durable import replace
from fedkme.errors import FedkmeError

RECORD = "record.json"
Status = Literal["interrupted", "complete", "stopped", "failed", "cancelled"]
"""Ends of a run: a summary is `stopped` with the rows so far, a release `failed` or `cancelled` without."""


@dataclass(slots=True)
class RunRecord:
    """Record of a run while it goes on, and its result in the end."""

    status: Status = "interrupted"
    reason: str | None = None
    code: int = 0
    """Number of the failure that ended the run; 0 for none."""
    cause: str = ""
    remedy: str = ""
    owner_rows: dict[str, int] = field(default_factory=dict)
    """Rows of each owner that takes part (m_j, public)."""
    faults: list[Fault] = field(default_factory=list)

    def end(self, status: Status, error: FedkmeError) -> None:
        """Record how the run ended, and why."""
        self.status, self.reason, self.code = status, str(error), error.code
        self.cause, self.remedy = error.cause, error.remedy

    def facts(self) -> dict[str, Any]:
        """Part of record.json that every run has."""
        plain = {name: getattr(self, name) for name in RunRecord.__slots__}
        return plain | {"faults": [asdict(fault) for fault in self.faults]}


def write_record(directory: Path, plain: Mapping[str, Any]) -> None:
    """Write record.json; a number that is none is null, as JSON has no sign for it.

    Raises:
        OSError: it cannot be written.
    """
    text = json.dumps(_finite(plain), indent=2, allow_nan=False)
    replace(directory / RECORD, (text + "\n").encode())


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {key: _finite(each) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
    return value
