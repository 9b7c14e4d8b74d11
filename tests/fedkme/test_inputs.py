"""Files that are none: each reader ends with a numbered error, and waits for nobody."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fedkme import inputs
from fedkme.config import load_json, load_toml
from fedkme.drafts.drafting import draft
from fedkme.errors import ConfigError, DataError, FedkmeError
from fedkme.ops.logs import Log
from fedkme.pki.identity import Identity
from fedkme.pki.requests import read_request
from fedkme.pki.show import show
from fedkme.privacy.ledger import read_ledger
from fedkme.store import open_store
from fedkme.tables.files import load_table
from fedkme.tables.schema import load_schema, schema_from
from fedkme.watch.access import read_secret
from tests.fedkme.pki.verbs import pki
from tests.parties import WAIT_S

SCHEMA = schema_from({"columns": [{"kind": "numeric", "name": "a", "bounds": [0, 9]}]})
READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "settings": ("a.toml", load_toml),
    "json": ("a.json", load_json),
    "schema": ("a.toml", load_schema),
    "draft": ("a.csv", draft),
    "csv": ("a.csv", lambda path: load_table(path, SCHEMA, "north")),
    "parquet": ("a.parquet", lambda path: load_table(path, SCHEMA, "north")),
    "npz": ("a.npz", lambda path: load_table(path, SCHEMA, "north")),
    "identity": ("a.pem", Identity.load),
    "request": ("a.pem", read_request),
    "show": ("a.pem", lambda path: [*show(path)]),
    "secret": ("secret", read_secret),
    "ledger": ("a.jsonl", read_ledger),
    "store": ("a.db", lambda path: open_store(path, "north")),
}


@pytest.mark.parametrize("device", ["", "/dev/zero", "/dev/null"])
@pytest.mark.parametrize("reader", READERS)
def test_pipes_and_devices_in_the_place_of_a_file_are_refused(
    tmp_path: Path, reader: str, device: str
) -> None:
    # A named pipe made every verb wait for ever, and /dev/zero filled the memory.
    name, read = READERS[reader]
    path = tmp_path / name
    if device:
        path.symlink_to(device)
    else:
        os.mkfifo(path)
    with pytest.raises(FedkmeError, match="where a file belongs"):
        read(path)
    assert stat.S_IMODE(Path("/dev/null").stat().st_mode) == 0o666  # a store takes no rights from a device


@pytest.mark.parametrize("reader", ["settings", "json", "schema", "identity", "request", "show"])
def test_settings_and_certificates_have_a_bound(tmp_path: Path, reader: str) -> None:
    name, read = READERS[reader]
    path = tmp_path / name
    path.touch()
    os.truncate(path, 1 << 40)  # a file of holes
    with pytest.raises(FedkmeError, match="it has more than 16 MiB"):
        read(path)


@pytest.mark.parametrize("read", [draft, lambda path: load_table(path, SCHEMA, "north")])
def test_a_table_without_an_end_of_line_fills_no_memory(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    path = tmp_path / "a.csv"
    path.touch()
    os.truncate(path, 1 << 28)  # a file of holes
    with pytest.raises(DataError, match="a line of more than 16,777,216 letters"):
        read(path)


def test_a_pipe_of_the_shell_is_read() -> None:
    read, write = os.pipe()
    os.write(write, b"p = 3\n")
    os.close(write)
    try:
        assert load_toml(Path(f"/dev/fd/{read}")) == {"p": 3}
    finally:
        os.close(read)


def test_names_that_no_file_has_are_errors_of_the_system() -> None:
    for name in ("a\0b", "\ud800"):
        with pytest.raises(OSError, match="no file can have such a name"):
            inputs.read_bytes(name)


def test_a_log_that_nobody_reads_is_no_wait(tmp_path: Path) -> None:
    path = tmp_path / "log"
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="log cannot be written"):
        Log("north", "text", path)


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "x" * 5000),
        ("plan", "a\x1b[31mb"),
        ("report", "runs/\x1b[31m"),
        ("sim", "sweep", "digits", "--grid", "p=2", "--out", ""),
        ("pki", "init", "ca", "--ask-passphrase"),
        ("schema", "draft", "loop/rows.csv"),
        ("match", "loop", "loop", "--out", "loop"),
        ("owner", "status", "owner.toml"),
    ],
)
def test_paths_and_questions_that_cannot_be_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str]
) -> None:
    # Long names, circles of links and a prompt without a terminal ended in a traceback, or in "Aborted."
    # without a code; the sign of life wrote what a name has of a terminal's signs.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "schema.toml").write_text('[[columns]]\nkind = "numeric"\nname = "a"\nbounds = [0, 1]\n')
    owner = 'name = "north"\ncurator = "localhost:1"\nplaintext = true\nschema_file = "schema.toml"\n'
    (tmp_path / "owner.toml").write_text(f'{owner}data = "a.csv"\njournal = "loop"\n')
    command = [sys.executable, "-m", "fedkme", *words]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S)
    assert "Traceback" not in ended.stderr
    assert f"error {ended.returncode} (" in ended.stderr.splitlines()[-1]
    assert "\x1b" not in ended.stderr


def test_nothing_is_signed_for_a_bundle_that_cannot_be_written(tmp_path: Path) -> None:
    # A link that leads nowhere passed for a free name: the certificate was issued, and its key was lost.
    pki("init", tmp_path / "ca")
    (tmp_path / "north.pem").symlink_to("nowhere")
    with pytest.raises(FedkmeError, match="exists"):
        pki("issue", "north", "--authority", tmp_path / "ca", "--out", tmp_path / "north.pem")
    assert not list((tmp_path / "ca" / "issued").iterdir())
