"""All tables of one prefix, opened.

Rule: a table is made the first time its prefix is opened.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self
from zoneinfo import ZoneInfo

from msgspec.structs import replace as replaced

from channelstats.tables.columns import DayFiles, folder_of
from channelstats.tables.configuration import Configuration
from channelstats.tables.day_versions import DayVersions
from channelstats.tables.directory import (
    Channels,
    FirstPosts,
    MembersLog,
    User,
    UserHash,
    Users,
    UsersCreated,
    Watermarks,
)
from channelstats.tables.items import HASH_KEYS, TextStore, table
from channelstats.tables.marks import Marks
from channelstats.tables.messages import Messages
from channelstats.tables.sending import SentReports, Subscriptions
from keytables import Clock, Engine, TableHandle, Unavailable
from keytables.lease import LeaseLost
from keytables.stores import open_engine

_FORMER_TEXTS: Final = {"topics": "topics", "slack_analytics": "slack"}
"""Rows of Configuration that list texts of BulkStore, with the first word of their names: they were
written once, and nothing reads them any more.
"""


class Taken(Exception):  # noqa: N818 - named for what happened
    """Another run writes, or has taken over from this one; the text is one line."""


class Tables:
    """The tables of one workspace, of a handle each. ``zone`` is the time zone that messages are
    dated in; ``files`` is the folder for columns of dates, None keeps none.
    """

    def __init__(
        self, handles: Mapping[str, TableHandle], zone: ZoneInfo, files: Path | None = None
    ) -> None:
        self.zone = zone
        self.handles = handles
        self.configuration = Configuration(handles["Configuration"])
        versions = DayVersions(handles["Configuration"])
        self.messages = Messages(handles["Message"], zone, versions, DayFiles(files))
        self.channels = Channels(handles["Channel"])
        self.users = Users(handles["User"])
        self.users_created = UsersCreated(handles["UserCreated"])
        self.user_hash = UserHash(handles["UserHash"])
        self.first_posts = FirstPosts(handles["FirstPost"])
        self.members_log = MembersLog(handles["ChannelMembersLog"])
        self.watermarks = Watermarks(handles["ChannelConfiguration"])
        self.sent = SentReports(handles["Configuration"])
        self.subscriptions = Subscriptions(handles["Subscription"])
        self.marks = Marks(handles["Mark"])
        self.bulk = TextStore(handles["BulkStore"])
        self.reports = TextStore(handles["ReportStore"])

    @classmethod
    async def open(
        cls, engine: Engine, prefix: str, zone: ZoneInfo, files: Path | None = None
    ) -> Self:
        """Open the tables `<prefix>.<Table>`, making those that are missing.

        :raises SchemaError: the prefix is unfit, or a table exists with other keys
        """
        handles = {name: await engine.ensure_table(table(prefix, name)) for name in HASH_KEYS}
        return cls(handles, zone, files)

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, store: str, prefix: str, zone: ZoneInfo, data: Path, clock: Clock
    ) -> AsyncIterator[Self]:
        """The tables of a store (a URL), with the files beside it or in the folder ``data``, until
        the end of the context.
        """
        engine = await open_engine(store, clock=clock, wipe=True)
        try:
            yield await cls.open(engine, prefix, zone, folder_of(store, prefix, data))
        finally:
            await engine.close()

    @asynccontextmanager
    async def writing(self, clock: Clock) -> AsyncIterator[None]:
        """Be the only run that writes messages.

        :raises Taken: there is another one, or there is by the end
        :raises Unavailable: the store could not be written for as long as the right to it lasts
        """
        lease = self.configuration.writer_lease(clock)
        while not await lease.acquire():
            if (since := await lease.held_since()) is not None:
                raise Taken(
                    "another import or sync has been writing since "
                    f"{datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M:%S} UTC; "
                    "run this again when it is over"
                )
        try:
            async with lease:
                await self.messages.take_over_days()
                await self._remove_former_texts()
                yield
        except LeaseLost:
            if await lease.release():  # nobody else has it
                raise Unavailable("the store could not be written for too long") from None
            raise Taken(
                "another import or sync took over; run this again when it is over"
            ) from None

    async def _remove_former_texts(self) -> None:
        for row, prefix in _FORMER_TEXTS.items():
            if listed := await self.configuration.get(row):
                for column in listed.keys() - {"key"}:
                    await self.bulk.delete(f"{prefix} {column}".replace("-", ""))
                await self.configuration.delete(row)

    async def put_users(self, users: Iterable[User], now: int, *, replace: bool = True) -> set[str]:
        """Store users, as inserted now unless they say when; return the IDs of those known before.

        UserHash says who is known, so that of a new user nothing is read. ``replace``: whether what
        is stored of a known user is replaced, apart from when it was inserted.
        """
        rows = {
            user.slack_uid: replaced(user, insert_timestamp=user.insert_timestamp or now)
            for user in users
        }
        known = await self.user_hash.known(rows)
        await self.user_hash.add(rows)  # first: a row of somebody not there would not be read
        if replace:
            await self.users.put(rows.values(), known)
        else:
            await self.users.add(rows.values())
        return known

    async def first_run_is_on(self, clock: Clock) -> bool:
        """Whether the first run writes messages: there is nothing whole yet, all dates are open."""
        if await self.configuration.last_run():
            return False
        if await self.configuration.writer_lease(clock).held_since() is None:
            return False
        return all((await self.messages.days()).values())
