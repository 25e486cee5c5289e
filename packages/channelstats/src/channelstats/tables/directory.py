"""Users and channels: the tables User, UserCreated and Channel.

Rule: replacing a row keeps what only the row knew: when a user was first inserted, and a channel's
two keys.

A channel has two rows, equal but for the key: its ID and its name. A scan sees it at least twice;
only the row under the ID counts here. A channel without a name (a direct message) has one row.
"""

import asyncio
from collections.abc import Container, Iterable
from contextlib import suppress

import msgspec

from channelstats.identifiers import is_channel_id
from channelstats.tables.attributes import flag, number, text, without_empty
from channelstats.tables.paging import batches, everything
from keytables import Attr, ConditionFailed, Item, TableHandle


class User(msgspec.Struct, frozen=True):
    """A user. ``tz`` is a zone's name and ``tz_offset`` seconds east of UTC, at download time."""

    slack_uid: str
    user_name: str = ""
    real_name: str = ""
    display_name: str = ""
    tz: str = ""
    tz_offset: int | None = None
    deleted: bool = False
    admin: bool = False
    is_bot: bool = False
    insert_timestamp: int | None = None

    @property
    def name(self) -> str:
        """What to show: the display name, else the real name, else the user name, else the ID."""
        return self.display_name or self.real_name or self.user_name or self.slack_uid


class Channel(msgspec.Struct, frozen=True):
    """A channel. ``members`` is 0 for an archived one."""

    slack_cid: str
    friendly_name: str = ""
    members: int = 0
    created: int = 0
    is_channel: bool = False
    is_group: bool = False
    is_im: bool = False
    is_mpim: bool = False
    is_private: bool = False
    is_archived: bool = False

    @property
    def name(self) -> str:
        """What to show: its own name, else the ID."""
        return self.friendly_name or self.slack_cid


class Users:
    """The table User."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def all(self) -> dict[str, User]:
        found = {}
        async for items in everything(self._table):
            for item in items:
                user = _user(item)
                found[user.slack_uid] = user
        return found

    async def put(self, users: Iterable[User], known: Container[str] | None = None) -> None:
        """Store users in place of what is stored; an insert_timestamp that is stored stays.

        ``known``: all of whom something may be stored, None for anybody; only their rows are read.
        """
        for batch in batches(users):
            stored = await self._table.batch_get(
                (user.slack_uid,) for user in batch if known is None or user.slack_uid in known
            )
            inserted = {text(item, "slack_uid"): item.get("insert_timestamp") for item in stored}
            await self._table.batch_write(
                puts=[
                    _user_item(user) | without_empty({"insert_timestamp": since})
                    if (since := inserted.get(user.slack_uid)) is not None
                    else _user_item(user)
                    for user in batch
                ]
            )

    async def delete(self, uid: str) -> None:
        await self._table.delete((uid,))

    async def add(self, users: Iterable[User]) -> None:
        """Store the users of whom nothing is stored."""
        for batch in batches(users):
            await asyncio.gather(*map(self._add, batch))

    async def _add(self, user: User) -> None:
        with suppress(ConditionFailed):
            await self._table.put(_user_item(user), condition=Attr("slack_uid").absent())


class Channels:
    """The table Channel."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def all(self) -> dict[str, Channel]:
        """The channels by ID."""
        found = {}
        async for items in everything(self._table):
            for item in items:
                channel = _channel(item)
                if item["channel_key"] == channel.slack_cid:
                    found[channel.slack_cid] = channel
        return found

    async def put(self, channels: Iterable[Channel]) -> None:
        """Store channels, under the ID and under the name. Of one name the last wins."""
        rows: dict[str, Item] = {}
        for channel in channels:
            rows |= {key: _channel_item(key, channel) for key in _keys(channel)}
        for batch in batches(rows.values()):
            await self._table.batch_write(puts=batch)

    async def put_alias(self, alias: str, channel: Channel) -> None:
        """Store a channel under a previous name, unless a channel of today has it."""
        stored = await self._table.get((alias,))
        # A row of the channel itself is from the time when that was its name.
        own = stored is not None and text(stored, "slack_cid") == channel.slack_cid
        if stored is None or own or text(stored, "friendly_name") != alias:
            await self._table.put(_channel_item(alias, channel))

    async def named(self, key: str) -> Channel | None:
        """The channel of an ID, a name or a previous name."""
        item = await self._table.get((key,))
        return None if item is None else _channel(item)


class UsersCreated:
    """The table UserCreated: when an account was first seen, or made. The earliest date stays."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def all(self) -> dict[str, int]:
        """Seconds since the epoch by user."""
        found = {}
        async for items in everything(self._table):
            for item in items:
                if since := number(item, "ts"):
                    found[text(item, "slack_uid")] = since
        return found

    async def delete(self, uid: str) -> None:
        await self._table.delete((uid,))

    async def add(self, created: Iterable[tuple[str, int]]) -> None:
        known = await self.all()
        earlier = {
            uid: ts for uid, ts in sorted(created, reverse=True) if ts < known.get(uid, ts + 1)
        }
        for batch in batches(earlier.items()):
            await self._table.batch_write(puts=[{"slack_uid": uid, "ts": ts} for uid, ts in batch])


def _user(item: Item) -> User:
    return User(
        slack_uid=text(item, "slack_uid"),
        user_name=text(item, "user_name"),
        real_name=text(item, "real_name"),
        display_name=text(item, "display_name"),
        tz=text(item, "tz"),
        tz_offset=number(item, "tz_offset"),
        deleted=flag(item, "deleted"),
        admin=flag(item, "admin"),
        is_bot=flag(item, "is_bot"),
        insert_timestamp=number(item, "insert_timestamp"),
    )


def _user_item(user: User) -> Item:
    return without_empty(msgspec.structs.asdict(user) | {"is_bot": user.is_bot or None})


def _channel(item: Item) -> Channel:
    flags = ("is_channel", "is_group", "is_im", "is_mpim", "is_private", "is_archived")
    return Channel(
        slack_cid=text(item, "slack_cid"),
        friendly_name=text(item, "friendly_name"),
        members=number(item, "members") or 0,
        created=number(item, "created") or 0,
        **{name: flag(item, name) for name in flags},
    )


def _keys(channel: Channel) -> set[str]:
    # What looks like an ID is nobody's name, or it could take the row of another channel.
    if is_channel_id(channel.name):
        return {channel.slack_cid}
    return {channel.slack_cid, channel.name}


def _channel_item(key: str, channel: Channel) -> Item:
    return without_empty({"channel_key": key, **msgspec.structs.asdict(channel)})
