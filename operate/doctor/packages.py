"""Packages beyond the base installation that a configuration will need, and on whose host."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from consumer.releases.client import ReleaseConsumerSettings
from consumer.settings import ConsumerSettings
from curator.settings import CuratorSettings
from fedkme.errors import MissingDependencyError
from fedkme.party import PartySettings
from fedkme.releases.settings import METHODS
from fedkme.tables.data_file import Source, path_of
from fedkme.tables.schema import load_schema
from operate.doctor.findings import Finding
from owner.settings import OwnerSettings


def check_packages(settings: PartySettings) -> Iterator[Finding]:
    """Find what is imported on this host, and say what is imported on the curator's.

    Raises:
        FedkmeError: the schema cannot be read.
    """
    for package, module, why in _here(settings):
        if importlib.util.find_spec(module) is not None:
            yield Finding("ok", "packages", f"{package}, needed on this host {why}, is installed")
        else:
            line = f"{package}, needed on this host {why}, is not installed"
            remedy = "Run `pip install 'fedkme[sim]'` here."
            yield Finding("fail", "packages", line, remedy, MissingDependencyError.code)
    if isinstance(settings, ReleaseConsumerSettings) and (names := settings.release.packages):
        line = (
            f"{', '.join(names)}: needed for {settings.release.kind} on the curator's host, not on this one"
        )
        yield Finding("ok", "packages", line)
    if isinstance(settings, CuratorSettings):
        methods = {kind: METHODS[kind].packages for kind in METHODS.table()}
        needed = sorted({name for names in methods.values() for name in names})
        lacking = [name for name in needed if importlib.util.find_spec(name) is None]
        refused = [kind for kind, names in methods.items() if set(names) & set(lacking)]
        line = f"not installed here: {', '.join(lacking)}; releases by {', '.join(refused)} are refused"
        yield Finding("ok", "packages", line if lacking else "every method of release has its packages here")


def _here(settings: PartySettings) -> Iterator[tuple[str, str, str]]:
    """Packages, the modules by which they are imported, and what for."""
    tables: list[Source | None] = []
    match settings:
        case OwnerSettings():
            tables = [settings.data]
        case CuratorSettings():
            tables = [settings.seeds]
        case ConsumerSettings():
            tables = [settings.validation, settings.test, settings.seeds]
            if settings.trains(load_schema(settings.schema_file)):
                yield "scikit-learn", "sklearn", "to train models on the summary (`downstream`)"
    if any(source is not None and path_of(source).suffix == ".parquet" for source in tables):
        yield "pyarrow", "pyarrow", "to read .parquet files"
