"""The SQL of one table.

Rule: SQL text is built from declarations only; every value of a request is bound. A write returns
the numbers (``row``) of the changes that were made, of those whose guard held.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from keytables.postgresql.columns import Columns
from keytables.schema import Index

PAGE_BYTES: Final = 512 << 10
"""Bytes of a page, after which it ends."""

_STORAGE: Final = (
    "fillfactor = 90, toast_tuple_target = 8160, autovacuum_vacuum_threshold = 500, "
    "autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05, "
    "toast.autovacuum_vacuum_scale_factor = 0.05"
)
"""Space in each page for changed rows; payloads of up to 8 KB in their row; and vacuum early,
because rows live for a short time."""


class Change(StrEnum):
    """How a write changes a row, unconditionally or guarded by the version that was read."""

    PUT = "put"
    DELETE = "delete"
    INSERT = "insert"
    """If there is none."""
    REPLACE = "replace"
    """If it has the version."""
    REMOVE = "remove"
    """If it has the version."""


GUARDED: Final = frozenset({Change.INSERT, Change.REPLACE, Change.REMOVE})


class TableStatements:
    """The statements of the table of ``columns``, stored as ``name`` (qualified and quoted)."""

    def __init__(self, columns: Columns, name: str) -> None:
        self.columns, self.name = columns, name
        table = columns.table
        self.keys = tuple(f'"{column.name}"' for column in columns.keys)
        self.key_types = tuple(column.type for column in columns.keys)
        key_list = ", ".join(self.keys)
        declared = [f"{column.declaration} NOT NULL" for column in columns.keys]
        declared += [column.declaration for column in columns.indexed]
        declared += ["expires double precision"] * columns.expires
        declared += ["item bytea NOT NULL", "row bigint NOT NULL", f"PRIMARY KEY ({key_list})"]
        self.create = [
            f"CREATE TABLE {name} ({', '.join(declared)}) WITH ({_STORAGE})",
            f"ALTER TABLE {name} ALTER item SET STORAGE EXTERNAL",  # payloads are encrypted
        ]
        if columns.expires:
            self.create.append(f"CREATE INDEX ON {name} (expires) WHERE expires IS NOT NULL")
        for index in table.indexes:
            order = dict.fromkeys((f'"{columns.of(index.partition).name}"', *self.order_of(index)))
            self.create.append(
                f"CREATE INDEX ON {name} ({', '.join(order)}) WHERE {self.is_in_index(index)}"
            )
        same = " AND ".join(f"stored.{key} = wanted.{key}" for key in self.keys)
        expires = "stored.expires" if columns.expires else "NULL::float8"
        arrays = _arrays(self.key_types)
        self.get = (  # the number of the key from 1, the item, its expiry, its version
            f"SELECT wanted.number, stored.item, {expires}, stored.xmin "  # noqa: S608
            f"FROM unnest({arrays}) WITH ORDINALITY AS wanted({key_list}, number) "
            f"JOIN {name} AS stored ON {same}"
        )
        self.sweep = (  # expired at $1, at most $2
            f"DELETE FROM {name} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {name} "  # noqa: S608
            f"WHERE expires <= $1 ORDER BY expires LIMIT $2 FOR UPDATE SKIP LOCKED)) "
            f"AND expires <= $1 RETURNING 1"
        )
        self._types_of = {
            Change.PUT: columns.types,
            Change.INSERT: columns.types,
            Change.DELETE: self.key_types,
            Change.REPLACE: (*columns.types, "xid"),
            Change.REMOVE: (*self.key_types, "xid", "bigint"),
        }

    def order_of(self, index: Index) -> tuple[str, ...]:
        """Return the columns by which an index sorts the items of a partition."""
        if index.sort is None:
            return ("row",)
        return (f'"{self.columns.of(index.sort).name}"', "row")

    def is_in_index(self, index: Index) -> str:
        keys = (index.partition,) if index.sort is None else (index.partition, index.sort)
        return " AND ".join(f'"{self.columns.of(key).name}" IS NOT NULL' for key in keys)

    # --- writes -------------------------------------------------------------------------------

    def change(self, kind: Change, first: int) -> tuple[str, int]:
        """Return the statement of one kind of changes, and how many parameters it has: arrays, from
        number ``first`` on.

        PUT, INSERT: the columns. DELETE: the keys. REPLACE: the columns and versions. REMOVE: the
        keys, versions and numbers.
        """
        columns, keys, name = self.columns, ", ".join(self.keys), self.name
        all_names = ", ".join(columns.names)
        same = " AND ".join(f"stored.{key} = given.{key}" for key in self.keys)
        rest = [each for each in columns.names[len(self.keys) :] if each != "row"]
        types = self._types_of[kind]
        arrays = _arrays(types, first)
        if kind in (Change.PUT, Change.INSERT):
            sql = f"INSERT INTO {name} ({all_names}) SELECT * FROM unnest({arrays}) "  # noqa: S608
            if kind is Change.INSERT:
                sql += "ON CONFLICT DO NOTHING RETURNING row"
            else:
                new = ", ".join(f"{each} = excluded.{each}" for each in rest)
                sql += f"ON CONFLICT ({keys}) DO UPDATE SET {new}"
        elif kind is Change.REPLACE:
            new = ", ".join(f"{each} = given.{each}" for each in rest)
            sql = (
                f"UPDATE {name} AS stored SET {new} "  # noqa: S608
                f"FROM unnest({arrays}) AS given({all_names}, version) "
                f"WHERE {same} AND stored.xmin = given.version RETURNING given.row"
            )
        elif kind is Change.REMOVE:
            sql = (
                f"DELETE FROM {name} AS stored "  # noqa: S608
                f"USING unnest({arrays}) AS given({keys}, version, row) "
                f"WHERE {same} AND stored.xmin = given.version RETURNING given.row"
            )
        else:
            sql = (
                f"DELETE FROM {name} AS stored "  # noqa: S608
                f"USING unnest({arrays}) AS given({keys}) WHERE {same}"
            )
        return sql, len(types)

    # --- pages --------------------------------------------------------------------------------

    def page(
        self, conditions: Sequence[str], order: Sequence[str], descending: bool, limit: int
    ) -> str:
        """Return the query of a page: items and row numbers. Its first parameter is the time if
        items expire; number ``limit`` is how many rows. It ends after PAGE_BYTES.
        """
        if self.columns.expires:
            conditions = (*conditions, "(expires IS NULL OR expires > $1)")
        direction = " DESC" if descending else ""
        sorting = ", ".join(f"{column}{direction}" for column in order)
        columns = ", ".join(dict.fromkeys(("item", "row", *order)))
        where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        return (
            f"SELECT item, row FROM (SELECT {columns}, sum(octet_length(item)) OVER "  # noqa: S608
            f"(ORDER BY {sorting} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before "
            f"FROM {self.name} {where}ORDER BY {sorting} LIMIT ${limit}) AS page "
            f"WHERE before IS NULL OR before < {PAGE_BYTES} ORDER BY {sorting}"
        )


def _arrays(types: tuple[str, ...], first: int = 1) -> str:
    return ", ".join(f"${first + number}::{type_}[]" for number, type_ in enumerate(types))
