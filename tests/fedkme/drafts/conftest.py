"""The folder of a person who drafts a schema."""

from pathlib import Path

import pytest

from tests.fedkme.drafts.own_files import SCHEMA


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path
