"""Rules that `fedkme schema draft` proposes, and the rows that break rules."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedkme.errors import DataError
from fedkme.tables.files import load_table
from fedkme.tables.schema import load_schema, schema_from
from fedkme.tables.table import Table
from operate.proposed_rules import sums_in, whole_columns
from operate.schema_cli import app


def test_a_draft_proposes_functions_and_check_counts_rows_that_break_rules(tmp_path: Path) -> None:
    degrees = {"primary": 4, "school": 10, "college": 14, "doctor": 18}
    rows = [(each, years, 20 + place) for place in range(30) for each, years in degrees.items()]
    (sample := tmp_path / "sample.csv").write_text(_csv(rows), encoding="utf-8")
    drafted = CliRunner().invoke(app, ["draft", str(sample)]).stdout
    begin = drafted.index("# [derived.years]")
    assert "'years' follows from 'degree' in all rows" in drafted
    proposal = drafted[begin:].replace("\n# ", "\n").removeprefix("# ")
    rule = "never = [\"age < 25 and degree = 'doctor'\"]\n"
    (schema := tmp_path / "schema.toml").write_text(rule + drafted[:begin] + proposal, encoding="utf-8")
    (own := tmp_path / "own.csv").write_text(_csv([*rows, ("school", 18, 30)]), encoding="utf-8")
    checked = CliRunner().invoke(app, ["check", str(schema), str(own)]).stdout
    assert "5 rows break 'never age < 25 and degree = 'doctor''" in checked
    assert "1 rows break 'years = function of degree'" in checked
    as_json = json.loads(CliRunner().invoke(app, ["check", str(schema), str(own), "--json"]).stdout)
    assert [*as_json["rules"].values()] == [
        {"never age < 25 and degree = 'doctor'": 5, "years = function of degree": 1}
    ]


def test_a_draft_proposes_sums_and_orders_of_dates(tmp_path: Path) -> None:
    # Sums of parts and orders of dates could be rules, and no draft named them.
    lines = ["left,right,falls,steps,admitted,discharged,seen,degree,years"]
    for n in range(60):
        days = [f"2021-{1 + (n + more) % 12:02}-{1 + n % 28:02}" for more in (0, 0, 5)]
        days[1] = f"2022-{days[1][5:]}"
        degree = "none" if n % 3 else "school"
        lines.append(
            f"{n % 7},{n % 11},{n % 7 + n % 11},{n * 5 % 23},{','.join(days)},{degree},{2 + 8 * (n % 3 == 0)}"
        )
    (sample := tmp_path / "sample.csv").write_text("\n".join([*lines, ""]), encoding="utf-8")
    drafted = CliRunner().invoke(app, ["draft", str(sample)]).stdout
    assert '# order = [["admitted", "discharged"], ["seen", "discharged"]]' in drafted
    assert '# [derived.falls]\n# sum_of = ["left", "right"]' in drafted
    assert "'years' follows from 'degree'" in drafted  # a degree of none is a gap of the draft
    assert drafted.count("follows from") == 2
    begin = drafted.index("\n# 'years'")
    rules = re.sub(r"\n# (\[|\w+ = )", r"\n\1", drafted[begin:])
    above = drafted[:begin].replace("# order = ", "order = ")  # it stood in [label], where it is no key
    (schema := tmp_path / "schema.toml").write_text(above + rules, encoding="utf-8")
    checked = CliRunner().invoke(app, ["check", str(schema), str(sample)])
    assert checked.exit_code == 0, checked.output
    assert "rows break" not in checked.output


def test_days_between_close_dates_are_a_column_that_files_may_lack(tmp_path: Path) -> None:
    # Of hotels' arrivals and departures in two years made rows kept the order, and stays of 29 days for 3.3;
    # without the order half of the stays were negative.
    start, rng = np.datetime64("2022-01-01"), np.random.default_rng(0)
    first = start + rng.integers(0, 700, 80)
    stays, paid = rng.integers(1, 9, 80), rng.integers(0, 30, 80)
    columns = (first, first + stays, first + stays + paid, rng.integers(18, 90, 80))
    lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    (own := tmp_path / "own.csv").write_text("\n".join(["arrival,departure,paid,age", *lines, ""]))
    drafted = CliRunner().invoke(app, ["draft", str(own)]).stdout
    assert drafted.count("is soon after 'arrival'") == 2  # 'paid' not after 'departure', which follows itself
    begin = drafted.index("\n# 'departure' is soon")
    rules = re.sub(r"\n# (\[|\w+ = )", r"\n\1", drafted[begin:])
    (schema := tmp_path / "schema.toml").write_text(drafted[:begin] + rules, encoding="utf-8")
    checked = CliRunner().invoke(app, ["check", str(schema), str(own)])
    assert checked.exit_code == 0, checked.output
    assert "rows break" not in checked.output
    table, read = load_table(own, load_schema(schema), "own"), load_schema(schema).names
    assert table.values[:, read.index("days_to_departure")].tolist() == stays.tolist()
    own.write_text("arrival,departure,paid,age\n2022-01-03,,2022-02-02,30\n")
    with pytest.raises(DataError, match="'departure': NaN, infinity or an empty cell"):
        load_table(own, load_schema(schema), "own")


def test_sums_are_not_looked_for_among_the_pixels_of_an_image() -> None:
    columns = [{"kind": "numeric", "name": "pixel", "bounds": [0, 255], "count": 784}]
    schema = schema_from({"columns": columns})
    table = Table(np.random.default_rng(0).integers(0, 255, (2000, 784)).astype(np.float64), None)
    assert sums_in(schema, whole_columns(schema, [table])) == {}
    numbers = [{"kind": "numeric", "name": f"x{n}", "bounds": [0, 900]} for n in range(60)]
    values = np.random.default_rng(0).integers(0, 255, (2000, 60)).astype(np.float64)
    values[:, 59] = values[:, 3] + values[:, 40]
    schema = schema_from({"columns": numbers})
    (found,) = sums_in(schema, whole_columns(schema, [Table(values, None)])).items()
    assert (found[0], found[1].sum_of) == ("x59", ("x3", "x40"))


def _csv(rows: list[tuple[str, int, int]]) -> str:
    return "degree,years,age\n" + "".join(f"{','.join(map(str, row))}\n" for row in rows)
