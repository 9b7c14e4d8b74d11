from fedkme.wire.v1 import owners_pb2 as _owners_pb2
from fedkme.wire.v1 import releases_pb2 as _releases_pb2
from fedkme.wire.v1 import summaries_pb2 as _summaries_pb2
from fedkme.wire.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunDocument(_message.Message):
    __slots__ = ("request", "release", "plan", "offer", "owners", "missing", "coalitions", "fault", "left")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    COALITIONS_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    request: _summaries_pb2.SummaryRequest
    release: _releases_pb2.ReleaseRequest
    plan: _summaries_pb2.Plan
    offer: _containers.RepeatedCompositeFieldContainer[_summaries_pb2.ConsumerMessage]
    owners: _containers.RepeatedScalarFieldContainer[str]
    missing: _containers.RepeatedScalarFieldContainer[str]
    coalitions: _containers.RepeatedCompositeFieldContainer[Coalition]
    fault: _types_pb2.Fault
    left: _containers.RepeatedCompositeFieldContainer[Departure]
    def __init__(self, request: _Optional[_Union[_summaries_pb2.SummaryRequest, _Mapping]] = ..., release: _Optional[_Union[_releases_pb2.ReleaseRequest, _Mapping]] = ..., plan: _Optional[_Union[_summaries_pb2.Plan, _Mapping]] = ..., offer: _Optional[_Iterable[_Union[_summaries_pb2.ConsumerMessage, _Mapping]]] = ..., owners: _Optional[_Iterable[str]] = ..., missing: _Optional[_Iterable[str]] = ..., coalitions: _Optional[_Iterable[_Union[Coalition, _Mapping]]] = ..., fault: _Optional[_Union[_types_pb2.Fault, _Mapping]] = ..., left: _Optional[_Iterable[_Union[Departure, _Mapping]]] = ...) -> None: ...

class Departure(_message.Message):
    __slots__ = ("round", "owner", "code", "line")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    round: int
    owner: str
    code: int
    line: str
    def __init__(self, round: _Optional[int] = ..., owner: _Optional[str] = ..., code: _Optional[int] = ..., line: _Optional[str] = ...) -> None: ...

class Coalition(_message.Message):
    __slots__ = ("owners", "rows", "counts", "deviation")
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    DEVIATION_FIELD_NUMBER: _ClassVar[int]
    owners: _containers.RepeatedScalarFieldContainer[str]
    rows: int
    counts: _containers.RepeatedScalarFieldContainer[int]
    deviation: float
    def __init__(self, owners: _Optional[_Iterable[str]] = ..., rows: _Optional[int] = ..., counts: _Optional[_Iterable[int]] = ..., deviation: _Optional[float] = ...) -> None: ...

class CuratorEntry(_message.Message):
    __slots__ = ("answers", "draws", "lines")
    class Answer(_message.Message):
        __slots__ = ("owner", "seq", "step", "messages", "lost")
        OWNER_FIELD_NUMBER: _ClassVar[int]
        SEQ_FIELD_NUMBER: _ClassVar[int]
        STEP_FIELD_NUMBER: _ClassVar[int]
        MESSAGES_FIELD_NUMBER: _ClassVar[int]
        LOST_FIELD_NUMBER: _ClassVar[int]
        owner: str
        seq: int
        step: str
        messages: _containers.RepeatedCompositeFieldContainer[_owners_pb2.OwnerMessage]
        lost: _types_pb2.Fault
        def __init__(self, owner: _Optional[str] = ..., seq: _Optional[int] = ..., step: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[_owners_pb2.OwnerMessage, _Mapping]]] = ..., lost: _Optional[_Union[_types_pb2.Fault, _Mapping]] = ...) -> None: ...
    class Draw(_message.Message):
        __slots__ = ("purpose", "values")
        PURPOSE_FIELD_NUMBER: _ClassVar[int]
        VALUES_FIELD_NUMBER: _ClassVar[int]
        purpose: str
        values: bytes
        def __init__(self, purpose: _Optional[str] = ..., values: _Optional[bytes] = ...) -> None: ...
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    DRAWS_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[CuratorEntry.Answer]
    draws: _containers.RepeatedCompositeFieldContainer[CuratorEntry.Draw]
    lines: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, answers: _Optional[_Iterable[_Union[CuratorEntry.Answer, _Mapping]]] = ..., draws: _Optional[_Iterable[_Union[CuratorEntry.Draw, _Mapping]]] = ..., lines: _Optional[_Iterable[bytes]] = ...) -> None: ...

class OwnerDocument(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class OwnerEntry(_message.Message):
    __slots__ = ("directive", "replies", "named")
    DIRECTIVE_FIELD_NUMBER: _ClassVar[int]
    REPLIES_FIELD_NUMBER: _ClassVar[int]
    NAMED_FIELD_NUMBER: _ClassVar[int]
    directive: _owners_pb2.Directive
    replies: _containers.RepeatedCompositeFieldContainer[_owners_pb2.OwnerMessage]
    named: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, directive: _Optional[_Union[_owners_pb2.Directive, _Mapping]] = ..., replies: _Optional[_Iterable[_Union[_owners_pb2.OwnerMessage, _Mapping]]] = ..., named: _Optional[_Iterable[int]] = ...) -> None: ...

class RequestDocument(_message.Message):
    __slots__ = ("request", "offer", "box_key", "signing_key", "secret", "output", "data", "plan")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    BOX_KEY_FIELD_NUMBER: _ClassVar[int]
    SIGNING_KEY_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    request: _summaries_pb2.SummaryRequest
    offer: _containers.RepeatedCompositeFieldContainer[_summaries_pb2.ConsumerMessage]
    box_key: bytes
    signing_key: bytes
    secret: bytes
    output: str
    data: bytes
    plan: _summaries_pb2.Plan
    def __init__(self, request: _Optional[_Union[_summaries_pb2.SummaryRequest, _Mapping]] = ..., offer: _Optional[_Iterable[_Union[_summaries_pb2.ConsumerMessage, _Mapping]]] = ..., box_key: _Optional[bytes] = ..., signing_key: _Optional[bytes] = ..., secret: _Optional[bytes] = ..., output: _Optional[str] = ..., data: _Optional[bytes] = ..., plan: _Optional[_Union[_summaries_pb2.Plan, _Mapping]] = ...) -> None: ...
