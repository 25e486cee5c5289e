"""The store of push: the router table and the message tables, opened together.

Rule: a user's messages and channels are always looked up in the table its own record names, so that
adding a table (a new month) never needs a migration.
"""

import re
from collections.abc import Awaitable, Iterable
from typing import Final, Self

from autopush.clock import Clock
from autopush.store.hasher import Hasher, hasher
from autopush.store.messages import Messages
from autopush.store.tables import message_table, router_table
from autopush.store.users import UserRecord, Users
from tablestore import Engine, TableNotFound, TablestoreError

NOBODY: Final = "0" * 32
"""A UAID that no user has: reading it shows that a table answers."""

MONTHS_KNOWN: Final = 3


class PushStore:
    """Users and their messages on one engine."""

    def __init__(
        self, engine: Engine, users: Users, tables: dict[str, Messages], current: str
    ) -> None:
        self._engine = engine
        self._tables = tables
        self.users = users
        self.current = tables[current]
        """The message table new users get."""

    @classmethod
    async def open(
        cls,
        engine: Engine,
        *,
        router_tablename: str,
        message_tablename: str,
        key_hash: str,
        clock: Clock,
    ) -> Self:
        """Create what is missing and open the rest.

        `message_tablename` is the prefix of message tables.
        """
        hash_uaid: Hasher = hasher(key_hash)
        router = await engine.ensure_table(router_table(router_tablename))
        known = known_tables(message_tablename, await engine.table_names())
        current = known[0] if known else message_tablename
        tables = {
            name: Messages(await engine.ensure_table(message_table(name)), hash_uaid)
            for name in known or [current]
        }
        return cls(engine, Users(router, hash_uaid, clock), tables, current)

    def messages(self, record: UserRecord) -> Messages | None:
        """The message table of that user, None when the record names none that is known."""
        return self._tables.get(record.current_month) if record.current_month else None

    @property
    def tables(self) -> Iterable[Messages]:
        """Every live message table."""
        return self._tables.values()

    async def health(self) -> dict[str, dict[str, str]]:
        """By table: does it answer? `{"status": "OK"}` or `{"status": "NOT OK", "error": …}`."""
        return {
            self.users.name: await _state(self.users.get(NOBODY)),
            "storage": await _state(self.current.channels(NOBODY)),
        }

    async def settled(self, uaid: str) -> None:
        """Wait until all this process has written for that user is committed."""
        for messages in self._tables.values():
            await messages.channels(uaid)

    async def drop_user(self, record: UserRecord) -> None:
        """Forget the user and its subscriptions."""
        messages = self.messages(record)
        await self.users.drop(record.uaid)
        if messages is not None:
            await messages.drop_channels(record.uaid)

    async def close(self) -> None:
        """Wait for submitted writes and close the engine."""
        await self._engine.close()


async def _state(read: Awaitable[object]) -> dict[str, str]:
    try:
        await read
    except TableNotFound:
        return {"status": "NOT OK", "error": "Nonexistent table"}
    except TablestoreError:
        return {"status": "NOT OK", "error": "Server error"}
    return {"status": "OK"}


def known_tables(prefix: str, names: Iterable[str]) -> list[str]:
    """The live message tables: the latest three months, then the one without a month."""
    names = list(names)
    of_month = re.compile(rf"{re.escape(prefix)}_\d{{4}}_\d{{2}}")
    months = sorted((name for name in names if of_month.fullmatch(name)), reverse=True)
    return months[:MONTHS_KNOWN] + [name for name in names if name == prefix]
