"""Releases whose numbers are nothing but noise: everything that follows from them is made all the same.

Property (issue 33, item 4): of any released numbers, however absurd, rows and card are made, and a question
of any form of the grammar has an answer or an error of ours. `FEDKME_RELEASES=10000` draws so many.
"""

from __future__ import annotations

import asyncio
import importlib.util
import math
import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from audit.contracts.rows import random_table
from audit.in_memory import OwnersInMemory
from curator.releases.method import Method, finished, make_method
from fedkme.answers.answer import Answer, ask
from fedkme.answers.evidence import Evidence
from fedkme.answers.folder import evidence_of
from fedkme.answers.grammar import CALLS, parse
from fedkme.arrays import FloatArray
from fedkme.errors import FedkmeError, NotMadeError
from fedkme.features.counts import Groups
from fedkme.ops.derivation import Derivation
from fedkme.releases.counts import PROTOCOL, Measurement, counts_from_bytes, protocol_of
from fedkme.releases.file import from_bytes, to_bytes
from fedkme.releases.settings import release_settings
from fedkme.tables.schema import Category, Label, Numeric, Schema

RELEASES = int(os.environ.get("FEDKME_RELEASES", "150"))
_JAX = importlib.util.find_spec("jax") is not None
EVERYTHING = Schema(
    columns=(
        Numeric(name="age", bounds=(17, 90), integer=True),
        Category(name="work", categories=("own", "state", "?")),
        Numeric(name="share", bounds=(-1, 1)),
        Numeric(name="income", bounds=(0, 1e6), scale="log", atoms=(0,)),
        Numeric(name="joined", kind="date", bounds=("2000-01-01", "2020-12-31")),
    ),
    label=Label(name="ill", classes=("no", "yes")),
)
NUMBERS = Schema(columns=(Numeric(name="x", bounds=(-4, 4), count=2),))
_NETWORK = {"hidden": [4], "batch": 8, "steps": 2, "rows": 20}
_SEARCH = {"restarts": 1, "steps": 2, "candidates": 8, "climbs": 2, "points": 5}
METHODS: dict[str, tuple[Schema, dict[str, Any], bool]] = {
    "marginals": (EVERYTHING, {"kind": "marginals", "rows": 20, "bins": 4, "iterations": 20}, False),
    "independent": (
        EVERYTHING,
        {"kind": "marginals", "rows": 20, "mechanism": "independent", "iterations": 20, "copies": 1},
        False,
    ),
    "moments": (EVERYTHING, {"kind": "moments", "rows": 20}, False),
    "moments-numbers": (NUMBERS, {"kind": "moments", "rows": 20}, False),
    "balog1": (NUMBERS, {"kind": "balog1", "points": 10, "gamma": 2.0, "weights": "l1", "rows": 20}, False),
    "balog1-mixed": (
        EVERYTHING,
        {"kind": "balog1", "points": 8, "z": {"kind": "gaussian", "scale": 0.4}},
        False,
    ),
    "balog2": (EVERYTHING, {"kind": "balog2", "features": 20, "rows": 10, **_SEARCH}, True),
    "merf": (EVERYTHING, {"kind": "merf", "features": 20, **_NETWORK}, True),
    "hermite": (EVERYTHING, {"kind": "hermite", "epochs": 1, "sum_order": 4, **_NETWORK}, True),
}
"""Schema, settings, and whether jax makes the rows."""


@cache
def released(name: str) -> tuple[Method, bytes]:
    """A method, and a release of its own that noise is put on."""
    schema, values, _ = METHODS[name]
    settings = release_settings({"epsilon": 2.0, "seed": 1, **values})
    method = make_method(settings, schema, random_table(schema, 30, seed=9), 7)
    return method, asyncio.run(method.ask(OwnersInMemory(random_table(schema, 400), schema, 3)))


def absurd(values: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Numbers of the same shape as noise may leave them: zero, negative, huge, tiny, spikes."""
    size = max(float(np.abs(values).max(initial=0.0)), 1e-12)
    noise = generator.standard_normal(values.shape)
    match generator.integers(0, 8):
        case 0:
            return np.zeros_like(values)
        case 1:
            return -np.abs(values)
        case 2:
            return np.asarray(noise * (size * 10.0 ** generator.uniform(-3, 3)))
        case 3:
            return np.asarray(noise * 10.0 ** generator.uniform(3, 12))
        case 4:
            return np.full_like(values, noise.flat[0] * size)
        case 5:
            spike = np.zeros_like(values)
            spike.flat[generator.integers(0, values.size)] = size * 10.0 ** generator.uniform(-2, 4)
            return spike
        case 6:
            return np.asarray(values * 10.0 ** generator.uniform(-12, 0))
        case _:
            return np.asarray(values + noise * (size * 10.0 ** generator.uniform(-2, 1)))


def noisy(release: bytes, generator: np.random.Generator) -> bytes:
    """The release with other numbers in it, about another number of rows."""
    rows = int(10.0 ** generator.uniform(0, 5))
    stretch = 10.0 ** generator.uniform(-3, 6)
    if protocol_of(release, "drawn") == PROTOCOL:
        counts = counts_from_bytes(release)

        def drawn(part: Measurement) -> Measurement:
            return replace(part, values=absurd(part.values, generator), sigma=part.sigma * stretch)

        fitted = tuple(map(drawn, counts.fitted))
        others = tuple(map(drawn, counts.others)) if generator.random() < 0.5 else ()
        fine = tuple(map(drawn, counts.fine)) if generator.random() < 0.7 else ()
        screen, sizes = counts.screen, counts.binning.sizes
        if screen is not None:
            sums = tuple(absurd(each, generator) for each in screen.sums)
            screen = replace(screen, sums=sums, sigmas=tuple(each * stretch for each in screen.sigmas))
        halves = Groups(0, tuple(code % 2 for code in range(sizes[0])))
        clique = (1, len(sizes) - 1, len(sizes))
        table = Measurement(clique, absurd(np.ones(2 * sizes[1] * sizes[-1]), generator), stretch)
        grouped, tilts = ([table] if generator.random() < 0.3 else [] for _ in range(2))
        drawn_counts = replace(counts, rows=rows, fitted=fitted, others=others, fine=fine, screen=screen)
        in_groups = replace(drawn_counts, groups=(halves,), grouped=tuple(grouped), tilts=tuple(tilts))
        return in_groups.to_bytes()
    stored = from_bytes(release)
    embeddings = tuple(
        replace(part, mean=absurd(part.mean, generator), sigma=part.sigma * stretch, rows=rows)
        for part in stored.embeddings
    )
    masses = stored.masses
    if masses is not None:  # `curator.releases.joint`: at least one row each
        masses = np.maximum(absurd(masses, generator), 1.0 / rows)
    public = dict(stored.public)
    if "variance" in public:
        public["mean"] = absurd(public["mean"], generator)
        public["variance"] = np.abs(absurd(public["variance"], generator))
    return to_bytes(replace(stored, embeddings=embeddings, masses=masses, public=public))


class Questions:
    """Questions of every form of the grammar about a schema."""

    def __init__(self, schema: Schema, generator: np.random.Generator) -> None:
        self._generator = generator
        self._numbers = [name for c in schema.columns if isinstance(c, Numeric) for name in c.names]
        self._bounds = {n: c.limits for c in schema.columns if isinstance(c, Numeric) for n in c.names}
        self._names = {c.name: c.categories for c in schema.columns if isinstance(c, Category)}
        if schema.label is not None:
            self._names[schema.label.name] = schema.label.classes

    def draw(self, call: str) -> str:
        """A question that begins with a word of CALLS."""
        number = self._pick(self._numbers)
        arguments = {
            "count": self._condition(2) if self._chance(0.7) else "",
            "share": self._condition(2),
            "quantile": f"{number}, {self._pick([0.001, 0.1, 0.5, 0.9, 0.999])}",
            "histogram": f"{number}, {self._pick([1, 3, 10, 50])}" if self._chance(0.7) else number,
            "corr": f"{number}, {self._pick(self._numbers)}",
        }.get(call, number)
        text = f"{call}({arguments})"
        if self._chance(0.4):
            text += f" where {self._condition(1)}"
        if self._names and self._chance(0.3):
            text += f" by {self._pick(list(self._names))}"
        return text

    def _condition(self, depth: int) -> str:
        if depth and self._chance(0.5):
            form = self._pick(["not ({0})", "({0} and {1})", "({0} or {1})"])
            return str(form).format(self._condition(depth - 1), self._condition(depth - 1))
        if self._names and self._chance(0.5):
            name = self._pick(list(self._names))
            values = [f"'{value}'" for value in self._names[name]]
            listed = ", ".join(values[: 1 + int(self._generator.integers(0, len(values)))])
            forms = [f"{name} = {values[0]}", f"{name} != {values[-1]}", f"{name} in ({listed})"]
            return str(self._pick(forms))
        name = self._pick(self._numbers)
        low, high = self._bounds[name]
        value = self._generator.uniform(low - 1.0, high + 1.0)
        value = self._pick([value, low, high, math.floor(value)])
        sign = self._pick(["=", "!=", "<", "<=", ">", ">=", "not in"])
        return f"{name} {sign} ({value})" if sign == "not in" else f"{name} {sign} {value}"

    def _pick(self, choices: list[Any]) -> Any:
        return choices[self._generator.integers(0, len(choices))]

    def _chance(self, share: float) -> bool:
        return bool(self._generator.random() < share)


def remembered(asked: Callable[..., list[Answer]]) -> Callable[..., list[Answer]]:
    """Answers to each question, asked once with made rows and once without; all are of one release."""
    answers: dict[tuple[str, bool], list[Answer]] = {}

    def remembering(evidence: Evidence, question: str, target: Any, made: Callable[[], Any]) -> list[Answer]:
        key = question, made() is None
        if key not in answers:
            answers[key] = asked(evidence, question, target, made)
        return answers[key]

    return remembering


def answered(evidence: Evidence, question: str) -> bool:
    """Ask; an error is one of ours, and an interval holds its estimate."""
    try:
        answers = ask(evidence, question)
    except FedkmeError:
        return False
    for answer in answers:
        rounding = 1e-9 * abs(answer.estimate)
        assert math.isnan(answer.low) or answer.low - rounding <= answer.estimate <= answer.high + rounding, (
            answer
        )
    return True


@pytest.mark.parametrize("name", METHODS)
def test_no_released_number_leaves_a_question_without_an_answer(name: str) -> None:
    """About 150 releases, 12 questions of all forms each, in seconds."""
    count, answer_count = math.ceil(RELEASES / len(METHODS)), 0
    for seed in range(count):
        generator = np.random.default_rng([seed, list(METHODS).index(name)])
        evidence = evidence_of(noisy(released(name)[1], generator))
        questions = Questions(evidence.schema, generator)
        for call in CALLS:
            question = questions.draw(call)
            parse(question)
            try:
                answer_count += answered(evidence, question)
            except Exception as error:
                raise AssertionError(f"{name}, seed {seed}: {question}") from error
    assert answer_count > count  # most are about columns that there are


@pytest.mark.parametrize("name", METHODS)
def test_no_released_number_leaves_a_release_without_rows_or_card(name: str) -> None:
    """A generator is compiled for each release, so fewer releases are tried for methods with a generator."""
    if METHODS[name][2] and not _JAX:
        pytest.skip("rows of this method need jax")
    count = max(1, RELEASES // (1000 if METHODS[name][2] else 50))
    method, release = released(name)
    for seed in range(count):
        drawn = noisy(release, np.random.default_rng([seed, 99]))
        derived = finished(method, drawn, lambda *_: None)
        assert not derived.losses, f"{name}, seed {seed}: {[str(loss) for loss in derived.losses]}"
        assert derived.rows > 0
        assert {"npz", "csv", "card.md", "card.json"} <= {file.partition(".")[2] for file in derived.files}


@pytest.mark.parametrize("name", [name for name, (_, _, needs_jax) in METHODS.items() if not needs_jax])
def test_each_step_of_a_method_may_raise_and_the_others_are_taken(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The released numbers are kept whatever step raises; an attempt after all of them makes all files."""
    monkeypatch.setattr(
        "fedkme.answers.card.ask", remembered(ask)
    )  # the card's answers take most of the time
    method, release = released(name)
    quiet = finished(method, release, lambda *_: None)
    assert not quiet.losses
    number = 0
    while True:
        number += 1
        countdown = [number]
        with pytest.MonkeyPatch.context() as patch:
            step = Derivation.step

            def failing(
                self: Derivation, what: str, make: Any, countdown: list[int] = countdown, step: Any = step
            ) -> Any:
                countdown[0] -= 1
                return step(self, what, make if countdown[0] else lambda: 1 // 0)

            patch.setattr(Derivation, "step", failing)
            release_files = finished(method, release, lambda *_: None)
        if countdown[0] > 0:
            break
        assert release_files.files["release.npz"] == release
        assert [type(loss) for loss in release_files.losses] == [NotMadeError]
    assert number > 10
    assert dict(finished(method, release, lambda *_: None).files) == dict(quiet.files)
