"""Public data sets: fetched or brought, checked, made; and never half there."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import http.server
import io
import ssl
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner
from typing_extensions import override

from fedkme.errors import ConfigError, ConnectionFailedError, DataError
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK
from fedkme.tables.files import read_arrays, read_columns
from fedkme.tables.npz import npz_bytes
from sim.data.catalogue import Original, PublicSet, catalogue, content_of
from sim.data.cli import app
from sim.data.fetching import fetch, from_folder, https_only, make_file
from sim.data.recipes import TextTable
from sim.shipped import shipped
from tests.places import DATA, ROOT

ROWS = b"a,b\n1,x\n2,y\n"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def original(content: bytes, *urls: str, name: str = "rows.csv") -> Original:
    return Original(name=name, urls=urls, sha256=digest(content), size=len(content))


def loopback_only(url: str) -> None:
    if not url.startswith("https://127.0.0.1:"):
        raise ConfigError(f"{url} is elsewhere", "Stay here.")


@contextlib.contextmanager
def serving(folder: Path, files: Mapping[str, bytes], redirects: Mapping[str, str]) -> Iterator[Any]:
    """Serve over TLS on loopback; yields the address and the client's context."""

    class Files(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path in redirects:
                self.send_response(302)
                self.send_header("Location", redirects[self.path])
                self.end_headers()
                return
            content = files.get(self.path)
            self.send_response(404 if content is None else 200)
            self.end_headers()
            with contextlib.suppress(OSError):  # a client that has read enough
                self.wfile.write(content or b"")

        @override
        def log_message(self, format: str, *args: Any) -> None:
            pass

    authority = Authority()
    authority.issue("server", LOOPBACK).save(folder)
    (folder / "authority.pem").write_bytes(authority.pem)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    server.socket = ours.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        context = ssl.create_default_context(cafile=str(folder / "authority.pem"))
        yield f"https://127.0.0.1:{server.server_port}", context
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_file_comes_from_the_first_address_with_the_right_bytes(tmp_path: Path) -> None:
    lines: list[str] = []
    files = {"/right": ROWS, "/other": ROWS[:-1] + b"!", "/endless": ROWS * 100_000}
    with serving(tmp_path, files, {"/moved": "/right", "/away": "http://127.0.0.1:1/right"}) as (at, context):
        urls = [f"{at}/{name}" for name in ("none", "other", "endless", "right")]
        assert fetch(original(ROWS, *urls), lines.append, loopback_only, context) == ROWS
        assert [line.strip() for line in lines] == urls
        assert fetch(original(ROWS, f"{at}/moved"), lines.append, loopback_only, context) == ROWS
        with pytest.raises(ConnectionFailedError, match=f"more than {len(ROWS)} bytes") as failed:
            fetch(original(ROWS, *urls[:3]), lines.append, loopback_only, context)
        assert "404" in failed.value.cause
        assert "not the file whose SHA-256" in failed.value.cause
        with pytest.raises(ConfigError, match="elsewhere"):  # also of a redirect
            fetch(original(ROWS, f"{at}/away"), lines.append, loopback_only, context)
        with pytest.raises(ConnectionFailedError, match="CERTIFICATE_VERIFY_FAILED"):
            fetch(original(ROWS, f"{at}/right"), lines.append, loopback_only)


def test_only_https_is_called_and_every_address_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no https"):
        fetch(original(ROWS, "http://127.0.0.1:1/rows.csv"), print)
    for entry in catalogue().values():
        for part in entry.originals:
            assert part.urls or part.sha256 is None  # nobody may pass it on
            for url in part.urls:
                https_only(url)


def one(recipe: str, content: str, *originals: Original, **form: Any) -> PublicSet:
    return PublicSet(
        **{"file": "made.npz" if recipe == "images" else "made.parquet", "what": "rows", "source": "here"},
        **{"rows": 2, "columns": 2, "licence": "none", "used": "tests", "recipe": recipe, "content": content},
        form=TextTable(**form),
        originals=originals,
    )


def test_a_file_has_its_name_only_with_the_right_content(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(ROWS)
    part = original(ROWS)
    brought = {part.name: from_folder(part, tmp_path)}
    wrong = one("parquet", "0" * 64, part)
    with pytest.raises(DataError, match="SHA-256 of its content") as refused:
        make_file(wrong, brought, tmp_path / "data")
    assert not [*(tmp_path / "data").iterdir()]  # nor the temporary file
    right = one("parquet", refused.value.cause.split()[-3].rstrip(","), part)
    made = make_file(right, brought, tmp_path / "data")
    assert {name: [*cells] for name, cells in read_columns(made, "made").items()} == {
        "a": [1, 2],
        "b": ["x", "y"],
    }
    # the content is that of the source's own file: another program's file of the same rows has it, too
    assert content_of(made) == content_of(tmp_path / "rows.csv")
    (tmp_path / "rows.csv").write_bytes(ROWS.replace(b"x", b"z"))
    with pytest.raises(DataError, match="not the file whose SHA-256"):
        from_folder(part, tmp_path)


def test_lines_of_a_source_become_columns() -> None:
    table = one("parquet", "0" * 64, original(ROWS), header=["a", "b"], gaps=["?"], cut=".", column="part",
                values=["one", "two"])  # fmt: skip
    made = table.make(
        {"one.data": b"1, yes.\n?, no.\n\n", "two.data.gz": gzip.compress(b"|remark\n.5, no.\n")}
    )
    frame = pytest.importorskip("pyarrow.parquet").read_table(io.BytesIO(made))
    assert frame.to_pydict() == {
        "a": [1.0, None, 0.5],
        "b": ["yes", "no", "no"],
        "part": ["one", "one", "two"],
    }
    with pytest.raises(DataError, match="a line of 1 cells, not 2"):
        table.make({"one.data": b"1\n", "two.data": b""})
    with pytest.raises(DataError, match="damaged"):
        table.make({"one.data": b"1,2\n", "two.data.gz": b"no gzip"})


def idx(array: np.ndarray) -> bytes:
    shape = np.array(array.shape, ">u4").tobytes()
    return gzip.compress(bytes([0, 0, 8, array.ndim]) + shape + array.astype(np.uint8).tobytes())


def test_images_come_from_the_original_idx_files(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    arrays = {f"x_{part}": random.integers(0, 256, (5, 4, 4)) for part in ("train", "test")}
    arrays |= {f"y_{part}": random.integers(0, 10, 5) for part in ("train", "test")}
    order = ("x_train", "y_train", "x_test", "y_test")
    images = one("images", "0" * 64, original(ROWS))
    made = tmp_path / "made.npz"
    made.write_bytes(images.make({f"{name}.gz": idx(arrays[name]) for name in order}))
    read = read_arrays(made, "made")
    assert all(np.array_equal(read[name], arrays[name]) for name in order)
    with pytest.raises(DataError, match="no idx file"):
        images.make(
            {**{f"{name}.gz": idx(arrays[name]) for name in order}, "x_test.gz": gzip.compress(b"\0\0\x08")}
        )
    # the same images dealt otherwise to the parts: Fashion-MNIST's copies differ in that alone
    turned = tmp_path / "turned.npz"
    swapped = dict(zip(order, (arrays[name] for name in (*order[2:], *order[:2])), strict=True))
    turned.write_bytes(npz_bytes(swapped))
    assert content_of(turned, in_any_order=True) == content_of(made, in_any_order=True)
    assert content_of(turned) != content_of(made)
    swapped["x_test"] = swapped["x_test"].copy()
    swapped["x_test"][0, 0, 0] ^= 1
    turned.write_bytes(npz_bytes(swapped))
    assert content_of(turned, in_any_order=True) != content_of(made, in_any_order=True)


@pytest.mark.parametrize("name", ["hospitals", "wine", "cervical", "codes", "states"])
def test_files_that_are_here_have_the_content_of_the_catalogue(name: str) -> None:
    entry = catalogue()[name]
    if not (DATA / entry.file).is_file():
        pytest.skip(f"{entry.file} is not there: set FEDKME_DATA to the folder of the data sets")
    assert content_of(DATA / entry.file) == entry.content
    if entry.file.endswith(".parquet"):
        columns = read_columns(DATA / entry.file, name)
        assert (len(next(iter(columns.values()))), len(columns)) == (entry.rows, entry.columns)


def test_every_file_of_scenarios_is_in_the_catalogue_and_in_the_docs() -> None:
    files = {entry.file for entry in catalogue().values()}
    named = {name for path in shipped().values() for name in _named(path.read_text(encoding="utf-8"))}
    assert len(named) == 4
    assert named <= files
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    for name, entry in catalogue().items():
        row = f"| `{name}` | {entry.file} | {entry.licence} |"
        assert (row in page) == entry.used.startswith("scenario")


def _named(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if "$FEDKME_DATA/" in line:
            yield line.partition("$FEDKME_DATA/")[2].partition('"')[0]


def test_the_verb_lists_and_says_how_to_bring_what_does_not_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDKME_DATA", str(tmp_path))
    listed = CliRunner().invoke(app, [])
    assert listed.output.count("not here") == len(catalogue())
    assert all(
        entry.content in listed.output and entry.file in listed.output for entry in catalogue().values()
    )
    refused = CliRunner().invoke(app, ["covtype"])  # nobody may pass it on: no address is called
    assert refused.exit_code == ConnectionFailedError.code
    assert "fedkme data covtype --from FOLDER" in refused.output
    assert isinstance(CliRunner().invoke(app, ["nothing"]).exception, ConfigError)
    (tmp_path / "balog_mixture_D2.npz").write_bytes(npz_bytes({"X_private": np.zeros((2, 2))}))
    other = CliRunner().invoke(app, ["balog-d2", "--json"])
    assert other.exit_code == DataError.code
    assert "Move it away" in other.output
