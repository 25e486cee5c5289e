"""The store of push: the router table and the message tables, opened together.

Rule: a user's messages and channels are always looked up in the table its own record names. So a
new month needs no migration: a user is moved when its user agent connects, and until then nothing
of it is anywhere else.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Self

from autopush.clock import Clock
from autopush.protocol.effects import Row
from autopush.store.hasher import Hasher, hasher
from autopush.store.messages import Messages
from autopush.store.months import NO_MONTH, Month, live_tables
from autopush.store.tables import TablePlan, message_table, router_table, storage_table
from autopush.store.users import UserRecord, Users
from keytables import Engine, KeytablesError, TableNotFound

NOBODY: Final = "0" * 32
"""A UAID that no user has: reading it shows that a table answers."""

DAY: Final = 86_400.0
ABSENT_FOR: Final = 60.0
"""Seconds for which a table that was not there is not looked for again."""
MAX_ABSENT: Final = 256

Listener = Callable[[], Awaitable[None]]


class PushStore:
    """Users and their messages on one engine."""

    current: Messages
    """The message table that new users get, and that all others are moved to."""

    def __init__(
        self, engine: Engine, plan: TablePlan, users: Users, hash_uaid: Hasher, clock: Clock
    ) -> None:
        self._engine = engine
        self._hash = hash_uaid
        self._clock = clock
        self._tables: dict[str, Messages] = {}
        self._absent: dict[str, float] = {}
        self._listing: asyncio.Future[list[str]] | None = None
        self._month = self._foreseen = NO_MONTH
        self._listeners: list[Listener] = []
        self.plan = plan
        self.users = users

    @classmethod
    async def open(cls, engine: Engine, plan: TablePlan, *, key_hash: str, clock: Clock) -> Self:
        """Make the tables that are missing and open the rest."""
        hash_uaid = hasher(key_hash)
        router = await engine.ensure_table(router_table(plan.router), capacity=plan.router_capacity)
        await engine.ensure_table(storage_table(plan.storage), capacity=plan.storage_capacity)
        store = cls(engine, plan, Users(router, hash_uaid, clock), hash_uaid, clock)
        if plan.rotating:
            await store._ensure(Month.at(clock()).previous.table(plan.message))
        else:
            live = live_tables(plan.message, await engine.table_names(), None)
            for name in live or [plan.message]:
                await store._ensure(name)
            store.current = next(iter(store._tables.values()))
        await store.turn_month()
        return store

    # ── months ───────────────────────────────────────────────────────────────────────────────────

    async def turn_month(self) -> None:
        """Make the table of the next month a day before it begins, and change to it when it has
        begun; to be called every minute. Where tables do not rotate only the listeners hear of it.

        A clock that is set back changes nothing: what was begun in a month goes on in it.
        """
        now = self._clock()
        this, tomorrow = Month.at(now), Month.at(now + DAY)
        if tomorrow > self._foreseen:
            if self.plan.rotating:
                await self._ensure(tomorrow.table(self.plan.message))
            self._foreseen = tomorrow
            for listener in self._listeners:
                await listener()
        if self.plan.rotating and this > self._month:
            await self._begin(this)

    async def _begin(self, this: Month) -> None:
        """New users get the table of this month; of the others those stay known that are live."""
        current = await self._ensure(this.table(self.plan.message))
        names = {*await self._names(), *self._tables}  # lists of tables may lag
        live = live_tables(self.plan.message, names, this)
        self._tables = {name: await self._ensure(name) for name in live}
        self.current, self._month = current, this

    def when_a_month_nears(self, listener: Listener) -> None:
        """Call that a day before each month, when its table is there."""
        self._listeners.append(listener)

    def is_behind(self, messages: Messages) -> bool:
        """Whether users of that table have to be moved to the current one."""
        return self._month_of(messages) < self._month_of(self.current)

    def is_old(self, messages: Messages) -> bool:
        """Whether that table is not even of the month before the one that nears: then it may be
        dropped tomorrow.
        """
        return self.plan.rotating and self._month_of(messages) < self._foreseen.previous

    def seems_gone(self, connected_at: int) -> bool:
        """Whether a user that connected then (ms), and has not connected since, will look in the
        month that nears like one that is not there any more.
        """
        return Month.at(connected_at / 1000) < self._foreseen.previous

    def may_lose_users(self, messages: Messages) -> bool:
        """Whether users of that table may be moved to another one, by whichever node."""
        month = self._month_of(messages)
        return any(self._month_of(other) > month for other in self._tables.values())

    def _month_of(self, messages: Messages) -> Month:
        return Month.parse(self.plan.message, messages.name) or NO_MONTH

    # ── tables ───────────────────────────────────────────────────────────────────────────────────

    async def messages_of(self, record: UserRecord) -> Messages | None:
        """The message table of that user, None when the record names none that is live."""
        name = record.current_month
        return None if name is None else await self.table(name)

    async def table(self, name: str) -> Messages | None:
        """The message table of that name; one that is not known may have been made by now."""
        return self._tables.get(name) or await self._look_for(name)

    @property
    def tables(self) -> Sequence[Messages]:
        """Every message table that is known and live, the oldest first."""
        return sorted(self._tables.values(), key=self._month_of)

    async def is_gone(self, name: str) -> bool:
        """After TableNotFound for that message table: whether it is not there any more."""
        self._tables.pop(name, None)
        if name in await self._names():
            return False  # it was made anew; the next one to ask gets it
        if name == self.current.name:
            self.current = await self._ensure(name)
        else:
            self._note_absent(name)
        return True

    async def _look_for(self, name: str) -> Messages | None:
        if name != self.plan.message and Month.parse(self.plan.message, name) is None:
            return None
        noticed = self._absent.get(name)
        if noticed is not None and 0 <= self._clock() - noticed < ABSENT_FOR:
            return None
        this = self._month if self.plan.rotating else None
        if name in live_tables(self.plan.message, await self._names(), this):
            return await self._ensure(name)
        self._note_absent(name)
        return None

    def _note_absent(self, name: str) -> None:
        if len(self._absent) >= MAX_ABSENT:
            self._absent.clear()
        self._absent[name] = self._clock()

    async def _names(self) -> list[str]:
        """The names of all tables there are; those who ask at the same time share the answer."""
        if self._listing is None or self._listing.done():
            self._listing = asyncio.ensure_future(self._engine.table_names())
        return await asyncio.shield(self._listing)

    async def _ensure(self, name: str) -> Messages:
        messages = self._tables.get(name)
        if messages is None:
            capacity = self.plan.message_capacity
            table = await self._engine.ensure_table(message_table(name), capacity=capacity)
            messages = self._tables.setdefault(name, Messages(table, self._hash))
        return messages

    # ── users ────────────────────────────────────────────────────────────────────────────────────

    async def health(self) -> dict[str, dict[str, str]]:
        """By table: does it answer? `{"status": "OK"}` or `{"status": "NOT OK", "error": …}`."""
        return {
            self.users.name: await _state(self.users.get(NOBODY)),
            "storage": await _state(self.current.channels(NOBODY)),
        }

    async def remove(self, uaid: str, row: Row) -> None:
        """Delete that message wherever it is stored."""
        record = await self.users.get(uaid)
        if record is not None:
            await self.messages_of(record)  # its table may be new
        # A message that is being moved is in the old table longer than not yet in the new one.
        for messages in self.tables:
            with contextlib.suppress(TableNotFound):
                await messages.delete(uaid, row)

    async def drop_user(self, record: UserRecord) -> bool:
        """Forget a user whose record is still that one, and then its subscriptions: never those
        alone, or it would be a user that nobody can reach and that does not know it.

        False when it has connected again meanwhile, or was moved: it is another node's.
        """
        messages = await self.messages_of(record)
        if not await self.users.drop_as(record):
            return False
        if messages is not None:
            with contextlib.suppress(TableNotFound):
                await messages.drop_channels(record.uaid)
        return True

    async def close(self) -> None:
        """Wait for submitted writes and close the engine."""
        await self._engine.close()


async def _state(read: Awaitable[object]) -> dict[str, str]:
    try:
        await read
    except TableNotFound:
        return {"status": "NOT OK", "error": "Nonexistent table"}
    except KeytablesError:
        return {"status": "NOT OK", "error": "Server error"}
    return {"status": "OK"}
