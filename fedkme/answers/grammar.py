"""The language of questions: a recursive-descent parser from text to values.

    questions   = question { ";" question }
    question    = call { "where" condition | "by" column }
    call        = "count" "(" [ condition ] ")" | "share" "(" condition ")"
                | ( "mean" | "sum" | "var" | "median" ) "(" column ")"
                | "quantile" "(" column "," number ")" | "histogram" "(" column [ "," number ] ")"
                | "corr" "(" column "," column ")"
    condition   = conjunction { "or" conjunction }
    conjunction = negation { "and" negation }
    negation    = "not" negation | "(" condition ")" | column test
    test        = ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value | "between" value "and" value
                | [ "not" ] "in" "(" value { "," value } ")"

A column is a name (letters, digits, `_`, `-`, `.`) or any text between quotes; a value is a number, or a
category, a class or a date, between quotes unless it is such a name. Quotes are single, double, of printers
or backticks: their place tells columns and values apart. Words of the language may be written in capitals.
`count` and `count(*)` are `count()`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from fedkme.errors import QuestionError
from fedkme.tables.cells import as_seen

MOST_CHARACTERS = 20_000
_DEEPEST = 50
_TOKEN = re.compile(
    r"""\s*(?:(?P<date>\d{4}-\d\d?-\d\d?)(?!\w)|(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<name>[^\W\d][\w.-]*)|(?P<quoted>"[^"]+"|`[^`]+`|“[^”]+”|„[^“”]+[“”]|«[^»]+»|'[^']*'|‘[^’]*’)
    |(?P<sign><=|>=|!=|<>|==|[=<>≤≥≠(),;*]))""",
    re.VERBOSE,
)
_QUESTION = re.compile(r"""(?:[^;'"]|'[^']*'?|"[^"]*"?)+""")
_ONE_COLUMN = ("mean", "sum", "var", "median")
CALLS = ("count", "share", *_ONE_COLUMN, "quantile", "histogram", "corr")
"""Words that a question begins with."""
_SIGNS = {"==": "=", "<>": "!=", "≤": "<=", "≥": ">=", "≠": "!="}
_ALIASES = {"avg": "mean", "average": "mean", "hist": "histogram"}
_RESERVED = ("and", "or", "not", "in", "between", "where", "by")
Value: TypeAlias = float | str


@dataclass(frozen=True, slots=True)
class Column:
    """Name of a column in a question, with its place in the text, counted from 1."""

    name: str
    place: int


@dataclass(frozen=True, slots=True)
class ColumnTest:
    """Comparison of a column with a value; `place` is the place of the value in the text."""

    column: Column
    sign: str
    value: Value
    place: int


@dataclass(frozen=True, slots=True)
class OneOf:
    """Test whether a column has one of several values."""

    column: Column
    values: tuple[Value, ...]
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Condition that holds where `inner` does not."""

    inner: Condition


@dataclass(frozen=True, slots=True)
class Both:
    """Condition that holds where `left` and `right` both do."""

    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True)
class Either:
    """Condition that holds where `left` or `right` does."""

    left: Condition
    right: Condition


Condition: TypeAlias = ColumnTest | OneOf | Not | Both | Either
_Arguments: TypeAlias = tuple[tuple[Column, ...], float | None, Condition | None]
_OF_ALL: _Arguments = ((), None, None)


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """One question after parsing.

    Attributes:
        text: text of this question alone.
        call: one of CALLS.
        columns: arguments that are columns.
        number: argument that is a number: the level of a quantile, the bins of a histogram.
        condition: argument of `count` and `share`.
        where: condition for the rows that the question is about; None: all rows.
        by: column whose categories each get an answer; None: one answer for all rows.
    """

    text: str
    call: str
    columns: tuple[Column, ...] = ()
    number: float | None = None
    condition: Condition | None = None
    where: Condition | None = None
    by: Column | None = None


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: int
    """Place of the first character in the text, counted from 1."""
    end: int
    """Offset behind the last character, counted from 0."""


def parse(text: str) -> list[ParsedQuestion]:
    """Parse questions.

    Raises:
        QuestionError: the text has a mistake; the message names the character.
    """
    if len(text) > MOST_CHARACTERS:
        cause = f"a question of {len(text)} characters is longer than {MOST_CHARACTERS}"
        raise QuestionError(cause, "Ask in parts.")
    return _Parser(text).questions()


def parse_condition(text: str) -> Condition:
    """Parse a condition alone.

    Raises:
        QuestionError: the text has a mistake; the message names the character.
    """
    return _Parser(text).condition_alone()


def separate(text: str) -> list[str]:
    """Split a text at `;` into the texts of its questions, whether they can be parsed or not."""
    return [each.strip() for each in _QUESTION.findall(text) if each.strip()] or [text]


def wrong(place: int, cause: str, remedy: str) -> QuestionError:
    """Error at a character of a question, counted from 1."""
    return QuestionError(f"at character {place}: {cause}", remedy)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = as_seen(text)
        self._tokens = list(_tokens(self._text))
        self._at = 0
        self._depth = 0

    def questions(self) -> list[ParsedQuestion]:
        questions = []
        while self._next.kind != "end":
            if not self._skip(";"):
                questions.append(self._question())
                if self._next.kind != "end" and not self._skip(";"):
                    self._refuse("the question ends, or goes on with 'where', one 'by', or ';' and another")
        if not questions:
            raise QuestionError("there is no question", 'Ask for example "mean(age) by sex".')
        return questions

    def condition_alone(self) -> Condition:
        condition = self._condition()
        if self._next.kind != "end":
            self._refuse("the condition ends, or goes on with 'and' or 'or'")
        return condition

    def _question(self) -> ParsedQuestion:
        start = self._next
        word = self._word((*CALLS, *_ALIASES), f"a question begins with one of {', '.join(CALLS)}")
        call = _ALIASES.get(word, word)
        if call == "count" and (self._is_word("where", "by") or self._next.text in ("", ";")):
            columns, number, condition = _OF_ALL
        else:
            self._require("(", f"'{call}' is followed by its arguments in parentheses")
            columns, number, condition = self._arguments(call)
            self._require(")", f"the arguments of '{call}' end here")
        where: Condition | None = None
        by: Column | None = None
        while self._is_word("where", "by"):
            token = self._next
            word = self._word(("where", "by"), "")
            if (where if word == "where" else by) is not None:
                raise wrong(
                    token.place,
                    f"'{word}' stands twice",
                    "Join conditions with 'and'; give one column to 'by'.",
                )
            if word == "where":
                where = self._condition()
            else:
                by = self._column()
        end = self._tokens[self._at - 1].end
        text = " ".join(self._text[start.place - 1 : end].split())
        return ParsedQuestion(text, call, columns, number, condition, where, by)

    def _arguments(self, call: str) -> _Arguments:
        if call in ("count", "share"):
            if call == "count" and (self._skip("*") or self._next.text == ")"):
                return _OF_ALL
            return (), None, self._condition()
        columns = (self._column(),)
        if call == "corr":
            self._require(",", "'corr' takes two columns")
            return (*columns, self._column()), None, None
        if call == "quantile":
            self._require(",", "'quantile' takes a column and a level, such as 0.9")
            return columns, self._number(), None
        if call == "histogram" and self._skip(","):
            return columns, self._number(), None
        return columns, None, None

    def _condition(self) -> Condition:
        return self._joined("or", Either, lambda: self._joined("and", Both, self._negation))

    def _joined(
        self, word: str, kind: Callable[[Condition, Condition], Condition], part: Callable[[], Condition]
    ) -> Condition:
        condition = part()
        while self._is_word(word):
            self._at += 1
            condition = kind(condition, part())
        return condition

    def _negation(self) -> Condition:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise wrong(self._next.place, "conditions are nested too deeply", "Ask in parts.")
        try:
            if self._is_word("not"):
                self._at += 1
                return Not(self._negation())
            if self._skip("("):
                inner = self._condition()
                self._require(")", "a parenthesis is closed here")
                return inner
            return self._test()
        finally:
            self._depth -= 1

    def _test(self) -> Condition:
        column = self._column()
        negated = self._is_word("not")
        if negated:
            self._at += 1
        if negated or self._is_word("in"):
            self._word(("in",), "'not' after a column is followed by 'in'")
            return Not(self._membership(column)) if negated else self._membership(column)
        if self._is_word("between"):
            self._at += 1
            low = self._compared(column, ">=")
            self._word(("and",), "'between' and a value are followed by 'and' and another")
            return Both(low, self._compared(column, "<="))
        sign = self._next
        if sign.kind != "sign" or sign.text in "(),;":
            self._refuse("a column is followed by =, !=, <, <=, >, >=, between or in")
        self._at += 1
        return self._compared(column, _SIGNS.get(sign.text, sign.text))

    def _compared(self, column: Column, sign: str) -> ColumnTest:
        place = self._next.place
        return ColumnTest(column, sign, self._value(), place)

    def _membership(self, column: Column) -> OneOf:
        self._require("(", "'in' is followed by values in parentheses")
        places, values = [self._next.place], [self._value()]
        while self._skip(","):
            places.append(self._next.place)
            values.append(self._value())
        self._require(")", "the list of values ends here")
        return OneOf(column, tuple(values), tuple(places))

    def _column(self) -> Column:
        token = self._next
        if token.kind not in ("name", "quoted"):
            self._refuse("stands a column's name")
        self._at += 1
        return Column(token.text, token.place)

    def _value(self) -> Value:
        token = self._next
        if token.kind not in ("number", "date", "name", "quoted") or self._is_word(*_RESERVED):
            self._refuse("stands a value: a number, or a name between quotes")
        self._at += 1
        return float(token.text) if token.kind == "number" else token.text

    def _number(self) -> float:
        if self._next.kind != "number":
            self._refuse("stands a number")
        self._at += 1
        return float(self._tokens[self._at - 1].text)

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _is_word(self, *words: str) -> bool:
        return self._next.kind == "name" and self._next.text.lower() in words

    def _word(self, words: tuple[str, ...], expected: str) -> str:
        if not self._is_word(*words):
            self._refuse(expected)
        self._at += 1
        return self._tokens[self._at - 1].text.lower()

    def _skip(self, sign: str) -> bool:
        matches = self._next.kind == "sign" and self._next.text == sign
        self._at += matches
        return matches

    def _require(self, sign: str, expected: str) -> None:
        if not self._skip(sign):
            self._refuse(f"{expected}: '{sign}'")

    def _refuse(self, expected: str) -> NoReturn:
        token = self._next
        seen = f"'{token.text[:40]}'" if token.kind != "end" else "the end"
        raise wrong(token.place, f"{seen} is not understood", f"Here {expected}.")


def _tokens(text: str) -> list[_Token]:
    tokens, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise wrong(
                at + 1,
                f"{text[at]!r} is not understood",
                "Put names of columns, and values, with other signs between quotes.",
            )
        kind, at = match.lastgroup, match.end()
        value = match.group(kind)
        if kind == "number" and not math.isfinite(float(value)):
            raise wrong(match.start(kind) + 1, "the number is too large", "Give a smaller number.")
        bare = value[1:-1] if kind == "quoted" else value
        tokens.append(_Token(kind, bare, match.start(kind) + 1, at))
    return [*tokens, _Token("end", "", len(text.rstrip()) + 1, len(text))]
