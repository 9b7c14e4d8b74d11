"""Files that an earlier release kept in an output folder, where a consumer now has a store."""

from __future__ import annotations

from pathlib import Path

from consumer.requests import Requests
from fedkme.durable import replace
from fedkme.errors import ConfigError, LedgerError
from fedkme.ops.supervision import StatusReporter
from fedkme.privacy.ledger import read_ledger


def adopt_earlier(output: Path, requests: Requests, reporter: StatusReporter) -> None:
    """Take what a folder's own ledger holds into the store, once: budgets read it there.

    A last line that was cut off in writing is dropped from the file, and it is said: nothing left under it.

    Raises:
        ConfigError: a request is open there, which only the earlier release can end.
        LedgerError: the ledger has a fault, or is another party's.
    """
    if (path := output / "request.open").exists():
        raise ConfigError(
            f"{path} is the open request of an earlier release of fedkme",
            "End it with that release, or remove it: what it cost stays counted.",
        )
    if not (path := output / "ledger.jsonl").is_file():
        return
    try:
        text = path.read_bytes()
        if (whole := text[: text.rfind(b"\n") + 1]) != text:
            replace(path, whole)
            reporter.say("warning", line=f"the last line of {path} was cut off in writing and is dropped")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", "Correct its rights.") from None
    entries = read_ledger(path)
    if entries and entries[-1].party != requests.consumer:
        raise LedgerError(f"{path} is the ledger of {entries[-1].party}", "Choose another 'output'.")
    if taken := requests.adopt(entries):
        reporter.say("adopted", lines=taken, file=str(path))
