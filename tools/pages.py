"""Pages of the site that no file of docs/ holds, and links that leave it: a hook of mkdocs (mkdocs.yml)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import fedkme

ROOT = Path(__file__).resolve().parent.parent
NAMES = {
    "summary": "A summary of three clinics",
    "release": "A release, and questions to it",
    "sweep": "Sweep",
}
"""Names of the tutorials, in order."""
EXAMPLES = [ROOT / "examples" / f"{name}.py" for name in NAMES]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))


def within(text: str) -> str:
    """Make links of a file in the root good on a page of the site; what is not on it keeps its words."""
    text = re.sub(r"\]\(docs/([^)\s]+\.(?:md|svg)(?:#[^)]*)?)\)", r"](\1)", text)
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


def tutorial(path: Path) -> str:
    """Write a program of examples/ as a page: its comments as text, its cells as code."""
    parts = [f"[This page as a notebook]({path.stem}.ipynb)"]
    for kind, lines in cells(path):
        text = "\n".join(lines)
        parts.append(text if kind == "markdown" else f"```python\n{text}\n```")
    return "\n\n".join([f"# {NAMES[path.stem]}", *parts, ""])


def notebook(path: Path) -> str:
    """Write a program of examples/ as a Jupyter notebook without results."""
    of_code: dict[str, object] = {"outputs": [], "execution_count": None}
    made = [
        {"cell_type": kind, "id": f"cell-{at}", "metadata": {}, "source": "\n".join(lines)}
        | (of_code if kind == "code" else {})
        for at, (kind, lines) in enumerate(cells(path))
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


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
    """Put the decisions into the navigation, in the order of their numbers."""
    for entry in config.nav or []:
        if "Why it is so" in entry:
            entry["Why it is so"] += [f"decisions/{path.name}" for path in DECISIONS]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here."""
    made = {
        "index.md": within((ROOT / "README.md").read_text(encoding="utf-8")),
        "changelog.md": within((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")),
        "reference/python.md": names(),
        "reference/wire.md": messages(),
    }
    for path in EXAMPLES:
        made |= {f"tutorials/{path.stem}.md": tutorial(path), f"tutorials/{path.stem}.ipynb": notebook(path)}
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
