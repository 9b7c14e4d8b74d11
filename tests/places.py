"""Places that tests read: the repository and its modules, and the real data where it is there."""

from __future__ import annotations

import ast
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("FEDKME_DATA") or ROOT.parent / "shared" / "data")


def tree(path: Path) -> ast.Module:
    """A module of the repository as a syntax tree; a million nodes in all, which nobody keeps."""
    return ast.parse(path.read_text(encoding="utf-8"))


WITHOUT_SIM = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("sklearn", "pandas", "pyarrow", "matplotlib"):
            raise ModuleNotFoundError(name, name=name.partition(".")[0])
sys.meta_path.insert(0, Blocker())
"""
"""Begin of a program that finds no package of the extra `sim`."""
