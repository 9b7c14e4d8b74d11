from fedkme.wire.v1 import types_pb2 as _types_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReleaseRequest(_message.Message):
    __slots__ = ("versions", "name", "request_id", "schema_digest", "settings", "attach")
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    ATTACH_FIELD_NUMBER: _ClassVar[int]
    versions: _types_pb2.VersionRange
    name: str
    request_id: bytes
    schema_digest: str
    settings: str
    attach: str
    def __init__(self, versions: _Optional[_Union[_types_pb2.VersionRange, _Mapping]] = ..., name: _Optional[str] = ..., request_id: _Optional[bytes] = ..., schema_digest: _Optional[str] = ..., settings: _Optional[str] = ..., attach: _Optional[str] = ...) -> None: ...

class ReleaseMessage(_message.Message):
    __slots__ = ("plan", "progress", "file", "outcome", "fault")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    plan: ReleasePlan
    progress: ReleaseProgress
    file: FilePart
    outcome: ReleaseOutcome
    fault: _types_pb2.Fault
    def __init__(self, plan: _Optional[_Union[ReleasePlan, _Mapping]] = ..., progress: _Optional[_Union[ReleaseProgress, _Mapping]] = ..., file: _Optional[_Union[FilePart, _Mapping]] = ..., outcome: _Optional[_Union[ReleaseOutcome, _Mapping]] = ..., fault: _Optional[_Union[_types_pb2.Fault, _Mapping]] = ...) -> None: ...

class ReleasePlan(_message.Message):
    __slots__ = ("version", "run")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    version: int
    run: str
    def __init__(self, version: _Optional[int] = ..., run: _Optional[str] = ...) -> None: ...

class ReleaseProgress(_message.Message):
    __slots__ = ("stage", "line", "fraction")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    FRACTION_FIELD_NUMBER: _ClassVar[int]
    stage: str
    line: str
    fraction: float
    def __init__(self, stage: _Optional[str] = ..., line: _Optional[str] = ..., fraction: _Optional[float] = ...) -> None: ...

class FilePart(_message.Message):
    __slots__ = ("name", "data", "last")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    name: str
    data: bytes
    last: bool
    def __init__(self, name: _Optional[str] = ..., data: _Optional[bytes] = ..., last: bool = ...) -> None: ...

class ReleaseOutcome(_message.Message):
    __slots__ = ("rows", "owners", "participation")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    PARTICIPATION_FIELD_NUMBER: _ClassVar[int]
    rows: int
    owners: int
    participation: _types_pb2.Participation
    def __init__(self, rows: _Optional[int] = ..., owners: _Optional[int] = ..., participation: _Optional[_Union[_types_pb2.Participation, _Mapping]] = ...) -> None: ...
