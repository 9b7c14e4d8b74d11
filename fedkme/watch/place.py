"""Address of a served page, and the files that protect the page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedkme.errors import ConfigError
from fedkme.party import is_loopback
from fedkme.watch.access import Access, read_secret, viewer_named


@dataclass(frozen=True, slots=True)
class PageAddress:
    """Address of a page, and the files that protect the page.

    Attributes:
        address: host:port.
        identity: file or folder of the party's certificate and key; None: plain HTTP.
        secret: file of the page's secret; None: on loopback alone.
    """

    address: str
    identity: Path | None = None
    secret: Path | None = None

    @property
    def host(self) -> str:
        """Host of the address."""
        return self.address.rpartition(":")[0]

    def check(self) -> None:
        """Check the address.

        Raises:
            ConfigError: the address is malformed, or off loopback without `identity` and `secret`.
        """
        host, _, port = self.address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            cause = f"'page' is {self.address!r}, not host:port"
            raise ConfigError(cause, "Write for example 127.0.0.1:8080.")
        if not is_loopback(host) and (self.identity is None or self.secret is None):
            raise ConfigError(
                f"the page is refused at {self.address}: anybody who reaches it would read it",
                "Use 127.0.0.1, or set 'identity' and 'page_secret'.",
            )

    @property
    def guarded(self) -> bool:
        """Check whether the page needs tokens and uses TLS."""
        return self.secret is not None and self.identity is not None

    def access(self) -> Access:
        """Rule by which viewers are admitted.

        Raises:
            ConfigError: the secret cannot be read or made.
        """
        return Access(read_secret(self.secret) if self.secret is not None and self.guarded else None)

    def url(self, port: int | str) -> str:
        """Address for a browser."""
        return f"http{'s' if self.guarded else ''}://{self.host}:{port}/"

    def link(self, words: str) -> str:
        """Address of a view by its words, such as `owner:north`, with a token where viewers need one.

        Raises:
            ConfigError: the secret cannot be read or made.
        """
        whole, viewer = self.url(self.address.rpartition(":")[2]), viewer_named(words)
        if self.guarded:
            return f"{whole}?token={self.access().token(viewer)}"
        return whole if viewer.role == "curator" else f"{whole}?as={words}"
