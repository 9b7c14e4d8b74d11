"""Glossary of a page: the first use of each term links to the term's entry at the foot of the page.

A term that the page does not use has no entry. Drawings, listings and headings get no links: a table or a
line beside them has the same words.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path

from fedkme.inputs import read_text

Section = tuple[str, str]
"""Name of a section, plain text, and its HTML."""
NAME = "What the words mean"


@dataclass(frozen=True, slots=True)
class Term:
    """Term of the field that a reader may not know.

    Attributes:
        key: anchor of the entry, letters and digits.
        name: heading of the entry.
        forms: regular expressions of the term's forms in a page's text.
        meaning: explanation in a sentence or two, plain text.
    """

    key: str
    name: str
    forms: tuple[str, ...]
    meaning: str


_FILE = tomllib.loads(read_text(Path(__file__).with_name("glossary.toml")))
TERMS = tuple(Term(**{**each, "forms": tuple(each["forms"])}) for each in _FILE["term"])
_SILENT = re.compile(r"<(/?)(svg|pre|code|h1|h2|a)\b[^>]*>")
_MARKUP = re.compile(r"(<[^>]*>)")
_BY_KEY = {term.key: term for term in TERMS}


def _pattern(terms: Iterable[Term]) -> re.Pattern[str]:
    """Pattern of all forms of the terms, the longest first, each in a group named by its term's key."""
    forms = [(form, term.key) for term in terms for form in term.forms]
    longest = sorted(forms, key=lambda each: -len(each[0]))
    joined = "|".join(f"(?P<{key}_{at}>{form})" for at, (form, key) in enumerate(longest))
    return re.compile(rf"(?<![\w-])(?:{joined})(?![\w²])", re.IGNORECASE)


_FORMS = _pattern(TERMS)


def terms_of(text: str) -> list[Term]:
    """Terms that a plain text or these terms' explanations use, in the order of TERMS."""
    keys: set[str] = set()
    texts = [text]
    while texts:
        new = {_key(match) for match in _FORMS.finditer(texts.pop())} - keys
        keys |= new
        texts += [_BY_KEY[key].meaning for key in sorted(new)]
    return [term for term in TERMS if term.key in keys]


def explained(head: str, sections: Sequence[Section]) -> tuple[str, list[Section]]:
    """Link the first use of each term to its entry, and add a section with the entries."""
    linker = _Linker()
    linked = linker.link(head)
    body = [(name, linker.link(text)) for name, text in sections]
    text = " ".join(linker.texts)
    return linked, [*body, (NAME, _entries(terms_of(text)))]


def _entries(terms: Sequence[Term]) -> str:
    lines = "".join(
        f'<div><dt id="term-{term.key}"><dfn>{escape(term.name)}</dfn></dt>'
        f"<dd>{escape(term.meaning)}</dd></div>"
        for term in terms
    )
    return f'<dl class="glossary">{lines}</dl>' if lines else ""


def _key(match: re.Match[str]) -> str:
    return str(match.lastgroup).partition("_")[0]


class _Linker:
    """Linker of a page's terms: takes the page's pieces in order, and links each term once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._linked: set[str] = set()

    def link(self, html: str) -> str:
        return "".join(self._pieces(html))

    def _pieces(self, html: str) -> Iterator[str]:
        silent = 0
        for piece in _MARKUP.split(html):
            if tag := _SILENT.match(piece):
                silent += -1 if tag[1] else 1
            if piece.startswith("<") or silent:
                yield piece
            else:
                self.texts.append(unescape(piece))
                yield _FORMS.sub(self._first, piece)

    def _first(self, match: re.Match[str]) -> str:
        key = _key(match)
        if key in self._linked:
            return match[0]
        self._linked.add(key)
        meaning = escape(_BY_KEY[key].meaning)
        return f'<a class="term" href="#term-{key}"><abbr title="{meaning}">{match[0]}</abbr></a>'
