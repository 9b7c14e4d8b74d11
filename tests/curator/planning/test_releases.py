"""The plan of releases (docs/decisions/021): a method by public facts, and the error that noise causes."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest

from audit.contracts import OwnersInMemory
from curator.planning.releases import ReleaseFacts, plan_release
from curator.releases.method import make_method
from fedkme.errors import ConfigError
from fedkme.moments.gaussians import gaussians_of
from fedkme.releases.file import from_bytes
from fedkme.releases.settings import release_settings
from fedkme.tables.schema import Category, Column, Label, Numeric, Schema
from fedkme.tables.table import Table


def schema_of(*columns: Column) -> Schema:
    return Schema(columns=columns, label=Label(name="c", classes=("x", "y")))


TABLE = schema_of(
    *(Numeric(name=f"n{i}", bounds=(0, 1)) for i in range(10)), Category(name="k", categories=("a", "b"))
)
WIDE = schema_of(*(Numeric(name=f"n{i}", bounds=(0, 1)) for i in range(33)))
CODES = schema_of(
    *(Category(name=f"k{i}", categories=("a", "b", "c")) for i in range(20)), *WIDE.columns[:20]
)
MIXED = schema_of(
    *(Category(name=f"k{i}", categories=("a", "b")) for i in range(9)),
    *(Numeric(name=f"n{i}", bounds=(0, 1)) for i in range(48)),
)
LOANS = schema_of(
    *(Category(name=f"k{i}", categories=("a", "b")) for i in range(10)),
    *(Numeric(name=f"n{i}", bounds=(0, 1), nullable=True) for i in range(40)),
)
NAMES = schema_of(*(Category(name=f"k{i}", categories=tuple(map(str, range(60)))) for i in range(40)))
GAPS = schema_of(Numeric(name="n", bounds=(0, 1), nullable=True), Category(name="k", categories=("a", "b")))
SIGNAL = schema_of(Numeric(name="s", bounds=(-5, 5), count=64))


@pytest.mark.parametrize(
    ("schema", "method", "why"),
    [
        (TABLE, "marginals", "11 columns"),
        (GAPS, "marginals", "2 columns, with gaps 3: "),  # a reader had 7 columns, and read of 12
        (WIDE, "moments", "too many"),
        (CODES, "marginals", "40 columns"),
        (MIXED, "marginals", "57 columns"),  # a telecom's table, on which moments' columns were .13 off
        (
            LOANS,
            "marginals",
            "50 columns, with gaps 90",
        ),  # moments' pairs of such loans were .13 off, not .07
        (NAMES, "moments", "too many"),
        (SIGNAL, "moments", "image or a signal"),
    ],
    ids=["table", "gaps", "wide", "codes", "mixed", "loans", "names", "signal"],
)
def test_the_schema_decides(schema: Schema, method: str, why: str) -> None:
    plan = plan_release(ReleaseFacts(schema, 10_000, 1.0, 1e-5))
    assert plan.method == method
    assert why in plan.why
    assert plan.line.startswith(f"plan: {method}; ")
    for candidate, error in plan.errors.items():
        assert f"{candidate} {error:.2g} " in plan.line


def test_a_kernel_question_takes_a_kernel_method_whatever_the_schema() -> None:
    for schema in (TABLE, WIDE, SIGNAL):
        assert plan_release(ReleaseFacts(schema, 100, 1.0, 1e-5, task="kernel")).method == "balog2"


def test_less_noise_or_more_rows_leave_less_error() -> None:
    usual = plan_release(ReleaseFacts(TABLE, 10_000, 1.0, 1e-5)).errors
    for better in (ReleaseFacts(TABLE, 40_000, 1.0, 1e-5), ReleaseFacts(TABLE, 10_000, 3.0, 1e-5)):
        assert all(error < usual[name] for name, error in plan_release(better).errors.items())
    secure = plan_release(ReleaseFacts(TABLE, 10_000, 1.0, 1e-5, noise_ratio=1.3)).errors
    assert all(error > usual[name] for name, error in secure.items())
    assert not any(plan_release(ReleaseFacts(TABLE, 10_000, math.inf, 1e-5)).errors.values())


def test_the_error_of_moments_is_about_that_of_the_release() -> None:
    generator, count = np.random.default_rng(2), 4000
    values = np.clip(generator.standard_normal((count, 64)), -5, 5)
    owners = OwnersInMemory(Table(values, generator.integers(0, 2, count)), SIGNAL, 2)
    method = make_method(release_settings({"kind": "moments"}), SIGNAL, None, 3)
    (embedding,) = from_bytes(asyncio.run(method.ask(owners))).embeddings
    noise = embedding.sigma * math.sqrt(0.5 * 2)  # of z_i z_j, both classes together
    error = noise / float(np.diagonal(gaussians_of(embedding).pooled).mean())
    expected = plan_release(ReleaseFacts(SIGNAL, count, 1.0, 1e-5)).errors["moments"]
    assert expected == pytest.approx(error, rel=0.5)


@pytest.mark.parametrize("facts", [(0, 1.0, 1e-5), (10, 0.0, 1e-5), (10, 1.0, 0.0)])
def test_facts_out_of_range_are_refused(facts: tuple[int, float, float]) -> None:
    with pytest.raises(ConfigError, match="out of range"):
        ReleaseFacts(TABLE, *facts)
