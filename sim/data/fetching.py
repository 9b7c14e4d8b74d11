"""Getting a public data set: from its addresses or from a folder, checked, then given its name."""

import hashlib
import secrets
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO

from typing_extensions import override

from fedkme import durable
from fedkme.errors import ConfigError, ConnectionFailedError, DataError, on_disk
from fedkme.inputs import open_input
from sim.data.catalogue import Original, PublicSet, content_of

TIMEOUT_S = 60.0
"""Time that a server may stay silent."""


def https_only(url: str) -> None:
    """Refuse an address that is not https.

    Raises:
        ConfigError: it is another.
    """
    if not url.startswith("https://"):
        raise ConfigError(f"{url} is no https address", "Bring the file by hand, with --from FOLDER.")


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect to an address that the check allows."""

    def __init__(self, check: Callable[[str], None]) -> None:
        self._check = check

    @override
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        self._check(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch(
    original: Original,
    say: Callable[[str], None],
    check: Callable[[str], None] = https_only,
    context: ssl.SSLContext | None = None,
) -> bytes:
    """Content of an original, from the first of its addresses that gives the right bytes.

    Args:
        original: the file; of an answer, no more than its size is read.
        say: prints a line.
        check: raises for an address that may not be called, nor redirected to.
        context: authorities of servers; default: those of the system.

    Raises:
        ConfigError: an address may not be called.
        ConnectionFailedError: no address gave the right bytes.
    """
    opener = urllib.request.build_opener(
        _CheckedRedirects(check), urllib.request.HTTPSHandler(context=context)
    )
    causes = []
    for url in original.urls:
        check(url)
        say(f"  {url}")
        try:
            with opener.open(url, timeout=TIMEOUT_S) as answer:
                content: bytes = answer.read(original.size + 1)
        except urllib.error.HTTPError as error:
            causes.append(f"{url}: {error}")
            continue
        except (OSError, HTTPException) as error:
            causes.append(f"{url}: {getattr(error, 'reason', error)}")
            continue
        if fault := _fault(original, content):
            causes.append(f"{url}: {fault}")
        else:
            return content
    why = "; ".join(causes) or "its source lets nobody pass it on"
    raise ConnectionFailedError(f"{original.name} did not come: {why}", "Bring it by hand.")


def from_folder(original: Original, folder: Path) -> bytes:
    """Content of an original that a person brought into a folder.

    Raises:
        DataError: it is not there, or is another file.
    """
    path = folder / original.name
    with on_disk(f"{path} cannot be read", "Bring it into that folder.", DataError), open_input(path) as file:
        content = file.read(original.size + 1)
    if fault := _fault(original, content):
        raise DataError(f"{path}: {fault}", "Bring it again.")
    return content


def _fault(original: Original, content: bytes) -> str:
    if len(content) > original.size:
        return f"more than {original.size} bytes"
    if original.sha256 and hashlib.sha256(content).hexdigest() != original.sha256:
        return f"not the file whose SHA-256 is {original.sha256}"
    return ""


def make_file(wanted: PublicSet, originals: Mapping[str, bytes], folder: Path) -> Path:
    """Make a set's file of its originals: under a temporary name, checked, then renamed.

    Args:
        wanted: the set.
        originals: content of each original, by name.
        folder: folder of the data sets; made if need be.

    Returns:
        The file.

    Raises:
        ConfigError: the folder cannot be written.
        DataError: the content is not that of the catalogue.
        MissingDependencyError: a package is missing.
    """
    target = folder / wanted.file
    content = wanted.make(originals)
    with on_disk(f"{target} cannot be written", "Choose another folder."):
        durable.make_folder(target.parent)
        part = target.with_name(f"{secrets.token_hex(4)}-{target.name}")
        try:
            durable.replace(part, content)
            if fault := fault_of_content(wanted, part):
                raise DataError(f"{target} was not made: {fault}", "Bring the files of the source again.")
            part.replace(target)
            durable.sync_folder(target.parent)
        finally:
            part.unlink(missing_ok=True)
    return target


def fault_of_content(wanted: PublicSet, file: Path) -> str:
    """Fault of a set's file, in words; "" where its content is that of the catalogue.

    Raises:
        DataError: the file cannot be read.
        MissingDependencyError: a .parquet file without pyarrow.
    """
    digest = content_of(file, wanted.in_any_order)
    return "" if digest == wanted.content else f"the SHA-256 of its content is {digest}, not {wanted.content}"
