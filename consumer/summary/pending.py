"""The open request of an output folder, on disk: asking again costs D_v nothing."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path

from google.protobuf.message import DecodeError

from fedkme.errors import ConfigError, ProtocolError
from fedkme.exchange import SummaryRequest
from fedkme.wire.journals import OpenRequest

FILE = "request.open"


class Pending:
    """The open request of an output folder.

    Attributes:
        open: the request; None where there is none.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self.open: OpenRequest | None = None
        with contextlib.suppress(FileNotFoundError):
            try:
                self.open = OpenRequest.from_bytes(self._path.read_bytes())
            except (DecodeError, ProtocolError):
                raise ConfigError(
                    f"{self._path} is not what this release writes", "Move it away to make a new request."
                ) from None

    def take_up(self, request: SummaryRequest) -> OpenRequest:
        """Go on with the request that is there; where there is none, `request` is it from now on.

        Raises:
            ConfigError: another one is there.
        """
        if self.open is None:
            self.open = OpenRequest(request)
        elif replace(request, request_id=self.open.request.request_id) != self.open.request:
            raise ConfigError(
                f"{self._path} holds another request, whose summary has not come",
                "Ask for that one first, choose another 'output', or cancel it and remove the file.",
            )
        return self.open

    def keep(self, request: OpenRequest) -> None:
        """Write it down, on the disk, before anything that follows from it leaves.

        Raises:
            ConfigError: it cannot be written.
        """
        self.open, partial = request, self._path.with_suffix(".part")
        try:
            with partial.open("wb") as file:
                partial.chmod(0o600)
                file.write(request.to_bytes())
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self._path)
        except OSError as error:
            raise ConfigError(f"{self._path} cannot be written: {error.strerror}", "Make room.") from None

    def done(self) -> None:
        """Remove it: the summary is here, or never will be."""
        self._path.unlink(missing_ok=True)
