from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Fault(_message.Message):
    __slots__ = ("code", "cause", "remedy")
    CODE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    code: int
    cause: str
    remedy: str
    def __init__(self, code: _Optional[int] = ..., cause: _Optional[str] = ..., remedy: _Optional[str] = ...) -> None: ...

class Participation(_message.Message):
    __slots__ = ("expected", "took_part", "lost")
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    TOOK_PART_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    expected: int
    took_part: int
    lost: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, expected: _Optional[int] = ..., took_part: _Optional[int] = ..., lost: _Optional[_Iterable[int]] = ...) -> None: ...

class VersionRange(_message.Message):
    __slots__ = ("oldest", "newest")
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    oldest: int
    newest: int
    def __init__(self, oldest: _Optional[int] = ..., newest: _Optional[int] = ...) -> None: ...

class MeanVector(_message.Message):
    __slots__ = ("coordinates",)
    COORDINATES_FIELD_NUMBER: _ClassVar[int]
    coordinates: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, coordinates: _Optional[_Iterable[int]] = ...) -> None: ...

class FeatureMap(_message.Message):
    __slots__ = ("kind", "dimension", "gamma", "width", "seed", "commitment")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[FeatureMap.Kind]
        KIND_PAIRED: _ClassVar[FeatureMap.Kind]
        KIND_OFFSET: _ClassVar[FeatureMap.Kind]
    KIND_UNSPECIFIED: FeatureMap.Kind
    KIND_PAIRED: FeatureMap.Kind
    KIND_OFFSET: FeatureMap.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    COMMITMENT_FIELD_NUMBER: _ClassVar[int]
    kind: FeatureMap.Kind
    dimension: int
    gamma: float
    width: int
    seed: int
    commitment: bytes
    def __init__(self, kind: _Optional[_Union[FeatureMap.Kind, str]] = ..., dimension: _Optional[int] = ..., gamma: _Optional[float] = ..., width: _Optional[int] = ..., seed: _Optional[int] = ..., commitment: _Optional[bytes] = ...) -> None: ...

class Row(_message.Message):
    __slots__ = ("token", "values", "label", "features", "box")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    BOX_FIELD_NUMBER: _ClassVar[int]
    token: int
    values: _containers.RepeatedScalarFieldContainer[float]
    label: int
    features: bytes
    box: bytes
    def __init__(self, token: _Optional[int] = ..., values: _Optional[_Iterable[float]] = ..., label: _Optional[int] = ..., features: _Optional[bytes] = ..., box: _Optional[bytes] = ...) -> None: ...

class KeyOffer(_message.Message):
    __slots__ = ("name", "box", "signing", "chain", "signature")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BOX_FIELD_NUMBER: _ClassVar[int]
    SIGNING_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    name: str
    box: bytes
    signing: bytes
    chain: bytes
    signature: bytes
    def __init__(self, name: _Optional[str] = ..., box: _Optional[bytes] = ..., signing: _Optional[bytes] = ..., chain: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Gift(_message.Message):
    __slots__ = ("giver", "taker", "commitment", "box", "signature")
    GIVER_FIELD_NUMBER: _ClassVar[int]
    TAKER_FIELD_NUMBER: _ClassVar[int]
    COMMITMENT_FIELD_NUMBER: _ClassVar[int]
    BOX_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    giver: KeyOffer
    taker: str
    commitment: bytes
    box: bytes
    signature: bytes
    def __init__(self, giver: _Optional[_Union[KeyOffer, _Mapping]] = ..., taker: _Optional[str] = ..., commitment: _Optional[bytes] = ..., box: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Histogram(_message.Message):
    __slots__ = ("cells",)
    CELLS_FIELD_NUMBER: _ClassVar[int]
    cells: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, cells: _Optional[_Iterable[int]] = ...) -> None: ...

class CellsPlan(_message.Message):
    __slots__ = ("code_book", "gamma", "rho", "classes", "sketch_share", "menu")
    CODE_BOOK_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    RHO_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    SKETCH_SHARE_FIELD_NUMBER: _ClassVar[int]
    MENU_FIELD_NUMBER: _ClassVar[int]
    code_book: str
    gamma: float
    rho: float
    classes: int
    sketch_share: float
    menu: str
    def __init__(self, code_book: _Optional[str] = ..., gamma: _Optional[float] = ..., rho: _Optional[float] = ..., classes: _Optional[int] = ..., sketch_share: _Optional[float] = ..., menu: _Optional[str] = ...) -> None: ...

class Rows(_message.Message):
    __slots__ = ("rows", "last", "values", "columns")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Row]
    last: bool
    values: bytes
    columns: int
    def __init__(self, rows: _Optional[_Iterable[_Union[Row, _Mapping]]] = ..., last: bool = ..., values: _Optional[bytes] = ..., columns: _Optional[int] = ...) -> None: ...

class Head(_message.Message):
    __slots__ = ("note", "leaves", "known", "certificates")
    NOTE_FIELD_NUMBER: _ClassVar[int]
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    note: bytes
    leaves: bytes
    known: int
    certificates: bytes
    def __init__(self, note: _Optional[bytes] = ..., leaves: _Optional[bytes] = ..., known: _Optional[int] = ..., certificates: _Optional[bytes] = ...) -> None: ...
