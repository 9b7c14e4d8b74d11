"""Extensions: auctions, release methods, mechanisms, feature maps and verbs of other packages.

A package registers each by an entry point of its distribution, in one of five groups:

- `fedkme.auctions` and `fedkme.releases`: the value is a row of the table of protocols (fedkme/protocols.py).
  The row names its classes by strings, which only the role that runs them imports.
- `fedkme.mechanisms` and `fedkme.feature_maps`: the value is the class of settings, or of the map's spec.
- `fedkme.verbs`: the value is the typer application of a verb; the name is what is typed after `fedkme`, such
  as `audit attack`.

The name of the entry point is the extension's kind in settings, owners' policies and ledgers. The same code
finds this package's own auctions, releases and so on, through tables of the same form. docs/extending.md
shows each kind of extension.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from fedkme.errors import ExtensionError

if TYPE_CHECKING:  # a verb without settings, such as `fedkme pki`, does not wait for this import
    from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
    from pydantic_core import CoreSchema

AUCTIONS = "fedkme.auctions"
RELEASES = "fedkme.releases"
MECHANISMS = "fedkme.mechanisms"
FEATURE_MAPS = "fedkme.feature_maps"
VERBS = "fedkme.verbs"
INSTRUMENTS: Mapping[str, tuple[str, str]] = {
    "audit attack": ("fedkme-audit", "Attack the mechanisms, to bound what they disclose from below."),
    "audit replay": ("fedkme-audit", "Replay runs with another row, to prove that ledgers are complete."),
    "bench": ("fedkme-lab", "measure speed and memory; compare summaries with their rivals"),
    "referee": ("fedkme-lab", "score made rows by tests that others wrote, beside rivals' rows"),
    "sim chaos": ("fedkme-audit", "Play schedules of faults in simulated worlds."),
    "sim reproduce": ("fedkme-lab", "Compute a figure or table of the papers."),
    "sim schedule": ("fedkme-audit", "Play one schedule of faults again, with its story."),
}
"""Verbs of this repository's other distributions: name of the distribution, and help of the verb."""

_MEND = "Correct the package that brings it, or uninstall it."
ModelT = TypeVar("ModelT", bound="BaseModel")


@cache
def registered(group: str) -> Mapping[str, Any]:
    """Values of a group's entry points, sorted by name; each is imported once, on first use.

    Raises:
        ExtensionError: a value cannot be imported, or two packages register the same name.
    """
    return MappingProxyType({name: load(entry) for name, entry in entries(group).items()})


def entries(group: str) -> Mapping[str, EntryPoint]:
    """Entry points of a group, sorted by name, without importing them.

    Raises:
        ExtensionError: two packages register the same name.
    """
    by_name: dict[str, EntryPoint] = {}
    for entry in sorted(installed().select(group=group), key=lambda entry: entry.name):
        if (other := by_name.setdefault(entry.name, entry)) is not entry:
            cause = f"{_package(other)} and {_package(entry)} both register '{entry.name}' in {group}"
            raise ExtensionError(cause, "Uninstall one of them.")
    return by_name


def merged(own: Mapping[str, Any], group: str) -> dict[str, Any]:
    """Rows of a table of this package, followed by the rows that other packages register in a group.

    Raises:
        ExtensionError: a registered name is this package's own, or see `registered`.
    """
    others = registered(group)
    if taken := sorted(own.keys() & others.keys()):
        raise ExtensionError(f"'{taken[0]}' in {group} is a name of fedkme itself", "Choose another name.")
    return {**own, **others}


def implementation(where: str, what: str) -> Any:
    """Import the object at `module:name`.

    Raises:
        ExtensionError: there is no such module or object, or its import fails.
    """
    module, _, name = where.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # another package's code: any exception becomes one line here
        raise ExtensionError(
            f"'{what}' is registered, and {where or 'its implementation'} cannot be imported: {_line(error)}",
            _MEND,
        ) from error


@dataclass(frozen=True)
class Registry(Generic[ModelT]):
    """Registry of settings classes by kind; annotates a field of settings whose table has a key for the kind.

    Attributes:
        base: base class of all the classes.
        noun: noun for a kind, for errors.
        key: key that names the kind.
        table: classes, or their paths `module:Class`, by kind.
        default: kind of a table without the key; empty: the key is required.
    """

    base: type[Any]
    noun: str
    key: str
    table: Callable[[], Mapping[str, type[ModelT] | str]]
    default: str = ""

    def __getitem__(self, kind: str) -> type[ModelT]:
        """The class of a kind.

        Raises:
            ExtensionError: the class contradicts its registration.
        """
        entry = self.table()[kind]
        chosen: Any = implementation(entry, kind) if isinstance(entry, str) else entry
        if self.base not in getattr(chosen, "__mro__", ()):
            cause = f"the class that is registered as '{kind}' is no subclass of {self.base.__name__}"
            raise ExtensionError(cause, _MEND)
        if (named := chosen.model_fields[self.key].default) != kind:
            cause = f"the {self.noun} '{kind}' calls itself '{named}' in '{self.key}' of its settings"
            raise ExtensionError(cause, _MEND)
        cls: type[ModelT] = chosen
        return cls

    def classes(self) -> list[type[ModelT]]:
        """The classes of all kinds."""
        return [self[kind] for kind in self.table()]

    def model_validate(self, values: Any) -> ModelT:
        """Make an instance of the class that values name; an existing instance is returned unchanged.

        Raises:
            ValidationError: the kind is unknown, or the class refuses the values.
        """
        if isinstance(values, self.base):
            instance: ModelT = values
            return instance
        if not isinstance(values, Mapping):
            raise self._wrong((), values, f"it is no table. Write one with a '{self.key}'.")
        kind = values.get(self.key, self.default)
        if kind == "":
            raise self._wrong((self.key,), values)
        if not isinstance(kind, str) or kind not in self.table():
            close = difflib.get_close_matches(str(kind), self.table(), n=1)
            hint = f"Did you mean '{close[0]}'?" if close else f"Known are {', '.join(self.table())}."
            raise self._wrong((self.key,), kind, f"{str(kind)[:40]!r} is no {self.noun}. {hint}")
        return self[kind].model_validate(values)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Choose the class before the field is validated."""
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.model_validate, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe a table of any kind."""
        return {"anyOf": [handler(each.__pydantic_core_schema__) for each in self.classes()]}

    def _wrong(self, where: tuple[str, ...], given: object, message: str = "") -> ValidationError:
        from pydantic_core import PydanticCustomError, ValidationError

        error = "missing" if not message else PydanticCustomError("kind", "{message}", {"message": message})
        return ValidationError.from_exception_data(self.noun, [{"type": error, "loc": where, "input": given}])


@cache
def installed() -> EntryPoints:
    """Entry points of all packages, cached: finding one group's reads a file of every package."""
    return cast(EntryPoints, entry_points())  # has this type from Python 3.12 on


def load(entry: EntryPoint) -> Any:
    """Import the value of an entry point.

    Raises:
        ExtensionError: the value cannot be imported.
    """
    try:
        return entry.load()
    except Exception as error:  # another package's code: any exception becomes one line here
        raise ExtensionError(
            f"{_package(entry)} registers '{entry.name}' in {entry.group}, and {entry.value} cannot be "
            f"imported: {_line(error)}",
            _MEND,
        ) from error


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "a package"


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]
