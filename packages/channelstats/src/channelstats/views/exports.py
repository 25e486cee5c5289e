"""A view as JSON, a table as CSV: the same numbers for programs.

Rule: a twin says all that the page says, unrounded and whole. IDs are in it beside names. A text
that a spreadsheet would run as a formula gets a quote before it in CSV.

The JSON, whose keys stay as they are within a `schema_version`:

    schema_version, name, title, lead, notes [text]
    first, last          the days, `yyyy-mm-dd`
    before {first, last} the days that are compared with
    channel, person      what was chosen: IDs, or null
    tiles   {name: {title, kind, everyone, cur, prev, diff_pct, state}}
            cur is null where there is nothing to measure; everyone unless a person is chosen
    charts  [{chart, name, title, …}]
            lines, bars: axis, labels, kind, series [{name, title, values, faint}]
            heat: rows, columns, values, kind
            network: nodes [{id, weight}], edges [{one, other, weight}]
    tables  {name: {title, columns [{name, title, kind}], rows [{column: cell}]}}
            a cell of kind `change` is {cur, prev, diff_pct, state}, another a number, a text or
            null; a message is `channel/ts/thread_ts`
    names   {people {ID: name}, channels {ID: name}} of all IDs in it
"""

import csv
import io
import re
from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeAlias

import msgspec

from channelstats.views.model import Cell, Column, Kind, Network, Table, Tile, View

SCHEMA_VERSION: Final = 1

_FORMULA: Final = re.compile(r"[=+\-@\t\r]")
_COMPARED: Final = ("prev", "diff_pct", "state")

Json: TypeAlias = object
"""What is only encoded, never looked into again."""


class Names(Protocol):
    """Names of IDs; an ID that is not known is its own name."""

    def person(self, uid: str) -> str: ...

    def channel(self, cid: str) -> str: ...


class Unnamed:
    """Names where none are known."""

    def person(self, uid: str) -> str:
        return uid

    def channel(self, cid: str) -> str:
        return cid


def json_of(view: View, names: Names | None = None) -> bytes:
    """A whole view; for the form see the module."""
    known = names or Unnamed()
    chosen = view.choice
    document: dict[str, Json] = {
        "schema_version": SCHEMA_VERSION,
        "name": view.name,
        "title": view.title,
        "lead": view.lead,
        "notes": view.notes,
        "first": chosen.first,
        "last": chosen.last,
        "before": dict(zip(("first", "last"), view.before, strict=True)),
        "channel": chosen.channel or None,
        "person": chosen.person or None,
        "tiles": {tile.name: _tile(tile) for tile in view.tiles},
        "charts": view.charts,
        "tables": {table.name: _table(table) for table in view.tables},
        "names": {
            "people": {uid: known.person(uid) for uid in _ids(view, Kind.PERSON, chosen.person)},
            "channels": {
                cid: known.channel(cid) for cid in _ids(view, Kind.CHANNEL, chosen.channel)
            },
        },
    }
    return msgspec.json.encode(document)


def _tile(tile: Tile) -> dict[str, Json]:
    compared = tile.change or {"cur": None, "prev": None, "diff_pct": None, "state": None}
    return {"title": tile.title, "kind": tile.kind, "everyone": tile.everyone, **compared}


def _table(table: Table) -> dict[str, Json]:
    keys = [column.name for column in table.columns]
    return {
        "title": table.title,
        "columns": [
            {"name": column.name, "title": column.title, "kind": column.kind}
            for column in table.columns
        ],
        "rows": [dict(zip(keys, row, strict=True)) for row in table.rows],
    }


def _ids(view: View, kind: Kind, chosen: str) -> list[str]:
    """Every ID of a kind in a view."""
    found = {chosen} - {""}
    for table in view.tables:
        for place, column in enumerate(table.columns):
            if column.kind is kind:
                found |= {str(row[place]) for row in table.rows}
    for chart in view.charts:
        if isinstance(chart, Network) and kind is Kind.PERSON:
            found |= {node.id for node in chart.nodes}
    return sorted(found)


# ── CSV ──────────────────────────────────────────────────────────────────────────────────────────


def csv_of(table: Table, names: Names | None = None) -> bytes:
    """A table with a heading. A person or a channel has a column more, `…_name`; of a change there
    are the three columns `…_prev`, `…_diff_pct` and `…_state`, as the number itself is there.
    """
    known = names or Unnamed()
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow([heading for column in table.columns for heading in _headings(column)])
    for row in table.rows:
        writer.writerow(
            [
                _harmless(value)
                for column, cell in zip(table.columns, row, strict=True)
                for value in _values(column.kind, cell, known)
            ]
        )
    return file.getvalue().encode()


def _headings(column: Column) -> list[str]:
    if column.kind is Kind.CHANGE:
        return [f"{column.name}_{part}" for part in _COMPARED]
    if column.kind in (Kind.PERSON, Kind.CHANNEL):
        return [column.name, f"{column.name}_name"]
    return [column.name]


def _values(kind: Kind, cell: Cell, names: Names) -> Iterator[object]:
    if isinstance(cell, dict):
        yield from (cell[part] for part in _COMPARED)
        return
    yield cell
    called: dict[Kind, Callable[[str], str]] = {
        Kind.PERSON: names.person,
        Kind.CHANNEL: names.channel,
    }
    if kind in called:
        yield called[kind](str(cell))


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
