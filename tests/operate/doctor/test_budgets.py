"""`fedkme doctor` on budgets: a clock that is behind, changed rows, the cost of many requests."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from consumer.settings import ConsumerSettings
from fedkme.party import PartySettings
from fedkme.privacy.budget import WindowBudget
from fedkme.privacy.events import OWNERS, Disclosure, PureDp
from fedkme.privacy.ledger import stored_ledger
from fedkme.store.sqlite import SqliteStore
from fedkme.tables.files import save_table
from operate.doctor.files import check_budgets, check_files
from operate.doctor.findings import Finding
from owner.settings import OwnerSettings
from tests.parties import consumer_values, owner_values
from tests.system.market import SCHEMA, rows


def owner(folder: Path) -> OwnerSettings:
    (folder / "schema.toml").write_text(SCHEMA.to_toml())
    save_table(folder / "a.npz", rows(5, 0))
    return OwnerSettings(**owner_values(folder, "a", "127.0.0.1:1", data=folder / "a.npz"))


def found(settings: PartySettings, check: str) -> Finding:
    (finding,) = (each for each in check_budgets(settings) if each.check == check)
    return finding


@pytest.mark.parametrize(("ahead_s", "state"), [(7200.0, "warn"), (1.0, "ok"), (-7200.0, "ok")])
def test_a_clock_behind_its_last_reading_has_cause_and_remedy(
    tmp_path: Path, ahead_s: float, state: str
) -> None:
    line = Disclosure("r", 1, OWNERS, OWNERS, PureDp(0.5), "replace-one", None, "n")
    store = SqliteStore(tmp_path / "a.db", "a", "process", clock=lambda: time.time() + ahead_s)
    stored_ledger("a", store).extend([line])
    store.close()
    finding = found(owner(tmp_path), "ledger clock")
    assert finding.state == state
    if state == "warn":
        assert "2.0 hours behind" in finding.line
        assert "time server" in finding.remedy


def test_missing_rows_get_no_advice_to_check_the_schema(tmp_path: Path) -> None:
    settings = owner(tmp_path)
    assert isinstance(settings.data, Path)
    settings.data.unlink(missing_ok=True)
    (finding,) = [each for each in check_files(settings, "north") if each.check == "data"]
    assert "cannot be read" in finding.line
    assert "schema check" not in finding.remedy


def test_a_party_without_a_store_has_no_findings_about_budgets(tmp_path: Path) -> None:
    assert not [*check_budgets(owner(tmp_path))]


@pytest.mark.parametrize(
    ("asks", "epsilon", "state", "words"),
    [
        (1, None, "ok", "20 of them cost D_v epsilon 16 by counts, 5.43 by margins, and 5.41 by counts"),
        (20, None, "ok", "all of them cost D_v epsilon 5.41 by counts, 5.43 by margins"),
        (20, 5.5, "ok", "5.41"),
        (20, 5.0, "warn", "and this would make it 5.407"),
        (1, 0.5, "warn", "and this would make it 1"),
    ],
)
def test_doctor_prints_the_cost_of_planned_requests(
    tmp_path: Path, asks: int, epsilon: float | None, state: str, words: str
) -> None:
    budget = None if epsilon is None else WindowBudget(epsilon=epsilon, delta=1e-5)
    values = consumer_values(tmp_path, "127.0.0.1:1", request={"p": 3, "asks": asks}, budget=budget)
    finding = found(ConsumerSettings(**values), "asks")
    assert (finding.state, bool(finding.remedy)) == (state, state == "warn")
    assert words in finding.line
