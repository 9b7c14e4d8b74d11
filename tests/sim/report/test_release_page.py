"""sim.report.release_page: the page of a release, whole or failed (docs/metrics.md)."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from fedkme.errors import ConfigError, FedkmeError
from fedkme.pages.html import Bar, bars, number, short
from fedkme.tables.schema import Category, Label, Numeric, Schema, schema_from
from fedkme.tables.table import Table
from fedkme.verdict import lines_of
from sim.cli import report_app
from sim.evaluation.releases import evaluate_rows, shares
from sim.formatting import distance
from sim.progress import Progress
from sim.release_cli import print_release
from sim.release_config import load_release
from sim.releases import simulate_release
from sim.report.write import write_report
from tests.pages import without_links
from tests.sim.report.test_report import HOSTILE, Checker

CARD = {
    "measured_on": "the release itself; no row was read",
    "distance to the released embedding": 0.0197,
    "length of the noise in it": 0.0126,
}


STATEMENT = {
    "protected": "each owner",
    "observer": "consumer",
    "accountant": "sound",
    "epsilon": 1.25,
    "delta": 1e-05,
    "neighbouring": "replace-one",
    "raw_points": 0,
    "reason": "exact Gaussian",
}
SEEN = {"observer": "curator", "epsilon": "inf", "delta": 0.0, "reason": "released without noise: sums"}


def sample_metrics(**changes: Any) -> dict[str, Any]:
    """Metrics that a finished release of rows writes, with every key of the schema."""
    metrics: dict[str, Any] = {
        "status": "complete",
        "reason": None,
        "code": 0,
        "scenario": "adult",
        "method": "merf",
        "engine": "processes",
        "seed": 7,
        "security": None,
        "K": 3,
        "N": 43708,
        "rows": 10000,
        "privacy": [STATEMENT, STATEMENT | SEEN],
        "evaluation": {
            "columns": {"mean": 0.0813, "largest": 0.229, "by_name": {"age": 0.0311, "work": 0.229}},
            "real_halves": {"mean": 0.0094, "by_name": {"age": 0.0091, "work": 0.0097}},
            "shares": [
                {
                    "name": "work",
                    "values": ["none", "some"],
                    "synthetic": [0.11, 0.89],
                    "real": [0.339, 0.661],
                }
            ],
            "trained_on_synthetic": {"auc": 0.801, "roc": 0.703, "prc": 0.428},
            "trained_on_real": {"roc": 0.711, "prc": 0.443},
        },
        "files": ["release.npz", "synthetic.card.json"],
        "bytes": {"sent": 34600, "received": 180000},
        "faults": [{"round": 0, "owner": "Lyon", "code": 23, "line": "Lyon closed its stream"}],
        "timing": {"total_s": 56.8},
    }
    return metrics | changes


POINTS = {"method": "balog1", "evaluation": {"rkhs_distance": 0.0556, "weights_l1": 1.134, "points": 150}}


def sample_release(directory: Path, metrics: dict[str, Any] | None = None, **card: Any) -> Path:
    """A folder with all that the page of a release reads."""
    owner_rows = {"Bergen": 20000, "Graz": 13708, "Lyon": 10000}
    record = {"kind": "release", "status": "complete", "owner_rows": owner_rows}
    texts = {
        "metrics.json": json.dumps(sample_metrics() if metrics is None else metrics),
        "record.json": json.dumps(record),
        "synthetic.card.json": json.dumps({"utility": CARD, "notes": []} | card),
        "release.toml": 'name = "adult <&>"\n',
        "release.npz": "x" * 38000,
    }
    for name, text in texts.items():
        (directory / name).write_text(text)
    return directory


def page_of(directory: Path) -> str:
    return write_report(directory).read_text(encoding="utf-8")


def test_a_graded_release_says_so_first_on_page_and_terminal(tmp_path: Path) -> None:
    # Issue 37: columns, pairs, models and questions are graded each, in the same two lines everywhere.
    grades = {"columns": "good", "pairs": "poor", "models": "cannot tell", "questions": "poor"}
    reasons = {"questions": "as exact as <3%> of the rows"}
    verdict = {"grade": "fair", "sentence": "", "advice": "Try more.", "grades": grades, "reasons": reasons}
    lines = [
        "Good for columns. Poor for pairs and questions (as exact as <3%> of the rows). "
        "Cannot tell for models.",
        "Next: Try more.",
    ]
    assert lines_of(verdict) == lines
    metrics = sample_metrics(verdict=verdict)
    page = page_of(sample_release(tmp_path, metrics))
    assert 'class="verdict graded fair"' in page
    assert "<strong>Good</strong> for columns. Poor for pairs and questions (as exact as &lt;3%&gt;" in page
    assert "<p>Next: Try more.</p>" in page
    assert " ".join(lines) in " ".join(printed(metrics, tmp_path))


def printed(metrics: dict[str, Any], folder: Path, details: bool = False) -> list[str]:
    stream = io.StringIO()
    print_release(metrics, folder, Console(file=stream, width=100), details)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("changes", [{}, POINTS, {"status": "failed", "reason": "quorum", "files": []}])
def test_the_page_is_one_well_formed_file_that_loads_nothing(tmp_path: Path, changes: dict[str, Any]) -> None:
    # docs/metrics.md: report.html of a release is one page that loads nothing, as a summary's.
    page = page_of(sample_release(tmp_path, sample_metrics(**changes)))
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert all(address.startswith("#term-") for address in checker.addresses)
    assert not checker.tags & {"script", "link", "iframe", "object", "img"}
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page
    for drawing in re.findall(r"<svg.*?</svg>", page):
        assert ElementTree.fromstring(drawing).get("aria-label")


def test_the_page_says_everything_in_order(tmp_path: Path) -> None:
    # Brief: head, tiles, privacy, fidelity, models, owners, faults, files, settings, in that order; every
    # number is that of metrics.json, record.json, the card or the file itself.
    page = page_of(sample_release(tmp_path))
    assert page == page_of(tmp_path)
    page = without_links(page)
    metrics = sample_metrics()
    evaluation = metrics["evaluation"]
    columns, halves = evaluation["columns"], evaluation["real_halves"]
    expected = [
        *(
            "<h1>merf: a release of adult</h1>",
            "(DP-MERF, Harder 2021) · complete · scenario adult · engine processes · seed 7",
        ),
        *(number(metrics["rows"]), number(metrics["N"]), "N, of K = 3 owners"),
        *(short(metrics["privacy"][0]["epsilon"]), "proven, at δ = 1e-05", "trusted curator"),
        *(short(0.0197), "the noise in it has length 0.0126", short(columns["mean"])),
        "two real halves: 0.0094",
        *("Lost or blurred: 1 of 2 columns (work).", "work</text>"),
        *(f"{distance(columns['by_name'][name])} / {distance(halves['by_name'][name])}" for name in ["work"]),
        *(f"{distance(columns['by_name'][name])} / {distance(halves['by_name'][name])}" for name in ["age"]),
        f"in the mean {distance(columns['mean'])} / {distance(halves['mean'])}",
        "a simulation alone can see",
        '<table class="wide">',  # its names of columns have no room on a phone
        *("synthetic rows", "0.801", "0.703", "0.428", "real rows", "-", "0.711", "0.443"),
        *("Lyon closed its stream", "<section><details><summary><h2>Values of a few columns"),
        *("none</text>", "11.0%", "33.9%", "some</text>", "89.0%", "66.1%"),
        *("sound", "1.25", "exact Gaussian", "curator", "inf", "released without noise: sums"),
        *("distance to the released embedding", "0.0197", "0.0126"),
        *("Bergen", "20,000", "Graz", "13,708", "Lyon", "10,000", "release.npz", "38 kB"),
        *("56.8 s", "34.6 kB", "180 kB", "<section><details><summary><h2>Settings", "adult &lt;&amp;&gt;"),
    ]
    position = 0
    for text in expected:
        position = page.find(text, position)
        assert position >= 0, text


def test_a_column_is_drawn_against_what_real_halves_differ_by(tmp_path: Path) -> None:
    # docs/metrics.md, `real_halves`: grey is the part that nothing does better than, and blue the rest.
    page = page_of(sample_release(tmp_path))
    drawing = re.search(r'<svg[^>]*aria-label="Distance of each column.*?</svg>', page)
    assert drawing is not None
    bars = [
        (bar.get("class"), float(bar.get("width", "nan")))
        for bar in ElementTree.fromstring(drawing[0])
        if bar.tag == "rect"
    ]
    assert [style for style, _ in bars] == ["other", "main"] * 2  # work, then age
    columns = sample_metrics()["evaluation"]["columns"]["by_name"]
    for (grey, blue), name, half in zip(
        ((bars[0][1], bars[1][1]), (bars[2][1], bars[3][1])), ("work", "age"), (0.0097, 0.0091), strict=True
    ):
        assert grey / (grey + blue) == pytest.approx(half / columns[name], abs=0.005)


def test_weighted_points_have_their_distance(tmp_path: Path) -> None:
    # Balog's methods return points: no column is compared, and their RKHS distance is shown.
    page = page_of(sample_release(tmp_path, sample_metrics(**POINTS)))
    for text in ("0.0556", "1.13", "150", "RKHS distance from the mean embedding"):
        assert text in page
    assert "Each column" not in page
    assert "Models trained" not in page


@pytest.mark.parametrize("security", [None, {"dropouts": 1, "colluders": 2}])
def test_the_trust_level_is_on_the_page(tmp_path: Path, security: Any) -> None:
    page = page_of(sample_release(tmp_path, sample_metrics(security=security)))
    assert ("1 may be lost, 2 collude" in page) == (security is not None)


def test_a_release_without_noise_promises_nothing(tmp_path: Path) -> None:
    # docs/releases.md: `epsilon = inf` makes a release without noise; nothing bounds what it tells.
    privacy = [STATEMENT | {"epsilon": "inf", "delta": 0.0, "reason": "released without noise: sums"}]
    page = page_of(sample_release(tmp_path, sample_metrics(privacy=privacy)))
    assert "nothing is proven</dd>" in page
    assert "proven, at δ" not in page


def test_no_text_of_a_release_becomes_markup(tmp_path: Path) -> None:
    # Owners choose their names, and categories come from a schema: everything is escaped.
    shares = [{"name": HOSTILE, "values": [HOSTILE], "synthetic": [1.0], "real": [1.0]}]
    columns = {"mean": 0.1, "largest": 0.1, "by_name": {HOSTILE: 0.1}}
    metrics = sample_metrics(
        **dict.fromkeys(("status", "reason", "scenario", "method", "engine"), HOSTILE),
        privacy=[
            dict.fromkeys(("protected", "observer", "accountant", "reason"), HOSTILE) | {"epsilon": 1.0}
        ],
        evaluation={"columns": columns, "real_halves": columns, "shares": shares},
        faults=[{"round": 1, "owner": HOSTILE, "code": 23, "line": HOSTILE}],
        files=[HOSTILE, "synthetic.card.json"],
    )
    sample_release(tmp_path, metrics, utility={HOSTILE: 0.5, "measured_on": HOSTILE}, notes=[HOSTILE])
    (tmp_path / "record.json").write_text(json.dumps({"kind": "release", "owner_rows": {HOSTILE: 1}}))
    (tmp_path / "release.toml").write_text(HOSTILE)
    page = page_of(tmp_path)
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 18


def test_a_file_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    (sample_release(tmp_path) / "release.npz").unlink()
    assert re.search(r"release\.npz</td><td[^>]*>gone<", page_of(tmp_path))


@pytest.mark.parametrize("status", ["failed", "interrupted", "cancelled"])
def test_a_release_that_came_to_nothing_says_so(tmp_path: Path, status: str) -> None:
    # ReleaseRecord: a run that ended without a result has no files, epsilon or evaluation.
    empty: dict[str, Any] = {"files": [], "privacy": [], "evaluation": {}, "rows": 0}
    page = page_of(
        sample_release(tmp_path, sample_metrics(status=status, reason="2 owners are left.", **empty))
    )
    ended = "failed" if status == "failed" else f"was {status}"
    assert f"The release {ended}: 2 owners are left." in page
    assert "Nothing came out of this release." in page
    assert "Nothing was disclosed" in page
    assert "ε towards the consumer" not in page


def test_a_real_run_that_fails_leaves_its_page_and_the_command_writes_it_again(tmp_path: Path) -> None:
    # Brief: the page is written at the end of a failed release too, and `fedkme report DIR` writes it again.
    settings = load_release("balog1", "digits", ["engine=inprocess", "pooling.quorum=99"])
    with pytest.raises(FedkmeError, match="quorum"):
        simulate_release(settings, tmp_path / "run", Progress(io.StringIO()))
    page = tmp_path / "run" / "report.html"
    written = page.read_bytes()
    assert b"The release failed: error 22" in written
    page.unlink()
    result = CliRunner().invoke(report_app, [str(tmp_path / "run")])
    assert result.stdout.replace("\n", "") == str(page)
    assert page.read_bytes() == written


def test_a_release_ends_with_a_few_lines_and_details_have_every_figure(tmp_path: Path) -> None:
    # Issue 37: five plain last lines, the rest behind --details, as a summary has them.
    verdict = {"grade": "poor", "sentence": "", "advice": "Try more.", "grades": {"questions": "poor"}}
    metrics = sample_metrics(verdict=verdict, faults=[])
    path = tmp_path / "report.html"
    assert printed(metrics, tmp_path) == [
        "merf complete: 10000 rows, of 43708 rows of 3 owners, with a trusted curator",
        "Poor for questions.",
        "Next: Try more.",
        "Rows seen as they are: owners' rows by consumer 0, by curator 0.",
        "Epsilon (inf: no bound): owners' rows to consumer 1.25, to curator inf.",
        f"report: {path} (all figures here: --details)",
    ]
    lines = printed(metrics, tmp_path, details=True)
    assert lines[-1] == f"report: {path}"
    # by name they are on the page alone
    assert "  distance of a column from the owners' (0 to 1): mean 0.0813, largest 0.229" in lines


@pytest.mark.parametrize("text", [None, "{", "[]", '{"status": "complete"}'])
def test_unreadable_metrics_are_a_configuration_error(tmp_path: Path, text: str | None) -> None:
    path = sample_release(tmp_path) / "metrics.json"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(ConfigError, match=r"metrics\.json"):
        write_report(tmp_path)


SCHEMA = Schema(
    columns=(
        Numeric(name="age", bounds=(0, 100), missing=20),
        Category(name="town", categories=tuple(f"town-{at}" for at in range(12))),
        Numeric(name="flat", bounds=(-1, 1)),
    ),
    label=Label(name="ill", classes=("no", "yes")),
)


def some_rows(seed: int, rows: int) -> Table:
    draw = np.random.default_rng(seed)
    age, town = draw.uniform(0, 100, rows), draw.integers(0, 12, rows)
    return Table(np.column_stack([age, town, np.zeros(rows)]), draw.integers(0, 2, rows))


def test_columns_by_name_are_those_of_the_mean_and_shares_add_up() -> None:
    # docs/metrics.md: `columns.by_name`, and `shares` of the label and the columns that are furthest off.
    nobody = Table(np.empty((0, 3)), None)
    figures = evaluate_rows(some_rows(0, 300), some_rows(1, 400), nobody, SCHEMA, 0)
    by_name = figures["columns"]["by_name"]
    assert list(by_name) == list(figures["real_halves"]["by_name"]) == ["age", "town", "flat"]
    assert figures["columns"]["mean"] == pytest.approx(np.mean(list(by_name.values())))
    assert figures["columns"]["largest"] == max(by_name.values())
    assert by_name["flat"] == 0.0
    entries = figures["shares"]
    assert [entry["name"] for entry in entries] == ["ill", *sorted(by_name, key=lambda n: -by_name[n])]
    for entry in entries:
        assert sum(entry["synthetic"]) == pytest.approx(1)
        assert sum(entry["real"]) == pytest.approx(1)
        assert len(entry["values"]) == len(entry["real"]) <= 10
    town = next(entry for entry in entries if entry["name"] == "town")
    assert town["values"][-1] == "3 others"
    total_variation = 0.5 * np.abs(np.subtract(town["synthetic"], town["real"])).sum()
    assert total_variation <= by_name["town"] + 1e-12  # rare ones are put together


def test_bins_of_dates_and_whole_numbers_begin_at_one() -> None:
    # A page had "1.874e+04 to 1.885e+04" for dates, cut off, and ages of 27.88.
    schema = schema_from(
        {
            "columns": [
                {"name": "seen", "kind": "date", "bounds": ["2020-01-01", "2024-12-31"]},
                {"name": "age", "kind": "numeric", "bounds": [0, 120], "integer": True},
                {"name": "few", "kind": "numeric", "bounds": [0, 3], "integer": True},
            ]
        }
    )
    draw = np.random.default_rng(3)
    values = [draw.integers(18300, 20000, 900), *draw.integers(0, (91, 4), (900, 2)).T]
    rows = Table(np.column_stack(values).astype(float), None)
    seen, age, few = shares(rows, rows, schema, np.arange(3))
    for entry in (seen, age, few):
        assert sum(entry["real"]) == pytest.approx(1)
        assert len(entry["values"]) == len(entry["real"])
    assert all(re.fullmatch(r"(<|from|≥) 20\d\d-\d\d-\d\d", value) for value in seen["values"])
    assert all(re.fullmatch(r"(< |≥ |\d+ to )\d+", value) for value in age["values"])
    assert few["values"] == ["< 1", "1 to 2", "2 to 3", "≥ 3"]


def test_missing_values_are_compared_as_releases_see_them() -> None:
    # fedkme/tables/schema.py, `missing`: a public value stands in place of NaN before any sum is taken.
    real = some_rows(1, 400)
    real.values[:200, 0] = np.nan
    filled = Table(np.where(np.isnan(real.values), 20.0, real.values), real.labels)
    figures = evaluate_rows(filled, real, Table(np.empty((0, 3)), None), SCHEMA, 0)
    assert figures["columns"]["largest"] == 0.0
    assert all(entry["synthetic"] == entry["real"] for entry in figures["shares"])


def test_a_reader_gets_the_date_and_the_command_that_repeats_a_release(tmp_path: Path) -> None:
    # Date, version and the command that repeats it.
    folder = sample_release(tmp_path)
    (folder / "release.toml").write_text("seed = 1\n")
    page = without_links(write_report(folder).read_text())
    assert "<code>fedkme release merf release.toml</code>" in page
    assert "<time" in page


def test_long_labels_of_bars_are_whole() -> None:
    text = bars("shares", [Bar("Married-spouse-absent", ((1.0, "main"),), "1")])
    start = re.search(r'<text x="([\d.]+)"[^>]*>Married-spouse-absent', text)
    assert start is not None
    assert float(start[1]) >= 21 * 7.4
