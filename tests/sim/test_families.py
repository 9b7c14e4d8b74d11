"""Words of families of protocols: each protocol that makes a summary has its own (issue 11, item 1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkme.errors import ConfigError
from fedkme.protocols import PROTOCOLS
from sim.families import FAMILIES, words_of
from tests.sim.report.sample import sample_metrics, sample_run
from tests.sim.report.test_report import text_of

CELLS = {"rho": 2.0, "code_book": "sketch", "cells": 9, "classes": 3, "ordered": 60, "dropped": 0.125}


def test_every_protocol_has_words_or_makes_no_summary() -> None:
    families = {row.family for row in PROTOCOLS.values()}
    assert families == {*FAMILIES, "sums"}
    for row in PROTOCOLS.values():
        if row.family == "sums":
            with pytest.raises(ConfigError, match="makes no summary"):
                words_of(row.name)
        else:
            assert words_of(row.name) is FAMILIES[row.family]
    with pytest.raises(ConfigError, match="is no protocol"):
        words_of("cels")


@pytest.mark.parametrize("protocol", ["clock", "uniform-sealed", "cells"])
def test_a_page_has_the_words_of_the_family_of_its_run(tmp_path: Path, protocol: str) -> None:
    # Rounds, unused rows and values by gains are there where rows are chosen one a round, by their gains.
    cells = CELLS if protocol == "cells" else {}
    page = text_of(sample_run(tmp_path, sample_metrics(protocol=protocol, cells=cells)))
    words = words_of(protocol)
    ranked = protocol == "clock"
    for text in ("Round by round", "30 (10 used)", "curator's eyes only", "round, 99th percentile"):
        assert (text in page) == ranked
    for text in (PROTOCOLS[protocol].title, words.sent, words.unused, words.bound, words.together):
        assert text in page
    assert ("share of D_v in cells that no owner seems to have" in page) == (protocol == "cells")
    assert words.rounds(20) == (20 if ranked else 1)


def test_a_line_for_the_terminal_counts_what_the_family_counts() -> None:
    lines = {name: words_of(name).line(sample_metrics(cells=CELLS)) for name in ("clock", "uniform", "cells")}
    assert "bound on their expectation 81.5" in lines["clock"]
    assert "rows drawn 60 (40 not kept)" in lines["uniform"]
    assert "rows ordered 60, 60 accessed, 40 not kept; 12.5% of D_v" in lines["cells"]
