"""Items as rows: the columns of keys, expiry and indexes, and the whole item as a blob."""

from typing import Final, TypeAlias

from keytables.checks import expiry_time, key_check, key_checks
from keytables.packing import pack
from keytables.schema import Key, Table
from keytables.values import MAX_SORT_KEY, Item

Row: TypeAlias = tuple[str | int | float | bytes | None, ...]
"""The values of a row, in the order of ``Statements.put``."""

_INT64: Final = 2**63


class RowCodec:
    """``indexed``: indexed attributes with their own column. ``blob_column``: index in a row."""

    def __init__(self, table: Table, indexed: tuple[Key, ...]) -> None:
        self._keys = tuple(zip(table.key_names, key_checks(table), strict=True))
        self._indexed = tuple((key.name, key_check(key, MAX_SORT_KEY)) for key in indexed)
        self._expiry = table.expiry
        self.blob_column = len(self._keys) + (table.expiry is not None)

    def row(self, item: Item) -> Row:
        """Return the row of an item. Raises SchemaError and ItemTooLarge."""
        row: list[str | int | float | bytes | None]
        row = [check(item.get(name)) for name, check in self._keys]
        blob = pack(item)
        if self._expiry is not None:
            expiry = item.get(self._expiry)
            if type(expiry) is not int or not 0 < expiry < _INT64:
                expiry = expiry_time(expiry, self._expiry)
            row.append(expiry)
        row.append(blob)
        if self._indexed:
            row += [check(item[name]) if name in item else None for name, check in self._indexed]
        return tuple(row)
