"""The twins say what the view says, under the same names."""

import csv
import io
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import polars as pl
import pytest

from channelstats.metrics.table import Column, Kind, Table
from channelstats.pages.loading import DashboardData
from channelstats.pages.model import VIEWS
from channelstats.render.data import SCHEMA_VERSION, csv_bytes, csv_of, json_of
from channelstats.render.names import Directory
from support.channelstats.house import UTC
from support.channelstats.pages import Looked, look, random_workspace

CHANGE = {"cur": 3, "prev": 2, "diff_pct": 50.0, "state": "up"}


class Names(Directory):
    """Names of everybody and every channel."""

    def person(self, uid: str) -> str:
        return f"person {uid}"

    def channel(self, cid: str) -> str:
        return f"channel {cid}"


def rows_of(file: bytes) -> list[dict[str, str]]:
    """The rows of a CSV by their headings."""
    return list(csv.DictReader(io.StringIO(file.decode("utf-8-sig"), newline="")))


@pytest.fixture(scope="module", params=[("", ""), ("C1", ""), ("", "UA")])
def choice(request: pytest.FixtureRequest) -> tuple[str, str]:
    found: tuple[str, str] = request.param
    return found


@pytest.fixture(scope="module")
def data() -> DashboardData:
    return random_workspace(3, 60)


@pytest.fixture(scope="module", params=VIEWS)
def found(request: pytest.FixtureRequest, data: DashboardData, choice: tuple[str, str]) -> Looked:
    return look(request.param, data, *choice)


def test_json_is_the_whole_view(found: Looked) -> None:
    view = found.view
    document: Any = msgspec.json.decode(json_of(view, Names()))
    assert document["schema_version"] == SCHEMA_VERSION
    shown = (view.name, "".join(map(str, view.title)), view.about)
    assert (document["name"], document["title"], document["lead"]) == shown
    assert document["notes"] == list(view.notes)
    assert document["first"] == view.choice.first.isoformat()
    assert document["before"]["last"] == view.before[1].isoformat()
    assert document["person"] == (view.choice.person or None)
    assert list(document["tiles"]) == list(found.tiles)
    for name, tile in document["tiles"].items():
        assert tile["cur"] == found.number(name)
        assert tile["everyone"] == found.tiles[name].everyone
        assert tile["about"] == found.tiles[name].about
    assert document["charts"] == msgspec.json.decode(msgspec.json.encode(view.charts))
    assert list(document["tables"]) == list(found.tables)
    for name, table in document["tables"].items():
        assert table["rows"] == found.rows(name)
        columns = found.tables[name].columns
        for key in ("kind", "about"):
            assert [of[key] for of in table["columns"]] == [getattr(of, key) for of in columns]
        for column in columns:
            if column.kind is Kind.PERSON:
                people = document["names"]["people"]
                assert {row[column.name] for row in table["rows"]} <= set(people)
                assert all(name == f"person {uid}" for uid, name in people.items())


def test_csv_is_the_whole_table(found: Looked) -> None:
    for name, table in found.tables.items():
        rows = list(rows_of(csv_of(table, Names(), UTC)))
        assert len(rows) == table.rows.height
        for row, expected in zip(rows, found.rows(name), strict=True):
            for column in table.columns:
                cell = expected[column.name]
                if column.kind is Kind.CHANGE:
                    assert row[f"{column.name}_state"] == cell["state"]
                    assert row[f"{column.name}_prev"] == str(
                        "" if cell["prev"] is None else cell["prev"]
                    )
                    continue
                assert row[column.name].removeprefix("'") == ("" if cell is None else str(cell))
                if column.kind is Kind.PERSON:
                    assert row[f"{column.name}_name"] == f"person {cell}"


@pytest.mark.parametrize(
    "name", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", *"\uff1d\uff0b\uff0d\uff20"]
)
def test_no_cell_of_a_csv_is_a_formula(name: str) -> None:
    class Formulas(Names):
        def person(self, uid: str) -> str:
            return name

    columns = (Column("emoji", "Emoji", Kind.EMOJI), Column("person", "Person", Kind.PERSON))
    table = Table("t", "T", columns, pl.DataFrame({"emoji": [name], "person": ["UA"]}))
    (row,) = csv.DictReader(
        io.StringIO(csv_of(table, Formulas(), UTC).decode("utf-8-sig"), newline="")
    )
    assert row == {"emoji": f"'{name}", "person": "UA", "person_name": f"'{name}"}


def test_numbers_below_zero_stay_numbers() -> None:
    columns = (Column("n", "N", Kind.NUMBER), Column("change", "Change", Kind.CHANGE))
    rows = pl.DataFrame({"n": [-1.5], "change": [{**CHANGE, "diff_pct": -50.0}]})
    table = Table("t", "T", columns, rows)
    heading, row = csv_of(table, Directory(), UTC).decode("utf-8-sig").splitlines()
    assert heading == "n,change_prev,change_diff_pct,change_state"
    assert row == "-1.5,2,-50.0,up"


def test_a_message_has_its_time_and_its_link() -> None:
    columns = (Column("message", "Message", Kind.MESSAGE), Column("n", "N", Kind.COUNT))
    messages = ["C1/1710630900.001500/", "C1/1710630900.001500/1710600000.000100", None]
    table = Table("t", "T", columns, pl.DataFrame({"message": messages, "n": [1, 2, 3]}))
    names = Directory(slack_name="example")
    first, reply, none = rows_of(csv_of(table, names, ZoneInfo("Asia/Kolkata")))
    assert first["message_time"] == reply["message_time"] == "2024-03-17 04:45"
    address = "https://example.slack.com/archives/C1/p1710630900001500"
    assert first["message_link"] == address
    assert reply["message_link"] == f"{address}?thread_ts=1710600000.000100&cid=C1"
    assert none["message_time"] == none["message_link"] == ""


def test_a_csv_begins_with_the_mark_that_spreadsheets_know_utf8_by() -> None:
    assert csv_bytes(["name"], [["Zoë"]]) == b"\xef\xbb\xbfname\r\nZo\xc3\xab\r\n"
