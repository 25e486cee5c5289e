"""The engines the conformance suite runs on, by name, and the tables it uses."""

import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keytables import Clock, Engine, Index, Key, Kind, Table
from keytables.dynamodb import DynamoEngine
from keytables.dynamodb.client import Client
from keytables.sqlite import SqliteEngine
from support import dynamo_servers
from support.aws_model import CheckedClient
from support.faulty_database import faulty_ministack
from support.soak import slow

Open = Callable[[], Awaitable[Engine]]
"""Opens an engine on the store of the test: each call as another process would."""


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
    "refusing a later expiry": "time to live is a setting beside the table, and is turned on",
}
OF_DYNALITE = {
    **OF_DYNAMODB,
    "time to live": "dynalite has no UpdateTimeToLive",
    "equality of lists and maps": "dynalite finds no two lists or maps equal; DynamoDB does",
}

CANDIDATES: dict[str, Candidate] = {
    "sqlite": Candidate(SqliteStore, examples=25, many=2000),
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
QUICK = ("sqlite", "dynamodb-ministack")
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
