"""Public names of the Python API: frozen, lazy, and the same for people, programs and type checkers."""

from __future__ import annotations

import ast
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import fedkme as fk
from tests.places import ROOT

NAMES = {
    "__version__",
    *("summarize", "release", "simulate", "sweep", "select", "load"),
    *(
        "Consumer",
        "Schema",
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
        *("plot_access", "report", "folder", "received", "schema"),
    },
    fk.ReleaseResult: {
        *("rows", "weights", "card", "ask", "privacy", "metrics", "method", "why", "report", "folder"),
        *("released", "schema", "classifier", "verdict"),
    },
    fk.SweepTable: {"rows", "failures", "report", "folder", "keys"},
    fk.Consumer: {"summary", "release", "last"},
}
CLIENT = """
import fedkme as fk

run = fk.simulate("digits", p=10, seed=3)
grade: str = run.verdict.grade if run.verdict else "none"
release: fk.ReleaseResult = fk.release({"north": "north.csv"}, schema="schema.toml", epsilon=1)
error: float | None = release.ask(lambda rows: rows["age"] > 50).error
lab = fk.Consumer("lab.toml")
try:
    rows = lab.summary(p=60).rows
except fk.FedkmeError as failure:
    print(failure.code, failure.remedy)
"""
WRONG = 'import fedkme as fk\nfk.simulate("digits", seed="three")\nfk.summarise\n'


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
    said = subprocess.run(
        [sys.executable, "-c", loaded % (ours,)], check=True, capture_output=True, text=True, cwd=ROOT
    )
    assert said.stdout.split() == ["fedkme"]


def test_what_is_missing_is_said_with_its_extra() -> None:
    blocked = "import sys; sys.modules['pandas'] = None\nimport fedkme as fk\ntry:\n    fk.summarize\n"
    program = blocked + "except fk.FedkmeError as error:\n    print(error)\n"
    said = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=ROOT
    )
    assert said.stdout.startswith("error 13 (missing package): the package pandas is not installed.")


@pytest.mark.timeout(900)
def test_a_client_is_typed(tmp_path: Path) -> None:
    # "mypy --strict of a ten-line client is clean (py.typed for every shipped package)": as packages that are
    # installed in an environment, of which mypy reads nothing that has no py.typed.
    venv.create(tmp_path / "env", with_pip=False)
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (site / "all.pth").write_text("\n".join([str(ROOT), *(p for p in sys.path if "site-packages" in p)]))
    python = tmp_path / "env" / "bin" / "python"

    def checked(program: str) -> tuple[int, str]:
        (tmp_path / "client.py").write_text(program, encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file=",
            f"--python-executable={python}",
        ]
        cache = f"--cache-dir={tmp_path / 'cache'}"
        done = subprocess.run(
            [*command, cache, "client.py"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout

    assert checked(CLIENT) == (0, "Success: no issues found in 1 source file\n")
    status, said = checked(WRONG)
    assert status == 1
    assert said.count("error:") == 2
    assert "[arg-type]" in said
    assert "[attr-defined]" in said
