from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Security(_message.Message):
    __slots__ = ("dropouts", "colluders")
    DROPOUTS_FIELD_NUMBER: _ClassVar[int]
    COLLUDERS_FIELD_NUMBER: _ClassVar[int]
    dropouts: int
    colluders: int
    def __init__(self, dropouts: _Optional[int] = ..., colluders: _Optional[int] = ...) -> None: ...

class Query(_message.Message):
    __slots__ = ("maps", "classes", "counts", "weights", "sketch", "marginals", "cells", "parities", "products")
    MAPS_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    SKETCH_FIELD_NUMBER: _ClassVar[int]
    MARGINALS_FIELD_NUMBER: _ClassVar[int]
    CELLS_FIELD_NUMBER: _ClassVar[int]
    PARITIES_FIELD_NUMBER: _ClassVar[int]
    PRODUCTS_FIELD_NUMBER: _ClassVar[int]
    maps: _containers.RepeatedScalarFieldContainer[str]
    classes: int
    counts: bool
    weights: _containers.RepeatedScalarFieldContainer[int]
    sketch: str
    marginals: str
    cells: str
    parities: str
    products: str
    def __init__(self, maps: _Optional[_Iterable[str]] = ..., classes: _Optional[int] = ..., counts: bool = ..., weights: _Optional[_Iterable[int]] = ..., sketch: _Optional[str] = ..., marginals: _Optional[str] = ..., cells: _Optional[str] = ..., parities: _Optional[str] = ..., products: _Optional[str] = ...) -> None: ...

class Embed(_message.Message):
    __slots__ = ("query", "one_owner_moves")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    ONE_OWNER_MOVES_FIELD_NUMBER: _ClassVar[int]
    query: Query
    one_owner_moves: int
    def __init__(self, query: _Optional[_Union[Query, _Mapping]] = ..., one_owner_moves: _Optional[int] = ...) -> None: ...

class Words(_message.Message):
    __slots__ = ("words", "last")
    WORDS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    words: _containers.RepeatedScalarFieldContainer[int]
    last: bool
    def __init__(self, words: _Optional[_Iterable[int]] = ..., last: bool = ...) -> None: ...

class Aggregate(_message.Message):
    __slots__ = ("propose", "keys", "roster", "delivery", "survivors", "endorsements")
    PROPOSE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    ROSTER_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    SURVIVORS_FIELD_NUMBER: _ClassVar[int]
    ENDORSEMENTS_FIELD_NUMBER: _ClassVar[int]
    propose: Proposal
    keys: KeyBindings
    roster: KeyRoster
    delivery: DeliveredParts
    survivors: SurvivorList
    endorsements: EndorsementList
    def __init__(self, propose: _Optional[_Union[Proposal, _Mapping]] = ..., keys: _Optional[_Union[KeyBindings, _Mapping]] = ..., roster: _Optional[_Union[KeyRoster, _Mapping]] = ..., delivery: _Optional[_Union[DeliveredParts, _Mapping]] = ..., survivors: _Optional[_Union[SurvivorList, _Mapping]] = ..., endorsements: _Optional[_Union[EndorsementList, _Mapping]] = ...) -> None: ...

class Aggregated(_message.Message):
    __slots__ = ("key", "advertisement", "sealed", "endorsement", "unmasked")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ADVERTISEMENT_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    ENDORSEMENT_FIELD_NUMBER: _ClassVar[int]
    UNMASKED_FIELD_NUMBER: _ClassVar[int]
    key: SigningKey
    advertisement: KeyAdvertisement
    sealed: SealedParts
    endorsement: EndorsementOf
    unmasked: Unmasked
    def __init__(self, key: _Optional[_Union[SigningKey, _Mapping]] = ..., advertisement: _Optional[_Union[KeyAdvertisement, _Mapping]] = ..., sealed: _Optional[_Union[SealedParts, _Mapping]] = ..., endorsement: _Optional[_Union[EndorsementOf, _Mapping]] = ..., unmasked: _Optional[_Union[Unmasked, _Mapping]] = ...) -> None: ...

class Proposal(_message.Message):
    __slots__ = ("name", "query", "owners", "threshold", "dropouts", "colluders", "bits", "bound", "noise", "neighbours", "one_owner_moves")
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    DROPOUTS_FIELD_NUMBER: _ClassVar[int]
    COLLUDERS_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    NOISE_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    ONE_OWNER_MOVES_FIELD_NUMBER: _ClassVar[int]
    name: str
    query: Query
    owners: _containers.RepeatedScalarFieldContainer[str]
    threshold: int
    dropouts: int
    colluders: int
    bits: int
    bound: int
    noise: float
    neighbours: int
    one_owner_moves: int
    def __init__(self, name: _Optional[str] = ..., query: _Optional[_Union[Query, _Mapping]] = ..., owners: _Optional[_Iterable[str]] = ..., threshold: _Optional[int] = ..., dropouts: _Optional[int] = ..., colluders: _Optional[int] = ..., bits: _Optional[int] = ..., bound: _Optional[int] = ..., noise: _Optional[float] = ..., neighbours: _Optional[int] = ..., one_owner_moves: _Optional[int] = ...) -> None: ...

class SigningKey(_message.Message):
    __slots__ = ("owner", "key", "chain", "signature")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    owner: str
    key: bytes
    chain: bytes
    signature: bytes
    def __init__(self, owner: _Optional[str] = ..., key: _Optional[bytes] = ..., chain: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class KeyBindings(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[SigningKey]
    def __init__(self, keys: _Optional[_Iterable[_Union[SigningKey, _Mapping]]] = ...) -> None: ...

class KeyAdvertisement(_message.Message):
    __slots__ = ("sender", "context", "cipher_key", "mask_key", "commitment", "signature")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CIPHER_KEY_FIELD_NUMBER: _ClassVar[int]
    MASK_KEY_FIELD_NUMBER: _ClassVar[int]
    COMMITMENT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    sender: str
    context: bytes
    cipher_key: bytes
    mask_key: bytes
    commitment: bytes
    signature: bytes
    def __init__(self, sender: _Optional[str] = ..., context: _Optional[bytes] = ..., cipher_key: _Optional[bytes] = ..., mask_key: _Optional[bytes] = ..., commitment: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class KeyRoster(_message.Message):
    __slots__ = ("context", "advertisements", "fingerprints", "keys")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    ADVERTISEMENTS_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINTS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    context: bytes
    advertisements: _containers.RepeatedCompositeFieldContainer[KeyAdvertisement]
    fingerprints: _containers.RepeatedScalarFieldContainer[bytes]
    keys: _containers.RepeatedCompositeFieldContainer[SigningKey]
    def __init__(self, context: _Optional[bytes] = ..., advertisements: _Optional[_Iterable[_Union[KeyAdvertisement, _Mapping]]] = ..., fingerprints: _Optional[_Iterable[bytes]] = ..., keys: _Optional[_Iterable[_Union[SigningKey, _Mapping]]] = ...) -> None: ...

class SealedPart(_message.Message):
    __slots__ = ("sender", "recipient", "sealed")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RECIPIENT_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    sender: str
    recipient: str
    sealed: bytes
    def __init__(self, sender: _Optional[str] = ..., recipient: _Optional[str] = ..., sealed: _Optional[bytes] = ...) -> None: ...

class SealedParts(_message.Message):
    __slots__ = ("party", "context", "parts")
    PARTY_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    party: str
    context: bytes
    parts: _containers.RepeatedCompositeFieldContainer[SealedPart]
    def __init__(self, party: _Optional[str] = ..., context: _Optional[bytes] = ..., parts: _Optional[_Iterable[_Union[SealedPart, _Mapping]]] = ...) -> None: ...

class DeliveredParts(_message.Message):
    __slots__ = ("party", "context", "parts", "sharing")
    PARTY_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    SHARING_FIELD_NUMBER: _ClassVar[int]
    party: str
    context: bytes
    parts: _containers.RepeatedCompositeFieldContainer[SealedPart]
    sharing: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, party: _Optional[str] = ..., context: _Optional[bytes] = ..., parts: _Optional[_Iterable[_Union[SealedPart, _Mapping]]] = ..., sharing: _Optional[_Iterable[str]] = ...) -> None: ...

class SurvivorList(_message.Message):
    __slots__ = ("context", "owners")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    context: bytes
    owners: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, context: _Optional[bytes] = ..., owners: _Optional[_Iterable[str]] = ...) -> None: ...

class EndorsementOf(_message.Message):
    __slots__ = ("sender", "context", "signature")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    sender: str
    context: bytes
    signature: bytes
    def __init__(self, sender: _Optional[str] = ..., context: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class EndorsementList(_message.Message):
    __slots__ = ("context", "endorsements")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    ENDORSEMENTS_FIELD_NUMBER: _ClassVar[int]
    context: bytes
    endorsements: _containers.RepeatedCompositeFieldContainer[EndorsementOf]
    def __init__(self, context: _Optional[bytes] = ..., endorsements: _Optional[_Iterable[_Union[EndorsementOf, _Mapping]]] = ...) -> None: ...

class ShareOf(_message.Message):
    __slots__ = ("about", "share")
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    about: str
    share: bytes
    def __init__(self, about: _Optional[str] = ..., share: _Optional[bytes] = ...) -> None: ...

class Unmasked(_message.Message):
    __slots__ = ("sender", "context", "self_masks", "mask_keys")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SELF_MASKS_FIELD_NUMBER: _ClassVar[int]
    MASK_KEYS_FIELD_NUMBER: _ClassVar[int]
    sender: str
    context: bytes
    self_masks: _containers.RepeatedCompositeFieldContainer[ShareOf]
    mask_keys: _containers.RepeatedCompositeFieldContainer[ShareOf]
    def __init__(self, sender: _Optional[str] = ..., context: _Optional[bytes] = ..., self_masks: _Optional[_Iterable[_Union[ShareOf, _Mapping]]] = ..., mask_keys: _Optional[_Iterable[_Union[ShareOf, _Mapping]]] = ...) -> None: ...
