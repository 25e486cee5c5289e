"""Over DynamoDB and PostgreSQL reports and views are those over the embedded store."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from channelstats.cli import main
from channelstats.pages.model import VIEWS
from channelstats.tables import Tables
from support import dynamo_servers
from support.channelstats.dashboard import dashboard
from support.channelstats.house import EXAMPLE, NOW, UTC, House, house
from support.clocks import ManualClock
from support.postgres_servers import postgres
from support.table_engines import DynamoStore, PostgresStore

Database = DynamoStore | PostgresStore


@pytest.fixture(params=["DynamoDB", "PostgreSQL"])
async def database(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Database]:
    store: Database
    if request.param == "PostgreSQL":
        store = PostgresStore(postgres(), ManualClock(NOW))
    else:
        for name, value in (
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
        ):
            monkeypatch.setenv(name, value)
        store = DynamoStore(dynamo_servers.ministack(), ManualClock(NOW))
    yield store
    await store.clear()


@pytest.fixture
def flags(tmp_path: Path, database: Database) -> list[str]:
    if isinstance(database, PostgresStore):
        url = f"{postgres().url()}&schema={database.schema}"
    else:
        url = f"dynamodb://us-east-1?endpoint={database.endpoint}&prefix={database.prefix}"
    return ["--data", str(tmp_path / "remote"), "--store", url]


def test_reports_are_the_same_over_either_store(
    tmp_path: Path, flags: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    documents = []
    for place in (["--data", str(tmp_path / "local")], flags):
        assert main(["import-export", str(EXAMPLE), "--quiet", *place]) == 0
        week = ["--week", "2024-03-12", "--format", "json"]
        for _ in range(2):  # made, and then found in the store
            assert main(["report", "global", *week, *place]) == 0
            document = json.loads(capfd.readouterr().out)
            # Its last part is the state of the very store.
            made_from = document["input_fingerprint"].rpartition("/")[0]
            documents.append(document | {"generated_at": 0, "input_fingerprint": made_from})
    assert documents[0]["statistics"]["words"] == 40
    assert documents == documents[:1] * 4


async def test_what_is_forgotten_is_in_no_table_any_more(
    flags: list[str], database: Database
) -> None:
    for words in (
        ("import-export", str(EXAMPLE)),
        ("report", "global", "--week", "2024-03-12"),
        ("forget", "bob"),
    ):
        assert await asyncio.to_thread(main, [*words, *flags, "--quiet"]) == 0
    engine = await database.open()
    try:
        left = repr(
            await House(engine, await Tables.open(engine, "channelstats", UTC)).everything()
        )
    finally:
        await engine.close()
    assert "UALICE" in left
    assert not any(name in left for name in ("UBOB", "'bob'", "Bob Berg"))


async def test_every_view_of_the_dashboard_is_the_same_over_either_store(
    tmp_path: Path, database: Database
) -> None:
    engine = await database.open()
    imported = House(engine, await Tables.open(engine, "channelstats", UTC))
    try:
        async with (
            house(tmp_path) as embedded,
            dashboard(imported, tmp_path, slack_name="example") as remote,
            dashboard(embedded, tmp_path, slack_name="example") as local,
        ):
            await imported.take_in(EXAMPLE)
            await embedded.take_in(EXAMPLE)
            for path in (*(f"/{name}.json?weeks=1" for name in VIEWS), "/threads", "/health"):
                assert await remote.text(path) == await local.text(path)
    finally:
        await engine.close()


def test_a_database_that_cannot_be_used_is_one_line_without_the_password(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    url = postgres().url("missing").replace("keytables@", "keytables:hidden@")
    assert main(["report", "global", "--data", str(tmp_path), "--store", url]) != 0
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert 'database "missing" does not exist' in err
    assert "hidden" not in err
