"""Files of a consumer's results on a disk that fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from consumer.results import make_folder, write_result
from fedkme.errors import ConfigError, StoreError


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_is_an_error_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(StoreError, match=os.strerror(number)):
        make_folder(tmp_path / "out")
    with pytest.raises(StoreError, match=os.strerror(number)) as refused:
        write_result(tmp_path / "summary.npz", b"rows")
    assert "the request is kept" in refused.value.remedy


def test_a_folder_that_cannot_be_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be made"):
        make_folder(tmp_path / "file" / "out")
