"""The engines the conformance suite runs on, by name, and the tables it uses."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from tablestore import Clock, Engine, Index, Key, Kind, Table
from tablestore.sqlite import SqliteEngine

Open = Callable[[], Awaitable[Engine]]
"""Opens an engine on the store of the test: each call as another process would."""


def sqlite(folder: Path, clock: Clock) -> Open:
    async def open_engine() -> Engine:
        return await SqliteEngine.open(folder / "store.sqlite", clock=clock)

    return open_engine


FACTORIES = {"sqlite": sqlite}

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
