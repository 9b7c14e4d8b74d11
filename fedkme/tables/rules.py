"""Public rules of a schema: what no row can be, as everybody knows without looking at rows."""

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import chain, pairwise
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    Field,
    FiniteFloat,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from fedkme.config import Settings
from fedkme.tables.cells import Name, Text

_KEYS = ("never", "order", "derived")


class HashedMapping(dict[Any, Any]):
    """Mapping with a hash, for settings, which never change."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


_HASHED = AfterValidator(HashedMapping)


class DerivedColumn(Settings):
    """Column computed from others: a public function of one column, or a sum of several."""

    function_of: Name | None = None
    """Column of categories, or label, that says the value."""
    values: Annotated[Mapping[Name, FiniteFloat | Text], _HASHED] = Field(default_factory=HashedMapping)
    """Value for each category of that column: a number, or a category."""
    sum_of: tuple[Name, ...] = ()
    """Numbers that add up to the column, or a date and days; files may lack the last one, which follows."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.function_of is None) == (not self.sum_of) or bool(self.values) != bool(self.function_of):
            raise ValueError("a derived column has 'function_of' with 'values', or 'sum_of'")
        return self

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns that it follows from."""
        return self.sum_of if self.function_of is None else (self.function_of,)


class PublicRules(Settings):
    """Rules that made rows obey: no epsilon is spent on them, as they are known without looking at rows."""

    never: tuple[Text, ...] = ()
    """Conditions, in the language of `fedkme ask`, that hold for no row: "age < 15 and married = 'yes'"."""
    order: tuple[tuple[Name, ...], ...] = ()
    """Lists of dates or numbers, none of which is larger than the next: ["admitted", "discharged"]."""
    derived: Annotated[Mapping[Name, DerivedColumn], _HASHED] = Field(default_factory=HashedMapping)
    """Columns that follow from others, by name."""

    @model_serializer(mode="wrap")
    def _without_silent_keys(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out keys without rules, so that schemas without rules have the digests that they had."""
        values: dict[str, Any] = dump(self)
        derived = values.get("derived") or {}
        for name, each in derived.items():
            derived[name] = {key: value for key, value in each.items() if value}
        return {key: value for key, value in values.items() if value or key not in _KEYS}

    @property
    def has_rules(self) -> bool:
        """True if rows have to obey a rule."""
        return bool(self.never or self.order or self.derived)

    @property
    def differences(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Sum, and its other parts, of each last part of a sum."""
        sums = {name: each.sum_of for name, each in self.derived.items() if each.sum_of}
        return {parts[-1]: (name, parts[:-1]) for name, parts in sums.items()}

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse rules about columns that are not there, or that go round in a circle.

        Raises:
            ValueError: names the rule.
        """
        for name in chain(self.derived, *self.order, *(each.sources for each in self.derived.values())):
            if name not in names:
                raise ValueError(f"a rule names '{name}', which is no column")
        for name, each in self.derived.items():
            if derived := [source for source in each.sources if source in self.derived]:
                cause = f"'{name}' follows from '{derived[0]}', which is derived, too: name its source"
                raise ValueError(cause)
        if short := [each for each in self.order if len(set(each)) != len(each) or len(each) < 2]:
            raise ValueError(f"'order' needs two columns or more, each once: {list(short[0])}")
        sorter = TopologicalSorter[str]()
        for name, later in chain.from_iterable(map(pairwise, self.order)):
            sorter.add(later, name)
        try:
            sorter.prepare()
        except CycleError as error:
            circle = "', '".join(error.args[1][:-1])
            raise ValueError(f"'order' goes in a circle of '{circle}'. Leave one of them out.") from None
