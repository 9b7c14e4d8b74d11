"""A request that was made and not yet answered, on disk: asking again costs D_v nothing."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from google.protobuf.message import DecodeError

from consumer.sealed.keys import RunKeys
from fedkme.errors import ConfigError
from fedkme.sealed import GroupSecret, PartyKeys
from fedkme.wire.v1 import journals_pb2
from fedkme.wire.v1 import summaries_pb2 as pb

FILE = "request.open"


def keep_keys(document: journals_pb2.RequestDocument, keys: RunKeys) -> None:
    """Put the keys of the request's run into it: who starts again opens what owners sealed before."""
    document.box_key, document.signing_key = keys.keys.box, keys.keys.signing
    document.secret = keys.secret.exposed()


def kept_keys(document: journals_pb2.RequestDocument, consumer: str) -> RunKeys | None:
    """The keys of the request's run, where its rows go sealed."""
    if not document.secret:
        return None
    keys = PartyKeys(consumer, document.run, document.box_key, document.signing_key)
    return RunKeys(keys, GroupSecret(document.run, document.secret))


def forget_keys(document: journals_pb2.RequestDocument) -> None:
    """Forget the keys of another run."""
    for field in ("box_key", "signing_key", "secret"):
        document.ClearField(field)


class Pending:
    """The open request of an output folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self.document = journals_pb2.RequestDocument()
        with contextlib.suppress(FileNotFoundError):
            try:
                self.document = journals_pb2.RequestDocument.FromString(self._path.read_bytes())
            except DecodeError:
                raise ConfigError(
                    f"{self._path} is not what this release writes", "Move it away to make a new request."
                ) from None

    def take_up(self, request: pb.SummaryRequest) -> None:
        """Go on with the request that is there; where there is none, `request` is it from now on.

        Raises:
            ConfigError: another one is there.
        """
        if not self.document.HasField("request"):
            self.document.request.CopyFrom(request)
            return
        same = pb.SummaryRequest()
        same.CopyFrom(request)
        same.request_id = self.document.request.request_id
        if same != self.document.request:
            raise ConfigError(
                f"{self._path} holds another request, whose summary has not come",
                "Ask for that one first, choose another 'output', or cancel it and remove the file.",
            )

    def keep(self) -> None:
        """Write it down, on the disk, before anything that follows from it leaves.

        Raises:
            ConfigError: it cannot be written.
        """
        partial = self._path.with_suffix(".part")
        try:
            with partial.open("wb") as file:
                partial.chmod(0o600)
                file.write(self.document.SerializeToString())
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self._path)
        except OSError as error:
            raise ConfigError(f"{self._path} cannot be written: {error.strerror}", "Make room.") from None

    def done(self) -> None:
        """The summary is here, or never will be."""
        self._path.unlink(missing_ok=True)
