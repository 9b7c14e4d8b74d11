"""The glossary and the picture of who saw what."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sim.report.privacy import who_saw_what as picture
from tests.sim.report.sample import sample_metrics, sample_run
from tests.sim.report.test_report import page_of


def statement(protected: str, observer: str, epsilon: Any, rows: int = 0, reason: str = "") -> dict[str, Any]:
    about = {"protected": protected, "observer": observer, "epsilon": epsilon, "raw_points": rows}
    return about | {"accountant": "sound", "neighbouring": "replace-one", "delta": 1e-5, "reason": reason}


def test_each_word_that_leads_to_the_glossary_is_in_it_and_leads_there_once(tmp_path: Path) -> None:
    page = page_of(sample_run(tmp_path, sample_metrics(protocol="cells")))
    led = re.findall(r'<a class="term" href="#term-(\w+)">', page)
    explained = re.findall(r'<dt id="term-(\w+)">', page)
    assert {"epsilon", "greedy"} <= set(led)
    assert len(led) == len(set(led))
    assert set(led) <= set(explained)
    assert len(explained) == len(set(explained))


def test_the_picture_says_who_saw_rows_figures_or_nothing() -> None:
    seen = picture(
        [
            statement("D_v", "owners and curator", 1.0),
            statement("north", "curator", "inf", 70, "rows are seen as they are"),
            statement("south", "curator", 0.5),
            statement("north", "other owners", 1.0),
            statement("south", "other owners", 1.0),
        ]
    )
    lines = [re.sub(r"<[^>]*>", "|", line) for line in re.findall(r"<tr>.*?</tr>", seen, re.DOTALL)]
    text = re.sub(r"\|+", "|", "\n".join(lines))
    assert re.search(r"north.*figures with noise, ε.=.1.*70 rows as they are", text)
    assert re.search(r"south.*figures with noise, ε.=.1.*figures with noise, ε.=.0\.5.*nothing", text)
    assert "its own" in text


def test_a_page_without_statements_draws_no_picture() -> None:
    assert picture([]) == ""
