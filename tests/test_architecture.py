"""The house of DESIGN.md: which way imports point, what an owner's host needs, how long a module is."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedkme import errors
from fedkme.cli import _VERBS
from fedkme.errors import FedkmeError
from tests.places import ROOT

ROLES = ("curator", "owner", "consumer")
MAY_IMPORT = {
    "fedkme": {"fedkme"},
    **{role: {"fedkme", role} for role in ROLES},
    "sim": {"fedkme", "sim", *ROLES},
}
OPERATE = ROOT / "fedkme" / "operate"
GENERATED = ROOT / "fedkme" / "wire" / "v1"


def modules(package: str) -> list[Path]:
    return [path for path in sorted((ROOT / package).rglob("*.py")) if GENERATED not in path.parents]


def imported(path: Path) -> Iterator[str]:
    """Top-level packages that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import hides where it points"
            yield (node.module or "").partition(".")[0]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_one_way(package: str) -> None:
    # "Roles -> fedkme; sim -> roles; roles never import each other"; fedkme "imports no role package", but
    # for the verbs of operators, which nothing imports (docs/decisions/010).
    ours = set(MAY_IMPORT)
    wrong = {
        str(path.relative_to(ROOT)): names
        for path in modules(package)
        if OPERATE not in path.parents and (names := (set(imported(path)) & ours) - MAY_IMPORT[package])
    }
    assert modules(package)
    assert not wrong


def test_one_file_of_fedkme_knows_the_roles() -> None:
    # "cli.py (composes the roles' own typer apps, lazily: the one file here that knows the roles)".
    naming = {
        path.name
        for path in modules("fedkme")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and re.fullmatch(rf"({'|'.join(ROLES)}|sim)\.\w+", str(node.value))
    }
    assert naming == {"cli.py"}
    assert {module.partition(".")[0] for module, _, _ in _VERBS.values()} == {*ROLES, "sim", "fedkme"}


BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("sklearn", "pandas", "pyarrow", "matplotlib"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Blocker())
import owner.agent, owner.cli, curator.server, curator.cli, consumer.summary.client, consumer.cli, fedkme.cli
"""


def test_the_base_installation_is_enough_for_the_parties() -> None:
    # DESIGN, dependencies: what an owner's host needs; scikit-learn, pandas and matplotlib are of [sim].
    subprocess.run([sys.executable, "-c", BLOCKED], check=True, cwd=ROOT, timeout=60)


def test_modules_are_short() -> None:
    # CONVENTIONS: "modules under about 300 lines"; 400 is where about ends.
    long = {
        str(path.relative_to(ROOT)): lines
        for package in MAY_IMPORT
        for path in modules(package)
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 400
    }
    assert not long


def test_every_exit_code_is_explained_once() -> None:
    # "Numbered exits with a help page": docs/errors.md has a heading for each number, and no other.
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, FedkmeError) and kind is not FedkmeError
    ]
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)
    assert all(10 <= code <= 130 for code in codes)
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    explained = [int(number) for number in re.findall(r"^## (\d+) ", text, re.MULTILINE)]
    assert sorted(explained) == sorted(codes)
