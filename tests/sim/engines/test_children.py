"""Children of a launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.engines.children import Child


async def test_a_file_in_the_working_folder_does_not_replace_a_party(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An owner.py in the working folder was executed in place of the owner.
    (tmp_path / "owner.py").write_text("from pathlib import Path\nPath('executed').touch()\n")
    monkeypatch.chdir(tmp_path)
    child = await Child.start("a", ["owner", "join", "absent.toml"], tmp_path / "errors", lambda event: None)
    assert await child.ended() != 0
    assert not (tmp_path / "executed").exists()
