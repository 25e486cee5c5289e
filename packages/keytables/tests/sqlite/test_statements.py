"""Every read starts in an index and needs no sorting."""

from collections.abc import Iterator

import apsw
import pytest

from keytables import Cursor, Index, Key, Kind, Range, Scalar, Table
from keytables.engine import Query
from keytables.sqlite import SqliteEngine
from keytables.sqlite.statements import Queries, Selection, Statements
from keytables.values import KeyTuple
from support.sqlite_store import Connections

TABLE = Table(
    "things",
    Key("user"),
    Key("place"),
    indexes=(Index("by_n", Key("n", Kind.NUMBER)), Index("by_city", Key("city"), Key("place"))),
    expiry="end",
)
STATEMENTS = Statements(TABLE, '"things~1"')
QUERIES = Queries(STATEMENTS)


def select(
    partition: Scalar,
    index: str = "",
    *,
    sort: Range | None = None,
    position: KeyTuple | None = None,
    descending: bool = False,
    use_index: bool = True,
) -> Selection:
    after = None if position is None else Cursor(position)
    found = TABLE.index(index) if index else None
    query = Query(partition, found, sort, None, descending, after)
    return QUERIES.query(query, use_index=use_index)


@pytest.fixture
def connection() -> Iterator[apsw.Connection]:
    opened = apsw.Connection(":memory:")
    for statement in STATEMENTS.create:
        opened.execute(statement)
    yield opened
    opened.close()


def plan(connection: apsw.Connection, sql: str) -> str:
    values = (None,) * sql.count("?")
    return "; ".join(str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (STATEMENTS.get, "things~key (p=? AND s=?)"),
        (STATEMENTS.delete, "things~key (p=? AND s=?)"),
        (STATEMENTS.any_expired, "things~expiry (x<?)"),
        (STATEMENTS.delete_expired, "things~expiry (x<?)"),
        (select("u").sql, "things~key (p=?)"),
        (
            select("u", sort=Range(gt="a", le="b"), descending=True).sql,
            "things~key (p=? AND s>? AND s<?)",
        ),
        (select("u", sort=Range(ge="a"), position=("b",)).sql, "things~key (p=? AND s>?)"),
        (QUERIES.scan(None).sql, "things~key"),
        (QUERIES.scan(Cursor(("u", "p"))).sql, "things~key ((p,s)>(?,?))"),
        (select(1, "by_n").sql, "things~index0 (a0=?)"),
        (
            select(1, "by_n", position=("u", "p"), descending=True).sql,
            "things~index0 (a0=? AND (p,s)<(?,?))",
        ),
        (select("c", "by_city", sort=Range(ge="a")).sql, "things~index1 (a1=? AND s>?)"),
        (
            select("c", "by_city", sort=Range(lt="b"), position=("p", "u")).sql,
            "things~index1 (a1=? AND (s,p)>(?,?) AND s<?)",
        ),
    ],
)
def test_a_statement_uses_its_index(connection: apsw.Connection, sql: str, expected: str) -> None:
    found = plan(connection, sql).replace("things~1~", "things~")
    assert expected in found
    assert "TEMP B-TREE" not in found


def test_a_query_selects_expired_rows_without_their_blobs(connection: apsw.Connection) -> None:
    for place, end in [("1", None), ("2", 5), ("3", 6)]:
        connection.execute(STATEMENTS.put, ("u", place, end, b"blob", 1, "x"))

    def rows(query: Selection, now: int) -> list[tuple[object, ...]]:
        return list(connection.execute(query.sql, (now, *query.values)))

    assert rows(select("u"), 5) == [(b"blob", "1"), (None, "2"), (b"blob", "3")]
    scan = QUERIES.scan(Cursor(("u", "1")))
    assert rows(scan, 5) == [(None, "u", "2"), (b"blob", "u", "3")]
    assert rows(select(1, "by_n", descending=True), 5) == [
        (b"blob", "u", "3"),
        (None, "u", "2"),
        (b"blob", "u", "1"),
    ]


def test_every_statement_is_valid(connection: apsw.Connection) -> None:
    row = ("u", "p", None, b"blob", 1, "x")
    connection.execute(STATEMENTS.put, row)
    connection.execute(STATEMENTS.put, row)
    assert connection.execute('SELECT count(*) FROM "things~1"').get == 1
    connection.execute(STATEMENTS.delete_some, (5,))
    assert connection.execute('SELECT count(*) FROM "things~1"').get == 0
    connection.execute(STATEMENTS.drop)


def test_a_query_of_a_missing_index_fails_unless_it_may_read_every_row(
    connection: apsw.Connection,
) -> None:
    for sql in STATEMENTS.drop_indexes:
        connection.execute(sql)
    for index in TABLE.indexes:
        value = 1 if index.name == "by_n" else "c"
        with pytest.raises(apsw.SQLError, match="no such index"):
            plan(connection, select(value, index.name).sql)
        slow = select(value, index.name, use_index=False)
        assert "SCAN things~1" in plan(connection, slow.sql)


async def test_a_statement_is_prepared_once_for_all_values(
    engine: SqliteEngine, connections: Connections
) -> None:
    table = await engine.ensure_table(TABLE)
    prepared = []

    def authorize(action: int, *_: object) -> int:  # called when a statement is prepared
        prepared.append(action == apsw.SQLITE_SELECT)
        return apsw.SQLITE_OK

    connections.reader.authorizer = authorize
    for user in ("a", "b", "c"):
        await table.put({"user": user, "place": "p", "end": 2_000_000})
        await table.get((user, "p"))
        await table.query(user)
        await table.query(user, sort=Range(gt="o"))
    assert sum(prepared) == 3
