"""`fedkme dossier`: papers of a run have the figures of its ledgers, and mark what a person must add."""

from __future__ import annotations

import datetime
import io
import json
import math
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlcroissant
import pytest
import yaml
from typer.testing import CliRunner

from fedkme.errors import ConfigError, FedkmeError, LedgerError
from fedkme.ledgers.ledger_set import read_ledgers
from fedkme.ledgers.statements import statements
from operate.dossier.cli import app
from operate.dossier.facts import MISSING
from operate.dossier.papers import yaml_number
from sim.progress import Progress
from sim.release_config import load_release
from sim.releases import simulate_release
from tests.system.launches import launch
from tests.system.release_market import scenario

FIELDS = {
    "basic": (
        "name", "data_curators", "intended_use", "data_product_type", "data_product_region", "description",
        "publication_date",
    ),
    "dp_variant": ("variant_name", "data_domain", "unprotected_quantities"),
    "privacy_loss": (
        "privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details",
    ),
    "deployment_model": (
        "model_name", "model_name_details", "actors", "release_type", "release_type_details",
        "data_source_type", "data_source_type_details", "access_type", "access_type_details",
    ),
    "accounting": ("post_processing", "composition"),
    "implementation": ("preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"),
    "administrative": ("sources", "notes", "registry_authors"),
}  # fmt: skip
"""Names of the registry's schema in its order, which its tests demand; it allows no others, and of `basic`
all are required. From opendp/deployments-registry-data, schemas/deployments-schema.yaml, 3e9c812a of
2026-07-15 (MIT)."""
CHOICES = {
    "data_product_type": {"Dataset", "Synthetic data"}, "variant_name": {"Pure DP", "Approximate DP"},
    "model_name": {"Federated"}, "release_type": {"One release", "Many releases"},
    "data_source_type": {"Static", "Dynamic"}, "access_type": {"Interactive", "Non-interactive"},
}  # fmt: skip
"""Allowed words of fields for which the schema has a list."""


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return launch(tmp_path_factory.mktemp("summary") / "ward-7", "engine=inprocess", "p=4")[0]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    settings = load_release("marginals", str(scenario(folder)), ["engine=inprocess", "rows=30"])
    return simulate_release(settings, folder / "run", Progress(io.StringIO()))[0]


def papers(folder: Path, copy: Path, *options: str) -> Path:
    """Copy a run, and write its papers; return their folder."""
    shutil.copytree(folder, copy)
    CliRunner().invoke(app, [str(copy), *options], catch_exceptions=False)
    return copy / "dossier"


def entry_of(home: Path) -> Mapping[str, Any]:
    """Read the deployment of a registry entry, and check it against the registry's schema."""
    text = (home / "registry.yaml").read_text(encoding="utf-8")
    assert {token.style for token in yaml.scan(text) if hasattr(token, "style")} <= {None, '"'}
    entry = yaml.safe_load(text)
    assert list(entry) == ["url_slug", "status", "tier", "deployment"]
    deployment: Mapping[str, Any] = entry["deployment"]
    assert list(deployment) == list(FIELDS)
    assert tuple(deployment["basic"]) == FIELDS["basic"]
    assert all(
        list(deployment[part]) == [name for name in names if name in deployment[part]]
        for part, names in FIELDS.items()
    )
    datetime.date.fromisoformat(deployment["basic"]["publication_date"])
    assert (entry["status"], entry["tier"] in (1, 2, 3)) == ("Draft", True)
    year = deployment["basic"]["publication_date"][:4]
    named = re.sub(r"\W+", "-", deployment["basic"]["name"].lower())
    slug = (
        f"{named}-to-be-added-who-publishes-the-data-{year}"  # name, curators, year: scripts/update_slug.py
    )
    assert text.startswith(f"url_slug: {slug}\n")
    assert entry["url_slug"] == slug
    lists = {
        deployment["basic"].pop("data_curators")[0],
        deployment["administrative"].pop("registry_authors")[0],
    }
    numbers = deployment["privacy_loss"].get("privacy_parameters", {})
    assert set(numbers) <= {"epsilon", "delta"}
    assert all(isinstance(number, float) for number in numbers.values())
    fields = {
        name: value for part in deployment.values() for name, value in part.items() if value is not numbers
    }
    assert all(isinstance(value, str) for value in (*fields.values(), *lists))
    assert all(fields[name] in choices for name, choices in CHOICES.items() if name in fields)
    return deployment


def test_a_release_is_entered_with_what_its_ledgers_say(release: Path, tmp_path: Path) -> None:
    home = papers(release, tmp_path / "Ward 7")
    deployment = entry_of(home)
    sound = [one for one in statements(read_ledgers([release]), 1e-5) if one.accountant == "sound"]
    consumer = max(one.epsilon for one in sound if one.observer == "consumer")
    assert 0 < consumer < math.inf
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": consumer, "delta": 1e-5}
    assert deployment["dp_variant"]["variant_name"] == "Approximate DP"
    page = (home / "nist-800-226.md").read_text(encoding="utf-8")
    for one in sound:
        assert f"| {one.protected} | one row | {one.observer} |" in page
    for what in ("purpose", "controller", "legal basis", "contact", "licence"):
        assert f"- TO BE ADDED: {what}" in page


def test_a_summary_says_that_there_is_no_bound_and_why(summary: Path, tmp_path: Path) -> None:
    # "no bound", with the reason, in place of an infinite number.
    home = papers(summary, tmp_path / "run")
    loss = entry_of(home)["privacy_loss"]
    assert "privacy_parameters" not in loss
    assert "against consumer: no bound (rows are seen as they are" in loss["privacy_parameters_details"]
    page = (home / "nist-800-226.md").read_text(encoding="utf-8")
    assert "| no bound | - |" in page
    assert " inf " not in page
    for one in statements(read_ledgers([summary]), 1e-5):
        if one.raw_points:
            assert f"of {one.protected}, by {one.observer}: {one.raw_points}" in page


def test_croissant_loads_the_rows_of_a_release(release: Path, tmp_path: Path) -> None:
    home = papers(release, tmp_path / "run")
    dataset = mlcroissant.Dataset(jsonld=home / "croissant.json")
    issues = dataset.metadata.issues
    assert (set(issues.errors), set(issues.warnings)) == (set(), set())
    assert json.loads((home / "croissant.json").read_text())["conformsTo"].endswith("/croissant/1.1")
    header, first, *_ = (release / "synthetic.csv").read_text(encoding="utf-8").splitlines()
    rows = list(dataset.records("synthetic"))
    assert len(rows) == 30
    assert list(rows[0]) == [f"synthetic/{name}" for name in header.split(",")]
    cells = [value.decode() if isinstance(value, bytes) else str(value) for value in rows[0].values()]
    assert cells == first.split(",")


@pytest.mark.parametrize("rows", [4, 0])
def test_croissant_keeps_the_cells_of_any_table(release: Path, tmp_path: Path, rows: int) -> None:
    # Postal codes were integers without their first 0; a table without rows had integers alone.
    columns = {
        "zip": ["01067", "80331", "04109", "10115"],
        "grade": ["nan", "inf", "1_0", "5"],
        "nothing": ["", "", "", ""],
        "weight": ["2.5", "-0.25", "1e-07", "3.0"],
        "count": ["3", "-1", "0", "12"],
    }
    shutil.copytree(release, tmp_path / "run")
    lines = [",".join(columns), *map(",".join, [*zip(*columns.values(), strict=True)][:rows])]
    (tmp_path / "run" / "synthetic.csv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    CliRunner().invoke(app, [str(tmp_path / "run")], catch_exceptions=False)
    metadata = json.loads((tmp_path / "run" / "dossier" / "croissant.json").read_text(encoding="utf-8"))
    types = [field["dataType"].removeprefix("sc:") for field in metadata["recordSet"][0]["field"]]
    assert types == (["Text", "Text", "Text", "Float", "Integer"] if rows else ["Text"] * 5)


def test_croissant_names_the_columns_of_a_summary(summary: Path, tmp_path: Path) -> None:
    home = papers(summary, tmp_path / "run")
    dataset = mlcroissant.Dataset(jsonld=home / "croissant.json")
    assert not dataset.metadata.issues.errors
    assert {"summary.csv", "summary.npz"} & {file.name for file in dataset.metadata.distribution}
    assert {"summary/weight", "summary/alike"} <= dict(next(iter(dataset.records("summary")))).keys()


@pytest.mark.parametrize(
    ("lost", "kind"),
    [
        ("owners/owner-2.jsonl", LedgerError),
        ("consumer/ledger.jsonl", LedgerError),
        ("ledger.jsonl", ConfigError),
    ],
)
def test_a_lost_ledger_is_one_numbered_error_and_no_paper(
    summary: Path, tmp_path: Path, lost: str, kind: type[FedkmeError]
) -> None:
    shutil.copytree(summary, tmp_path / "run")
    (tmp_path / "run" / lost).unlink()
    with pytest.raises(kind) as caught:
        CliRunner().invoke(app, [str(tmp_path / "run")], catch_exceptions=False)
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "run" / "dossier").exists()


def test_edited_papers_stay_and_their_missing_fields_are_counted(summary: Path, tmp_path: Path) -> None:
    home = papers(summary, tmp_path / "run")
    written = (home / "registry.yaml").read_text(encoding="utf-8")
    edited = written.replace(MISSING, "a hospital", 1)
    (home / "registry.yaml").write_text(edited, encoding="utf-8")
    (home / "croissant.json").unlink()
    again = CliRunner().invoke(app, [str(tmp_path / "run"), "--json"], catch_exceptions=False)
    missing = {Path(each["file"]).name: each["missing"] for each in json.loads(again.stdout)}
    assert missing["registry.yaml"] == written.count(MISSING) - 1
    assert (home / "registry.yaml").read_text(encoding="utf-8") == edited
    assert (home / "croissant.json").exists()
    assert "registry.yaml, nist-800-226.md stay as they are" in again.stderr


def test_a_party_gives_its_own_ledger(summary: Path, tmp_path: Path) -> None:
    # docs/deploy.md: a consumer's output folder has rows, and its ledger is next to its configuration.
    (tmp_path / "first").mkdir()
    shutil.copy(summary / "consumer" / "summary.npz", tmp_path / "first")
    ledger = str(summary / "consumer" / "ledger.jsonl")
    CliRunner().invoke(app, [str(tmp_path / "first"), "--ledger", ledger], catch_exceptions=False)
    page = (tmp_path / "first" / "dossier" / "nist-800-226.md").read_text(encoding="utf-8")
    assert "| D_v | one row | owners and curator |" in page
    assert "A simulation" not in page


def test_odd_names_and_small_numbers_survive_yaml_and_json(release: Path, tmp_path: Path) -> None:
    odd = 'x: "y" # \u2013 $name \\ {}'
    home = papers(release, tmp_path / odd)
    assert yaml.safe_load((home / "registry.yaml").read_text())["deployment"]["basic"]["name"] == odd
    assert json.loads((home / "croissant.json").read_text())["name"] == odd
    assert [yaml.safe_load(yaml_number(number)) for number in (1e-05, 1.5e-07, 0.0)] == [1e-05, 1.5e-07, 0.0]


def test_a_curators_folder_is_described_from_its_own_ledger(summary: Path, tmp_path: Path) -> None:
    (tmp_path / "runs" / "run-1").mkdir(parents=True)
    shutil.copy(summary / "ledger.jsonl", tmp_path / "runs")
    shutil.copy(summary / "record.json", tmp_path / "runs" / "run-1")
    home = papers(tmp_path / "runs", tmp_path / "copy")
    page = (home / "nist-800-226.md").read_text(encoding="utf-8")
    assert "Status: complete" in page
    assert "| owner-2 | one row | curator | no bound |" in page
    assert not mlcroissant.Dataset(jsonld=home / "croissant.json").metadata.issues.errors
