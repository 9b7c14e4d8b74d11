"""A new user in a notebook, from nothing to the first figure."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from nbclient.exceptions import CellExecutionError

from tests.places import ROOT
from tests.test_readme import blocks
from tests.users.notebooks import cells_of, execute, shown

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
FIRST_FIGURE = """
# %%
import fedkme as fk

run = fk.simulate("digits", p=20, protocol="cells", downstream=False, baselines=["uniform"])
run
# %%
run.compare()
# %%
%matplotlib inline
run.plot_access();
# %%
run.verdict
"""

STOPPED = """
# %%
import os, signal, threading, time
from pathlib import Path
import fedkme as fk

def stop():
    while not Path("runs/digits-1/schema.toml").exists():
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=stop).start()
try:
    fk.simulate("digits", p=600, protocol="algorithm3", progress=False)
except fk.FedkmeError as error:
    print(error.code)
# %%
print("goes on")
"""


@pytest.mark.timeout(600)
def test_from_nothing_to_the_first_figure(tmp_path: Path) -> None:
    # A kernel has a running event loop, from which asyncio.run() cannot be called.
    report, table, figure, verdict = execute(cells_of(FIRST_FIGURE), tmp_path)
    assert "<iframe" in shown(report, "text/html")
    assert "fedkme run" in shown(report, "text/html")
    assert shown(report, "stdout") == ""
    assert "100 %" in shown(report, "stderr")
    assert "fresh_rows" in shown(table, "text/html")
    assert shown(figure, "image/png")
    assert "grade=" in shown(verdict, "text/plain")


@pytest.mark.timeout(600)
def test_the_stop_button_ends_a_run_in_order(tmp_path: Path) -> None:
    # Results so far stay, and the kernel continues.
    stopped, after = execute(cells_of(STOPPED), tmp_path)
    assert shown(stopped, "stdout") == "130\n"
    assert shown(after, "stdout") == "goes on\n"


def test_a_cell_that_fails_is_found(tmp_path: Path) -> None:
    with pytest.raises(CellExecutionError, match="error 10"):
        execute(["import fedkme as fk\nfk.simulate('digitz', progress=False)"], tmp_path)


@pytest.mark.timeout(600)
def test_examples_run_as_notebooks(tmp_path: Path) -> None:
    # One kernel, which forgets all names between examples: what is imported stays loaded.
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    notebooks = [["%reset -f", *cells_of(path.read_text(encoding="utf-8"))] for path in EXAMPLES]
    assert len(notebooks) >= 3
    cells = iter(execute([cell for notebook in notebooks for cell in notebook], tmp_path))
    for path, notebook in zip(EXAMPLES, notebooks, strict=True):
        tables = [shown(cell, "text/html") for cell in islice(cells, len(notebook))]
        assert any(tables), path.name


@pytest.mark.timeout(600)
def test_the_page_on_python_can_be_typed(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    cells = blocks(ROOT / "docs" / "python.md", "python")
    typed = [block for block in cells if "lab.toml" not in block]  # that needs hosts
    assert len(cells) - 1 == len(typed) >= 6
    execute(typed, tmp_path)
