"""All tables of one prefix, opened.

Rule: a table is made the first time its prefix is opened.
"""

from dataclasses import dataclass
from typing import Self
from zoneinfo import ZoneInfo

from channelstats.days import Calendar
from channelstats.tables.configuration import Configuration
from channelstats.tables.declarations import table
from channelstats.tables.directory import Channels, Users, UsersCreated
from channelstats.tables.first_posts import FirstPosts
from channelstats.tables.members_log import MembersLog
from channelstats.tables.messages import Messages
from channelstats.tables.text_store import TextStore
from channelstats.tables.user_hash import UserHash
from channelstats.tables.watermarks import Watermarks
from tablestore import Engine, TableHandle


@dataclass(frozen=True)
class Tables:
    """The tables of one workspace. ``zone`` is the time zone messages are dated in."""

    zone: ZoneInfo
    messages: Messages
    channels: Channels
    users: Users
    users_created: UsersCreated
    user_hash: UserHash
    first_posts: FirstPosts
    members_log: MembersLog
    watermarks: Watermarks
    configuration: Configuration
    bulk: TextStore
    reports: TextStore

    @classmethod
    async def open(cls, engine: Engine, prefix: str, zone: ZoneInfo) -> Self:
        """Open the tables `<prefix>.<Table>`, making those that are missing.

        :raises SchemaError: the prefix is unfit, or a table exists with other keys
        """

        async def opened(name: str) -> TableHandle:
            return await engine.ensure_table(table(prefix, name))

        return cls(
            zone=zone,
            messages=Messages(await opened("Message"), Calendar(zone)),
            channels=Channels(await opened("Channel")),
            users=Users(await opened("User")),
            users_created=UsersCreated(await opened("UserCreated")),
            user_hash=UserHash(await opened("UserHash")),
            first_posts=FirstPosts(await opened("FirstPost")),
            members_log=MembersLog(await opened("ChannelMembersLog")),
            watermarks=Watermarks(await opened("ChannelConfiguration")),
            configuration=Configuration(await opened("Configuration")),
            bulk=TextStore(await opened("BulkStore")),
            reports=TextStore(await opened("ReportStore")),
        )
