"""Cases that are replayed: every protocol and release method, under each kind of owner's policy."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from audit.replay.neighbours import CROWDED, HOLDER, IMAGES, PERSONS, SCHEMA, UNLABELLED
from consumer.settings import RequestSettings
from curator.summary.settings import SummarySettings
from curator.sums.settings import SecuritySettings, SumSettings
from fedkme.errors import ConfigError
from fedkme.privacy.events import CURATOR
from fedkme.protocols import ALGORITHM3, PROTOCOLS, SKETCH, fault_of_protocol
from fedkme.tables.schema import Schema, rows_of_person
from owner.settings import PeriodBudget, PolicySettings

Engine = Literal["loopback", "grpc"]
Values = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Case:
    """A run that is replayed.

    Attributes:
        protocol: protocol of the table of protocols.
        note: what sets it apart from others of the protocol.
        summary: the curator's settings of a summary; None for a release.
        request: the consumer's.
        release: settings of a release.
        pooling: how sums are protected.
        policies: policies by owner; `all` for the others.
        dies: owners whose process dies, by the number of directives that it lives through.
        curator_dies: directives of the run after which the curator's process dies, before it keeps the
            answer; None: never.
        in_sketch: whether they are of the sketch before the run; its consumer asks again then.
        engine: what carries directives.
        seeds: whether the curator has public rows.
        labels: whether rows of owners have labels.
        own_class: whether those of D_v have, too.
        times: factor on the number of the owners' rows.
        tight: whether the holder may send as many rows in a run as it sends at its first sale, and no more.
        by_hand: whether the holder approves runs by hand: the first is refused, then approved, and asked for
            again.
        finish: whether the files of a release are made, which takes a compiler a while.
        requests: how often the consumer asks for it, of the same parties.
        table: kind of the rows.
        exercises: what must have happened in some run of the case, by the names of `exercised.CHECKS`; else
            the case shows nothing.
    """

    protocol: str
    note: str
    summary: SummarySettings | None = None
    request: RequestSettings | None = None
    release: Values | None = None
    pooling: SumSettings = field(default_factory=SumSettings)
    policies: Mapping[str, PolicySettings] = field(default_factory=dict)
    dies: Mapping[str, int] = field(default_factory=dict)
    curator_dies: int | None = None
    in_sketch: bool = False
    engine: Engine = "loopback"
    seeds: bool = True
    labels: bool = True
    own_class: bool = False
    times: int = 1
    tight: bool = False
    by_hand: bool = False
    finish: bool = False
    requests: int = 1
    table: Literal["mixed", "persons", "images", "crowded"] = "mixed"
    exercises: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        """Public schema of all rows."""
        if not self.labels:
            return UNLABELLED
        return {"mixed": SCHEMA, "persons": PERSONS, "images": IMAGES, "crowded": CROWDED}[self.table]

    @property
    def group(self) -> int:
        """Rows for which the settings promise their epsilon together."""
        if self.release is not None:
            return int(self.release.get("group", 1))
        return 1 if self.summary is None else self.summary.privacy.group

    @property
    def asks_sums(self) -> bool:
        """Check whether owners are asked for sums over their rows."""
        return self.summary is None or self.summary.sketched

    @property
    def must(self) -> tuple[str, ...]:
        """All that must have happened."""
        always = ["an end as foreseen", "lines of every party's log"]
        if self.dies:
            always.append("a death of an owner")
        if self.curator_dies is not None:
            always.append("a death of the curator")
        costs = self.release is not None or PROTOCOLS[self.protocol].family != "uniform"
        if self.by_hand or (costs and self.policies.get(HOLDER) == _POLICIES["a small budget"][HOLDER]):
            always.append("a refusal")
        if self.pooling.security is not None:
            always.append("masks")
        elif self.asks_sums:
            always.append("sums in the clear")
        if self.requests > 1:
            always.append("another run")
        if rows_of_person(self.schema) > 1:
            always.append("persons")
        return (*always, *self.exercises)

    @property
    def name(self) -> str:
        """The protocol, and what sets the case apart."""
        return f"{self.protocol} ({self.note})"

    @property
    def mortal(self) -> Container[str]:
        """Parties whose process dies."""
        return self.dies if self.curator_dies is None else {*self.dies, CURATOR}

    @property
    def goes_on_as_before(self) -> bool:
        """Check whether a curator that dies ends its run alike: sums that are secure or many begin anew."""
        secure = self.pooling.security is not None
        asked_again = self.summary is not None and self.summary.cells.code_book != "release"
        return asked_again and self.curator_dies is not None and not secure

    @property
    def settings(self) -> str:
        """Settings of a release as a consumer sends them."""
        return json.dumps(self.release)


ROWS = 4
_EPSILON = 2.0
_MANY = 26
"""Times as many rows of owners: 1,092, of which a sketch tells classes apart at _EPSILON (`labels_help`)."""
_SECURE = SumSettings(security=SecuritySettings(dropouts=1, colluders=1))
_WIDE, _SMALL = (PeriodBudget(epsilon=epsilon, delta=1e-5) for epsilon in (50.0, 0.5))
_MANUAL: Mapping[str, PolicySettings] = {HOLDER: PolicySettings(approval="manual")}
_POLICIES: Mapping[str, Mapping[str, PolicySettings]] = {
    "any policy": {},
    "row limits": {"all": PolicySettings(most_rows=500, most_rows_per_run=40)},
    "budgets": {"all": PolicySettings(budgets=(_WIDE,))},
    "a small budget": {HOLDER: PolicySettings(budgets=(_SMALL,))},
}


_OTHER: Values = {"epsilon": 3.0, "delta": 1e-7, "group": 3}
"""A promise for a group of rows, at another delta."""
_OF_PERSONS: Values = {"epsilon": _EPSILON, "group": 2}


def _summary(protocol: str, note: str, *, request: Values | None = None, **more: Any) -> Case:
    """A summary by a protocol of the table."""
    row = PROTOCOLS[protocol]
    case_fields = {name: more.pop(name) for name in tuple(more) if name in Case.__dataclass_fields__}
    values: dict[str, Any] = {
        "content": "hashed" if row.sealed else "rows",
        "features": {"dimension": 16},
        "privacy": {"epsilon": _EPSILON},
        "cells": _SEEDS,
        **more,
    }
    if row.family == "auction":
        values = {"auction": _auction(row.base), **values, "protocol": ALGORITHM3}
    else:
        values |= {"protocol": row.base}
    wanted = {"p": ROWS, "kernel": {"gamma": 1.0}, "privacy": values["privacy"], **(request or {})}
    return Case(
        protocol,
        note,
        SummarySettings.model_validate(values),
        RequestSettings.model_validate(wanted),
        **case_fields,
    )


_CLOCK: Values = {"kind": "clock", "epsilon": 0.5, "block": 2, "step": 0.5}


def _auction(kind: str) -> Values:
    """Settings of an auction, of this package or another: its defaults, but for a clock's."""
    return _CLOCK if kind == "clock" else {"kind": kind}


_SEEDS: Values = {"code_book": "seeds", "bits": 3, "rho": 4.0}
_MOST: Values = {"rho": 10.0, "uniform": 0.5}
_MWEM: Values = {"mechanism": "mwem", "iterations": 3, "epsilon": 0.1}


def _summaries(protocol: str) -> list[Case]:
    row = PROTOCOLS[protocol]
    cases = [_summary(protocol, note, policies=policies) for note, policies in _POLICIES.items()]
    cases.append(_summary(protocol, "a tight row limit", tight=True))
    cases.append(_summary(protocol, "approved by hand, late", policies=_MANUAL, by_hand=True))
    cases.append(_summary(protocol, "an owner dies and comes back", dies={HOLDER: 2, "south": 3}))
    death = 15 if row.family == "auction" else 8
    cases.append(_summary(protocol, "the curator dies and comes back", curator_dies=death))
    cases.append(_summary(protocol, "over gRPC", engine="grpc"))
    cases.append(_summary(protocol, "asked for twice", requests=2))
    ended = {"auction": {"kind": "clock", "block": 2, "step": 0.5}} if row.base == "clock" else {}
    cases.append(_summary(protocol, "a group of three at another delta", privacy=_OTHER, **ended))
    cases.append(_summary(protocol, "persons of two rows", privacy=_OF_PERSONS, table="persons", **ended))
    if not row.hashed:
        cases.append(_summary(protocol, "D_v is shared", request={"share": "rows"}))
    if row.family == "auction":
        cases.append(_summary(protocol, "no public rows", seeds=row.hashed))
        if row.base == "clock":
            often = {**_CLOCK, "block": 1}
            cases.append(_summary(protocol, "a clock each round", auction=often, request={"p": 6}))
        if not row.sealed:
            by_h2: dict[str, Any] = {
                "broadcast": {"mechanism": "mwem", "epsilon": 0.1},
                "privacy": {"epsilon": 100.0},
                "request": {"target": _MWEM},
            }
            cases.append(_summary(protocol, "means by h2", **by_h2))
            cases.append(_summary(protocol, "means by h2, and the curator dies", curator_dies=death, **by_h2))
            if row.base == "clock":
                falling = {"mechanism": "mwem", "iterations": 1, "schedule": {"epsilon": 20.0}}
                by_schedule = {**by_h2, "broadcast": falling, "curator_dies": death}
                note = "means by h2 on a schedule, and the curator dies"
                cases.append(_summary(protocol, note, **by_schedule))
            cases.append(_summary(protocol, "exact means", broadcast={"mechanism": "exact"}))
    if row.family == "cells":
        cases.append(_summary(protocol, "D_v is asked about often", request={"asks": 20}))
        sketch = {"cells": {"code_book": "sketch", "bits": 3, "dimension": 4, "rho": 4.0}}
        cases.append(_summary(protocol, "cells of a sketch", **sketch))
        cases.append(_summary(protocol, "cells of a secure sketch", pooling=_SECURE, **sketch))
        pooled = {"cells": {**sketch["cells"], "coalitions": True}}
        cases.append(_summary(protocol, "a sketch, and counts of coalitions", **pooled))
        cases.append(
            _summary(protocol, "a secure sketch, and counts of coalitions", pooling=_SECURE, **pooled)
        )
        secure: dict[str, Any] = {**sketch, "pooling": _SECURE}
        # Counts that are asked again have other noise, which decides how many rows are uniform.
        fixed: dict[str, Any] = {"cells": {**pooled["cells"], "uniform": 0.0}}
        for after, note, how in (
            (7, "a sketch, in which the curator dies", {**sketch}),
            (12, "a secure sketch, in which the curator dies before it is opened", secure),
            (18, "a secure sketch, in which the curator dies as it is opened", secure),
            (11, "counts of coalitions, in which the curator dies", fixed),
        ):
            cases.append(_summary(protocol, note, curator_dies=after, in_sketch=True, **how))
        cases.append(_summary(protocol, "classes of a sketch", times=_MANY, **sketch))
        cases.append(_summary(protocol, "own classes and a sketch", times=_MANY, own_class=True, **sketch))
        whole = {name: value for name, value in sketch["cells"].items() if name != "dimension"}
        picked = {"cells": {**whole, "picks": 2, "pick_share": 0.1}}  # directions are axes of whole rows
        generous = {"privacy": {"epsilon": 200.0}}  # so large that far directions are picked
        both: dict[str, Any] = {"exercises": ("a second pick",), "request": generous, **picked}
        cases.append(_summary(protocol, "a sketch, of which D_v picks directions", **both))
        cases.append(
            _summary(
                protocol,
                "a sketch and own classes, directions picked over gRPC",
                times=_MANY,
                own_class=True,
                engine="grpc",
                **picked,
            )
        )
        margins: dict[str, Any] = {"cells": {"code_book": "release", "rho": 4.0}, "times": _MANY}
        margins["exercises"] = ("several questions", "a second pick")
        cases.append(
            _summary(protocol, "secure margins, own classes", pooling=_SECURE, own_class=True, **margins)
        )
        if not row.sealed:
            cases.append(_summary(protocol, "margins of a release", **margins))
            there = {"cells": {"release": "pool", "rho": 4.0}, "exercises": ("a second pick",)}
            cases.append(_summary(protocol, "margins of a release that exists", **margins | there))
            cases.append(_summary(protocol, "margins, a death", in_sketch=True, curator_dies=11, **margins))
        cases.append(_summary(protocol, "no labels", labels=False))
        drawn, most = ({**_SEEDS, **how} for how in ({"uniform": 1.0}, _MOST))
        cases.append(_summary(protocol, "most rows of owners, half of them uniform", cells=most))
        cases.append(_summary(protocol, "uniform rows, then an owner dies", cells=drawn, dies={HOLDER: 3}))
    if row.family == "uniform":
        cases.append(_summary(protocol, "more rows than are kept", uniform_ratio=2.0))
    return cases


_RELEASES: Mapping[str, Values] = {
    "balog1": {"points": 12, "gamma": 1.0},
    "balog2": {
        "features": 32,
        "gamma": 1.0,
        "points": 3,
        "restarts": 1,
        "steps": 2,
        "candidates": 4,
        "climbs": 1,
    },
    "hermite": {
        "epochs": 1,
        "sum_order": 4,
        "product_order": 2,
        "steps": 1,
        "batch": 4,
        "hidden": (4,),
        "code": 2,
    },
    "merf": {"features": 32, "gamma": 1.0, "steps": 1, "batch": 4, "hidden": (4,), "code": 2},
    "moments": {"coordinates": 2},
    "marginals": {"bins": 2, "iterations": 2},
}
RELEASE_EPSILON = 30.0
"""Epsilon of releases: with so few rows less is mere noise, which no method asks for."""


def _release(protocol: str, note: str, **more: Any) -> Case:
    case_fields = {name: more.pop(name) for name in tuple(more) if name in Case.__dataclass_fields__}
    values = {
        "kind": protocol,
        "epsilon": RELEASE_EPSILON,
        "seed": 5,
        "rows": 6,
        **_RELEASES.get(protocol, {}),
        **more,
    }
    return Case(protocol, note, release=values, **case_fields)


def _releases(protocol: str) -> list[Case]:
    noisy = {"all": PolicySettings(sums="noisy")}
    of_consumers = PeriodBudget(observer="consumer", epsilon=100.0, delta=1e-5, days=30)
    budgets = {"all": PolicySettings(budgets=(PeriodBudget(epsilon=100.0, delta=1e-5), of_consumers))}
    quick = {"mechanism": "independent"} if protocol == "marginals" else {}  # rounds fit a model each
    cases = [
        _release(protocol, "any policy"),
        _release(protocol, "budgets", policies=budgets, **quick),
        _release(protocol, "an owner dies and comes back", dies={HOLDER: 2}, **quick),
        _release(protocol, "over gRPC", engine="grpc", **quick),
        _release(protocol, "noise of owners", pooling=_SECURE, policies=noisy),
        _release(protocol, "asked for twice", requests=2, **quick),
        _release(protocol, "a group of three at another delta", delta=1e-7, group=3, **quick),
        _release(protocol, "persons of two rows", group=2, table="persons", **quick),
    ]
    if protocol == "moments":
        cases.append(_release(protocol, "edges of images", edges=True, table="images", exercises=("edges",)))
        secure_edges: dict[str, Any] = {"pooling": _SECURE, "policies": noisy}
        cases.append(
            _release(
                protocol,
                "edges of images, noise of owners",
                edges=True,
                table="images",
                exercises=("edges",),
                **secure_edges,
            )
        )
    for after, when in ((13, "before"), (18, "as")):
        if when == "as" or protocol != "marginals":  # fits no model
            secure: dict[str, Any] = {"pooling": _SECURE, "policies": noisy, "curator_dies": after}
            note = f"the curator dies {when} a secure sum is opened"
            cases.append(_release(protocol, note, **secure))
    if protocol == "marginals":
        cases.append(_release(protocol, "noisy rounds", exercises=("several questions",)))
        many: dict[str, Any] = {"times": _MANY, "exercises": ("parities", "finer signs")}
        cases.append(
            _release(protocol, "a screen for dependences, then the curator dies", curator_dies=26, **many)
        )
        secure_many: dict[str, Any] = {"pooling": _SECURE, "policies": noisy, **many}
        cases.append(_release(protocol, "a screen for dependences, noise of owners", **secure_many))
        scored: dict[str, Any] = {**many, "exercises": ("products",)}
        cases.append(_release(protocol, "products of scores", **scored))
        scored = {**secure_many, "exercises": ("products",)}
        cases.append(_release(protocol, "products of scores, noise of owners", **scored))
        cases.append(_release(protocol, "copies", copies=2, finish=True, exercises=("copies",), **quick))
        cases.append(_release(protocol, "the curator dies between questions", curator_dies=11))
        merged: dict[str, Any] = {"bins": 16, "epsilon": 60.0, "table": "crowded", "times": _MANY}
        merged["exercises"] = ("merged bins", "own values")
        cases.append(_release(protocol, "bins merged by fine counts", **merged))
        cases.append(_release(protocol, "merged bins, the curator dies", curator_dies=11, **merged))
    return cases


def cases_of(protocol: str) -> list[Case]:
    """Cases of a protocol of the table, of this package or another.

    Raises:
        ConfigError: there is none of the name.
    """
    if fault := fault_of_protocol(protocol):
        raise ConfigError(f"there is no protocol to replay: {fault}", "Choose one, or all.")
    if protocol == SKETCH:
        return [case for case in _summaries("cells") if case.asks_sums]
    return _releases(protocol) if PROTOCOLS[protocol].family == "sums" else _summaries(protocol)


def replayed() -> list[str]:
    """Protocols that are replayed: all of the table."""
    return list(PROTOCOLS)
