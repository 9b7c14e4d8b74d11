"""Checks of an installation."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
from pathlib import Path

import pytest

from operate.doctor.installation import _foreign_packages, _own_files
from tests.places import ROOT


def installed(site: Path) -> importlib.metadata.Distribution:
    """Make a distribution of one module, as pip writes it."""
    info = site / "fedkme-1.dist-info"
    info.mkdir()
    (site / "curator").mkdir()
    text = b"'''The curator.'''\n"
    (site / "curator" / "__init__.py").write_bytes(text)
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip("=")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fedkme\nVersion: 1\n")
    (info / "RECORD").write_text(f"curator/__init__.py,sha256={digest},{len(text)}\nfedkme/data.toml,,\n")
    return importlib.metadata.Distribution.at(info)


def test_modules_overwritten_by_another_package_are_found(tmp_path: Path) -> None:
    # elasticsearch-curator installs a package curator, too.
    distribution = installed(tmp_path)
    (good,) = _own_files(distribution)
    assert good.state == "ok"
    (tmp_path / "curator" / "__init__.py").write_text("__version__ = '8.0'\n")
    (bad,) = _own_files(distribution)
    assert (bad.state, bad.code) == ("fail", 13)
    assert "curator/__init__.py" in bad.line
    (tmp_path / "curator" / "__init__.py").unlink()
    (gone,) = _own_files(distribution)
    assert gone.state == "fail"


def test_an_editable_installation_has_no_list_to_compare_with() -> None:
    (finding,) = _own_files(importlib.metadata.distribution("fedkme"))
    assert finding.state == "ok"


def test_a_foreign_package_of_one_of_our_names_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not list(_foreign_packages(ROOT))
    info = tmp_path / "elasticsearch_curator-8.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elasticsearch-curator\nVersion: 8\n")
    (info / "top_level.txt").write_text("curator\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (beside,) = _foreign_packages(ROOT)  # its files lie among ours
    assert (beside.state, "of elasticsearch-curator" in beside.line) == ("warn", True)
    (hidden, *_) = _foreign_packages(tmp_path)  # ours are elsewhere than what is imported
    assert (hidden.state, hidden.code) == ("fail", 13)
