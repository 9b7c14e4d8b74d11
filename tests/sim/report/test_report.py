"""sim.report: one self-contained page and the final table (issue 2, items 8 and 10; DESIGN.md)."""

from __future__ import annotations

import base64
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.image import imread

from fedkme.errors import ConfigError, DataError
from fedkme.inputs import SMALL
from fedkme.tables.files import save_table
from fedkme.tables.table import Table
from sim.report.write import write_report
from tests.pages import without_links
from tests.sim.report.sample import BARE, COLUMNS, sample_metrics, sample_run
from tests.sim.report.test_final_lines import printed

HOSTILE = "<script>alert('x')</script>"


def page_of(directory: Path) -> str:
    return write_report(directory).read_text(encoding="utf-8")


def text_of(directory: Path) -> str:
    """The page without the links from its words to the glossary."""
    return without_links(page_of(directory))


class Checker(HTMLParser):
    """Collects tags and addresses, and fails on a tag that is not closed in order."""

    VOID = frozenset({"meta", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_one_file_that_loads_nothing(tmp_path: Path) -> None:
    # DESIGN, `fedkme report DIR`: one self-contained HTML file; no network, no other files, no JavaScript.
    page = page_of(sample_run(tmp_path))
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert not checker.tags & {"script", "link", "iframe", "object"}
    assert all(address.startswith(("data:image/png;base64,", "#term-")) for address in checker.addresses)
    assert "url(" not in page
    assert "@import" not in page
    for drawing in re.findall(r"<svg.*?</svg>", page):
        assert ElementTree.fromstring(drawing).get("aria-label")


def test_the_page_says_everything_in_order(tmp_path: Path) -> None:
    # Brief: content, in order; issue 2, item 8: every metric of the schema is on the page. The page of digits
    # was 11,558 pixels long on a phone: from `Privacy` on all is folded.
    page = text_of(sample_run(tmp_path))
    expected = [
        "<h1>digits</h1>",
        "The summary&#x27;s MMD² is 0.0216, 8.0 % over non-private greedy; uniform sampling: 0.0600.",
        "Algorithm 3, descending clock · complete · engine processes · K = 3 owners · p = 20 rows",
        *("median round", "exact-kernel greedy", "with seed set", "-5.0 %", "+200 %", "0.0650"),
        *("84.3%", "Lyon closed its stream", "<section><details><summary><h2>Privacy"),
        *("published", "1.4", "sound", "inf", "the winner is asked", "ε = inf means"),
        *("Estimate of MMD² after each round", "Rows revealed in each round", "30 (10 used)", "20 (10 used)"),
        *("81.5", "33.3%", "curator's eyes only", "0.61", "class 9", "7.7 ms", "1.23 MB"),
        *("<section><details><summary><h2>Configuration", "digits &lt;&amp;&gt;", "<h2>What the words mean"),
    ]
    position = 0
    for text in expected:
        position = page.find(text, position)
        assert position >= 0, text


def test_a_run_without_baselines_has_no_column_and_no_word_of_them(tmp_path: Path) -> None:
    # On a phone an empty column "over greedy" cut the table of every deployed run.
    metrics = sample_metrics(mmd2={"summary": 0.02}, mmd2_counted={}, mmd2_test={}, percent_over_greedy={})
    page = text_of(sample_run(tmp_path, metrics))
    (table,) = (each for each in re.findall(r"<thead>.*?</thead>", page) if "MMD² to D_v" in each)
    assert re.findall(r">([^<]+)</th>", table) == ["method", "MMD² to D_v"]
    assert not re.search("greedy|Test rows", page.partition("What the words mean")[0])


def test_two_methods_that_select_the_same_share_a_line_with_the_rows_that_each_accessed(
    tmp_path: Path,
) -> None:
    metrics = sample_metrics(points_accessed_baselines={"winner_only": 20, "ask_everyone": 57})
    for key in ("mmd2", "mmd2_counted", "mmd2_test", "percent_over_greedy"):
        del metrics[key]["ask_everyone"]
    said = "winner only = ask everyone"
    (line,) = (line for line in printed(metrics, 100) if line.strip().startswith("winner only"))
    assert line.split(said)[1].split() == ["0.0210", "+5.0", "%", "0.0300", "0.0250"]
    accessed = "rows accessed: winner only 20, ask everyone 57"
    assert accessed in " ".join(printed(metrics, 100))
    page = text_of(sample_run(tmp_path, metrics))
    assert page.count(said) == 1
    assert accessed.capitalize() in page


def test_the_verdict_is_first_on_the_page_and_its_reason_the_last_of_the_details(tmp_path: Path) -> None:
    # In words, at the end of every run, with what to try.
    reason = {"sentence": "it is twice as far", "advice": "Try cells."}
    said = {"grade": "poor", "grades": {"alike": "poor"}, **reason}
    first = text_of(sample_run(tmp_path, sample_metrics(verdict=said))).split("</h1>")[1]
    assert re.sub(r"<[^>]*>|\s+", " ", first).split()[:4] == ["Poor", "as", "rows", "alike:"]
    assert first.index("Poor") < first.index("Next: Try cells.") < first.index("it is twice as far")
    assert printed(sample_metrics(verdict=said), 100)[-1] == "Verdict: it is twice as far."


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    assert page_of(sample_run(tmp_path)) == page_of(tmp_path)


def test_no_text_of_a_run_becomes_markup(tmp_path: Path) -> None:
    # Owners choose their names: brief, HTML-escape everything.
    access = sample_metrics()["points_accessed"] | {"by_owner": {HOSTILE: 60}}
    metrics = sample_metrics(
        status="stopped",
        reason=HOSTILE,
        scenario=HOSTILE,
        engine=HOSTILE,
        points_accessed=access,
        payouts={HOSTILE: 1.0},
        curator_only={"value_by_owner": {HOSTILE: 1.0}},
        faults=[{"round": 1, "owner": HOSTILE, "code": 23, "line": HOSTILE}],
        downstream={HOSTILE: 0.5},
        mmd2={HOSTILE: 0.1},
        privacy=[dict.fromkeys(("protected", "observer", "accountant", "neighbouring", "reason"), HOSTILE)],
    )
    sample_run(tmp_path, metrics)
    (tmp_path / "run.toml").write_text(HOSTILE)
    page = page_of(tmp_path)
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 12


@pytest.mark.parametrize(("status", "rounds"), [("stopped", 9), ("interrupted", 0)])
def test_a_partial_run_is_readable_and_says_why_it_ended(tmp_path: Path, status: str, rounds: int) -> None:
    # Issue 2, item 10 and "Bad input": a stopped run keeps what it has and says so.
    metrics = BARE | {"status": status, "reason": "2 owners are left", "rounds": rounds}
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    (tmp_path / "rounds.csv").write_text(",".join(COLUMNS) + "\n1,0,3,3,3,2,3,Bergen,1,0.2,0.5,3.1\n2,1,3")
    page = page_of(tmp_path)
    assert f"The run was {status} after round {rounds} of 20: 2 owners are left." in page
    assert "there is nothing to compare" in page
    assert "Payouts" not in page


def test_what_the_curator_alone_may_know_is_marked(tmp_path: Path) -> None:
    # The value of each owner's rows is for the curator's eyes only.
    page = page_of(sample_run(tmp_path))
    block = page[page.index('<div class="restricted">') :]
    assert "0.61" in block
    assert "0.61" not in page[: -len(block)]


def test_disagreeing_counts_are_shown(tmp_path: Path) -> None:
    # DESIGN, "Words": owner and curator count the points accessed, and the two must agree.
    access = sample_metrics()["points_accessed"] | {"owners_agree": False}
    assert "Owners and curator disagree" in page_of(
        sample_run(tmp_path, sample_metrics(points_accessed=access))
    )


def test_many_owners_do_not_drown_the_page(tmp_path: Path) -> None:
    # DESIGN, decision 1: K in the thousands. The 40 that sent most are drawn.
    counts = {f"owner-{number:04}": number for number in range(1000)}
    access = sample_metrics()["points_accessed"] | {"by_owner": counts}
    page = page_of(sample_run(tmp_path, sample_metrics(points_accessed=access, payouts={})))
    assert "owner-0960" in page
    assert "owner-0959" not in page
    assert "The 960 owners that sent least are left out." in page


def test_rows_that_are_images_are_shown_as_they_are(tmp_path: Path) -> None:
    # Brief: a contact sheet of the selected rows for 8x8 and 28x28 images; ink on paper, at most 100.
    sample_run(tmp_path)
    pixels = np.random.default_rng(0).integers(0, 17, size=(120, 64))
    pixels[0, 0] = 16
    save_table(tmp_path / "summary.npz", Table(pixels))
    images = re.findall(r'src="data:image/png;base64,([^"]+)"', page_of(tmp_path))
    assert len(images) == 100
    for image, row in zip(images, pixels, strict=False):
        decoded = imread(io.BytesIO(base64.b64decode(image)), format="png")
        np.testing.assert_allclose(decoded, 1 - row.reshape(8, 8) / 16, atol=1 / 255)


@pytest.mark.parametrize("shape", [(5, 63), (0, 64), (5,)])
def test_other_rows_are_not(tmp_path: Path, shape: tuple[int, ...]) -> None:
    sample_run(tmp_path)
    save_table(tmp_path / "summary.npz", Table(np.ones(shape)))
    assert "<img" not in page_of(tmp_path)


@pytest.mark.parametrize(
    "text", [None, "{", "[]", '{"scenario": "x"}', json.dumps(sample_metrics(mmd2=[])), '{"K": "3"}']
)
def test_unreadable_metrics_are_a_configuration_error(tmp_path: Path, text: str | None) -> None:
    # Brief: a missing or unreadable metrics.json -> ConfigError.
    if text is not None:
        (tmp_path / "metrics.json").write_text(text)
    with pytest.raises(ConfigError, match=r"metrics\.json"):
        write_report(tmp_path)


def test_an_unreadable_summary_is_an_error_too(tmp_path: Path) -> None:
    (sample_run(tmp_path) / "summary.npz").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"summary\.npz"):
        write_report(tmp_path)


def test_a_record_of_very_many_rows_has_a_page(tmp_path: Path) -> None:
    directory = sample_run(tmp_path)
    (directory / "record.json").write_text("{" + " " * SMALL + "}")
    assert write_report(directory).exists()
