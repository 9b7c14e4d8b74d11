"""Grafana dashboard: it shows every exported metric, and no others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from curator.metrics import CuratorMetrics
from curator.owners.members import Members
from curator.run.summary_record import RoundRecord
from curator.runs.queue import RunQueue
from fedkme.directives import Directive, Dismiss
from fedkme.ops.metrics import Expiries, Spending, host_figures, timed
from fedkme.pki.authority import Authority
from fedkme.pki.expiry import expiries
from fedkme.store.memory import MemoryStore
from owner.metrics import OwnerMetrics
from tests.places import ROOT

BOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana.json").read_text(encoding="utf-8"))


def expressions() -> Iterator[str]:
    for panel in BOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def exported(registry: CollectorRegistry) -> dict[str, set[str]]:
    """Exported metrics by name, with their labels."""
    labels_by_name: dict[str, set[str]] = {}
    for line in generate_latest(registry).decode().splitlines():
        if match := re.match(r"(fedkme_\w+)(?:\{(.*?)\})?\s", line):
            labels_by_name.setdefault(match[1], set()).update(re.findall(r"(\w+)=", match[2] or ""))
    return labels_by_name


def figures() -> dict[str, set[str]]:
    store = MemoryStore("curator")

    async def nobody(_: object) -> None:
        return None

    curator = CuratorMetrics()
    curator.watch(Members(("north",), 1.0, 1.0), RunQueue(store, nobody, 1))
    for event in ("refused", "owner_left", "unwitnessed"):
        curator.count(event, {"owner": "north", "code": 54})
    done = RoundRecord(round=1, size=0, asked=1, revealed=1, accessed=1, owners=1, milliseconds=1.0)
    curator.round_done(done, [(1, "north", 1)])
    owner = OwnerMetrics(lambda: 0)
    owner.answered(Directive("run-1", 0, 0, Dismiss()), None, 1, 1, 0)
    owner.left_out(54)
    spending = Spending(store, curator.registry, lambda error: None)
    with timed(store, curator.registry).transaction():
        pass
    spending.close()
    curator.registry.register(Expiries(lambda: expiries(Authority().issue("north"))))
    for gauge in (spending._epsilon, spending._rows):
        gauge.labels("north", "curator").set(1.0)
    with host_figures(curator.registry, str(ROOT / "pyproject.toml")):
        return exported(owner.registry) | exported(curator.registry)


def test_every_figure_of_the_dashboard_is_exported() -> None:
    there = figures()
    named = {name for each in expressions() for name in re.findall(r"fedkme_\w+", each)}
    assert len(named) > 10
    assert named <= there.keys()


def test_every_exported_figure_is_on_the_dashboard() -> None:
    family = re.compile(r"_(total|created|bucket|sum|count)$")
    named = {family.sub("", name) for each in expressions() for name in re.findall(r"fedkme_\w+", each)}
    assert {family.sub("", name) for name in figures()} == named


def test_legends_and_groups_name_labels_that_there_are() -> None:
    there = figures()
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            names = re.findall(r"fedkme_\w+", target["expr"])
            labels = {label for name in names for label in there[name]} | {"instance", "le"}
            groups = re.findall(r"by \(([^)]*)\)", target["expr"])
            used = {label.strip() for group in groups for label in group.split(",")}
            assert used | set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels, target
