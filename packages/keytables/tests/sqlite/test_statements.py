"""Every read starts in an index and needs no sorting."""

from collections.abc import Iterator
from functools import partial

import apsw
import pytest

from keytables import Index, Key, Kind, Table
from keytables.sqlite.statements import Statements

TABLE = Table(
    "things",
    Key("user"),
    Key("place"),
    indexes=(Index("by_n", Key("n", Kind.NUMBER)), Index("by_city", Key("city"), Key("place"))),
    expiry="end",
)
STATEMENTS = Statements(TABLE, '"things~1"')


@pytest.fixture
def connection() -> Iterator[apsw.Connection]:
    made = apsw.Connection(":memory:")
    for statement in STATEMENTS.create:
        made.execute(statement)
    yield made
    made.close()


def plan(connection: apsw.Connection, sql: str) -> str:
    values = (None,) * sql.count("?")
    return "; ".join(str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (STATEMENTS.get, "things~key (p=? AND s=?)"),
        (STATEMENTS.delete, "things~key (p=? AND s=?)"),
        (STATEMENTS.query("", "", descending=False), "things~key (p=?)"),
        (STATEMENTS.query(">", "<=", descending=True), "things~key (p=? AND s>? AND s<?)"),
        (STATEMENTS.scan(after=False), "things~key"),
        (STATEMENTS.scan(after=True), "things~key ((p,s)>(?,?))"),
        (STATEMENTS.any_expired, "things~expiry (x<?)"),
        (STATEMENTS.sweep, "things~expiry (x<?)"),
        (
            STATEMENTS.query_index(TABLE.index("by_n"), "", "", descending=False, after=False),
            "things~index0 (a0=?)",
        ),
        (
            STATEMENTS.query_index(TABLE.index("by_n"), "", "", descending=True, after=True),
            "things~index0 (a0=? AND (p,s)<(?,?))",
        ),
        (
            STATEMENTS.query_index(TABLE.index("by_city"), ">=", "", descending=False, after=False),
            "things~index1 (a1=? AND s>?)",
        ),
        (
            STATEMENTS.query_index(TABLE.index("by_city"), "", "<", descending=False, after=True),
            "things~index1 (a1=? AND (s,p)>(?,?) AND s<?)",
        ),
    ],
)
def test_a_statement_uses_its_index(connection: apsw.Connection, sql: str, expected: str) -> None:
    found = plan(connection, sql).replace("things~1~", "things~")
    assert expected in found
    assert "TEMP B-TREE" not in found


def test_a_query_shows_expired_rows_without_their_blobs(connection: apsw.Connection) -> None:
    for place, end in [("1", None), ("2", 5), ("3", 6)]:
        connection.execute(STATEMENTS.put, ("u", place, end, b"blob", 1, "x"))
    query = STATEMENTS.query("", "", descending=False)
    shown = [(b"blob", "1"), (None, "2"), (b"blob", "3")]
    assert connection.execute(query, (5, "u")).fetchall() == shown
    scan = STATEMENTS.scan(after=True)
    assert connection.execute(scan, (5, "u", "1")).fetchall() == [
        (None, "u", "2"),
        (b"blob", "u", "3"),
    ]
    index = STATEMENTS.query_index(TABLE.index("by_n"), "", "", descending=True, after=False)
    assert connection.execute(index, (5, 1)).fetchall() == [
        (b"blob", "u", "3"),
        (None, "u", "2"),
        (b"blob", "u", "1"),
    ]


def test_every_statement_is_valid(connection: apsw.Connection) -> None:
    row = ("u", "p", None, b"blob", 1, "x")
    connection.execute(STATEMENTS.put, row)
    connection.execute(STATEMENTS.put, row)
    assert connection.execute('SELECT count(*) FROM "things~1"').get == 1
    connection.execute(STATEMENTS.empty, (5,))
    assert connection.execute('SELECT count(*) FROM "things~1"').get == 0
    connection.execute(STATEMENTS.drop)


def test_a_query_by_an_index_that_is_missing_is_refused_unless_it_may_look_at_every_row(
    connection: apsw.Connection,
) -> None:
    for sql in STATEMENTS.drop_indexes:
        connection.execute(sql)
    for index in TABLE.indexes:
        query = partial(STATEMENTS.query_index, index, "", "", descending=False, after=False)
        with pytest.raises(apsw.SQLError, match="no such index"):
            plan(connection, query())
        assert "SCAN things~1" in plan(connection, query(indexed=False))
