"""Edits of the text of a TOML file: remarks stay, and no form of TOML is damaged."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.drafts.edits import Change, edited, remarks_of, removed
from fedkme.errors import ConfigError

TEXT = '''# first
sep = "," # of cells

names = [ # of all
    "a", # one
    "b" # two
]

[[columns]] # one
name = "x # y" # "quoted"
"odd = key" = [1, 2] # odd
bounds = [
  0, # low
  1] # high

[[columns]]
name = "y"
text = """
# no remark
""" # remark

[label]
name = "z"
inner = {a = 1, b = {c = 2}} # inline
date = 2021-02-03 # a day

[owners.north]
path = "n.csv"
'''


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("sep",), ";"),
        (("more",), True),
        (("names",), ["a", "b", "c"]),
        (("names",), ["c"]),
        (("columns", 0, "name"), 'with "quotes" and \\ and \n'),
        (("columns", 0, "odd = key"), [3]),
        (("columns", 0, "bounds"), [0, 1, 2]),
        (("columns", 0, "new"), 1.5),
        (("columns", 1, "text"), "short"),
        (("columns", 1, "new key"), {"a": ["b"]}),
        (("label", "inner", "b", "c"), 3),
        (("label", "inner", "d"), "e"),
        (("label", "other"), "o"),
        (("owners", "north", "columns", "age", "na"), ["-9"]),
        (("owners", "south"), {"path": "s.csv"}),
    ],
)
def test_a_key_changes_and_all_else_stays(place: tuple[str | int, ...], value: Any) -> None:
    text = edited(TEXT, [Change(place, value, "# NEW")], "a file")
    at: Any = tomllib.loads(text)
    for key in place:
        at = at[key]
    assert at == value
    gone = {"# one", "# two", "# low", "# of all"} if value == ["c"] else set[str]()
    for remark in (
        "# first",
        "# of cells",
        "# of all",
        "# one",
        "# two",
        "# low",
        "# high",
        "# odd",
        "# inline",
    ):
        assert remark in text or remark in gone
    assert "# NEW" in text
    assert edited(TEXT, [Change(place, value), Change(("sep",), "\t")], "a file").startswith("# first\nsep")


def test_a_fresh_value_loses_its_remark_and_a_table_goes_with_its_own() -> None:
    text = edited(TEXT, [Change(("sep",), ";", fresh=True)], "a file")
    assert "# of cells" not in text
    text = removed(TEXT, ("columns", 0))
    assert [each["name"] for each in tomllib.loads(text)["columns"]] == ["y"]
    assert "# odd" not in text
    assert "# remark" in text
    assert "date" not in tomllib.loads(removed(TEXT, ("label", "date")))["label"]
    with pytest.raises(ConfigError, match=r"'nothing' cannot be taken out"):
        removed(TEXT, ("nothing",))
    assert remarks_of(TEXT)["columns", 0] == "one"
    assert remarks_of(TEXT)["columns", 0, "name"] == '"quoted"'


@pytest.mark.parametrize("text", ["a = {b = 1}\n[c]\nd = [{e = 1}]", "a", "x.y = 1\n[x]\nz = 1"])
def test_what_cannot_be_edited_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot be written into the file"):
        edited(text, [Change(("c", "d", 5, "f"), 1)], "a file")


VALUES = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-9, 9),
        st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=6),
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab .#=\"'é", max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(VALUES, VALUES)
def test_any_value_is_written_and_read_back(first: Any, second: Any) -> None:
    text = edited("# first\n", [Change(("a",), first, "# one"), Change(("b c",), second)], "a file")
    assert tomllib.loads(text) == {"a": first, "b c": second}
    text = edited(text, [Change(("a",), second), Change(("b c",), first)], "a file")
    assert tomllib.loads(text) == {"a": second, "b c": first}
    assert text.startswith("# first\n")
    assert "# one" in text
