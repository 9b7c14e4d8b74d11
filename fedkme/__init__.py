"""Agreements between all parties of fedkme: values, feature maps, mechanisms, the wire.

`import fedkme as fk` is the Python API, too: `fk.summarize`, `fk.release`, `fk.match`, `fk.simulate`,
`fk.sweep`, `fk.select`, `fk.load`, `fk.Consumer`, `fk.Schema`, `fk.draft_schema`, `fk.check`
(docs/python.md). Each is looked up when it is first used (docs/decisions/018).
"""

import importlib
import os

# gRPC writes lines of its own to standard error, about connections that ended as they should.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

__version__ = "0.2.0"

_PLACES = {
    "Consumer": "sim.api.consumer",
    "FedkmeError": "fedkme.errors",
    "FedkmeWarning": "fedkme.errors",
    "ReleaseResult": "sim.api.releases",
    "Schema": "fedkme.tables.schema",
    "SchemaCheck": "sim.api.checks",
    "SchemaDraft": "sim.api.drafts",
    "SummaryResult": "sim.api.summaries",
    "SelectionResult": "sim.api.selection",
    "SweepTable": "sim.api.sweeps",
    "check": "sim.api.checks",
    "draft_schema": "sim.api.drafts",
    "load": "sim.api.verbs",
    "match": "sim.api.matches",
    "release": "sim.api.verbs",
    "select": "sim.api.selection",
    "simulate": "sim.api.verbs",
    "summarize": "sim.api.verbs",
    "sweep": "sim.api.verbs",
}
"""Modules of the public names; the stub beside this file has the same for type checkers."""
__all__ = ["__version__", *_PLACES]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'fedkme' has no attribute {name!r}")
    from fedkme.errors import missing_extra

    try:
        value = getattr(importlib.import_module(_PLACES[name]), name)
    except ImportError as error:
        raise missing_extra(error) or error from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
