"""Terms of a summary's page, explained in place: the first use of each links to its entry at the foot.

A term that the page does not use has no entry. Drawings, listings and headings are left as they are: what
they say stands in a table or a line beside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape, unescape

Section = tuple[str, str]
"""Name of a section, plain text, and its HTML."""
NAME = "What the words mean"


@dataclass(frozen=True, slots=True)
class Term:
    """A word that a reader may meet here for the first time.

    Attributes:
        key: its place on the page, in letters and digits.
        name: as the glossary has it.
        forms: regular expressions of how the page writes it.
        meaning: in a sentence or two, plain text.
    """

    key: str
    name: str
    forms: tuple[str, ...]
    meaning: str


TERMS = (
    Term(
        "mmd2",
        "MMD²",
        ("MMD²", r"MMD\^2"),
        "Squared maximum mean discrepancy: how far apart two sets of rows are, by a Gaussian kernel. 0 is a "
        "perfect match; compare it with that of other ways to choose rows.",
    ),
    Term("dv", "D_v", ("D_v",), "The consumer's own rows, which the summary is to match (validation set)."),
    Term(
        "rho",
        "ρ (rho)",
        ("ρ", "rho"),
        "How many rows had to be seen for those that are kept: points accessed / (p + |D_v|); of a "
        "summary by cells, rows asked of owners per row kept.",
    ),
    Term("p", "p", ("p(?= =)", r"p(?= \+)", "p(?= fresh)"), "Rows that the consumer asked for."),
    Term("gamma", "γ (gamma)", ("γ", "gamma"), "Width of the Gaussian kernel exp(-γ |x - y|²)."),
    Term("d", "d", ("d(?= =)",), "Number of features by which rows are compared."),
    Term(
        "h1",
        "h1",
        ("h1",),
        "Features of a row whose products come near the kernel, so that their mean stands for a set of rows.",
    ),
    Term("g", "g~", ("g~",), "Mean of h1 over the consumer's rows, with noise: what is told of them."),
    Term(
        "seeds",
        "seed set",
        ("seed set", "seed rows", "seeds"),
        "Public rows that a run begins with, so that its first choices are not blind. They are not returned.",
    ),
    Term("seed", "seed", (r"seeds?(?= \d)",), "Number from which a simulation draws all that is random."),
    Term(
        "marginal",
        "marginal",
        ("marginals(?= were)", "noisy marginals"),
        "Counts of the rows by the values of one or a few columns together.",
    ),
    Term(
        "halves",
        "real halves",
        ("real halves",),
        "How far two random halves of the real rows are from each other: nothing comes nearer but by chance.",
    ),
    Term(
        "accessed",
        "points accessed",
        ("points accessed", "rows accessed", "accessed"),
        "Distinct rows whose content reached the curator, whether they were used or not.",
    ),
    Term(
        "greedy",
        "non-private greedy",
        ("non-private greedy", "greedy"),
        "The same protocol with exact means in place of noisy ones: the gap to it is what privacy costs.",
    ),
    Term(
        "exactgreedy",
        "exact-kernel greedy",
        ("exact-kernel greedy",),
        "Greedy choice by exact kernels with everybody's rows in one place: about the best that can be had.",
    ),
    Term(
        "uniform",
        "uniform sampling",
        ("uniform sampling", "uniform rows", "uniform"),
        "As many rows as were asked for, drawn at random, an equal share of each owner.",
    ),
    Term(
        "pruned",
        "uniform, pruned",
        ("uniform, pruned", "pruned"),
        "Uniform rows, more than were asked for, of which the consumer keeps the p that match its own best.",
    ),
    Term(
        "uniform5p",
        "uniform 5p",
        ("uniform 5p, pruned", "uniform 5p"),
        "Five times as many uniform rows as were asked for, of which the best p are kept.",
    ),
    Term(
        "weighted",
        "weighted",
        ("this run, weighted", "uniform, weighted", "weights", "weighted"),
        "At most p rows that count unequally, for programs that take weights.",
    ),
    Term(
        "repeats",
        "repeats",
        ("this run, repeats", "repeats"),
        "p rows of which some are there more than once, for programs that take no weights.",
    ),
    Term(
        "effective",
        "effective rows",
        ("effective rows", "effective sample size"),
        "A mean over weighted rows varies like one of so many rows alike: 1 / sum of squared weights.",
    ),
    Term(
        "winneronly",
        "winner only",
        ("winner only",),
        "A baseline: each round, only the owner whose row is best reveals it.",
    ),
    Term(
        "askeveryone",
        "ask everyone",
        ("ask everyone",),
        "A baseline: each round, every owner reveals its best row.",
    ),
    Term(
        "epsilon",
        "ε (epsilon)",
        ("ε", "epsilons?"),
        "Bound of differential privacy: with one row replaced, nothing that is seen becomes more than e^ε "
        "times as likely, but for δ. Small is private: 1 is about 2.7 times, 0 that nothing is learned, "
        "inf no bound.",
    ),
    Term("delta", "δ (delta)", ("δ", "delta"), "Probability, about, with which the bound by ε may fail."),
    Term(
        "replaceone",
        "replace-one",
        ("replace-one", "replace one row"),
        "The neighbouring relation: two data sets that differ in one row, replaced by any other.",
    ),
    Term(
        "accountant",
        "accountant",
        ("accountants?",),
        "Arithmetic that adds up what was disclosed: sound is proven, published is the paper's own claim.",
    ),
    Term("pure", "pure", ("pure",), "Said of a bound by ε that holds with δ = 0."),
    Term(
        "cells",
        "cells",
        ("public cells", "cells"),
        "Regions of the space of rows, the same for all. Owners count their rows in each and are asked "
        "for rows by cell.",
    ),
    Term(
        "algorithm3",
        "Algorithm 3",
        ("Algorithm 3",),
        "The protocol of Sarpatwar and others (2019): rounds in which owners bid for the next row.",
    ),
    Term(
        "gains",
        "marginal gain",
        ("marginal gains?",),
        "How much closer the summary comes to the consumer's rows by one more row.",
    ),
    Term("svm", "linear SVM", ("linear SVM",), "Support vector machine, linear: a simple classifier."),
    Term(
        "mlp", "MLP 32", ("MLP 32",), "Neural network with one hidden layer of 32 units: a small classifier."
    ),
)
_SILENT = re.compile(r"<(/?)(svg|pre|code|h1|h2|a)\b[^>]*>")
_MARKUP = re.compile(r"(<[^>]*>)")
_BY_KEY = {term.key: term for term in TERMS}


def _pattern(terms: Iterable[Term]) -> re.Pattern[str]:
    """Every form of the terms, the longest first, each in a group of its term's name."""
    forms = [(form, term.key) for term in terms for form in term.forms]
    longest = sorted(forms, key=lambda each: -len(each[0]))
    joined = "|".join(f"(?P<{key}_{at}>{form})" for at, (form, key) in enumerate(longest))
    return re.compile(rf"(?<![\w-])(?:{joined})(?![\w²])", re.IGNORECASE)


_FORMS = _pattern(TERMS)


def terms_of(text: str) -> list[Term]:
    """Terms that a plain text uses, and those by which they are explained, in the order of TERMS."""
    found: set[str] = set()
    texts = [text]
    while texts:
        new = {_key(match) for match in _FORMS.finditer(texts.pop())} - found
        found |= new
        texts += [_BY_KEY[key].meaning for key in sorted(new)]
    return [term for term in TERMS if term.key in found]


def explained(head: str, sections: Sequence[Section]) -> tuple[str, list[Section]]:
    """Link the first use of each term to its entry, and add the entries as a section; without one, none."""
    linker = _Linker()
    linked = linker.link(head)
    body = [(name, linker.link(text)) for name, text in sections]
    said = " ".join(linker.said)
    return linked, [*body, (NAME, _entries(terms_of(said)))]


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
    """Links terms of one page after another piece of it, each once."""

    def __init__(self) -> None:
        self.said: list[str] = []
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
                self.said.append(unescape(piece))
                yield _FORMS.sub(self._first, piece)

    def _first(self, match: re.Match[str]) -> str:
        key = _key(match)
        if key in self._linked:
            return match[0]
        self._linked.add(key)
        meaning = escape(_BY_KEY[key].meaning)
        return f'<a class="term" href="#term-{key}"><abbr title="{meaning}">{match[0]}</abbr></a>'
