"""Pages for programs: JSON and CSV.

Rule: all that is shown is in it, unrounded and whole, with IDs beside names. A text that a
spreadsheet would run as a formula gets a quote before it in CSV.

The JSON of a page, whose keys stay as they are within a `schema_version`:

    schema_version, name, title, lead, notes [text]
    first, last          the days, `yyyy-mm-dd`
    before {first, last} the days that are compared with
    channel, person      what was chosen: IDs, or null
    channels             IDs of a group of channels that was chosen
    tiles   {name: {title, about, kind, everyone, cur, prev, diff_pct, state}}
            cur is null where there is nothing to measure; everyone unless a person is chosen
    charts  [{chart, name, title, about, …}]
            lines, bars: axis, labels, kind, series [{name, title, values, faint}], series_kind (of
            the titles: text, or channel where they are IDs), notes [{label, date, text}]
            heat: rows, columns, values, kind
            network: nodes [{id, weight}], edges [{one, other, weight}]
    tables  {name: {title, about, columns [{name, title, about, kind}], rows [{column: cell}]}}
            a cell of kind `change` is {cur, prev, diff_pct, state}, another a number, a text or
            null; a message is `channel/ts/thread_ts`
    names   {people {ID: name}, channels {ID: name}} of all IDs in it
"""

import csv
import io
from collections.abc import Iterable
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

import msgspec
import polars as pl

from channelstats.days import minute_text
from channelstats.identifiers import seconds
from channelstats.metrics.quantities import replaced
from channelstats.metrics.table import Kind, Table
from channelstats.pages.model import Network, Page, Tile
from channelstats.render.names import Directory
from channelstats.render.text import line_text

SCHEMA_VERSION: Final = 1

_FORMULA: Final = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""What a formula begins with, in full width too, which some spreadsheets take for the same."""
_COMPARED: Final = ("prev", "diff_pct", "state")

Json: TypeAlias = object
"""What is only encoded, never looked into again."""


def json_of(page: Page, names: Directory) -> bytes:
    """A whole page; for the form see the module."""
    chosen = page.choice
    document: dict[str, Json] = {
        "schema_version": SCHEMA_VERSION,
        "name": page.name,
        "title": line_text(page.title, names),
        "lead": page.about,
        "notes": page.notes,
        "first": chosen.first,
        "last": chosen.last,
        "before": dict(zip(("first", "last"), page.before, strict=True)),
        "channel": chosen.channel or None,
        "channels": chosen.group,
        "person": chosen.person or None,
        "tiles": {tile.name: _tile(tile) for tile in page.tiles},
        "charts": page.charts,
        "tables": {table.name: _table(table) for table in page.tables},
        "names": {
            "people": {uid: names.person(uid) for uid in _ids(page, Kind.PERSON, {chosen.person})},
            "channels": {
                cid: names.channel(cid) for cid in _ids(page, Kind.CHANNEL, {*chosen.channels})
            },
        },
    }
    return msgspec.json.encode(document)


def _tile(tile: Tile) -> dict[str, Json]:
    compared = tile.change or {"cur": None, "prev": None, "diff_pct": None, "state": None}
    said = {"title": tile.title, "about": tile.about, "kind": tile.kind}
    return {**said, "everyone": tile.everyone, **compared}


def _table(table: Table) -> dict[str, Json]:
    return {
        "title": table.title,
        "about": table.about,
        "columns": [
            {"name": column.name, "title": column.title, "about": column.about, "kind": column.kind}
            for column in table.columns
        ],
        "rows": table.rows.to_dicts(),
    }


def _ids(page: Page, kind: Kind, chosen: set[str]) -> list[str]:
    """Every ID of a kind in a page."""
    ids = set(chosen)
    for table in page.tables:
        for column in table.columns:
            if column.kind is kind:
                ids |= set(table.rows[column.name])
    for chart in page.charts:
        if isinstance(chart, Network) and kind is Kind.PERSON:
            ids |= {node.id for node in chart.nodes}
    return sorted(ids - {""})


def csv_of(table: Table, names: Directory, zone: ZoneInfo) -> bytes:
    """A table with a heading. A person or a channel has a column more, `…_name`; a message has two,
    `…_time` in that zone and `…_link`; of a change there are the three columns `…_prev`,
    `…_diff_pct` and `…_state`, as the number itself is there.
    """

    def time_of(message: str) -> str:
        return minute_text(seconds(message.split("/")[1]), zone) if message else ""

    called = {Kind.PERSON: names.person, Kind.CHANNEL: names.channel}
    columns: list[pl.Series] = []
    for column in table.columns:
        cells = table.rows[column.name]
        if column.kind is Kind.CHANGE:
            columns += [
                cells.struct.field(part).alias(f"{column.name}_{part}") for part in _COMPARED
            ]
            continue
        columns.append(cells)
        if column.kind in called:
            columns.append(replaced(cells, called[column.kind]).alias(f"{column.name}_name"))
        if column.kind is Kind.MESSAGE:
            columns.append(replaced(cells, time_of).alias(f"{column.name}_time"))
            columns.append(replaced(cells, names.permalink).alias(f"{column.name}_link"))
    return csv_bytes([cells.name for cells in columns], zip(*columns, strict=True))


def csv_bytes(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> bytes:
    """A file in UTF-8 with a byte order mark, without which Excel takes it for another encoding."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(headings)
    writer.writerows([_harmless(value) for value in row] for row in rows)
    return file.getvalue().encode("utf-8-sig")


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value[:1] in _FORMULA else value
