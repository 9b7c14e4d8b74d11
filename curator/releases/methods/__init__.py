"""Methods of releases behind one interface: a small module for each, and `make_method`."""

from __future__ import annotations

from curator.releases.method import Method
from curator.releases.methods.balog1 import Balog1
from curator.releases.methods.balog2 import Balog2
from curator.releases.methods.hermite import Hermite
from curator.releases.methods.merf import Merf
from fedkme.releases.settings import (
    AnyRelease,
    Balog1Settings,
    Balog2Settings,
    MarginalsSettings,
    MerfSettings,
)
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table


def make_method(settings: AnyRelease, schema: Schema, seeds: Table | None, public_seed: int) -> Method:
    """The method of settings; whatever is wrong with them is said here, before an owner is asked.

    Args:
        settings: which, and its parameters.
        schema: the public domain.
        seeds: public rows, D_init; None or empty without them.
        public_seed: for settings without a seed.

    Raises:
        ConfigError: the settings do not go with the schema, with the seeds or with the wire's limits.
        DataError: public rows that do not fit the schema.
        MissingDependencyError: a package that the post-processing needs is not installed.
    """
    match settings:
        case Balog1Settings():
            return Balog1(settings, schema, seeds, public_seed)
        case Balog2Settings():
            return Balog2(settings, schema, seeds, public_seed)
        case MerfSettings():
            return Merf(settings, schema, seeds, public_seed)
        case MarginalsSettings():
            from curator.releases.methods.marginals import MarginalsMethod

            return MarginalsMethod(settings, schema, public_seed)
        case _:
            return Hermite(settings, schema, public_seed)
