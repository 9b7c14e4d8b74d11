"""Authentication of a page's viewers.

On loopback a request may choose any view if it names this machine as its host: so a web site that is open in
a visitor's browser cannot read the page under a host name of its own. Elsewhere a token gives role and name,
with their MAC under the page's secret.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args

from fedkme.durable import create
from fedkme.errors import ConfigError
from fedkme.inputs import SMALL, read_bytes
from fedkme.party import host_and_port, is_loopback
from fedkme.pki.files import PRIVATE
from fedkme.watch.state import Role, Viewer

_LEAST = 32
"""Least number of characters in a secret."""


@dataclass(frozen=True, slots=True, repr=False)
class Access:
    """Rule by which viewers are admitted; without a secret, only from this machine."""

    secret: bytes | None = None

    def viewer(self, host: str, token: str, requested: str) -> Viewer | None:
        """Viewer whose view a request gets; None if the request is refused.

        Args:
            host: the server's name in the request.
            token: a token that `token` made; empty for none.
            requested: role and name in the request; empty for the token's.
        """
        if self.secret is None:
            own = Viewer() if is_loopback(host.rpartition(":")[0] or host) else None
        else:
            own = self._holder(token)
        wanted = viewer_of(requested) if requested else own
        return wanted if own is not None and (own == Viewer() or own == wanted) else None

    def token(self, viewer: Viewer) -> str:
        """Make a viewer's token."""
        assert self.secret is not None, "without a secret there are no tokens"
        words = words_of(viewer)
        return f"{words}:{hmac.new(self.secret, words.encode(), hashlib.sha256).hexdigest()}"

    def _holder(self, token: str) -> Viewer | None:
        viewer = viewer_of(token.rpartition(":")[0])
        if viewer is None or not token.isascii():
            return None
        return viewer if hmac.compare_digest(token, self.token(viewer)) else None


def words_of(viewer: Viewer) -> str:
    """Role and name as text: `curator`, `owner:north`."""
    return viewer.role if viewer.role == "curator" else f"{viewer.role}:{viewer.name}"


def viewer_of(words: str) -> Viewer | None:
    """Parse the text that `words_of` writes; None for any other text."""
    role, _, name = words.partition(":")
    if role not in get_args(Role) or (role == "curator") == bool(name):
        return None
    return Viewer(cast(Role, role), name)


def viewer_named(words: str) -> Viewer:
    """The viewer of `--as`, such as `owner:north`.

    Raises:
        ConfigError: the text names no viewer.
    """
    viewer = viewer_of(words)
    if viewer is None:
        raise ConfigError(f"{words[:64]!r} is no view", "Write curator, owner:NAME or consumer:NAME.")
    return viewer


def read_secret(path: Path) -> bytes:
    """Read the page's secret; make a file that its user alone may read if there is none.

    Raises:
        ConfigError: the secret is too short, or can be neither read nor made.
    """
    try:
        if not path.exists():
            create(path, f"{secrets.token_urlsafe(_LEAST)}\n".encode(), PRIVATE)
        secret = read_bytes(path, SMALL).strip()
    except OSError as error:
        cause = f"the secret of the page {path} cannot be read or made: {error.strerror}"
        raise ConfigError(cause, "Correct 'page_secret'.") from None
    if len(secret) < _LEAST:
        cause = f"the secret of the page {path} has fewer than {_LEAST} letters"
        raise ConfigError(cause, "Remove the file; a new one is made.")
    return secret


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
        host, _ = host_and_port(self.address, "page", "127.0.0.1:8080")
        if not is_loopback(host) and (self.identity is None or self.secret is None):
            cause = f"the page is refused at {self.address}: anybody who reaches it would read it"
            raise ConfigError(cause, "Use 127.0.0.1, or set 'identity' and 'page_secret'.")

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
