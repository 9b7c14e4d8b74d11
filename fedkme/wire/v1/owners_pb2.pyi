from fedkme.wire.v1 import pooling_pb2 as _pooling_pb2
from fedkme.wire.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Position(_message.Message):
    __slots__ = ("run", "round", "seq")
    RUN_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    run: str
    round: int
    seq: int
    def __init__(self, run: _Optional[str] = ..., round: _Optional[int] = ..., seq: _Optional[int] = ...) -> None: ...

class Directive(_message.Message):
    __slots__ = ("at", "welcome", "broadcast", "ask", "draw", "close", "fault", "quote", "sell", "dismiss", "farewell", "embed", "aggregate", "histogram", "fill_order", "offer_keys", "invite", "show_head", "keep_head", "consider")
    AT_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    DRAW_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    QUOTE_FIELD_NUMBER: _ClassVar[int]
    SELL_FIELD_NUMBER: _ClassVar[int]
    DISMISS_FIELD_NUMBER: _ClassVar[int]
    FAREWELL_FIELD_NUMBER: _ClassVar[int]
    EMBED_FIELD_NUMBER: _ClassVar[int]
    AGGREGATE_FIELD_NUMBER: _ClassVar[int]
    HISTOGRAM_FIELD_NUMBER: _ClassVar[int]
    FILL_ORDER_FIELD_NUMBER: _ClassVar[int]
    OFFER_KEYS_FIELD_NUMBER: _ClassVar[int]
    INVITE_FIELD_NUMBER: _ClassVar[int]
    SHOW_HEAD_FIELD_NUMBER: _ClassVar[int]
    KEEP_HEAD_FIELD_NUMBER: _ClassVar[int]
    CONSIDER_FIELD_NUMBER: _ClassVar[int]
    at: Position
    welcome: Welcome
    broadcast: Broadcast
    ask: Ask
    draw: Draw
    close: Close
    fault: _types_pb2.Fault
    quote: Quote
    sell: Sell
    dismiss: Dismiss
    farewell: Farewell
    embed: _pooling_pb2.Embed
    aggregate: _pooling_pb2.Aggregate
    histogram: AskHistogram
    fill_order: FillOrder
    offer_keys: OfferKeys
    invite: Invite
    show_head: ShowHead
    keep_head: KeepHead
    consider: Consider
    def __init__(self, at: _Optional[_Union[Position, _Mapping]] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., broadcast: _Optional[_Union[Broadcast, _Mapping]] = ..., ask: _Optional[_Union[Ask, _Mapping]] = ..., draw: _Optional[_Union[Draw, _Mapping]] = ..., close: _Optional[_Union[Close, _Mapping]] = ..., fault: _Optional[_Union[_types_pb2.Fault, _Mapping]] = ..., quote: _Optional[_Union[Quote, _Mapping]] = ..., sell: _Optional[_Union[Sell, _Mapping]] = ..., dismiss: _Optional[_Union[Dismiss, _Mapping]] = ..., farewell: _Optional[_Union[Farewell, _Mapping]] = ..., embed: _Optional[_Union[_pooling_pb2.Embed, _Mapping]] = ..., aggregate: _Optional[_Union[_pooling_pb2.Aggregate, _Mapping]] = ..., histogram: _Optional[_Union[AskHistogram, _Mapping]] = ..., fill_order: _Optional[_Union[FillOrder, _Mapping]] = ..., offer_keys: _Optional[_Union[OfferKeys, _Mapping]] = ..., invite: _Optional[_Union[Invite, _Mapping]] = ..., show_head: _Optional[_Union[ShowHead, _Mapping]] = ..., keep_head: _Optional[_Union[KeepHead, _Mapping]] = ..., consider: _Optional[_Union[Consider, _Mapping]] = ...) -> None: ...

class OwnerMessage(_message.Message):
    __slots__ = ("at", "hello", "accepted", "bid", "dry", "rows", "closing", "fault", "counts", "words", "aggregated", "histogram", "offer", "head", "cosignature")
    AT_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    BID_FIELD_NUMBER: _ClassVar[int]
    DRY_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    CLOSING_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    AGGREGATED_FIELD_NUMBER: _ClassVar[int]
    HISTOGRAM_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    COSIGNATURE_FIELD_NUMBER: _ClassVar[int]
    at: Position
    hello: Hello
    accepted: Accepted
    bid: Bid
    dry: Dry
    rows: _types_pb2.Rows
    closing: Closing
    fault: _types_pb2.Fault
    counts: Counts
    words: _pooling_pb2.Words
    aggregated: _pooling_pb2.Aggregated
    histogram: _types_pb2.Histogram
    offer: _types_pb2.KeyOffer
    head: _types_pb2.Head
    cosignature: Cosignature
    def __init__(self, at: _Optional[_Union[Position, _Mapping]] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., accepted: _Optional[_Union[Accepted, _Mapping]] = ..., bid: _Optional[_Union[Bid, _Mapping]] = ..., dry: _Optional[_Union[Dry, _Mapping]] = ..., rows: _Optional[_Union[_types_pb2.Rows, _Mapping]] = ..., closing: _Optional[_Union[Closing, _Mapping]] = ..., fault: _Optional[_Union[_types_pb2.Fault, _Mapping]] = ..., counts: _Optional[_Union[Counts, _Mapping]] = ..., words: _Optional[_Union[_pooling_pb2.Words, _Mapping]] = ..., aggregated: _Optional[_Union[_pooling_pb2.Aggregated, _Mapping]] = ..., histogram: _Optional[_Union[_types_pb2.Histogram, _Mapping]] = ..., offer: _Optional[_Union[_types_pb2.KeyOffer, _Mapping]] = ..., head: _Optional[_Union[_types_pb2.Head, _Mapping]] = ..., cosignature: _Optional[_Union[Cosignature, _Mapping]] = ...) -> None: ...

class ShowHead(_message.Message):
    __slots__ = ("known", "origin")
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    known: int
    origin: str
    def __init__(self, known: _Optional[int] = ..., origin: _Optional[str] = ...) -> None: ...

class KeepHead(_message.Message):
    __slots__ = ("head",)
    HEAD_FIELD_NUMBER: _ClassVar[int]
    head: _types_pb2.Head
    def __init__(self, head: _Optional[_Union[_types_pb2.Head, _Mapping]] = ...) -> None: ...

class Cosignature(_message.Message):
    __slots__ = ("line", "certificates")
    LINE_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    line: bytes
    certificates: bytes
    def __init__(self, line: _Optional[bytes] = ..., certificates: _Optional[bytes] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("name", "versions", "instance", "rows", "head", "new_journal", "schema_digest")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    NEW_JOURNAL_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_DIGEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    versions: _types_pb2.VersionRange
    instance: bytes
    rows: int
    head: _types_pb2.Head
    new_journal: bool
    schema_digest: str
    def __init__(self, name: _Optional[str] = ..., versions: _Optional[_Union[_types_pb2.VersionRange, _Mapping]] = ..., instance: _Optional[bytes] = ..., rows: _Optional[int] = ..., head: _Optional[_Union[_types_pb2.Head, _Mapping]] = ..., new_journal: bool = ..., schema_digest: _Optional[str] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("version", "epoch", "runs")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    version: int
    epoch: int
    runs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[int] = ..., epoch: _Optional[int] = ..., runs: _Optional[_Iterable[str]] = ...) -> None: ...

class Invite(_message.Message):
    __slots__ = ("schema_digest", "consumer", "protocol", "planned", "gift", "expected", "auction", "cells", "sums")
    SCHEMA_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    GIFT_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    AUCTION_FIELD_NUMBER: _ClassVar[int]
    CELLS_FIELD_NUMBER: _ClassVar[int]
    SUMS_FIELD_NUMBER: _ClassVar[int]
    schema_digest: str
    consumer: str
    protocol: str
    planned: _containers.RepeatedScalarFieldContainer[str]
    gift: _types_pb2.Gift
    expected: str
    auction: AuctionTerms
    cells: CellTerms
    sums: SumTerms
    def __init__(self, schema_digest: _Optional[str] = ..., consumer: _Optional[str] = ..., protocol: _Optional[str] = ..., planned: _Optional[_Iterable[str]] = ..., gift: _Optional[_Union[_types_pb2.Gift, _Mapping]] = ..., expected: _Optional[str] = ..., auction: _Optional[_Union[AuctionTerms, _Mapping]] = ..., cells: _Optional[_Union[CellTerms, _Mapping]] = ..., sums: _Optional[_Union[SumTerms, _Mapping]] = ...) -> None: ...

class AuctionTerms(_message.Message):
    __slots__ = ("features", "target", "rows", "heard")
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    features: _types_pb2.FeatureMap
    target: _types_pb2.MeanVector
    rows: int
    heard: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, features: _Optional[_Union[_types_pb2.FeatureMap, _Mapping]] = ..., target: _Optional[_Union[_types_pb2.MeanVector, _Mapping]] = ..., rows: _Optional[int] = ..., heard: _Optional[_Iterable[str]] = ...) -> None: ...

class CellTerms(_message.Message):
    __slots__ = ("plan", "scale", "rows")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    plan: _types_pb2.CellsPlan
    scale: float
    rows: int
    def __init__(self, plan: _Optional[_Union[_types_pb2.CellsPlan, _Mapping]] = ..., scale: _Optional[float] = ..., rows: _Optional[int] = ...) -> None: ...

class IntendedSummary(_message.Message):
    __slots__ = ("protocol", "rows", "planned", "dimension")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    protocol: str
    rows: int
    planned: _containers.RepeatedScalarFieldContainer[str]
    dimension: int
    def __init__(self, protocol: _Optional[str] = ..., rows: _Optional[int] = ..., planned: _Optional[_Iterable[str]] = ..., dimension: _Optional[int] = ...) -> None: ...

class Consider(_message.Message):
    __slots__ = ("run", "schema_digest", "consumer", "summary", "expected")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    run: str
    schema_digest: str
    consumer: str
    summary: IntendedSummary
    expected: str
    def __init__(self, run: _Optional[str] = ..., schema_digest: _Optional[str] = ..., consumer: _Optional[str] = ..., summary: _Optional[_Union[IntendedSummary, _Mapping]] = ..., expected: _Optional[str] = ...) -> None: ...

class SumTerms(_message.Message):
    __slots__ = ("security", "ahead")
    SECURITY_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    security: _pooling_pb2.Security
    ahead: IntendedSummary
    def __init__(self, security: _Optional[_Union[_pooling_pb2.Security, _Mapping]] = ..., ahead: _Optional[_Union[IntendedSummary, _Mapping]] = ...) -> None: ...

class Accepted(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    def __init__(self, rows: _Optional[int] = ...) -> None: ...

class Broadcast(_message.Message):
    __slots__ = ("size", "mean")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    size: int
    mean: _types_pb2.MeanVector
    def __init__(self, size: _Optional[int] = ..., mean: _Optional[_Union[_types_pb2.MeanVector, _Mapping]] = ...) -> None: ...

class Bid(_message.Message):
    __slots__ = ("value", "token")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    value: float
    token: int
    def __init__(self, value: _Optional[float] = ..., token: _Optional[int] = ...) -> None: ...

class Dry(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Ask(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: int
    def __init__(self, token: _Optional[int] = ...) -> None: ...

class Quote(_message.Message):
    __slots__ = ("broadcast", "prices", "spread")
    BROADCAST_FIELD_NUMBER: _ClassVar[int]
    PRICES_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    broadcast: Broadcast
    prices: _containers.RepeatedScalarFieldContainer[float]
    spread: float
    def __init__(self, broadcast: _Optional[_Union[Broadcast, _Mapping]] = ..., prices: _Optional[_Iterable[float]] = ..., spread: _Optional[float] = ...) -> None: ...

class Counts(_message.Message):
    __slots__ = ("at_least",)
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    at_least: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, at_least: _Optional[_Iterable[int]] = ...) -> None: ...

class Sell(_message.Message):
    __slots__ = ("price",)
    PRICE_FIELD_NUMBER: _ClassVar[int]
    price: float
    def __init__(self, price: _Optional[float] = ...) -> None: ...

class Draw(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...

class OfferKeys(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: str
    def __init__(self, run: _Optional[str] = ...) -> None: ...

class AskHistogram(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FillOrder(_message.Message):
    __slots__ = ("count", "shares", "uniform")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    UNIFORM_FIELD_NUMBER: _ClassVar[int]
    count: int
    shares: _containers.RepeatedScalarFieldContainer[float]
    uniform: int
    def __init__(self, count: _Optional[int] = ..., shares: _Optional[_Iterable[float]] = ..., uniform: _Optional[int] = ...) -> None: ...

class Close(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Dismiss(_message.Message):
    __slots__ = ("fault",)
    FAULT_FIELD_NUMBER: _ClassVar[int]
    fault: _types_pb2.Fault
    def __init__(self, fault: _Optional[_Union[_types_pb2.Fault, _Mapping]] = ...) -> None: ...

class Farewell(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Closing(_message.Message):
    __slots__ = ("rows_sent",)
    ROWS_SENT_FIELD_NUMBER: _ClassVar[int]
    rows_sent: int
    def __init__(self, rows_sent: _Optional[int] = ...) -> None: ...
