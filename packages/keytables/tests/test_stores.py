"""Store URLs, and the engines they open."""

import asyncio
import os
import re
import sys
from pathlib import Path

import apsw
import pytest

from keytables import Key, KeytablesError, Table, Unavailable, open_engine
from keytables.sqlite import SqliteEngine
from keytables.stores import (
    DynamoUrl,
    PostgresUrl,
    SqliteUrl,
    StoreUrl,
    parse_store,
    without_password,
)
from support.cases import cases
from support.clocks import ManualClock
from support.paths import PYTHONPATH


@cases(
    ("text", "expected"),
    [
        ("sqlite:///var/lib/a.sqlite", SqliteUrl("/var/lib/a.sqlite")),
        ("sqlite:////var/lib/a.sqlite", SqliteUrl("/var/lib/a.sqlite")),
        ("sqlite:///with%20space%3F", SqliteUrl("/with space?")),
        ("dynamodb://", DynamoUrl()),
        ("dynamodb://eu-west-1", DynamoUrl("eu-west-1")),
        ("dynamodb://eu-west-1/", DynamoUrl("eu-west-1")),
        (
            "dynamodb://?endpoint=http://127.0.0.1:8000&prefix=test.",
            DynamoUrl("", "http://127.0.0.1:8000", "test."),
        ),
        (
            "dynamodb://dc1?endpoint=http%3A%2F%2Fnode:8000&alternator=yes&connections=7",
            DynamoUrl("dc1", "http://node:8000", "", 7, True),
        ),
        ("dynamodb://?alternator=no", DynamoUrl()),
        ("postgresql://", PostgresUrl("postgresql://")),
        ("postgres://u@h:1/d", PostgresUrl("postgresql://u@h:1/d")),
        (
            "postgresql://u:p%40@a:1,b:2/d?target_session_attrs=read-write&schema=push&connections=7",
            PostgresUrl("postgresql://u:p%40@a:1,b:2/d?target_session_attrs=read-write", "push", 7),
        ),
        (
            "postgresql://h/d?connect_timeout=3&application_name=node",
            PostgresUrl("postgresql://h/d", "keytables", 10, 3.0, (("application_name", "node"),)),
        ),
    ],
)
def test_a_url_says_which_store(text: str, expected: StoreUrl) -> None:
    assert parse_store(text) == expected


@cases(
    ("text", "expected"),
    [
        ("", "sqlite:///PATH"),
        ("/var/lib/a.sqlite", "sqlite:///PATH"),
        ("mysql://host", "postgresql://USER@HOST/DATABASE"),
        ("postgresql://u:p@ss@h/d", "'@' is %40"),
        ("postgresql://h/d#a", "'#' is %23"),
        ("postgresql://h/d?shema=a", "did you mean schema?"),
        ("postgresql://h/d?schema=a&schema=b", "schema is given twice"),
        ("postgresql://h/d?schema=A-b", "a-z, 0-9 and '_'"),
        ("postgresql://h/d?connections=1", "a number from 2 to 1000"),
        ("postgresql://h/d?connect_timeout=soon", "a number of seconds"),
        ("sqlite://", "sqlite:///PATH"),
        ("sqlite:///", "sqlite:///PATH"),
        ("sqlite://var/lib", "sqlite:///PATH"),
        ("sqlite:///a?mode=ro", "no options"),
        ("dynamodb://EU_WEST_1", "eu-west-1"),
        ("dynamodb://eu-west-1/table", "REGION"),
        ("dynamodb://eu-west-1:80", "REGION"),
        ("dynamodb://eu-west-1#a", "REGION"),
        ("dynamodb://[eu-west-1", "REGION"),
        ("dynamodb://?endpont=http://a", "did you mean endpoint?"),
        ("dynamodb://?region=eu-west-1", "endpoint, prefix, connections, alternator"),
        ("dynamodb://?prefix=a&prefix=b", "prefix is given twice"),
        ("dynamodb://?prefix=a/b", "letters, digits"),
        ("dynamodb://?connections=many", "a number from 1 to 1000"),
        ("dynamodb://?connections=0", "a number from 1 to 1000"),
        ("dynamodb://?connections=1001", "a number from 1 to 1000"),
        ("dynamodb://?alternator=maybe", "yes or no"),
    ],
)
def test_a_bad_url_is_refused_with_what_was_expected(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expected)):
        parse_store(text)


@cases(
    "text",
    [
        "dynamodb://key:secret@eu-west-1",
        "dynamodb://key:se/secret@eu-west-1",
        "dynamodb://EU?endpoint=http%3A%2F%2Fkey%3Asecret%40host",
        "redis://u:secret@host",
        "redis://host/?password=secret&a=b",
        "postgresql://u:se@secret@host/d",
    ],
)
def test_a_password_is_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match=r"a store is|a \w+ store is") as caught:
        parse_store(text)
    assert "secret" not in str(caught.value)


@cases(
    ("text", "shown"),
    [
        ("postgresql://u:secret@h/d?schema=a", "postgresql://u@h/d?schema=a"),
        ("postgresql://h/d?password=secret&schema=a", "postgresql://h/d?password=…&schema=a"),
        ("postgresql://h/d?sslpassword=secret", "postgresql://h/d?sslpassword=…"),
        ("postgresql://u@h:5432/d", "postgresql://u@h:5432/d"),
        ("sqlite:///var/lib/a.sqlite", "sqlite:///var/lib/a.sqlite"),
    ],
)
def test_a_url_is_shown_without_its_password(text: str, shown: str) -> None:
    assert without_password(text) == shown
    assert "secret" not in repr(parse_store(text))


async def test_an_embedded_store_is_opened_at_its_path(tmp_path: Path) -> None:
    engine = await open_engine(f"sqlite://{tmp_path}/store.sqlite", clock=ManualClock())
    assert isinstance(engine, SqliteEngine)
    await engine.ensure_table(Table("things", Key("a")))
    await engine.close()
    assert (tmp_path / "store.sqlite").exists()


async def test_an_embedded_store_gets_the_watermark_and_tells_its_failures(tmp_path: Path) -> None:
    heard: list[KeytablesError] = []
    engine = await open_engine(
        f"sqlite://{tmp_path}/store.sqlite", min_free_space=1 << 60, on_failure=heard.append
    )
    assert engine.is_nearly_full
    table = await engine.ensure_table(Table("things", Key("a")))
    await table.put({"a": "1"})
    other = apsw.Connection(f"{tmp_path}/store.sqlite")
    other.execute("UPDATE \"things~1\" SET b = x'c1'")
    other.close()
    with pytest.raises(Unavailable):
        await table.get(("1",))
    assert len(heard) == 1
    await engine.close()


async def run_python(program: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program), env={**os.environ, "PYTHONPATH": PYTHONPATH}
    )
    assert await asyncio.wait_for(process.wait(), 60) == 0


async def test_an_embedded_store_imports_nothing_of_aws(tmp_path: Path) -> None:
    await run_python(
        "import asyncio, sys\n"
        "from keytables import open_engine\n"
        "async def main():\n"
        f"    engine = await open_engine('sqlite://{tmp_path}/s.sqlite')\n"
        "    await engine.close()\n"
        "asyncio.run(main())\n"
        "assert 'botocore' not in sys.modules\n"
        "assert 'keytables.dynamodb' not in sys.modules\n"
    )
