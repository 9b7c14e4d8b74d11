"""Text of values, as logs and tracebacks may have it: no rows, no keys, no sums and no D_v."""

import builtins
import dataclasses
import importlib
import pkgutil
import typing
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

PACKAGES = """
    owner consumer curator.cells curator.run curator.runs curator.summary curator.sums fedkme.directives
    fedkme.documents fedkme.drafts fedkme.embeddings fedkme.exchange fedkme.features.sums fedkme.sealed
    fedkme.secagg fedkme.store fedkme.tables
"""
"""Packages and modules whose values may be private; values of others follow from what was released."""
_BYTES = """
    box chain cipher_key commitment context fingerprints instance key mask_key replaces request_id sealed
    signature signing data files costs
"""
PUBLIC = frozenset(_BYTES.split())
"""Fields of bytes that all parties may see: public keys, signatures and sealed boxes; or digests of files."""


class _Names(dict[str, Any]):
    """Names of a module, and `Any` for names that it imports for type checkers alone."""

    def __missing__(self, name: str) -> Any:
        return Any


def dataclasses_in(name: str) -> Iterator[type]:
    """Dataclasses of a module and of the modules below it."""
    module = importlib.import_module(name)
    for each in vars(module).values():
        if isinstance(each, type) and dataclasses.is_dataclass(each) and each.__module__ == name:
            yield each
    for below in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
        yield from dataclasses_in(below.name)


def parts(hint: Any) -> Iterator[Any]:
    """A type and the types in it, but of functions, whose text has none of their values."""
    yield (origin := typing.get_origin(hint) or hint)
    for part in typing.get_args(hint) if origin is not Callable else ():
        yield from parts(part)


def shown(kind: type) -> list[str]:
    """Fields with bytes or arrays that the text of a dataclass shows."""
    if not dataclasses.is_dataclass(kind) or "__repr__" not in vars(kind):
        return []
    names = _Names(vars(builtins) | vars(importlib.import_module(kind.__module__)))
    hints = typing.get_type_hints(kind, localns=names)
    fields = [field.name for field in dataclasses.fields(kind) if field.repr]
    private = [name for name in fields if not {bytes, np.ndarray}.isdisjoint(parts(hints[name]))]
    return [name for name in private if name not in PUBLIC]


@pytest.mark.parametrize("package", PACKAGES.split())
def test_the_text_of_a_value_shows_no_bytes_and_no_arrays(package: str) -> None:
    # `Table` showed its rows, an owner's among them, and `Offer` the consumer's D_v.
    kinds = {kind.__qualname__: shown(kind) for kind in dataclasses_in(package)}
    assert not {name: fields for name, fields in kinds.items() if fields}


def test_a_value_that_shows_rows_is_found() -> None:
    @dataclasses.dataclass
    class Careless:
        name: str
        rows: "tuple[np.ndarray[Any, Any], ...] | None"
        secret: bytes
        key: bytes
        hidden: bytes = dataclasses.field(repr=False)

    assert shown(Careless) == ["rows", "secret"]

    @dataclasses.dataclass(repr=False)
    class Careful:
        rows: "np.ndarray[Any, Any]"

    assert shown(Careful) == []
