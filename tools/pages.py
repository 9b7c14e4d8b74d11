"""Pages of the site that no file of docs/ holds, and links that leave it: a hook of mkdocs (mkdocs.yml)."""

from __future__ import annotations

import base64
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import fedkme

ROOT = Path(__file__).resolve().parent.parent
NAMES = {
    "summary": "Hospitals: a summary of three clinics",
    "release": "Hospitals: a release, and questions to it",
    "bank": "Banks: a model of customers nobody shows",
    "sensors": "Sensors: signals of machines",
    "images": "Images: handwritten digits",
    "survey": "A survey with gaps and codes",
    "own": "Your own files",
    "sweep": "What privacy costs: a sweep",
}
"""Names of the worked examples, in order."""
RUN = "FEDKME_RUN_EXAMPLES"
"""Variable of the environment with which the site shows what the examples show; `make site` sets it."""
EXAMPLES = [ROOT / "examples" / f"{name}.py" for name in NAMES]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))


def within(text: str) -> str:
    """Make links of a file in the root good on a page of the site; what is not on it keeps its words."""
    text = re.sub(r"\]\(docs/([^)\s]+\.(?:md|svg)(?:#[^)]*)?)\)", r"](\1)", text)
    text = text.replace("](CHANGELOG.md)", "](changelog.md)")
    return re.sub(r"(?<!!)\[([^]\n]+)\]\((?:docs/)?[\w/-]+\)", r"\1", text)


def names() -> str:
    """Write the reference of the Python API: the docstring of each public name of `fedkme`."""
    public = {name: getattr(fedkme, name) for name in fedkme.__all__ if name != "__version__"}
    parts = [f"::: {value.__module__}.{name}" for name, value in public.items()]
    head = "# Python names\n\nAll are names of `fedkme`, as in `import fedkme as fk`."
    return "\n\n".join([f"{head} [Python](../python.md) shows them at work.", *parts, ""])


def messages() -> str:
    """Write the reference of the wire: each file of protos/, which has a comment at whatever needs one."""
    parts = [
        f"## {path.name}\n\n```protobuf\n{path.read_text(encoding='utf-8').strip()}\n```"
        for path in sorted((ROOT / "protos").rglob("*.proto"))
    ]
    head = "# Messages on the wire\n\nThe files of `protos/`. Numbers of fields are never used again."
    return "\n\n".join([head, *parts, ""])


def tutorial(path: Path, notebook: dict[str, Any]) -> Iterator[tuple[str, str | bytes]]:
    """Files of a page: a notebook's text, code, tables and pictures."""
    parts = [f"# {NAMES[path.stem]}", f"[This page as a notebook]({path.stem}.ipynb)"]
    for at, cell in enumerate(notebook["cells"]):
        text = cell["source"]
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        results = [output.get("data", {}) for output in cell.get("outputs", ())]
        drawn = any("image/png" in shown for shown in results)
        for shown in results:
            if "image/png" in shown:
                name = f"{path.stem}-{at}.png"
                yield f"tutorials/{name}", base64.b64decode(shown["image/png"])
                parts.append(f"![What the cell draws]({name})")
            elif "<table" in (table := shown.get("text/html", "")):
                plain = re.sub(r"<style.*?</style>|\n\s*", "", table, flags=re.DOTALL)
                parts.append(plain.replace(' border="1" class="dataframe"', ""))
            elif "text/plain" in shown and not drawn:
                parts.append(f"```text\n{shown['text/plain']}\n```")
    yield f"tutorials/{path.stem}.md", "\n\n".join([*parts, ""])


def notebook(path: Path) -> dict[str, Any]:
    """Make a Jupyter notebook of a program of examples/; with results where the environment asks for them."""
    of_code: dict[str, object] = {"outputs": [], "execution_count": None}
    made = [
        {"cell_type": kind, "id": f"cell-{at}", "metadata": {}, "source": "\n".join(lines)}
        | (of_code if kind == "code" else {})
        for at, (kind, lines) in enumerate(cells(path))
    ]
    empty = {"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return with_results(empty) if os.environ.get(RUN) else empty


def with_results(empty: dict[str, Any]) -> dict[str, Any]:
    """Run a notebook in a folder of its own, beside the examples' files.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raised something.
    """
    import nbformat
    from nbclient import NotebookClient

    made = nbformat.from_dict(empty)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "examples").symlink_to(ROOT / "examples")
        NotebookClient(made, timeout=900, resources={"metadata": {"path": folder}}).execute()
    return dict(made)


def cells(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Kind and lines of each cell of a program in which `# %%` begins one."""
    for cell in path.read_text(encoding="utf-8").split("# %%")[1:]:
        mark, _, text = cell.partition("\n")
        kind = "markdown" if "[markdown]" in mark else "code"
        lines = text.strip().splitlines()
        yield (
            kind,
            [line.removeprefix("#").removeprefix(" ") for line in lines] if kind == "markdown" else lines,
        )


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the decisions into the navigation, by number, and the version below each page."""
    config.copyright = f"fedkme {fedkme.__version__}"
    for entry in config.nav or []:
        if "Why it is so" in entry:
            entry["Why it is so"] += [f"decisions/{path.name}" for path in DECISIONS]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here."""
    made: dict[str, str | bytes] = {
        "index.md": within((ROOT / "README.md").read_text(encoding="utf-8")),
        "changelog.md": within((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")),
        "reference/python.md": names(),
        "reference/wire.md": messages(),
    }
    for path in EXAMPLES:
        shown = notebook(path)
        made |= {**dict(tutorial(path, shown)), f"tutorials/{path.stem}.ipynb": json.dumps(shown, indent=1)}
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the search show what a reader may do before why it is so, and before what was once so.

    A link that is named by its file is named by its page.
    """
    if page.file.src_uri.startswith("decisions/") or page.file.src_uri == "changelog.md":
        page.meta["search"] = {"boost": 0.3}
    return re.sub(r"\[(?:docs/)?([\w-]+)\.md\]\(", lambda found: f"[{found[1].replace('-', ' ')}](", markdown)
