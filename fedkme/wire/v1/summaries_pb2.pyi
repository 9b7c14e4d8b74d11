from fedkme.wire.v1 import releases_pb2 as _releases_pb2
from fedkme.wire.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ConsumerMessage(_message.Message):
    __slots__ = ("request", "target", "validation", "histogram", "attach", "disclosures", "gifts", "reference", "with_validation", "picks", "validation_classes")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_FIELD_NUMBER: _ClassVar[int]
    HISTOGRAM_FIELD_NUMBER: _ClassVar[int]
    ATTACH_FIELD_NUMBER: _ClassVar[int]
    DISCLOSURES_FIELD_NUMBER: _ClassVar[int]
    GIFTS_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    WITH_VALIDATION_FIELD_NUMBER: _ClassVar[int]
    PICKS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_CLASSES_FIELD_NUMBER: _ClassVar[int]
    request: SummaryRequest
    target: _types_pb2.MeanVector
    validation: _types_pb2.Rows
    histogram: _types_pb2.Histogram
    attach: RunQuery
    disclosures: _containers.RepeatedScalarFieldContainer[str]
    gifts: _containers.RepeatedCompositeFieldContainer[_types_pb2.Gift]
    reference: bytes
    with_validation: bool
    picks: _containers.RepeatedScalarFieldContainer[int]
    validation_classes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, request: _Optional[_Union[SummaryRequest, _Mapping]] = ..., target: _Optional[_Union[_types_pb2.MeanVector, _Mapping]] = ..., validation: _Optional[_Union[_types_pb2.Rows, _Mapping]] = ..., histogram: _Optional[_Union[_types_pb2.Histogram, _Mapping]] = ..., attach: _Optional[_Union[RunQuery, _Mapping]] = ..., disclosures: _Optional[_Iterable[str]] = ..., gifts: _Optional[_Iterable[_Union[_types_pb2.Gift, _Mapping]]] = ..., reference: _Optional[bytes] = ..., with_validation: bool = ..., picks: _Optional[_Iterable[int]] = ..., validation_classes: _Optional[_Iterable[int]] = ...) -> None: ...

class SummaryRequest(_message.Message):
    __slots__ = ("versions", "rows", "schema_digest", "gamma", "gamma_from_seeds", "validation_rows", "name", "request_id", "labelled", "count_deviation", "margins", "stages", "replaces")
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_DIGEST_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FROM_SEEDS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_ROWS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    LABELLED_FIELD_NUMBER: _ClassVar[int]
    COUNT_DEVIATION_FIELD_NUMBER: _ClassVar[int]
    MARGINS_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    versions: _types_pb2.VersionRange
    rows: int
    schema_digest: str
    gamma: float
    gamma_from_seeds: bool
    validation_rows: int
    name: str
    request_id: bytes
    labelled: bool
    count_deviation: float
    margins: int
    stages: bool
    replaces: bytes
    def __init__(self, versions: _Optional[_Union[_types_pb2.VersionRange, _Mapping]] = ..., rows: _Optional[int] = ..., schema_digest: _Optional[str] = ..., gamma: _Optional[float] = ..., gamma_from_seeds: bool = ..., validation_rows: _Optional[int] = ..., name: _Optional[str] = ..., request_id: _Optional[bytes] = ..., labelled: bool = ..., count_deviation: _Optional[float] = ..., margins: _Optional[int] = ..., stages: bool = ..., replaces: _Optional[bytes] = ...) -> None: ...

class RunQuery(_message.Message):
    __slots__ = ("name", "run")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    name: str
    run: str
    def __init__(self, name: _Optional[str] = ..., run: _Optional[str] = ...) -> None: ...

class RunList(_message.Message):
    __slots__ = ("runs", "fault")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[RunState]
    fault: _types_pb2.Fault
    def __init__(self, runs: _Optional[_Iterable[_Union[RunState, _Mapping]]] = ..., fault: _Optional[_Union[_types_pb2.Fault, _Mapping]] = ...) -> None: ...

class RunState(_message.Message):
    __slots__ = ("run", "status", "rows", "selected", "opened", "ahead", "kind")
    RUN_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SELECTED_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    run: str
    status: str
    rows: int
    selected: int
    opened: float
    ahead: int
    kind: str
    def __init__(self, run: _Optional[str] = ..., status: _Optional[str] = ..., rows: _Optional[int] = ..., selected: _Optional[int] = ..., opened: _Optional[float] = ..., ahead: _Optional[int] = ..., kind: _Optional[str] = ...) -> None: ...

class CuratorMessage(_message.Message):
    __slots__ = ("plan", "progress", "summary", "outcome", "fault", "head", "stage")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    plan: Plan
    progress: Progress
    summary: _types_pb2.Rows
    outcome: Outcome
    fault: _types_pb2.Fault
    head: _types_pb2.Head
    stage: _releases_pb2.ReleaseProgress
    def __init__(self, plan: _Optional[_Union[Plan, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., summary: _Optional[_Union[_types_pb2.Rows, _Mapping]] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ..., fault: _Optional[_Union[_types_pb2.Fault, _Mapping]] = ..., head: _Optional[_Union[_types_pb2.Head, _Mapping]] = ..., stage: _Optional[_Union[_releases_pb2.ReleaseProgress, _Mapping]] = ...) -> None: ...

class Plan(_message.Message):
    __slots__ = ("version", "run", "features", "offered", "cells", "hashed", "offers", "secret_draw", "choice")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    OFFERED_FIELD_NUMBER: _ClassVar[int]
    CELLS_FIELD_NUMBER: _ClassVar[int]
    HASHED_FIELD_NUMBER: _ClassVar[int]
    OFFERS_FIELD_NUMBER: _ClassVar[int]
    SECRET_DRAW_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    version: int
    run: str
    features: _types_pb2.FeatureMap
    offered: bool
    cells: _types_pb2.CellsPlan
    hashed: bool
    offers: _containers.RepeatedCompositeFieldContainer[_types_pb2.KeyOffer]
    secret_draw: bool
    choice: SummaryChoice
    def __init__(self, version: _Optional[int] = ..., run: _Optional[str] = ..., features: _Optional[_Union[_types_pb2.FeatureMap, _Mapping]] = ..., offered: bool = ..., cells: _Optional[_Union[_types_pb2.CellsPlan, _Mapping]] = ..., hashed: bool = ..., offers: _Optional[_Iterable[_Union[_types_pb2.KeyOffer, _Mapping]]] = ..., secret_draw: bool = ..., choice: _Optional[_Union[SummaryChoice, _Mapping]] = ...) -> None: ...

class SummaryChoice(_message.Message):
    __slots__ = ("protocol", "ratio", "relative_mmd2", "accessed", "line", "disagrees")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    RATIO_FIELD_NUMBER: _ClassVar[int]
    RELATIVE_MMD2_FIELD_NUMBER: _ClassVar[int]
    ACCESSED_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    DISAGREES_FIELD_NUMBER: _ClassVar[int]
    protocol: str
    ratio: float
    relative_mmd2: _containers.RepeatedScalarFieldContainer[float]
    accessed: int
    line: str
    disagrees: str
    def __init__(self, protocol: _Optional[str] = ..., ratio: _Optional[float] = ..., relative_mmd2: _Optional[_Iterable[float]] = ..., accessed: _Optional[int] = ..., line: _Optional[str] = ..., disagrees: _Optional[str] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("round", "selected", "points_accessed")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    SELECTED_FIELD_NUMBER: _ClassVar[int]
    POINTS_ACCESSED_FIELD_NUMBER: _ClassVar[int]
    round: int
    selected: int
    points_accessed: int
    def __init__(self, round: _Optional[int] = ..., selected: _Optional[int] = ..., points_accessed: _Optional[int] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("status", "reason", "rounds", "points_accessed", "prune", "participation")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATUS_UNSPECIFIED: _ClassVar[Outcome.Status]
        STATUS_COMPLETE: _ClassVar[Outcome.Status]
        STATUS_STOPPED: _ClassVar[Outcome.Status]
    STATUS_UNSPECIFIED: Outcome.Status
    STATUS_COMPLETE: Outcome.Status
    STATUS_STOPPED: Outcome.Status
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    POINTS_ACCESSED_FIELD_NUMBER: _ClassVar[int]
    PRUNE_FIELD_NUMBER: _ClassVar[int]
    PARTICIPATION_FIELD_NUMBER: _ClassVar[int]
    status: Outcome.Status
    reason: str
    rounds: int
    points_accessed: int
    prune: bool
    participation: _types_pb2.Participation
    def __init__(self, status: _Optional[_Union[Outcome.Status, str]] = ..., reason: _Optional[str] = ..., rounds: _Optional[int] = ..., points_accessed: _Optional[int] = ..., prune: bool = ..., participation: _Optional[_Union[_types_pb2.Participation, _Mapping]] = ...) -> None: ...
