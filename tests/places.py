"""Folders that tests read: the repository, and the real data where it is there."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("FEDKME_DATA") or ROOT.parent / "shared" / "data")
