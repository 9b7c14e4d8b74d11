"""A user with csv files of three owners, each written another way: to a summary in at most five commands."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from tests.hosts.guide import Terminals
from tests.users.terminal import commands, terminals

HEADER = ("patient_id", "age", "sex", "smoker", "bmi", "seen", "ill")
COMMANDS = """
fedkme schema draft pilot.csv --label ill --out schema.toml
fedkme new scenario study north.csv south.csv west.csv --schema schema.toml --validation lab.csv
fedkme schema check schema.toml study/scenario.toml
fedkme sim run study/scenario.toml --out summary
"""
BOUNDS = {"age": "[0, 120]", "bmi": "[10, 80]", "seen": "[2020-01-01, 2024-12-31]"}
"""Public bounds that the user writes in place of those of the pilot's rows."""


def patients(name: str, count: int, years: float) -> Iterator[tuple[str, ...]]:
    """Yield rows as the pilot has them: yes and no, ISO dates, empty cells where nothing is known."""
    draw = np.random.default_rng([len(name), count])
    for number in range(count):
        age = int(np.clip(draw.normal(50 + years, 14), 18, 95))
        smoker, ill = (bool(draw.random() < share) for share in (0.3, 0.2 + 0.005 * age))
        seen = date(2021, 1, 1) + timedelta(int(draw.integers(0, 1000)))
        bmi = f"{np.clip(draw.normal(26, 4), 15, 55):.1f}" if number % 20 else ""
        words = ("no", "yes")
        yield (
            *(f"{name}{number:05d}", str(age), "MF"[number % 2], words[smoker] if number % 30 else ""),
            *(bmi, seen.isoformat(), words[ill]),
        )


def write(path: Path, count: int, years: float, sep: str = ",", **spelling: str) -> None:
    """Write a file of patients.

    Args:
        path: the file.
        count: rows.
        years: older than others.
        sep: between the cells.
        spelling: this file's words for yes, no and an empty cell, its decimal sign, and its form of dates.
    """
    decimal, form = spelling.pop("decimal", "."), spelling.pop("form", "%Y-%m-%d")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=sep)
        writer.writerow(HEADER)
        for of, age, sex, smoker, bmi, seen, ill in patients(path.stem, count, years):
            day = date.fromisoformat(seen).strftime(form)
            cells = [
                of,
                age,
                sex,
                spelling.get(smoker, smoker),
                bmi.replace(".", decimal),
                day,
                spelling[ill],
            ]
            writer.writerow([cell or spelling["nothing"] for cell in cells])


def edit(schema: Path) -> None:
    """Put public bounds in place of those that were seen in rows, as the draft asks for."""
    lines, name = [], ""
    for line in schema.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(" = ")
        name = value.strip('"') if key == "name" else name
        lines.append(f"bounds = {BOUNDS[name]}" if key == "bounds" else line)
    schema.write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture
def laptop(tmp_path: Path) -> Terminals:
    terminal = terminals(tmp_path, "laptop")
    home = terminal.home("laptop")
    plain = {"yes": "yes", "no": "no", "nothing": ""}
    write(home / "pilot.csv", 60, 0, **plain)
    write(home / "lab.csv", 120, 12, **plain)
    german = {"yes": "Y", "no": "N", "nothing": "NA", "decimal": ",", "form": "%d.%m.%Y"}
    write(home / "north.csv", 240, 0, ";", **german)
    write(home / "south.csv", 200, 5, **plain)
    write(home / "west.csv", 180, -5, **{"yes": "1", "no": "0", "nothing": "?", "form": "%m/%d/%Y"})
    return terminal


@pytest.mark.timeout(600)
def test_three_files_of_strangers_become_a_summary(laptop: Terminals) -> None:
    home = laptop.home("laptop")
    draft, new, check, run = commands(COMMANDS)
    laptop.type("laptop", draft)
    edit(home / "schema.toml")
    assert "next: fedkme schema check" in laptop.type("laptop", new)
    assert laptop.type("laptop", check).count("no faults") == 4
    output = laptop.type("laptop", run)
    assert "complete, 20 rows, 3 owners" in output
    (place,) = re.findall(r"rows with names and weights: (\S+)", output)
    with (home / place).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 20
    assert {row["smoker"] for row in rows} <= {"yes", "no", ""}
    assert {row["ill"] for row in rows} == {"yes", "no"}
    assert (home / "summary" / "report.html").is_file()
