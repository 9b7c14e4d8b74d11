"""Responder of sums: computes every figure itself, and refuses what was not agreed (decision 006)."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from fedkme.errors import (
    DataError,
    FedkmeError,
    PolicyError,
    ProtocolError,
    SchemaError,
    SecureAggregationError,
)
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.kernel_points import PointsSpec
from fedkme.features.sums import Layout
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import Role
from fedkme.privacy.events import CURATOR, Clock, Composed, Disclosure, ExactStatistic, Gaussian, Laplace
from fedkme.secagg.messages import KeyRoster
from fedkme.secagg.noise import plan_of
from fedkme.secagg.signing import KeyBinding
from fedkme.sums.values import SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.table import Table
from owner.sums.responder import SumResponder
from tests.owner.consent.host import NAME, SCHEMA, rows
from tests.owner.sums.owner_parties import (
    MULTIPLIER,
    NAMES,
    NOISY,
    PLANNED,
    QUERY,
    VECTOR,
    Lines,
    Together,
    changed,
    invitation,
    parameters,
    share,
    sum_responder,
)
from tests.silence import Silence


def enlisted(security: Any = NOISY, **changes: Any) -> SumResponder:
    responder = sum_responder()
    assert responder.invite(invitation(security=security, **changes)) == 20
    return responder


GOOD = parameters()
HONEST = VECTOR.diameter

LIES: list[tuple[dict[str, Any], str]] = [
    ({"run": "r/2"}, "has another name"),
    ({"run": "q/1"}, "has another name"),
    ({"owners": ("owner-2", "owner-3", "owner-4")}, "is not of owner-1"),
    ({"owners": (*NAMES, "owner-4"), "threshold": 3, "dropouts": 1, "colluders": 1}, "other colluders"),
    ({"owners": (*NAMES, "x", "y"), "threshold": 3, "dropouts": 2}, "more owners drop out than were agreed"),
    ({"noise": 2.0**23}, "shares of noise that are too small"),
    ({"length": VECTOR.length + 1}, f"another length than {VECTOR.length}"),
    ({"length": VECTOR.length - 1}, f"another length than {VECTOR.length}"),
    ({"step": 2.0**-27}, "another step"),
    ({"bound": VECTOR.bound(20) - 1}, "bound that sums of owner-1 may exceed"),
]


@pytest.mark.parametrize(("lie", "words"), LIES)
def test_parameters_that_do_not_agree_are_refused(lie: dict[str, Any], words: str) -> None:
    # "a number that the curator could lie about is checked, or not sent": each field, one by one.
    with pytest.raises(ProtocolError, match=words):
        enlisted().propose(1, changed(GOOD, **lie), QUERY)


def test_parameters_that_agree_are_accepted() -> None:
    # The counterpart of the test above; fewer drop-outs and a larger bound are harmless, too.
    for agreed in (GOOD, changed(GOOD, dropouts=0), changed(GOOD, bound=2 * GOOD.bound, bits=64)):
        binding = enlisted().propose(1, agreed, QUERY)
        assert (binding.owner, binding.chain, binding.signature) == (NAME, b"", b"")
        assert len(binding.key) == 32


@pytest.mark.parametrize("security", [None, NOISY])
def test_a_run_is_answered_at_the_level_that_was_agreed(security: Any) -> None:
    # An owner that agreed to secure aggregation sends no plain sums, and the other way round.
    responder = enlisted(security)
    ask = (
        (lambda: responder.propose(1, GOOD, QUERY))
        if security is None
        else (lambda: responder.embed(1, QUERY))
    )
    with pytest.raises(ProtocolError, match=r"were agreed|under secure aggregation"):
        ask()


def test_nothing_is_answered_before_the_run_was_let_in() -> None:
    for ask in (lambda: sum_responder().embed(1, QUERY), lambda: sum_responder().propose(1, GOOD, QUERY)):
        with pytest.raises(ProtocolError, match="takes part in no such run"):
            ask()


def test_another_schema_is_refused() -> None:
    with pytest.raises(SchemaError):
        sum_responder().invite(invitation(schema="another"))


def test_other_terms_of_a_run_that_has_begun_are_refused() -> None:
    responder = enlisted()
    responder.invite(invitation(security=NOISY))
    for terms in ({"security": None}, {"planned": (Gaussian(1.0),)}, {"consumer": "clinic"}):
        with pytest.raises(ProtocolError, match="under other terms"):
            responder.invite(invitation(**({"security": NOISY} | terms)))


def test_a_plan_whose_relation_nobody_can_state_is_refused() -> None:
    both = Composed((Clock(1.0), Clock(1.0, "add-remove")))
    with pytest.raises(ProtocolError, match="different relations"):
        sum_responder().invite(invitation(planned=(both,)))


def test_the_plan_is_the_most_that_noise_may_cost() -> None:
    # 1/multiplier^2 of Gaussians is additive: two questions with the planned noise, and no third one.
    lines = Lines()
    everybody = Together(
        [sum_responder(lines=lines), sum_responder("owner-2"), sum_responder("owner-3")], NOISY
    )
    for number in (1, 2):
        everybody.total(number, parameters(number), QUERY)
    with pytest.raises(PolicyError, match=r"noise multiplier 2.88675 in all, and the plan says 3.53553"):
        everybody.owners[0].propose(3, parameters(3), QUERY)
    about_curator = [line.event for line in lines if line.observer == CURATOR]
    assert about_curator == [plan_of(GOOD, HONEST).event] * 2


@pytest.mark.parametrize(("factor", "refused"), [(0.99999, True), (1.0, False), (1.5, False)])
def test_one_question_may_cost_the_whole_plan_and_no_more(factor: float, refused: bool) -> None:
    # The cost follows from the owner's own diameter and the fewest remaining owners, not from the curator's
    # words.
    responder, multiplier = enlisted(), factor * MULTIPLIER / 2**0.5
    agreed = parameters(noise=share(multiplier, HONEST))
    if refused:
        with pytest.raises(PolicyError):
            responder.propose(1, agreed, QUERY)
    else:
        responder.propose(1, agreed, QUERY)


def test_a_plan_without_gaussians_allows_no_noisy_question() -> None:
    with pytest.raises(PolicyError):
        enlisted(planned=(Laplace(0.1, 10**6),)).propose(1, GOOD, QUERY)


def test_no_aggregation_is_done_twice() -> None:
    responder = enlisted()
    responder.propose(1, GOOD, QUERY)
    with pytest.raises(SecureAggregationError, match="no aggregation is done twice"):
        responder.propose(1, GOOD, QUERY)
    with pytest.raises(ProtocolError, match="without a number"):
        responder.propose(0, parameters(0), QUERY)


@pytest.mark.parametrize("certified", [False, True])
def test_the_total_is_the_sum_of_the_vectors(certified: bool) -> None:
    # Equal to the last bit, with keys from certificates and without.
    tables = [Table(rows(n).values, rows(n).labels) for n in (20, 5, 1)]
    authority = Authority() if certified else None
    owners = [
        sum_responder(
            name, table, authority.issue(name, role=Role.OWNER) if authority else None, noise=Silence()
        )
        for name, table in zip(NAMES, tables, strict=True)
    ]
    everybody = Together(owners, NOISY, authority.pem if authority else None)
    total = everybody.total(1, GOOD, QUERY)
    assert (total.steps == sum(VECTOR.of(table) for table in tables)).all()


def test_noise_of_all_owners_is_in_the_total() -> None:
    everybody = Together([sum_responder(name) for name in NAMES], NOISY)
    total = everybody.total(1, GOOD, QUERY)
    off = (total.steps - 3 * VECTOR.of(rows())) / (3**0.5 * GOOD.noise)
    assert 0.3 < np.sqrt((off**2).mean()) < 3  # of 18 numbers; the seed is fixed


def test_without_certificates_every_owner_has_exactly_one_key() -> None:
    responder = enlisted()
    own = responder.propose(1, GOOD, QUERY)
    others = [KeyBinding(b"", own.key, b"", name) for name in NAMES[1:]]
    for keys in (
        [own, *others, own],
        [own, others[0]],
        [others[0], others[1]],
        [own, others[0], KeyBinding(b"", b"short", b"", "owner-3")],
        [KeyBinding(b"", enlisted().propose(1, GOOD, QUERY).key, b"", NAME), *others],
    ):
        with pytest.raises(SecureAggregationError):
            responder.advertise(1, keys)
    responder.advertise(1, [own, *others])


def test_phases_come_in_order() -> None:
    responder, unread = enlisted(), cast(KeyRoster, None)
    own = responder.propose(1, GOOD, QUERY)
    keys = [own, *(KeyBinding(b"", own.key, b"", name) for name in NAMES[1:])]
    with pytest.raises(ProtocolError, match="not under way"):
        responder.advertise(2, keys)
    with pytest.raises(SecureAggregationError, match="mixed up"):
        responder.share(1, unread)
    responder.advertise(1, keys)
    with pytest.raises(SecureAggregationError, match="mixed up"):
        responder.advertise(1, keys)


def test_another_question_ends_one_that_is_open() -> None:
    responder = enlisted()
    responder.propose(1, GOOD, QUERY)
    responder.propose(2, parameters(2), QUERY)
    with pytest.raises(ProtocolError, match="question 1, which is not under way"):
        responder.advertise(1, [])


POINTS = PointsSpec.of(np.random.default_rng(0).random((2, SCHEMA.encoded_width)), 1.0)


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        (SumQuery((QUERY.specs[0],), Layout(3)), ProtocolError),
        (SumQuery((POINTS.model_copy(update={"count": 1}),), Layout()), ProtocolError),
        (SumQuery((POINTS.model_copy(update={"count": 2**14}),), Layout()), PolicyError),
        (SumQuery((FourierMapSpec(dimension=2**20, gamma=1, seed=1),) * 256, Layout()), PolicyError),
        (SumQuery((FourierMapSpec(dimension=2**20, gamma=1, seed=1),) * 2, Layout(2)), PolicyError),
    ],
    ids=["classes", "width", "kernel matrix", "frequencies", "numbers"],
)
def test_questions_that_do_not_fit_the_schema_or_the_limits_are_refused(
    query: SumQuery, kind: type[FedkmeError]
) -> None:
    # Before anything of their size is allocated: 2^14 points would have a kernel matrix of 2 GiB.
    lines = Lines()
    responder = sum_responder(lines=lines)
    responder.invite(invitation())
    with pytest.raises(kind):
        responder.embed(1, query)
    with pytest.raises(kind):
        responder.length(query)
    assert lines == []


def test_a_plain_vector_writes_a_line_towards_curator_and_consumer() -> None:
    # An exact statistic towards the curator, and the release's events towards the consumer, once.
    lines = Lines()
    responder = sum_responder(lines=lines)
    responder.invite(invitation(planned=(Gaussian(2.0), Clock(1.0, "add-remove"))))
    assert lines == []
    assert (responder.embed(1, QUERY) == VECTOR.of(rows())).all()
    exact = ExactStatistic(f"sums of {VECTOR.length} features")
    assert lines == [
        Disclosure("r", 1, NAME, CURATOR, exact, "replace-one", None, f"sums 1 {QUERY.digest[:32]}"),
        Disclosure("r", 1, NAME, "hospital", Gaussian(2.0), "replace-one", None, "release 0"),
        Disclosure("r", 1, NAME, "hospital", Clock(1.0, "add-remove"), "add-remove", None, "release 1"),
    ]
    assert (responder.embed(1, QUERY) == VECTOR.of(rows())).all()
    assert len(lines) == 3  # the same question again is no new disclosure
    responder.embed(2, QUERY)
    assert [line.nonce for line in lines[3:]] == [f"sums 2 {QUERY.digest[:32]}"]


def test_a_masked_vector_writes_a_line_towards_curator_and_consumer() -> None:
    # The event of the noisy total, towards both.
    lines = Lines()
    owners = [sum_responder(lines=lines), sum_responder("owner-2"), sum_responder("owner-3")]
    Together(owners, NOISY).total(1, GOOD, QUERY)
    seen, towards = lines
    assert (seen.observer, towards.observer, towards.event) == (CURATOR, "hospital", PLANNED[0])
    assert seen.event == plan_of(GOOD, HONEST).event
    assert seen.sensitivity == SumVector(QUERY, SCHEMA).diameter


def test_a_release_without_noise_is_recorded_as_exact() -> None:
    lines = Lines()
    responder = sum_responder(lines=lines)
    responder.invite(invitation(planned=()))
    responder.embed(1, QUERY)
    assert [line.event for line in lines if line.observer == "hospital"] == [
        ExactStatistic("release without noise")
    ]


def test_rows_that_cannot_be_embedded_leave_no_line() -> None:
    lines = Lines()
    empty = Table(rows().values[:0], np.empty(0, dtype=np.int64))
    responder = sum_responder(table=empty, lines=lines)
    responder.invite(invitation())
    with pytest.raises(DataError):
        responder.embed(1, QUERY)
    assert lines == []
