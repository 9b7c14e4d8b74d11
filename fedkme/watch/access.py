"""Viewers of a page that is served, and how they show who they are.

On loopback whoever asks may choose any view, as long as the request names this machine: a web site that a
visitor's browser has open cannot read the page by a name of its own. Elsewhere a token says role and name,
with a MAC of them under the page's secret.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args

from fedkme.durable import create
from fedkme.errors import ConfigError
from fedkme.party import is_loopback
from fedkme.pki.files import PRIVATE
from fedkme.watch.state import Role, Viewer

_LEAST = 32
"""Letters of a secret, at least."""


@dataclass(frozen=True, slots=True, repr=False)
class Access:
    """Rule by which viewers are let in; without a secret the page is for this machine alone."""

    secret: bytes | None = None

    def viewer(self, host: str, token: str, asked: str) -> Viewer | None:
        """The view that a request gets; None for a request that is refused.

        Args:
            host: as the request names the server.
            token: as `token` made it; empty for none.
            asked: role and name that are asked for; empty for one's own.
        """
        if self.secret is None:
            own = Viewer() if is_loopback(host.rpartition(":")[0] or host) else None
        else:
            own = self._known(token)
        wanted = viewer_of(asked) if asked else own
        return wanted if own is not None and (own == Viewer() or own == wanted) else None

    def token(self, viewer: Viewer) -> str:
        """Token of a viewer."""
        assert self.secret is not None, "where there is no secret nobody needs a token"
        words = words_of(viewer)
        return f"{words}:{hmac.new(self.secret, words.encode(), hashlib.sha256).hexdigest()}"

    def _known(self, token: str) -> Viewer | None:
        viewer = viewer_of(token.rpartition(":")[0])
        if viewer is None or not token.isascii():
            return None
        return viewer if hmac.compare_digest(token, self.token(viewer)) else None


def words_of(viewer: Viewer) -> str:
    """Role and name in a word: `curator`, `owner:north`."""
    return viewer.role if viewer.role == "curator" else f"{viewer.role}:{viewer.name}"


def viewer_of(words: str) -> Viewer | None:
    """The viewer that `words_of` names; None for other words."""
    role, _, name = words.partition(":")
    if role not in get_args(Role) or (role == "curator") == bool(name):
        return None
    return Viewer(cast(Role, role), name)


def viewer_named(words: str) -> Viewer:
    """The viewer of `--as`, such as `owner:north`.

    Raises:
        ConfigError: it names none.
    """
    viewer = viewer_of(words)
    if viewer is None:
        raise ConfigError(f"{words[:64]!r} is no view", "Write curator, owner:NAME or consumer:NAME.")
    return viewer


def read_secret(path: Path) -> bytes:
    """Read the page's secret, or make it where there is none, for its user alone.

    Raises:
        ConfigError: it is too short, or can be neither read nor made.
    """
    try:
        if not path.exists():
            create(path, f"{secrets.token_urlsafe(_LEAST)}\n".encode(), PRIVATE)
        secret = path.read_bytes().strip()
    except OSError as error:
        cause = f"the secret of the page {path} cannot be read or made: {error.strerror}"
        raise ConfigError(cause, "Correct 'page_secret'.") from None
    if len(secret) < _LEAST:
        cause = f"the secret of the page {path} has fewer than {_LEAST} letters"
        raise ConfigError(cause, "Remove the file; a new one is made.")
    return secret
