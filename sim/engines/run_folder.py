"""Folder of a run: its name and lock, and the files that an engine leaves in it."""

import contextlib
import fcntl
import filecmp
import itertools
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from consumer.results import RECEIVED_ROWS, SUMMARY
from fedkme import durable
from fedkme.config import dump_toml
from fedkme.errors import ConfigError, StoreError, on_disk, typed
from fedkme.heads.files import write_heads
from fedkme.inputs import read_text
from fedkme.privacy.events import CONSUMER, CURATOR
from fedkme.store import Store, open_store
from fedkme.store.reading import SqliteReader
from fedkme.store.sqlite import BESIDE
from fedkme.tables.schema import Schema
from sim.config import SimulationSettings, plain

AUTHORITY = "authority.pem"
"""File in a run's folder: certificate of the authority that signs the run's heads; never the key."""
UNFINISHED = ".unfinished"
"""File in a run's folder while the run is under way, or after its process died."""


def make_run_directory(out: Path | None, name: str, until: contextlib.ExitStack) -> Path:
    """Make and lock the folder of a run: `out` or the next free runs/NAME-N; `until` unlocks it.

    The folder must be new or empty. A run in `out` that failed, or whose process died, is first renamed to
    OUT.failed-N.

    Raises:
        ConfigError: `out` is neither new, nor empty, nor the folder of a failed run.
    """
    if out is not None and (_failed(out) or _died(out)):
        with on_disk(f"{out} cannot be renamed", "Choose another --out."):
            out.rename(next_free(f"{out.name}.failed", out.parent))
    if (
        out is not None
        and out.exists()
        and (not out.is_dir() or any(out.iterdir()))
        and not is_under_way(out)
    ):
        cause = f"{out} is there already and not empty"
        raise ConfigError(cause, f"Choose another --out, or remove it{_again(out)}.")
    with on_disk(f"{out or 'runs'} cannot be made", "Choose another --out."):
        directory = out or next_free(name)
        durable.make_folder(directory, 0o700)  # it holds rows
        mark = _mark(directory)
    if mark is None:
        raise ConfigError(f"a run in {directory} is under way", "Wait for its end, or choose another --out.")
    until.callback(_end, directory, mark)
    return directory


def _mark(directory: Path) -> IO[str] | None:
    """Leave the mark of a run in its folder; None if the folder has one, of a run that is under way."""
    own = directory / f"{UNFINISHED}-{secrets.token_hex(4)}"
    mark = own.open("x")
    fcntl.flock(mark, fcntl.LOCK_EX)  # before others see it; the system unlocks it when the process dies
    try:
        os.link(own, directory / UNFINISHED)
    except FileExistsError:
        mark.close()
        return None
    except OSError:  # a disk without links
        own.rename(directory / UNFINISHED)
    finally:
        own.unlink(missing_ok=True)
    return mark


def _end(directory: Path, mark: IO[str]) -> None:
    """Remove the mark of a run that has figures; a run without figures failed."""
    if (directory / "metrics.json").exists():
        (directory / UNFINISHED).unlink(missing_ok=True)
    mark.close()


def _again(directory: Path) -> str:
    """Advice on a folder that has a run or a sweep.

    A sweep goes on where it stopped, by its table. A run starts from the beginning: its parties keep no
    state, and the same seed gives the same run.
    """
    if (directory / SWEEP).exists():
        return "; the `fedkme sim sweep` that made it goes on where it stopped, if given again with its --out"
    for settings, verb in (("run.toml", "sim run"), ("release.toml", "release METHOD")):
        if (directory / settings).exists():
            return f"; `fedkme {verb} {typed(directory / settings)}` repeats its run in another folder"
    return ""


SWEEP = "sweep.parquet"
"""Table of a sweep; only the folder of a sweep has it."""


def is_under_way(directory: Path) -> bool:
    """Check whether a process is carrying out the run of a folder."""
    return (directory / UNFINISHED).exists() and not _died(directory)


def _failed(directory: Path) -> bool:
    """Check whether a folder has a run that ended with a failure."""
    try:
        metrics = json.loads(read_text(directory / "metrics.json"))
    except (OSError, ValueError):
        return False
    return (directory / "record.json").exists() and bool(metrics.get("code"))


def _died(directory: Path) -> bool:
    """Check whether a folder has an unfinished run without a process."""
    try:
        with (directory / UNFINISHED).open() as mark:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def forget_settings(directory: Path) -> None:
    """Remove the settings of a run that never began, and its folder if it is then empty."""
    for name in ("run.toml", "release.toml", SCHEMA):
        (directory / name).unlink(missing_ok=True)
    if all(path.name == UNFINISHED for path in directory.iterdir()):
        (directory / UNFINISHED).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        directory.rmdir()


def next_free(name: str, parent: Path = Path("runs")) -> Path:
    """Make the next folder NAME-N that does not exist, which nobody else then takes.

    Raises:
        OSError: it cannot be made.
    """
    durable.make_folder(parent)
    for number in itertools.count(1):
        with contextlib.suppress(FileExistsError):
            (directory := parent / f"{name}-{number}").mkdir(0o700)
            break
    return directory


def write_configuration(directory: Path, settings: SimulationSettings) -> None:
    """Write run.toml, the resolved settings; `fedkme sim run DIR/run.toml` repeats the run."""
    (directory / "run.toml").write_text(dump_toml(plain(settings)), encoding="utf-8")


LEDGER = "ledger.jsonl"
"""Ledger of a curator or consumer, in its folder."""
SCHEMA = "schema.toml"
"""The public schema of a run's rows, in its folder."""


def write_schema(directory: Path, schema: Schema) -> None:
    """Write schema.toml, which names the columns of the folder's rows."""
    (directory / SCHEMA).write_text(schema.to_toml(), encoding="utf-8")


def write_ledgers(directory: Path, stores: Mapping[str, Store]) -> None:
    """Write every party's ledger and heads of a run in one process, to the files that processes leave."""
    for name, store in stores.items():
        folder = {CURATOR: "", CONSUMER: "consumer"}.get(name, "owners")
        file = f"{name}.jsonl" if folder == "owners" else LEDGER
        (directory / folder).mkdir(exist_ok=True)
        _write(store, directory / folder / file)


def remove_repeated(directory: Path) -> None:
    """Remove files that say what others say: received rows that are the curator's summary, and empty logs."""
    received, summary = directory / "consumer" / RECEIVED_ROWS, directory / SUMMARY
    if received.exists() and summary.exists() and filecmp.cmp(received, summary, shallow=False):
        received.unlink()
    logs = directory / "stderr"
    for file in logs.glob("*.txt"):
        if not file.stat().st_size:
            file.unlink()
    with contextlib.suppress(OSError):  # there is none, or somebody wrote a line
        logs.rmdir()


def adopt(directory: Path) -> None:
    """Keep the record of the curator's only run at the top of the folder, and every party's ledger.

    A ledger becomes a file of lines in place of the party's journal; the parties have ended.

    Raises:
        StoreError: a journal cannot be read.
    """
    curator, consumer = directory / "curator", directory / "consumer"
    for folder in sorted(curator.glob("run-*")):
        for file in sorted(folder.iterdir()):
            file.replace(directory / file.name)
    owners = sorted((directory / "owners").glob("*.db"))
    adopted = {journal: (journal.stem, journal.with_suffix(".jsonl")) for journal in owners}
    adopted[consumer / "journal.db"] = CONSUMER, consumer / LEDGER
    adopted[curator / "journal.db"] = CURATOR, directory / LEDGER
    for journal, (party, target) in adopted.items():
        if journal.exists():
            with contextlib.closing(_opened(journal, party)) as store:
                _write(store, target)
            for suffix in ("", *BESIDE):  # by name: a glob would read the whole folder once for each owner
                journal.with_name(f"{journal.name}{suffix}").unlink(missing_ok=True)
    if curator.exists():
        shutil.rmtree(curator)


def _opened(journal: Path, party: str) -> Store:
    """Open a journal for reading, at half the cost; after a death in its creation, as the party would."""
    try:
        return SqliteReader(journal, party, unchanged=True)
    except StoreError:
        return open_store(journal, party, "process")


def _write(store: Store, target: Path) -> None:
    lines = "".join(f"{entry.line}\n" for entry in store.ledger()).encode("ascii")
    durable.replace(target, lines) if target.name == LEDGER else target.write_bytes(lines)
    write_heads(store, target)


def read_record(directory: Path) -> Mapping[str, Any] | None:
    """Read the curator's record of the run; None if the run ended before it had a record."""
    path = directory / "record.json"
    return json.loads(read_text(path)) if path.exists() else None
