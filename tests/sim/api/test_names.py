"""Public names of the Python API: frozen, lazy, and the same for people, programs and type checkers."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fedkme as fk
from tests.places import ROOT

NAMES = {
    "__version__",
    *("summarize", "release", "match", "simulate", "sweep", "select", "load"),
    *(
        "Consumer",
        "Schema",
        "SchemaCheck",
        "SchemaDraft",
        "check",
        "draft_schema",
        "SummaryResult",
        "ReleaseResult",
        "SelectionResult",
        "SweepTable",
    ),
    *("FedkmeError", "FedkmeWarning"),
}
OF_OBJECTS = {
    fk.SummaryResult: {
        *("rows", "weighted", "weights", "repeats", "verdict", "metrics", "privacy", "compare"),
        *("plot_access", "report", "folder", "received", "schema", "reading", "training", "train"),
    },
    fk.ReleaseResult: {
        *(
            "rows",
            "weights",
            "card",
            "ask",
            "distance",
            "privacy",
            "metrics",
            "method",
            "why",
            "report",
            "folder",
        ),
        *("released", "schema", "classifier", "verdict", "reading"),
    },
    fk.SchemaDraft: {"schema", "values", "of", "to_toml", "names", "columns", "ignore", "label"},
    fk.SchemaCheck: {"reports", "faults", "left", "edit", "schema", "owners"},
    fk.SweepTable: {"rows", "failures", "report", "folder", "keys"},
    fk.Consumer: {"summary", "release", "last"},
}


def test_public_names_are_frozen() -> None:
    assert set(fk.__all__) == NAMES
    assert {name for name in dir(fk) if name[0].isupper()} == {name for name in NAMES if name[0].isupper()}
    for kind, names in OF_OBJECTS.items():
        public = {name for name in [*dir(kind), *kind.__annotations__] if not name.startswith("_")}
        assert public == names, kind
    with pytest.raises(AttributeError, match="summarise"):
        fk.summarise  # type: ignore[attr-defined]  # noqa: B018


def test_the_stub_has_the_names() -> None:
    stub = ast.parse((ROOT / "fedkme" / "__init__.pyi").read_text(encoding="utf-8"))
    imported = {
        alias.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {*imported, "__version__"} == NAMES
    assert {name: getattr(fk, name).__module__ for name in imported} == imported


def test_importing_fedkme_imports_nothing_else() -> None:
    loaded = "import sys, fedkme; print(*sorted(m for m in sys.modules if m.partition('.')[0] in %r))"
    ours = ("fedkme", "sim", "curator", "owner", "consumer", "numpy", "pandas", "pydantic", "grpc")
    process = subprocess.run(
        [sys.executable, "-c", loaded % (ours,)], check=True, capture_output=True, text=True, cwd=ROOT
    )
    assert process.stdout.split() == ["fedkme"]


def test_a_missing_package_is_reported_with_its_extra() -> None:
    blocked = "import sys; sys.modules['pandas'] = None\nimport fedkme as fk\ntry:\n    fk.summarize\n"
    program = blocked + "except fk.FedkmeError as error:\n    print(error)\n"
    process = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=ROOT
    )
    assert process.stdout.startswith("error 13 (missing package): the package pandas is not installed.")


@pytest.mark.parametrize(("module", "name"), [("sim", "simulate"), ("consumer", "Consumer")])
def test_a_module_beside_a_notebook_that_hides_ours_is_named(tmp_path: Path, module: str, name: str) -> None:
    (tmp_path / f"{module}.py").write_text("")
    program = f"import fedkme as fk\ntry:\n    fk.{name}\nexcept fk.FedkmeError as error:\n    print(error)\n"
    process = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    hides = f"{tmp_path / module}.py hides fedkme's own package {module}. Rename it"
    assert process.stdout.startswith(f"error 13 (missing package): {hides}")


def test_a_hidden_package_is_one_line_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "curator.py").write_text("")
    end = subprocess.run(
        [sys.executable, "-m", "fedkme", "doctor"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (end.returncode, "Traceback" in end.stderr) == (13, False)
    assert f"{tmp_path / 'curator.py'} hides fedkme's own package curator" in end.stderr
