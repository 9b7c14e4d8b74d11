"""The language of questions: parsed questions, and errors with their characters."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.answers.conditions import _SIGNS
from fedkme.answers.grammar import Both, Column, ColumnTest, Either, Not, OneOf, parse
from fedkme.answers.quantities import parts_of
from fedkme.errors import QuestionError
from fedkme.tables.cells import date_of
from fedkme.tables.schema import schema_from
from tests.fedkme.answers.people import schema


def test_questions_are_parsed() -> None:
    mean, share, histogram, corr = parse(
        "mean(age) by sex; share(ill = 'yes' and age > 60); histogram(income, 10); corr(age, income)"
    )
    assert (mean.call, mean.columns[0].name, mean.by) == ("mean", "age", Column("sex", 14))
    ill, age = ColumnTest(Column("ill", 25), "=", "yes", 31), ColumnTest(Column("age", 41), ">", 60.0, 47)
    assert share.condition == Both(ill, age)
    assert (histogram.number, [c.name for c in corr.columns]) == (10.0, ["age", "income"])
    assert share.text == "share(ill = 'yes' and age > 60)"


def test_not_binds_before_and_and_and_binds_before_or() -> None:
    (question,) = parse("COUNT(not a = 1 AND b = 2 or (c in (1, 2) and d not in ('x')))")
    match question.condition:
        case Either(Both(Not(ColumnTest()), ColumnTest()), Both(OneOf(_, values, _), Not(OneOf()))):
            assert values == (1.0, 2.0)
        case other:
            pytest.fail(f"read as {other}")


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", None, "there is no question"),
        ("mean age", 6, "'age' is not understood"),
        ("means(age)", 1, "'means' is not understood"),
        ("share(sex = and)", 13, "Here stands a value"),
        ("share(age between 20)", 21, "'between' and a value are followed by 'and'"),
        ("mean(age) by", 13, "the end is not understood"),
        ("mean(agee)", 6, "Did you mean 'age'? Columns: age, income, visits, sex, home region, ill."),
        ("share(sex = 'f')", 13, "Categories, between single quotes: female, male."),
        ("share(sex > 'female')", 13, "have no order"),
        ("share(age > 'old')", 13, "Give one between 18 and 97"),
        ("share(income = 3)", 16, "Ask with < and >="),
        ("mean(sex)", 6, "Ask for share(sex = 'female')"),
        ("mean(age) by visits", 14, "Take one of sex, home region, ill"),
        ("mean(age) by sex by ill", 18, "'by' stands twice"),
        ("quantile(age, 1)", 10, "not above 0 and below 1"),
        ("histogram(age, 0)", 11, "0 bins"),
        ("count(age # 3)", 11, "'#' is not understood"),
        ("count(" + 60 * "(" + "age>3", 57, "nested too deeply"),
        ("mean(age) mean(age)", 11, "';'"),
        ("count(1e999 = age)", 7, "too large"),
    ],
)
def test_a_wrong_question_is_one_line_that_names_the_character(
    text: str, place: int | None, message: str
) -> None:
    with pytest.raises(QuestionError) as caught:
        parts_of(parse(text), schema())
    line = str(caught.value)
    assert message in line
    assert "\n" not in line
    assert place is None or f"at character {place}:" in line


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("AVG(age)", "mean(age)"),
        ("average(age) by sex", "mean(age) by sex"),
        ("hist(age, 4)", "histogram(age, 4)"),
        ("count", "count()"),
        ("COUNT( * )", "count()"),
        ("count where age > 60 by sex", "count() where age > 60 by sex"),
        ("count(*) by sex", "count() by sex"),
        *(
            (f"share(sex = {cell})", "share(sex = 'male')")
            for cell in ("male", '"male"', "`male`", "“male”", "‘male’")
        ),
        ("share(sex = „male“ and age ≥ 60)", "share(sex = 'male' and age >= 60)"),
        ("share(age ≠ 3 or age ≤ 5)", "share(age != 3 or age <= 5)"),
        ("share(age between 20 and 30 and ill = yes)", "share(age >= 20 and age <= 30 and ill = 'yes')"),
        ("mean('age') by `home region`", 'mean(age) by "home region"'),
        ("share(sex in (male, female))", "share(sex in ('male', 'female'))"),
    ],
)
def test_what_people_write_means_what_it_says(text: str, same: str) -> None:
    # SQL's avg, between and count(*), quotes of editors, and a bare `count where` were not understood.
    (one,), (other,) = (parse(each) for each in (text, same))
    bare = [re.sub(r"places?=[^)]*\)|, place=\d+", "", repr(replace(each, text=""))) for each in (one, other)]
    assert bare[0] == bare[1]
    assert len(parts_of([one], schema())) == len(parts_of([other], schema()))


@given(
    st.sampled_from(["=", "<", "<=", ">", ">="]),
    st.integers(-3, 12),
    st.sampled_from([(), (-2,), (11,)]),
    st.booleans(),
    st.sampled_from(["numeric", "date"]),
)
def test_what_clip_has_moved_is_not_answered(
    sign: str, number: int, atoms: tuple[int, ...], clip: bool, kind: str
) -> None:
    # share(age > 90) of a column whose values beyond 90 are moved there was 0, from 0 to 0.
    def written(value: int) -> Any:
        return date_of(float(value)) if kind == "date" else value

    spec = {
        "bounds": [written(0), written(9)],
        "atoms": [*map(written, atoms)],
        "clip": clip,
        "integer": True,
    }
    columns = [{"kind": kind, "name": "a", **spec}, {"kind": "numeric", "name": "b", "bounds": [0, 1]}]
    possible = [each for each in (*range(10), *atoms) if _SIGNS[sign](each, number)]
    between = range(min(0, *atoms, 0), max(9, *atoms, 9) + 1)
    asked = parse(f"mean(b) where a {sign} {written(number)}")
    answered = bool(possible) or not clip or (sign == "=" and number in between)
    with nullcontext() if answered else pytest.raises(QuestionError, match="'clip' moves others there"):
        parts_of(asked, schema_from({"columns": columns}))


def test_names_with_spaces_stand_between_double_quotes() -> None:
    parts = parts_of(parse('mean(age) by "home region" where visits >= 2'), schema())
    assert [part.group for part in parts] == [f"home region = {name}" for name in "abcd"]
