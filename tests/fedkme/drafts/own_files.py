"""A schema, files that do not fit it, and `fedkme schema` as it is typed."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from operate.cli import _load

SCHEMA = """# agreed on 3 May
ignore = [ # columns of nobody
    "id", # of rows
]

[[columns]] # years
name = "age"
kind = "numeric"
bounds = [0, 120] # by the form
integer = true

[[columns]]
name = "sex"
kind = "category"
categories = ["female", "male"]  # FROM DATA: replace if private

[[columns]]
name = "seen"
kind = "date"
bounds = [2020-01-01, 2024-12-31]

[[columns]]
name = "weight"
kind = "numeric"
bounds = [0, 200]

[label] # what a model learns
name = "ill"
classes = ["no", "yes"]
"""
REMARKS = [line.partition("#")[2] for line in SCHEMA.splitlines() if "#" in line]
OWNER = 'name = "north" # mine\ncurator = "-"\nplaintext = true\nschema_file = "schema.toml"\n'


def typed(*arguments: str, code: int | None = 0) -> str:
    result = CliRunner().invoke(_load("schema"), arguments)
    error = getattr(result.exception, "code", result.exit_code)
    assert code is None or error == code, result.output
    return result.output


def rows(count: int = 60) -> dict[str, list[str]]:
    return {
        "age": [str(20 + n % 60) for n in range(count)],
        "sex": [("female", "male")[n % 2] for n in range(count)],
        "seen": [f"2021-{1 + n % 12:02}-{1 + n % 28:02}" for n in range(count)],
        "weight": [f"{50 + n / 10:.1f}" for n in range(count)],
        "ill": [("no", "yes")[n % 3 % 2] for n in range(count)],
    }


def write(path: str, columns: dict[str, list[str]], sep: str = ",", encoding: str = "utf-8") -> None:
    lines = [sep.join(columns), *(sep.join(row) for row in zip(*columns.values(), strict=True))]
    Path(path).write_bytes("\n".join([*lines, ""]).encode(encoding))


def scenario(**owners: str) -> None:
    lines = ['[scenario] # ours\nkind = "csv"\nschema_file = "schema.toml"\n[scenario.owners]']
    lines += [f'{name} = "{path}" # of {name}' for name, path in owners.items()]
    Path("scenario.toml").write_text("\n".join([*lines, "[summary]\np = 2\n"]))
