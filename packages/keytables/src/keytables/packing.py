"""Items as bytes, for engines that store an item whole.

Rule: the item read equals the one written, types included. It is MessagePack of the whole item,
keys included; a set of text is the extension type 1 holding the sorted members.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from keytables.checks import PLAIN_TYPES, check_names, check_size, snapshot
from keytables.errors import SchemaError, StoreDamaged
from keytables.values import MAX_ITEM_SIZE, Item, Value

_SET: Final = 1

# The size of an item is at most four times that of its blob (an empty list in a list is one byte of
# the blob and counts as four), so a smaller blob needs no exact count.
_CERTAINLY_SMALL: Final = MAX_ITEM_SIZE // 4

_encode = msgspec.msgpack.Encoder().encode


def _decode_extension(code: int, data: memoryview) -> frozenset[str]:
    if code != _SET:
        raise ValueError(f"unknown extension type {code} in an item")
    return frozenset(msgspec.msgpack.decode(data, type=list[str]))


_decode: Callable[[bytes], Item]
_decode = msgspec.msgpack.Decoder(dict, ext_hook=_decode_extension).decode


def unpack(blob: bytes) -> Item:
    """Return a new item. Raises StoreDamaged: the blob is."""
    try:
        return _decode(blob)
    except Exception as error:
        raise StoreDamaged("an item of the store is damaged") from error


def unpack_all(blobs: Iterable[bytes]) -> list[Item]:
    """Return the items of several blobs, as ``unpack`` does."""
    try:
        return list(map(_decode, blobs))
    except Exception as error:
        raise StoreDamaged("an item of the store is damaged") from error


def pack(item: Item) -> bytes:
    """Return the blob of an item. Raises SchemaError and ItemTooLarge."""
    if "" in item:
        check_names(item)
    encoded: object = item
    for value in item.values():
        if type(value) not in PLAIN_TYPES and not _is_plain_map(value):
            encoded = _encodable({name: snapshot(value, name) for name, value in item.items()})
            break
    try:
        blob = _encode(encoded)
    except OverflowError:
        raise SchemaError("an integer of the item is not within 64 bits") from None
    except UnicodeEncodeError:
        raise SchemaError("text of the item holds a surrogate, which UTF-8 cannot encode") from None
    if len(blob) > _CERTAINLY_SMALL:
        check_size(item)
    return blob


def _is_plain_map(value: Value) -> bool:
    """Whether a value is a map that needs neither a check nor a copy, as most maps are."""
    if type(value) is not dict:
        return False
    for key, member in value.items():
        if type(key) is not str or not key or type(member) not in PLAIN_TYPES:
            return False
    return True


def _encodable(value: Value) -> object:
    """Return a checked value as it is encoded: sets as extensions, an item without empty ones."""
    if type(value) in PLAIN_TYPES:
        return value
    if isinstance(value, frozenset):
        return msgspec.msgpack.Ext(_SET, _encode(sorted(value)))
    if isinstance(value, dict):
        return {key: _encodable(member) for key, member in value.items() if member != frozenset()}
    if isinstance(value, list):
        return [_encodable(member) for member in value]
    return value
