"""The push store: the router table and the message tables.

Rule: a user's messages and channels are looked up in the table its record names. So a new month
needs no migration of all users: each is moved when its user agent connects
(:mod:`~autopush.store.rotation`).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Self

from autopush.clock import Clock
from autopush.recently_used import RecentlyUsed
from autopush.store.accounts import Accounts
from autopush.store.messages import Messages, row_of_id
from autopush.store.receipts import Receipts
from autopush.store.tables import (
    NO_MONTH,
    Hasher,
    Month,
    TablePlan,
    live_tables,
    message_table,
    router_table,
    storage_table,
    uaid_hasher,
    uaid_log_hasher,
)
from autopush.store.users import SIMPLEPUSH, UserRecord, Users
from autopush.store.versions import UserMessages, Versions
from autopush.telemetry import logs
from autopush.telemetry.metrics import Metrics
from autopush.webpush.notification import Notification
from autopush.webpush.stored import Row
from autopush.webpush.tokens import MessageId
from keytables import Engine, TableHandle, TableNotFound

UNUSED_UAID: Final = "0" * 32
"""A UAID that no user has, for reads that test a table."""
PROBE_LIFETIME: Final = 3600.0
"""Seconds until the row of a probe expires."""

DAY: Final = 86_400.0
RESTORE_TIME: Final = 300.0
"""Seconds in which nodes restore what the database has lost in a failover."""
ABSENT_FOR: Final = 60.0
"""Seconds for which a missing table is not looked up again."""
MAX_ABSENT: Final = 256

_log: Final = logs.get(__name__)

MonthListener = Callable[[], Awaitable[None]]


class PushStore:
    """Users and their messages on one engine."""

    current: Messages
    """The message table of new users, to which all others are moved."""
    versions_table: TableHandle
    versions: Versions
    """Pending versions of SimplePush users."""
    receipts: Receipts | None
    """None where the service gives none."""
    uaid_hash: Hasher
    """What logs show in place of a UAID."""
    storage_key: Hasher
    """The key of a user's rows."""

    def __init__(
        self,
        engine: Engine,
        plan: TablePlan,
        users: Users,
        accounts: Accounts,
        hash_uaid: Hasher,
        clock: Clock,
        metrics: Metrics | None,
    ) -> None:
        self.engine = engine
        self._metrics = metrics
        self._hash = self.storage_key = hash_uaid
        self._clock = clock
        self._tables: dict[str, Messages] = {}
        self._absent = RecentlyUsed[float](MAX_ABSENT)  # when each was found missing
        self._listing: asyncio.Future[list[str]] | None = None
        self._failovers = engine.failovers
        self._restored_by = float("-inf")
        self._month = self._announced = NO_MONTH
        self._listeners: list[MonthListener] = []
        self.plan = plan
        self.users = users
        self.accounts = accounts

    @classmethod
    async def open(
        cls,
        engine: Engine,
        plan: TablePlan,
        *,
        key_hash: str,
        clock: Clock,
        metrics: Metrics | None = None,
    ) -> Self:
        """Create missing tables and open the rest. `metrics`: those of a worker."""
        hash_uaid = uaid_hasher(key_hash)
        router = await engine.ensure_table(router_table(plan.router), capacity=plan.router_capacity)
        users, accounts = Users(router, hash_uaid, clock), Accounts(router, clock)
        store = cls(engine, plan, users, accounts, hash_uaid, clock, metrics)
        store.uaid_hash = uaid_log_hasher(key_hash)
        await store._open_versions()
        store.receipts = None
        if plan.receipt:
            store.receipts = await Receipts.open(engine, plan.receipt, clock, plan.message_capacity)
        if plan.rotating:
            await store._ensure(Month.at(clock()).previous.table(plan.message))
        else:
            live = live_tables(plan.message, await engine.table_names(), None)
            for name in live or [plan.message]:
                await store._ensure(name)
            store.current = next(iter(store._tables.values()))
        await store.rotate()
        return store

    # ── months ───────────────────────────────────────────────────────────────────────────────────

    async def rotate(self) -> None:
        """Create the next month's table a day before the month begins, and switch to it when it has
        begun; to be called every minute. Where tables do not rotate, only the listeners are called.

        A clock that is set back changes nothing.
        """
        now = self._clock()
        this, tomorrow = Month.at(now), Month.at(now + DAY)
        if tomorrow > self._announced:
            if self.plan.rotating:
                await self._ensure(tomorrow.table(self.plan.message))
            self._announced = tomorrow
            for listener in self._listeners:
                await listener()
        if self.plan.rotating and this > self._month:
            await self._start_month(this)

    async def _start_month(self, this: Month) -> None:
        current = await self._ensure(this.table(self.plan.message))
        names = {*await self._names(), *self._tables}  # lists of tables may lag
        live = live_tables(self.plan.message, names, this)
        self._tables = {name: await self._ensure(name) for name in live}
        self.current, self._month = current, this

    def on_month_change(self, listener: MonthListener) -> None:
        """Call `listener` a day before each month begins, when its table exists."""
        self._listeners.append(listener)

    def is_behind(self, messages: UserMessages) -> bool:
        """Whether users of that table have to be moved to the current one."""
        return messages.month < self.current.month

    def is_expiring(self, messages: UserMessages) -> bool:
        """Whether it may be dropped tomorrow: older than the predecessor of the month announced."""
        return self.plan.rotating and messages.month < self._announced.previous

    def is_stale(self, connected_at: int) -> bool:
        """Whether a user last connected then (ms) counts as gone in the month announced last."""
        return Month.at(connected_at / 1000) < self._announced.previous

    def is_superseded(self, messages: UserMessages) -> bool:
        """Whether any node may move users of that table to a newer one."""
        return any(other.month > messages.month for other in self._tables.values())

    @property
    def is_restoring(self) -> bool:
        """Whether what is missing may have been lost in a failover, and be restored."""
        if self.engine.failovers != self._failovers:
            self._failovers = self.engine.failovers
            self._restored_by = self._clock() + RESTORE_TIME
        return self._clock() < self._restored_by

    # ── tables ───────────────────────────────────────────────────────────────────────────────────

    async def messages_of(self, record: UserRecord) -> UserMessages | None:
        """The user's message table, or the versions for SimplePush; None if it is not live."""
        if record.router_type == SIMPLEPUSH:
            return self.versions
        return await self.table(record.current_month)

    async def table(self, name: str | None) -> Messages | None:
        """The live message table of that name, else None; another node may have created it."""
        if name is None:
            return None
        return self._tables.get(name) or await self._find_table(name)

    def known_table(self, name: str) -> UserMessages:
        """:raises LookupError: this process has not opened that table"""
        return self.versions if name == self.versions.name else self._tables[name]

    @property
    def tables(self) -> Sequence[Messages]:
        """Every known live message table, oldest first."""
        return sorted(self._tables.values(), key=lambda messages: messages.month)

    def is_message_table(self, name: str) -> bool:
        """Whether a table of that name is a message table, of any month."""
        return name == self.plan.message or Month.parse(self.plan.message, name) is not None

    async def is_gone(self, name: str) -> bool:
        """After TableNotFound: whether that table was dropped, with the subscriptions in it."""
        if name == self.versions.name:
            await self._open_versions()
            return False
        self._tables.pop(name, None)
        if name in await self._names():
            return False  # created again: the next lookup opens it
        if name == self.current.name:
            self.current = await self._ensure(name)
        else:
            self._absent.keep(name, self._clock())
        return True

    async def _find_table(self, name: str) -> Messages | None:
        if not self.is_message_table(name):
            return None
        noticed = self._absent.find(name)
        if noticed is not None and 0 <= self._clock() - noticed < ABSENT_FOR:
            return None
        this = self._month if self.plan.rotating else None
        if name in live_tables(self.plan.message, await self._names(), this):
            return await self._ensure(name)
        self._absent.keep(name, self._clock())
        return None

    async def _open_versions(self) -> None:
        capacity = self.plan.storage_capacity
        plan = storage_table(self.plan.storage)
        self.versions_table = await self.engine.ensure_table(plan, capacity=capacity)
        self.versions = Versions(self.versions_table, self._hash, self.engine)

    async def _names(self) -> list[str]:
        """The names of all tables; concurrent callers share one listing."""
        if self._listing is None or self._listing.done():
            self._listing = asyncio.ensure_future(self.engine.table_names())
        return await asyncio.shield(self._listing)

    async def _ensure(self, name: str) -> Messages:
        messages = self._tables.get(name)
        if messages is None:
            capacity = self.plan.message_capacity
            table = await self.engine.ensure_table(message_table(name), capacity=capacity)
            month = Month.parse(self.plan.message, name) or NO_MONTH
            opened = Messages(table, self._hash, self._clock, month, self._metrics, self.engine)
            messages = self._tables.setdefault(name, opened)
        return messages

    # ── users ────────────────────────────────────────────────────────────────────────────────────

    async def remove(self, uaid: str, row: Row) -> None:
        """Delete that message from every table."""
        record = await self.users.get(uaid)
        if record is not None:
            await self.messages_of(record)  # opens its table, if that is new
        # Oldest first: a message that is being moved leaves the old table only when it is in the
        # new one.
        for messages in self.tables:
            with contextlib.suppress(TableNotFound):
                await messages.delete(uaid, row)

    async def find(self, message: MessageId) -> Notification | None:
        """That message, where it is stored."""
        row = row_of_id(message)
        # Oldest first, as in `remove`.
        for messages in self.tables:
            with contextlib.suppress(TableNotFound):
                if (notification := await messages.find(message.uaid, row)) is not None:
                    return notification
        return None

    async def is_deleted(self, message: MessageId) -> bool:
        """Whether a message that was stored is not any more, or has lost its subscription."""
        record = await self.users.get(message.uaid)
        messages = None if record is None else await self.messages_of(record)
        if messages is None or message.channel_id not in await messages.channels(message.uaid):
            return True
        return await self.find(message) is None

    async def drop_user(self, record: UserRecord) -> bool:
        """Delete a user whose record is unchanged, and then its subscriptions or versions.

        False if it has connected again meanwhile, or was moved: another node has it.
        """
        messages = await self.messages_of(record)
        # The record first: otherwise a failure would leave a connected user without subscriptions.
        if not await self.users.drop_unchanged(record):
            return False
        if messages is not None:
            with contextlib.suppress(TableNotFound):
                await messages.drop_channels(record.uaid)
        return True

    async def probe(self, uaid: str = UNUSED_UAID) -> None:
        """Test that the store can be written and has space; the row replaces the last probe's.

        `uaid`: of no user; it decides which part of a divided store is written.
        """
        await self.current.probe(uaid, int(self._clock() + PROBE_LIFETIME))
        await self.engine.check_space()

    async def close(self) -> None:
        """Wait for submitted writes and close the engine."""
        await self.engine.close()
