"""An item as one blob.

The one rule: what is read equals what was written, kinds included.

The blob is MessagePack of the whole item, keys included; a set of text is the extension type 1
holding the sorted members.
"""

from typing import Final, cast

import msgspec

from keytables.checks import PLAIN_TYPES, check_names, check_size, snapshot
from keytables.errors import SchemaError
from keytables.values import MAX_ITEM_SIZE, Item, Value

__all__ = ["pack", "unpack"]

_SET: Final = 1

# An item counts at most four times its blob (an empty list in a list: one byte, counted as four),
# so below this nothing needs counting.
_SURELY_SMALL: Final = MAX_ITEM_SIZE // 4

_encode = msgspec.msgpack.Encoder().encode


def _extension(code: int, data: memoryview) -> frozenset[str]:
    if code != _SET:
        raise ValueError(f"unknown extension type {code} in an item")
    return frozenset(msgspec.msgpack.decode(data, type=list[str]))


_decode = msgspec.msgpack.Decoder(dict, ext_hook=_extension).decode


def unpack(blob: bytes) -> Item:
    """Return the item of a blob, a fresh one each time."""
    return cast(Item, _decode(blob))


def pack(item: Item) -> bytes:
    """Return the blob of an item. Raises SchemaError and ItemTooLarge."""
    check_names(item)
    wire: dict[str, object] | None = None
    unlike = () if PLAIN_TYPES.issuperset(map(type, item.values())) else item.items()
    for name, value in unlike:
        if type(value) not in PLAIN_TYPES and not _plain_map(value):
            if wire is None:
                wire = dict(item)
            checked = snapshot(value, name)
            if checked == frozenset():
                del wire[name]
            else:
                wire[name] = _wire(checked)
    try:
        blob = _encode(item if wire is None else wire)
    except OverflowError:
        raise SchemaError("an integer of the item is not within 64 bits") from None
    except UnicodeEncodeError:
        raise SchemaError("text of the item holds a surrogate, which UTF-8 has not") from None
    if len(blob) > _SURELY_SMALL:
        check_size(item)
    return blob


def _plain_map(value: Value) -> bool:
    """Whether a value is a map that can be stored as it is: a short way for most maps."""
    if type(value) is not dict:
        return False
    for key, inner in value.items():
        if type(key) is not str or not key or type(inner) not in PLAIN_TYPES:
            return False
    return True


def _wire(value: Value) -> object:
    """Return what MessagePack is given for a value that ``snapshot`` returned."""
    if type(value) in PLAIN_TYPES:
        return value
    if isinstance(value, frozenset):
        return msgspec.msgpack.Ext(_SET, _encode(sorted(value)))
    if isinstance(value, dict):
        return {key: _wire(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_wire(inner) for inner in value]
    return value
