"""Alert rules for Prometheus: figures and labels that there are, and a line of the runbook for each."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from tests.ops.test_dashboard import figures
from tests.places import ROOT

FILE = ROOT / "deploy" / "alerts.yml"
PROMTOOL = shutil.which("promtool")
DURATION = r"\d+(s|m|h|d)"
WORDS = {"up", "increase", "predict_linear", "or", "unless", "offset", "job", "fedkme"}
"""Words of the expressions that are no figure of fedkme."""


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    assert set(document) == {"groups"}
    (group,) = document["groups"]
    assert set(group) == {"name", "rules"}
    return list(group["rules"])


def test_rules_have_the_schema_of_prometheus() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) > 5
    for rule in rules():
        assert (
            {"alert", "expr", "labels", "annotations"}
            <= set(rule)
            <= {*("alert", "expr", "labels", "annotations", "for", "keep_firing_for")}
        )
        assert re.fullmatch(r"Fedkme[A-Za-z]+", rule["alert"])
        assert re.fullmatch(DURATION, rule.get("for", "1m"))
        assert rule["labels"]["severity"] in ("critical", "warning")
        for opening, closing in ("()", "{}", "[]"):
            assert rule["expr"].count(opening) == rule["expr"].count(closing)


def test_rules_name_figures_and_labels_that_are_exported() -> None:
    exported = figures()
    for rule in rules():
        expression = re.sub(rf'"[^"]*"|\[{DURATION}\]|offset {DURATION}', "", rule["expr"])
        names = set(re.findall(r"[a-z_]+", expression)) - WORDS
        named = {name for name in names if name.startswith("fedkme_")}
        labels = {label for name in named for label in exported[name]} | {"instance"}  # or a KeyError
        shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert (names - named) | shown <= labels, rule


def test_each_alert_has_a_line_in_the_runbook() -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    lines = dict(re.findall(r"^\| `(Fedkme\w+)`(?:.*?) \| (.+) \|$", text, re.MULTILINE))
    assert set(lines) == {rule["alert"] for rule in rules()}
    assert {rule["annotations"]["runbook"] for rule in rules()} == {"docs/operations.md#alerts"}


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_promtool_accepts_the_rules() -> None:
    assert PROMTOOL is not None
    checked = subprocess.run([PROMTOOL, "check", "rules", FILE], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
