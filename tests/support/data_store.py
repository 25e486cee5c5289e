"""A store, filled and read without the commands that are tested on it."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from autopush.store.maintenance import months_ago
from autopush.store.tables import KEYS_ROW, Month, message_table, router_table, uaid_hasher
from autopush.store.users import connect_keys, connect_keys_of_day
from autopush.webpush.identifiers import CHANNELS_ROW
from keytables import Capacity, Engine, Item, Table
from keytables.stores import open_engine

T = TypeVar("T")
Run = Callable[..., tuple[int, str, str]]
"""Runs a command line; answers with exit code, standard output and standard error."""
STORE_LINE = re.compile(r"\Astore: .*\n")
"""What many commands print first on standard error."""
CHANNEL = "11111111-2222-3333-4444-555555555555"


def uaid(number: int) -> str:
    return f"{number:032x}"


class DataStore:
    """Opens the store for each call, as another process would."""

    def __init__(self, data: Path, url: str = "") -> None:
        self.data = data
        self.url = url or f"sqlite://{data}/autopush.sqlite"

    def use(self, work: Callable[[Engine], Awaitable[T]]) -> T:
        async def use() -> T:
            engine = await open_engine(self.url, clock=time.time)
            try:
                return await work(engine)
            finally:
                await engine.close()

        return asyncio.run(use())

    def add_users(
        self,
        numbers: range,
        months: int = 3,
        table: str = "message",
        key_hash: str = "",
        *,
        day: int | None = None,
        **attributes: str,
    ) -> None:
        """User agents with one channel each, last seen so many months ago; with `day` their records
        say on which day of the month. `attributes`: others of their records.
        """
        [month] = months_ago(time.time(), months, months)
        seen = [*(connect_keys(month) if day is None else connect_keys_of_day(month, day))]

        async def add(engine: Engine) -> None:
            router = await engine.ensure_table(router_table("router"))
            messages = await engine.ensure_table(message_table(table))
            keys = {number: uaid_hasher(key_hash)(uaid(number)) for number in numbers}
            channels = frozenset((CHANNEL,))
            rows: list[Item] = [
                {"uaid": key, "chidmessageid": CHANNELS_ROW, "chids": channels}
                for key in keys.values()
            ]
            records: list[Item] = [
                {
                    "uaid": key,
                    "router_type": "webpush",
                    "connected_at": 1,
                    "last_connect": seen[number % len(seen)],
                    "current_month": table,
                    **attributes,
                }
                for number, key in keys.items()
            ]
            await asyncio.gather(messages.batch_write(puts=rows), router.batch_write(puts=records))

        self.use(add)

    def make_tables(self, *names: str, capacity: Capacity | None = None) -> None:
        async def make(engine: Engine) -> None:
            for name in names:
                await engine.ensure_table(message_table(name), capacity=capacity)

        self.use(make)

    def users(self) -> set[str]:
        return self._uaids(router_table("router"))

    def subscribed(self, table: str = "message") -> set[str]:
        return self._uaids(message_table(table))

    def _uaids(self, table: Table) -> set[str]:
        async def scan(engine: Engine) -> set[str]:
            handle = await engine.ensure_table(table)
            return {str(item["uaid"]) for item in (await handle.scan()).items} - {KEYS_ROW}

        return self.use(scan)

    def tables(self) -> list[str]:
        return self.use(lambda engine: engine.table_names())


def month_table(ago: int) -> str:
    """The message table of the month so many months ago."""
    [month] = months_ago(time.time(), ago, ago)
    return month.table("message")


def next_month() -> str:
    return Month.at(time.time()).next.table("message")
