"""Text of a draft: a schema file with remarks for its editor."""

import re
from collections.abc import Iterator

from fedkme.config import toml_text
from fedkme.drafts.drafting import Draft
from fedkme.tables.data_file import DataFile

FROM_DATA = "# FROM DATA: replace if private"
_SEEN = ("bounds", "categories", "atoms", "values", "scale", "decimals", "missing_codes", "na")
"""Keys whose values come from rows."""


def text_of(draft: Draft) -> str:
    """Text of a schema file with remarks, which `load_schema` can read."""
    return "\n".join(_lines(draft)) + "\n"


def _lines(draft: Draft) -> Iterator[str]:
    mark = f"  {FROM_DATA}" if draft.from_data else ""
    yield "# Draft of a public schema, through which all parties read their rows: agree on it in public."
    if draft.from_data:
        yield "# Bounds and names marked FROM DATA were seen in rows. If these are private, put in their"
        yield "# place what is known without looking at them: a form, a code book, what is possible at all."
        yield "# clip: a number beyond its bounds is moved to the nearest; `fedkme schema check` counts them."
    yield from (f"# {_line(remark)}" for remark in draft.remarks)
    if draft.left_out:
        yield ""
        yield "ignore = [ # columns that are not used"
        yield from (f"    {toml_text(name)}, # {_line(why)}" for name, why in draft.left_out.items())
        yield "]"
    for column in draft.columns:
        if column.spec and column.name != draft.label:
            yield ""
            yield "[[columns]]" + (f" # {_line(column.why)}" if column.why else "")
            for key, value in column.spec.items():
                yield f"{key} = {toml_text(value)}{mark if key in _SEEN else ''}"
            if column.spec.get("nullable"):
                yield "# an empty cell is told apart; `missing` in place of `nullable` fills it"
            if column.spec.get("other"):
                yield '# a name that is not in the list is told apart as "other"'
    if label := draft.classes():
        why = draft.guesses.get(draft.label, "")
        yield from ("", "[label]" + (f" # {_line(why)}" if why else ""))
        cut = "positive_above" in label
        if cut:
            yield "# A number, cut in two: the second class is what lies above. Choose where."
        for key, value in label.items():
            learnt = key == ("positive_above" if cut else "classes")
            yield f"{key} = {toml_text(value)}{mark if learnt else ''}"
    if not draft.label:
        yield from (
            "",
            "# [label] # a column that a model learns to predict: take it out of the columns above",
        )
        yield from ('# name = "ill"', '# classes = ["no", "yes"]')
    yield from _person_lines(draft)
    yield from _reading_lines(draft)


def remark_lines(draft: Draft) -> Iterator[str]:
    """Lines for people: what was left out of the draft, and what was guessed."""
    yield from draft.remarks
    yield from (f"left out: {name}: {why}" for name, why in draft.left_out.items())
    yield from (f"guessed: {name}: {why}" for name, why in draft.guesses.items())


def _line(text: str) -> str:
    """Text in one line: words of a file that stand for an empty cell may have line breaks."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _person_lines(draft: Draft) -> Iterator[str]:
    persons = [column for column in draft.columns if column.most and column.name != draft.label]
    for column in persons[:1]:
        yield from (
            "",
            "# [person] # whose a row is: privacy is then theirs. Take it out of ignore, or of the columns",
        )
        yield f"# column = {toml_text(column.name)}"
        yield f"# rows = {column.most}  {FROM_DATA}"


def _reading_lines(draft: Draft) -> Iterator[str]:
    for file in draft.files:
        lines = [
            f"{key} = {toml_text(value)}"
            for key in ("skip", "skip_end", "sep", "decimal", "thousands", "units", "encoding")
            if (value := getattr(file, key)) != DataFile.model_fields[key].default
        ]
        for name, column in file.columns.items():
            signs = column.model_dump(exclude_defaults=True)
            lines += [f"columns.{_key(name)}.{key} = {toml_text(value)}" for key, value in signs.items()]
        if lines:
            yield ""
            yield f"# {_line(file.path.name)} is written in a way of its own. A party whose file is like it"
            yield "# says so beside its path: in [data] of OWNER.toml, or at the owner's name in a scenario."
            yield from (f"# {line}" for line in lines)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_text(name)
