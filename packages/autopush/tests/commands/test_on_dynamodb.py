"""The commands on a database that speaks DynamoDB's protocol."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest

from autopush.store.tables import router_table
from autopush.webpush.tokens import EndpointTokens, KeyRing, new_key
from keytables import Capacity, Engine, Table
from keytables.stores import DynamoUrl, parse_store
from support import dynamo_servers
from support.data_store import CHANNEL, DataStore, Run, month_table, next_month, uaid

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

KEY = new_key()
_numbers = itertools.count()


@pytest.fixture
def tables(
    store: DataStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DataStore]:
    """Tables of their own prefix in the run's ministack; the commands find them."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    prefix = f"commands{os.getpid()}.{next(_numbers)}."
    url = f"dynamodb://us-east-1?endpoint={dynamo_servers.ministack()}&prefix={prefix}"
    monkeypatch.setenv("AUTOPUSH_STORE", url)
    yield (tables := DataStore(tmp_path, url))

    async def clear(engine: Engine) -> None:
        for name in await engine.table_names():
            await engine.drop_table(name)

    tables.use(clear)


def test_months_are_maintained_and_old_users_are_dropped(tables: DataStore, run: Run) -> None:
    tables.add_users(range(30), 3, month_table(3))
    tables.add_users(range(30, 40), 0, month_table(0))
    tables.make_tables(month_table(1), month_table(4))
    before, near = tables.tables(), ("--up-to", "3", "--hours-only")
    code, planned, err = run("maintain", "--dry-run", *near)
    assert (code, err) == (0, "")
    assert planned.count("would") == 4
    assert tables.tables() == before
    assert len(tables.users()) == 40
    code, done, _ = run("maintain", *near)
    assert code == 0
    assert "users: dropped 30 last seen from " in done
    left = {uaid(number) for number in range(30, 40)}
    assert tables.users() == tables.subscribed(month_table(0)) == left
    months = [month_table(1), month_table(0), next_month()]
    assert tables.tables() == sorted(["router", *months])
    assert run("maintain", *near)[1].startswith("tables: nothing to do\nusers: dropped 0 ")


@pytest.mark.slow
def test_a_dry_run_does_not_change_the_settings_of_tables_either(
    tables: DataStore, run: Run
) -> None:
    """A table of the original, from before there was expiry, is not even made to sweep it."""
    access = {"region_name": "us-east-1", "aws_access_key_id": "k", "aws_secret_access_key": "s"}
    client: DynamoDBClient = boto3.client(  # type: ignore[call-overload]
        "dynamodb", endpoint_url=dynamo_servers.ministack(), **access
    )
    router = router_table("router")
    old = Table("router", router.partition, indexes=router.indexes)

    async def make(engine: Engine) -> None:
        await engine.ensure_table(old)

    tables.use(make)
    token = EndpointTokens(KeyRing([KEY]), "http://a").url(uaid(0), CHANNEL, None)
    diagnose = ("diagnose", token, "--crypto-key", KEY)
    for command in (
        ("maintain", "--dry-run", "--hours-only"),
        ("drop-user", "--dry-run", uaid(0)),
        diagnose,
    ):
        run(*command)
        place = parse_store(tables.url)
        assert isinstance(place, DynamoUrl)
        answer = client.describe_time_to_live(TableName=f"{place.prefix}router")
        expiry = answer["TimeToLiveDescription"]
        assert expiry["TimeToLiveStatus"] == "DISABLED"


def test_the_next_month_gets_the_capacity_of_this_one(tables: DataStore, run: Run) -> None:
    busy = Capacity(30, 40)
    tables.make_tables(month_table(0), capacity=busy)
    code, out, _ = run("maintain", "--only", "tables")
    assert code == 0
    assert f"make {next_month()} with 30 read and 40 write units: done" in out
    assert tables.use(lambda engine: engine.capacity(next_month())) == busy


def test_a_database_that_cannot_be_reached_is_one_line(
    store: DataStore, run: Run, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    url = f"dynamodb://us-east-1?endpoint=http://127.0.0.1:{unused_tcp_port}"
    code, out, err = run("maintain", "--store", url)
    assert (code, out) == (3, "")
    assert err.startswith("autopush: cannot open the store ")
    assert err.count("\n") == 1
