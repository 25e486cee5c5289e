"""Every read starts in an index and needs no sorting."""

from collections.abc import Iterator

import apsw
import pytest

from keytables import Cursor, Index, Key, Kind, Range, Scalar, Table
from keytables.engine import Query
from keytables.sqlite import SqliteEngine
from keytables.sqlite.statements import Queries, Selection, Statements
from keytables.values import KeyTuple
from support.cases import cases
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


@cases(
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
