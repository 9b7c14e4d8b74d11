"""Arrays in .npz files: read by several threads at once, as a curator and a notebook do."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkme.tables.files import read_arrays
from fedkme.tables.npz import HEADERS, npz_arrays, npz_bytes


def test_one_thread_at_a_time_parses_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Issue 106905 of CPython, before 3.11.8: of two threads that parse, one may fail with a SystemError.
    parse, parsed = ast.literal_eval, []

    def alone(header: Any) -> Any:
        assert HEADERS.locked()
        parsed.append(header)
        return parse(header)

    monkeypatch.setattr(ast, "literal_eval", alone)
    data = npz_bytes({"x": np.zeros((15, 3)), "y": np.arange(15)})
    (tmp_path / "rows.npz").write_bytes(data)
    for arrays in (npz_arrays(data, "rows"), read_arrays(tmp_path / "rows.npz", "north")):
        assert arrays["x"].shape == (15, 3)
    assert len(parsed) == 4
    assert not HEADERS.locked()
