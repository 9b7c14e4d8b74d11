"""Style of a report's page."""

from __future__ import annotations

from pathlib import Path

STYLE = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
