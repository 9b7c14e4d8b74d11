"""Transcripts of records: what two engines must agree on."""

from __future__ import annotations

from typing import Any

from curator.run.summary_record import RoundRecord, SummaryRecord


def record_transcript(record: SummaryRecord) -> dict[str, Any]:
    """Facts that two engines must agree on, bit for bit: all but times."""
    return {
        "status": record.status,
        "reason": record.reason,
        "rounds": [
            [_exact(getattr(r, name)) for name in RoundRecord.__slots__ if name != "milliseconds"]
            for r in record.rounds
        ],
        "selected": [
            [r.owner, r.token, r.round, r.gain.hex(), r.values.tobytes().hex(), r.label]
            for r in record.selected
        ],
        "accesses": record.accesses,
        "faults": [[f.round, f.owner, f.code] for f in record.faults],
        "closings": record.closings,
        "released": _exact(record.released),
    }


def _exact(value: Any) -> Any:
    """A float by its bits, so that NaN equals NaN."""
    if isinstance(value, dict):
        return {key: _exact(each) for key, each in value.items()}
    return value.hex() if isinstance(value, float) else value
