"""Layouts on which summaries by cells were weak: made tables need no file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.market import weak


def test_a_made_layout_is_measured_and_its_table_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDKME_DATA", str(tmp_path))
    file = tmp_path / "weak.jsonl"
    weak.main([str(file), "humps-upper:0:2", "humps-bare:0:1", "humps-upper:0:1:release"])
    lines = [weak.WeakLine(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [(line.layout, line.noise, line.validation) for line in lines] == [
        ("humps-upper", 0, 250),
        ("humps-upper", 1, 250),
        ("humps-bare", 0, 250),
        ("humps-upper", 0, 250),
    ]
    assert all(0.5 < line.ours < 3.0 for line in lines)
    assert lines[0].greedy == lines[1].greedy
    assert [line.book for line in lines] == ["auto", "auto", "auto", "release"]
    assert "| humps-upper, auto | 2 |" in capsys.readouterr().out


def test_rows_of_bare_layouts_have_no_labels(tmp_path: Path) -> None:
    build, rows = weak.weak_layouts()["humps-bare"]
    draw = build(tmp_path, rows, 1)
    assert draw.schema.label is None
    assert all(table.labels is None for table in draw.scenario.owners.values())
    assert weak.weak_layouts().keys() >= set(weak.CHOSEN)
