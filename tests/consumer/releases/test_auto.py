"""`auto`: the method of a release follows from the schema that all parties share (docs/decisions/021)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from consumer.releases.client import OPEN, Request, load_release_settings
from curator.planning.releases import ReleaseFacts, plan_release
from fedkme.errors import ConfigError
from fedkme.tables.schema import load_schema
from fedkme.wire.journals import release_request_to_bytes
from sim.api.consumer import Consumer

COLUMN = '[[columns]]\nkind = "numeric"\nname = "c"\nbounds = [0, 1]\ncount = {count}\n'


def consumer(folder: Path, release: str, count: int = 3) -> Path:
    (folder / "public").mkdir(exist_ok=True)
    (folder / "public" / "schema.toml").write_text(COLUMN.format(count=count))
    file = folder / "consumer.toml"
    file.write_text(
        'curator = "localhost:1"\nidentity = "lab.pem"\nschema_file = "public/schema.toml"\n'
        f'output = "out"\n[release]\nkind = "auto"\n{release}'
    )
    return file


@pytest.mark.parametrize(
    ("more", "count", "method"),
    [("", 3, "marginals"), ("", 40, "moments"), ("", 64, "moments"), ('task = "kernel"', 3, "balog2")],
)
def test_a_consumer_takes_the_method_that_a_plan_takes(
    tmp_path: Path, more: str, count: int, method: str
) -> None:
    file = consumer(tmp_path, f"epsilon = 0.5\n{more}", count)
    settings = load_release_settings(file)
    assert (settings.release.kind, settings.release.epsilon) == (method, 0.5)
    facts = ReleaseFacts(load_schema(settings.schema_file), 100, 0.5, 1e-5, task="kernel" if more else "rows")
    assert plan_release(facts).method == method
    # The sent request names the method, as owners' policies do, and a repeat is the same request.
    first, again = Request(settings), Request(load_release_settings(file))
    assert f'"kind": "{method}"' in first.request.settings
    assert again.resumed
    assert again.request == first.request
    assert Consumer(file)._release_settings({"seed": 4}).release.kind == method


@pytest.mark.parametrize(
    ("more", "word"), [('task = "all"', "task"), ("steps = 3", "steps"), ("epsilon = -1", "epsilon")]
)
def test_an_unknown_key_of_auto_is_refused_in_one_line(tmp_path: Path, more: str, word: str) -> None:
    with pytest.raises(ConfigError, match=word) as refused:
        load_release_settings(consumer(tmp_path, more))
    assert "\n" not in str(refused.value)


def test_an_open_request_of_0_2_0_goes_on_as_it_was_sent(tmp_path: Path) -> None:
    # Settings were compared as text: a key that is gone made the request another one.
    file = consumer(tmp_path, 'task = "kernel"')
    sent = Request(load_release_settings(file)).request
    sent = replace(sent, settings=json.dumps(json.loads(sent.settings) | {"prior": False}))
    (tmp_path / "out" / OPEN).write_bytes(release_request_to_bytes(sent))
    again = Request(load_release_settings(file))
    assert (again.resumed, again.request) == (True, sent)
    with pytest.raises(ConfigError, match="holds another request"):
        Request(load_release_settings(consumer(tmp_path, 'epsilon = 0.5\ntask = "kernel"')))
