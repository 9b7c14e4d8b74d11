"""Checks: figures of a planted file are lines, once; readers of heads tell planted faults; ours pass."""

from __future__ import annotations

import base64
import json
import math
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedkme.errors import ConfigError
from lab.referee import checks
from lab.referee.checks import CHECKS, ChecksPlan, RefereeCheck, paths_given, run_checks
from lab.referee.entrants import Entrant
from lab.referee.environments import interpreters
from lab.referee.figures import Figure, read_figures

FILE = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
task = json.loads((folder / "task.json").read_text())
with (folder.parent / "runs.txt").open("a") as runs:
    runs.write("run ")
figures = {"epsilon off by": 0.5, "complaints about units": "there is no tool"}
(folder / "figures.json").write_text(json.dumps(figures))
"""
NAMES = ("epsilon off by", "complaints about units")


def run(check: RefereeCheck, out: Path, **given: Path) -> tuple[list[Figure], list[str]]:
    """Run one check as the command does; return its lines and what was said."""
    lines = list[str]()
    run_checks(ChecksPlan([check], (0, 1), interpreters({}), given), out, read_figures(out), lines.append)
    return read_figures(out), lines


def test_figures_of_a_file_are_lines_and_reasons_are_said(tmp_path: Path) -> None:
    (file := tmp_path / "planted.py").write_text(FILE, encoding="utf-8")
    check = RefereeCheck("accountants", Entrant("ours", file), NAMES)
    figures, output = run(check, tmp_path / "out")
    assert [(x.name, x.value, x.run.epsilon, x.run.seed) for x in figures] == [
        ("epsilon off by", 0.5, math.inf, 0)
    ]
    assert "accountants, complaints about units is left out: there is no tool" in output

    done = RefereeCheck("accountants", Entrant("ours", file), NAMES[:1])
    assert run(done, tmp_path / "out") == (figures, [])  # what the file has is not run again
    assert (tmp_path / "out" / "made" / "runs.txt").read_text(encoding="utf-8") == "run "


def test_a_check_without_what_it_needs_is_left_out_with_a_word(tmp_path: Path) -> None:
    check = RefereeCheck("heads", Entrant("ours", tmp_path / "never.py"), NAMES, "sigstore-conformance")
    assert run(check, tmp_path) == ([], ["heads is left out: give --given sigstore-conformance=PATH"])
    with pytest.raises(ConfigError):
        paths_given({"promtool": tmp_path / "absent"})


def test_a_file_that_breaks_is_a_line_with_its_reason(tmp_path: Path) -> None:
    (file := tmp_path / "planted.py").write_text("raise SystemExit('no such luck')", encoding="utf-8")
    figures, _ = run(RefereeCheck("deploy", Entrant("ours", file), NAMES), tmp_path / "out")
    assert [(math.isnan(x.value), x.note) for x in figures] == [(True, "exit 1: no such luck")]


def vector(folder: Path, name: str, note: str, key: ed25519.Ed25519PrivateKey, size: int = 7) -> None:
    """Write a vector as sigstore-conformance lays them out."""
    number = base64.b64encode(b"numb" + bytes(28)).decode()
    proof = {"treeSize": str(size), "rootHash": base64.b64encode(bytes(32)).decode()}
    entry = {"logId": {"keyId": number}, "inclusionProof": {**proof, "checkpoint": {"envelope": note}}}
    public = base64.b64encode(key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    home = folder / "test" / "assets" / "bundle-verify" / name
    home.mkdir(parents=True)
    bundle = {"verificationMaterial": {"tlogEntries": [entry]}}
    (home / "bundle.sigstore.json").write_text(json.dumps(bundle), encoding="utf-8")
    logs = {"tlogs": [{"logId": {"keyId": number}, "publicKey": {"rawBytes": public.decode()}}]}
    (home / "trusted_root.json").write_text(json.dumps(logs), encoding="utf-8")


def test_heads_of_other_logs_are_taken_or_refused(tmp_path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    text = f"log.example - 5\n7\n{base64.b64encode(bytes(32)).decode()}\nTimestamp: 1\n"
    signature = base64.b64encode(b"numb" + key.sign(text.encode())).decode()
    other = base64.b64encode(b"bmun" + key.sign(text.encode())).decode()
    note = f"{text}\n— log.example {signature}\n"
    notes = {
        "checkpoint": note,
        "checkpoint-cosigned": f"{text}\n— witness.example {other}\n— log.example {signature}\n",
        "checkpoint-other-key_fail": f"{text}\n— log.example {other}\n",
        "checkpoint-other-line_fail": note.replace("Timestamp: 1", "Timestamp: 2"),
        "checkpoint-unsigned_fail": f"{text}\n",
        "checkpoint-without-size_fail": note.replace("\n7\n", "\n"),
        "checkpoint-of-another_fail": note.replace("— log.example", "— gol.example"),
    }
    for name, each in notes.items():
        vector(tmp_path, name, each, key)
    vector(tmp_path, "checkpoint-wrong-size_fail", note, key, size=8)
    vector(tmp_path, "something-else_fail", note, key)
    reader = runpy.run_path(str(checks.HERE / "heads.py"))
    vectors = [each for each in reader["vectors"](tmp_path) if each[2] is not None]
    taken = {name: reader["ours"](entry, log) for name, entry, log in vectors}
    assert taken == {name: not name.endswith("_fail") for name in (*notes, "checkpoint-wrong-size_fail")}


def own_check(table: str) -> RefereeCheck:
    return next(check for check in CHECKS if check.table == table and check.entrant.name == "ours")


@pytest.mark.parametrize("table", ["deploy", "wire"])
def test_our_own_files_and_answers_pass(table: str, tmp_path: Path) -> None:
    check = own_check(table)
    figures, output = run(check, tmp_path / "out", **paths_given({}))
    demanded = {"image labels there": 5, "answers to grpc's clients": 8}
    for figure in figures:
        assert (figure.value, figure.note) == (demanded.get(figure.name, 0), ""), output
    assert {x.name for x in figures} | {
        line.split(", ")[1].split(" is left")[0] for line in output[1:]
    } == set(check.names)


def test_chosen_rows_are_scored_by_their_distance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Rows of two clusters: a choice from one of them alone is farther, and right for half of the rows.
    random = np.random.default_rng(0)

    def draw(seed: int) -> tuple[Any, Any, Any, Any]:
        labels = np.arange(200) % 2
        rows = (random.normal(size=(200, 3)) * 0.1 + 3.0 * labels[:, None]).astype(np.float32)
        return rows, labels, rows, labels

    fixed = draw(0)
    monkeypatch.setattr(checks, "_draw_images", lambda seed: fixed)
    monkeypatch.setattr(checks, "CHOSEN", 20)
    check = own_check("mnist-64")
    check.prepare(tmp_path, 0)
    found = []
    for chosen in (np.arange(20), np.r_[np.arange(0, 38, 2), 1]):
        np.savez(tmp_path / "chosen.npz", indices=chosen)
        found.append(check.score(tmp_path, 0))
    for name in ("MMD^2 alike", "MMD^2 unseen"):
        assert float(found[0][name]) < float(found[1][name])
    assert found[0]["accuracy of chosen rows"] == 1.0
    np.savez(tmp_path / "chosen.npz", indices=np.zeros(20))
    assert set(check.score(tmp_path, 0).values()) == {"20 rows, 1 of them different"}
