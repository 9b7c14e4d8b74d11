"""Files of a consumer's results on a disk that fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from consumer.results import make_folder, set_aside, write_result
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


NAMES = ("evaluation.json", "received.npz", "summary.npz")
NEW = {"received.npz": b"new rows", "summary.npz": b"some"}


def test_what_is_left_of_a_removed_summary_does_not_stand_beside_the_next(tmp_path: Path) -> None:
    # Its evaluation passed for that of the new rows where these could not be judged.
    (tmp_path / "evaluation.json").write_text("{}")
    assert set_aside(tmp_path, NAMES, NEW) == "earlier-1"
    assert [path.name for path in tmp_path.iterdir()] == ["earlier-1"]


@pytest.mark.parametrize("count", [1, 2])
def test_rows_that_came_again_stay_with_their_evaluation(tmp_path: Path, count: int) -> None:
    for name in list(NEW)[:count]:
        (tmp_path / name).write_bytes(NEW[name])
    if count == 2:
        (tmp_path / "evaluation.json").write_text("{}")
    assert set_aside(tmp_path, NAMES, NEW) == ""
    assert not (tmp_path / "earlier-1").exists()


def test_an_earlier_file_that_cannot_be_read_is_an_error_in_order(tmp_path: Path) -> None:
    (tmp_path / "summary.npz").mkdir()
    with pytest.raises(StoreError, match="earlier summary"):
        set_aside(tmp_path, NAMES, NEW)
