"""The twins say what the view says, under the same names."""

import csv
import io
from typing import Any

import msgspec
import polars as pl
import pytest

from channelstats.render.data import SCHEMA_VERSION, csv_of, json_of
from channelstats.render.names import Directory
from channelstats.views.loading import DashboardData
from channelstats.views.model import VIEWS, Column, Kind, Table
from support.channelstats.views import Looked, look, random_workspace

CHANGE = {"cur": 3, "prev": 2, "diff_pct": 50.0, "state": "up"}


class Names(Directory):
    """Names of everybody and every channel."""

    def person(self, uid: str) -> str:
        return f"person {uid}"

    def channel(self, cid: str) -> str:
        return f"channel {cid}"


@pytest.fixture(scope="module", params=[("", ""), ("C1", ""), ("", "UA")])
def choice(request: pytest.FixtureRequest) -> tuple[str, str]:
    found: tuple[str, str] = request.param
    return found


@pytest.fixture(scope="module")
def data() -> DashboardData:
    return random_workspace(3, 60)


@pytest.fixture(params=VIEWS)
def found(request: pytest.FixtureRequest, data: DashboardData, choice: tuple[str, str]) -> Looked:
    return look(request.param, data, *choice)


def test_json_is_the_whole_view(found: Looked) -> None:
    view = found.view
    document: Any = msgspec.json.decode(json_of(view, Names()))
    assert document["schema_version"] == SCHEMA_VERSION
    for name in ("name", "title", "lead"):
        assert document[name] == getattr(view, name)
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
        rows = list(csv.DictReader(io.StringIO(csv_of(table, Names()).decode(), newline="")))
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


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx"])
def test_no_cell_of_a_csv_is_a_formula(name: str) -> None:
    class Formulas(Names):
        def person(self, uid: str) -> str:
            return name

    columns = (Column("emoji", "Emoji", Kind.EMOJI), Column("person", "Person", Kind.PERSON))
    table = Table("t", "T", columns, pl.DataFrame({"emoji": [name], "person": ["UA"]}))
    (row,) = csv.DictReader(io.StringIO(csv_of(table, Formulas()).decode(), newline=""))
    assert row == {"emoji": f"'{name}", "person": "UA", "person_name": f"'{name}"}


def test_numbers_below_zero_stay_numbers() -> None:
    columns = (Column("n", "N", Kind.NUMBER), Column("change", "Change", Kind.CHANGE))
    rows = pl.DataFrame({"n": [-1.5], "change": [{**CHANGE, "diff_pct": -50.0}]})
    table = Table("t", "T", columns, rows)
    heading, row = csv_of(table, Directory()).decode().splitlines()
    assert heading == "n,change_prev,change_diff_pct,change_state"
    assert row == "-1.5,2,-50.0,up"
