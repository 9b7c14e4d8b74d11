"""Count the lines of code that a module imports: `python tools/closure.py owner.__main__ [--lazy]`.

A line of code is neither blank nor a comment nor part of a docstring. With --lazy, imports inside functions
count, too; imports for types alone never do.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_LAYOUT = {getattr(tokenize, name) for name in ("COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER")}
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def lines_of_code(path: Path) -> int:
    """Count a module's lines of code."""
    text, lines = path.read_text(encoding="utf-8"), set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def imported(node: ast.AST, lazy: bool) -> Iterator[str]:
    """Yield the dotted names that a module imports, `from x import y` as x.y."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import():
                yield from (name.name for name in child.names)
            case ast.ImportFrom(module=str(module)):
                yield from (f"{module}.{name.name}" for name in child.names)
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                pass
            case ast.FunctionDef() | ast.AsyncFunctionDef() if not lazy:
                pass
            case _:
                yield from imported(child, lazy)


def closure(start: str, lazy: bool) -> set[Path]:
    """Modules of this repository that a module imports, itself included, with their packages."""
    found, waiting = set[Path](), [start]
    while waiting:
        parts = waiting.pop().split(".")
        for end in range(1, len(parts) + 1):
            base = ROOT.joinpath(*parts[:end])
            path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
            if path.is_file() and path not in found and not path.stem.endswith(("_pb2", "_pb2_grpc")):
                found.add(path)
                waiting += imported(ast.parse(path.read_text(encoding="utf-8")), lazy)
    return found


if __name__ == "__main__":
    modules = closure(sys.argv[1], "--lazy" in sys.argv[2:])
    sys.stdout.write(f"{sum(map(lines_of_code, modules))} lines of code in {len(modules)} modules\n")
