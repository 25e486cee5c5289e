"""Items as rows: the keys, the columns of indexes, the expiry, and the whole item as bytes."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from keytables.checks import KeyCheck, expiry_time, key_check, key_checks
from keytables.packing import pack
from keytables.schema import Table
from keytables.values import MAX_SORT_KEY, Item, KeyTuple, Scalar

Encode: TypeAlias = Callable[[Scalar], Any]
"""Returns a checked key as an engine stores it."""


class RowEncoder:
    """``encoders``: by attribute, of the keys that are not stored as they are."""

    def __init__(self, table: Table, encoders: Mapping[str, Encode] | None = None) -> None:
        encode = (encoders or {}).get

        def column(name: str, check: KeyCheck) -> tuple[str, KeyCheck, Encode | None]:
            return name, check, encode(name)

        self._first, *others = map(column, table.key_names, key_checks(table))
        self._second = others[0] if others else None
        indexed = {key.name: key for key in table.key_attributes if key.name not in table.key_names}
        self._indexed = [
            column(name, key_check(key, MAX_SORT_KEY)) for name, key in indexed.items()
        ]
        self._expiry = table.expiry

    def row(self, item: Item) -> tuple[KeyTuple, list[Any]]:
        """Return the key and the row of an item: one column for each part of the key and each
        indexed attribute (None: it has none), the expiry if the table has one, and last the item as
        bytes. Raises SchemaError and ItemTooLarge.
        """
        # One or two keys, without a loop: every write comes through here.
        name, check, encode = self._first
        first = check(item.get(name))
        key: KeyTuple = (first,)
        row: list[Any] = [first if encode is None else encode(first)]
        if self._second is not None:
            name, check, encode = self._second
            second = check(item.get(name))
            key = (first, second)
            row.append(second if encode is None else encode(second))
        packed = pack(item)
        for name, check, encode in self._indexed:
            value = check(item[name]) if name in item else None
            row.append(value if value is None or encode is None else encode(value))
        if self._expiry is not None:
            row.append(expiry_time(item.get(self._expiry), self._expiry))
        row.append(packed)
        return key, row
