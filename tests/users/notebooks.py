"""Scripts as notebooks: cells between lines `# %%`, run by a real Jupyter kernel."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

MOST_S = 300
"""Time that a cell may take on a machine that has much else to do."""


def cells_of(script: str) -> list[str]:
    """Cells of a script, without those that are text alone."""
    parts = re.split(r"^# %%.*$", script, flags=re.MULTILINE)
    return [part.strip() for part in parts if re.search(r"^[^#\s]", part, flags=re.MULTILINE)]


def execute(cells: list[str], folder: Path, python: Path | None = None) -> list[Any]:
    """Run cells in a kernel of its own whose current folder is given; returns the cells with their outputs.

    Args:
        cells: what is typed.
        folder: where.
        python: interpreter of the kernel's environment; None: the tests' own.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raised something.
    """
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(
        notebook, timeout=MOST_S, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    if python is not None:
        manager = client.create_kernel_manager()
        assert manager.kernel_spec is not None
        manager.kernel_spec.argv[0] = str(python)
    client.execute(env={**os.environ, **({"PYTHONPATH": ""} if python else {})})
    return list(notebook.cells)


def shown(cell: Any, kind: str) -> str:
    """Collect what a cell shows of a kind, such as text/html; `stdout` and `stderr` are what it prints."""
    return "".join(
        output["text"] if output.get("name") == kind else output.get("data", {}).get(kind, "")
        for output in cell.outputs
    )
