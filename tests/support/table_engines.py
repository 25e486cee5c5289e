"""The engines the conformance suite runs on, by name, and the tables it uses."""

import asyncio
import functools
import itertools
import json
import os
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from keytables import Clock, Engine, Index, Key, Kind, Table
from keytables.dynamodb import DynamoEngine
from keytables.dynamodb.client import Client
from keytables.sqlite import SqliteEngine, divide_store, open_sqlite
from support import dynamo_servers
from support.aws_model import CheckedClient
from support.fault_proxy import NOT_APPLIED, NOT_DELIVERED, Call, Fault, FaultProxy, Plan, randomly
from support.postgres_servers import PostgresServer, postgres
from support.soak import slow

if TYPE_CHECKING:
    from keytables.postgresql import PostgresEngine

MILD = {
    Fault.THROTTLED: 0.03,
    Fault.THROTTLED_GENERALLY: 0.01,
    Fault.ERROR: 0.02,
    Fault.UNAVAILABLE: 0.01,
    Fault.RESET: 0.03,
    Fault.CLOSED: 0.04,
    Fault.TRUNCATED: 0.02,
    Fault.FALSE_ERROR: 0.02,
    Fault.DELAYED: 0.01,
    Fault.SLOW: 0.01,
    Fault.PARTIAL_BATCH: 0.2,
}
MAX_IN_A_ROW = 2
_THROTTLED = frozenset({Fault.THROTTLED, Fault.THROTTLED_GENERALLY})


@functools.cache
def faulty_ministack() -> str:
    """The URL of the proxy."""
    port = urlsplit(dynamo_servers.ministack()).port
    assert port is not None
    proxy = FaultProxy(port, plan=unnoticeable(randomly(MILD, seed=1)), spare_error_responses=True)
    # Tests have loops of their own; this one lasts as long as the run.
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="fault proxy", daemon=True).start()
    asyncio.run_coroutine_threadsafe(proxy.start(), loop).result(60)
    return proxy.url


def unnoticeable(plan: Plan) -> Plan:
    """The plan without what may be noticed, and without many faults in a row for one call."""
    faults_of: Counter[str] = Counter()

    def limited(call: Call) -> Fault:
        fault, same = plan(call), json.dumps(call.body, sort_keys=True)
        if call.body.get("ReturnValues") == "ALL_OLD" and fault in NOT_DELIVERED:
            fault = Fault.NONE
        if "ConditionExpression" in call.body and fault in NOT_APPLIED - _THROTTLED:
            fault = Fault.NONE
        if fault not in NOT_APPLIED | NOT_DELIVERED or faults_of[same] >= MAX_IN_A_ROW:
            faults_of.pop(same, None)
            return fault if fault not in NOT_APPLIED | NOT_DELIVERED else Fault.NONE
        faults_of[same] += 1
        return fault

    return limited


Open = Callable[[], Awaitable[Engine]]
"""Opens an engine on the store of the test: each call as another process would."""


OpenPostgres = Callable[..., Awaitable["PostgresEngine"]]
"""Opens an engine on the test's schema, with these options."""


class Store(ABC):
    """A store of one test."""

    @abstractmethod
    async def open(self) -> Engine:
        """Open an engine on it, as another process would."""

    async def clear(self) -> None:  # noqa: B027
        """Remove what it stored outside of the test's folder."""


class SqliteStore(Store):
    def __init__(self, folder: Path, clock: Clock) -> None:
        self._path, self._clock = folder / "store.sqlite", clock

    async def open(self) -> Engine:
        return await SqliteEngine.open(self._path, clock=self._clock)


class PartedSqliteStore(Store):
    """In several files, of which the first process opens two when it needs them."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._path, self._clock = folder / "store.sqlite", clock
        self._own_parts = itertools.chain([{1, 2}], itertools.repeat(None))
        divide_store(self._path, 4)

    async def open(self) -> Engine:
        own_parts = next(self._own_parts)
        return await open_sqlite(self._path, clock=self._clock, own_parts=own_parts)


class DynamoStore(Store):
    """The tables of one prefix in a database that all tests of a run share. What is sent to it is
    also held against AWS's description of the API.
    """

    _numbers = itertools.count()

    def __init__(self, endpoint: str, clock: Clock) -> None:
        self.endpoint, self.clock = endpoint, clock
        self.prefix = f"t{os.getpid()}.{next(self._numbers)}."

    async def clear(self) -> None:
        engine = await self.open()
        try:
            for name in await engine.table_names():
                await engine.drop_table(name)
        finally:
            await engine.close()

    async def open(self) -> Engine:
        client = await Client.open(
            region="us-east-1", endpoint=self.endpoint, clock=self.clock, credentials=lambda: None
        )
        return DynamoEngine(CheckedClient(client), prefix=self.prefix, clock=self.clock)


class PostgresStore(Store):
    """A schema of the server that all tests of a run share. ``port``: of a proxy in front of it."""

    _numbers = itertools.count()

    def __init__(self, server: PostgresServer, clock: Clock, port: int | None = None) -> None:
        self.url, self.clock = server.url(port=port), clock
        self._server = server
        self.schema = f"t{os.getpid()}_{next(self._numbers)}"

    async def open(self, **options: Any) -> "PostgresEngine":
        from keytables.postgresql import PostgresEngine

        return await PostgresEngine.open(
            self.url, schema=self.schema, clock=self.clock, connections=8, **options
        )

    async def clear(self) -> None:
        await self.execute("DROP SCHEMA IF EXISTS {schema} CASCADE")

    async def execute(self, sql: str) -> list[Any]:
        """Execute a statement as an operator does; `{schema}` in it is the store's."""
        import asyncpg

        # What a test that failed still holds must not be waited for.
        settings = {"lock_timeout": "10s"}
        connection = await asyncpg.connect(self._server.url(), server_settings=settings)
        try:
            rows: list[Any] = await connection.fetch(sql.replace("{schema}", self.schema))
        finally:
            await connection.close()
        return rows


@dataclass(frozen=True)
class Candidate:
    """An engine and its store. ``lacks``: the features that are not tested on it, and why.

    ``examples``: runs of a property test. ``many``: items that do not fit on one page. Both are
    fewer where every call goes through a server.
    """

    make: Callable[[Path, Clock], Store]
    lacks: Mapping[str, str] = field(default_factory=dict)
    examples: int = 10
    many: int = 600


OF_DYNAMODB = {
    "refusing a later expiry": "time to live is a setting beside the table, and is turned on"
}
OF_DYNALITE = {
    **OF_DYNAMODB,
    "time to live": "dynalite has no UpdateTimeToLive",
    "equality of lists and maps": "dynalite finds no two lists or maps equal; DynamoDB does",
}

CANDIDATES: dict[str, Candidate] = {
    "sqlite": Candidate(SqliteStore, examples=25, many=2000),
    "sqlite-parts": Candidate(PartedSqliteStore, many=2000),
    "postgresql": Candidate(lambda _, clock: PostgresStore(postgres(), clock), many=1200),
    "dynamodb-ministack": Candidate(
        lambda _, clock: DynamoStore(dynamo_servers.ministack(), clock), OF_DYNAMODB
    ),
    "dynamodb-dynalite": Candidate(
        lambda _, clock: DynamoStore(dynamo_servers.dynalite(), clock), OF_DYNALITE
    ),
    "dynamodb-faults": Candidate(
        lambda _, clock: DynamoStore(faulty_ministack(), clock), OF_DYNAMODB, examples=5
    ),
}
QUICK = ("sqlite", "postgresql", "dynamodb-ministack")
"""The engines of `make test`; the others are left to `make slow`."""


def candidates() -> list[Any]:
    """The names of the engines, as parameters of a test."""
    return [name if name in QUICK else slow(name) for name in sorted(CANDIDATES)]


MESSAGES = Table("messages", Key("user"), Key("place"), expiry="expiry")
USERS = Table(
    "users",
    Key("user"),
    indexes=(
        Index("by_visit", Key("visit", Kind.NUMBER), keys_only=True),
        Index("by_city", Key("city"), Key("age", Kind.NUMBER)),
    ),
    expiry="expiry",
)
