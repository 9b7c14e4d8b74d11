"""Files of a release from a curator that lies: they stay in the consumer's folder (issue 5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from fedkme.errors import ProtocolError
from fedkme.tables.schema import Numeric, Schema
from fedkme.wire import codecs
from fedkme.wire.v1 import releases_pb2 as pb
from fedkme.wire.v1 import releases_pb2_grpc
from tests.system.release_market import ReleaseMarket, files


class Liar(releases_pb2_grpc.ReleasesServicer):
    """Sends what it was given to send."""

    def __init__(self, *messages: pb.ReleaseMessage) -> None:
        self._messages = messages

    async def Release(self, request: Any, context: Any) -> None:  # noqa: N802  # gRPC's name
        for message in self._messages:
            await context.write(message)


def part(name: str, data: bytes = b"x", last: bool = True) -> pb.ReleaseMessage:
    return pb.ReleaseMessage(file=pb.FilePart(name=name, data=data, last=last))


LIES = {
    "a path": [part("../stolen.npz")],
    "another folder": [part("/tmp/release.npz")],
    "the open request": [part("release.open")],
    "a key": [part("key.pem")],
    "a configuration": [part("consumer.toml")],
    "one file in another": [part("release.npz", last=False), part("synthetic.npz")],
    "a file twice": [part("release.npz"), part("release.npz")],
    "no end": [part("release.npz", b"", last=False)],
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_curator_s_files_stay_in_the_folder_and_keep_their_place(tmp_path: Path, lie: str) -> None:
    # A curator is not trusted with a consumer's disk: what is there is not overwritten, the request is kept.
    output = tmp_path / "consumer"
    output.mkdir()
    for name in ("key.pem", "consumer.toml"):
        (output / name).write_text("mine")
    server = grpc.aio.server()
    plan = pb.ReleaseMessage(plan=pb.ReleasePlan(version=codecs.VERSIONS.newest, run="run-1"))
    releases_pb2_grpc.add_ReleasesServicer_to_server(Liar(plan, *LIES[lie]), server)
    at = ReleaseMarket(tmp_path)
    at.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    (tmp_path / "schema.toml").write_text(Schema(columns=(Numeric(name="x", bounds=(0, 1)),)).to_toml())
    await server.start()
    try:
        with pytest.raises(ProtocolError):
            await at.asks()
    finally:
        await server.stop(None)
    there = files(output)
    assert there.pop("release.open")
    assert there.pop("release.npz", b"x") == b"x"
    assert there == {"key.pem": b"mine", "consumer.toml": b"mine"}
    assert list(files(tmp_path)) == ["schema.toml"]
