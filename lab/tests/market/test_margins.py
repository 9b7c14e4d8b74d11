"""Whole runs by margins, on a layout that is made here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.market import margins


def test_a_made_layout_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDKME_DATA", str(tmp_path))
    margins.main([str(tmp_path / "lines.jsonl"), "humps-pair:0:1"])
    line = json.loads((tmp_path / "lines.jsonl").read_text(encoding="utf-8"))
    assert 0.5 < line["margins"] < 2.0
    assert 0.5 < line["cells"] < 3.0
