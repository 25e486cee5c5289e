"""Users and channels: the tables User, UserCreated, UserHash, FirstPost; Channel,
ChannelConfiguration and ChannelMembersLog.

Rule: replacing a row keeps what only the row knew: when a user was first inserted, and a channel's
two keys.

A channel has two rows, equal but for the key: its ID and its name. A scan sees it at least twice;
only the row under the ID counts here. A channel without a name (a direct message) has one row.
"""

import asyncio
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from channelstats.identifiers import SLACKBOT, is_channel_id, is_timestamp, is_user_id, seconds
from channelstats.tables.items import (
    batches,
    every_item,
    everything,
    number,
    struct_of,
    text,
    without_empty,
    write_all,
)
from keytables import Attr, ConditionFailed, Item, Param, TableHandle, Update


class User(msgspec.Struct, frozen=True):
    """A user. ``tz`` is a zone's name and ``tz_offset`` seconds east of UTC, at download time.
    ``other_ids``, with blanks between, mean the same person. ``is_stranger``: from outside;
    ``unlisted``: known from messages alone, and so no account that is counted.
    """

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
    other_ids: str = ""
    is_stranger: bool = False
    unlisted: bool = False

    @property
    def ids(self) -> list[str]:
        """Every ID that means this person."""
        return [self.slack_uid, *self.other_ids.split()]

    @property
    def is_no_member(self) -> bool:
        """Whether this is certainly nobody of the workspace: gone, a bot, or from outside."""
        return self.deleted or self.is_bot or self.is_stranger or self.slack_uid == SLACKBOT

    @property
    def is_member(self) -> bool:
        """Whether this is a person of the workspace, as a list says."""
        return not (self.is_no_member or self.unlisted)

    @property
    def name(self) -> str:
        """What to show: the display name, else the real name, else the user name, else the ID."""
        return self.display_name or self.real_name or self.user_name or self.slack_uid


def bots_of(users: Mapping[str, User]) -> frozenset[str]:
    """The users known as bots."""
    return frozenset(uid for uid, user in users.items() if user.is_bot)


def ids_of_people(users: Mapping[str, User]) -> dict[str, str]:
    """The ID that stands for each person with several, by each other one of theirs."""
    return {other: uid for uid, user in users.items() for other in user.other_ids.split()}


class Channel(msgspec.Struct, frozen=True):
    """A channel. ``members`` is 0 for an archived one. ``is_general``, which is kept in
    Configuration: everybody joins it with their account.
    """

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
    is_general: bool = False

    @property
    def name(self) -> str:
        """What to show: its own name, else the ID."""
        return self.friendly_name or self.slack_cid

    @property
    def slack_name(self) -> str:
        """Its name in Slack: `general` of `general (alpha)`, which tells channels of one name
        apart. No name in Slack has a space.
        """
        return self.friendly_name.partition(" (")[0]


def general_channels(channels: Mapping[str, Channel]) -> frozenset[str]:
    """The channels that everybody joins with their account, as Slack marks them, or else as they
    are called.
    """
    marked = {cid for cid, channel in channels.items() if channel.is_general}
    return frozenset(
        marked or {cid for cid, channel in channels.items() if channel.slack_name == "general"}
    )


class Users:
    """The table User."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def all(self) -> dict[str, User]:
        users = [struct_of(User, item) async for item in every_item(self._table)]
        return {user.slack_uid: user for user in users}

    async def put(self, users: Iterable[User], known: Container[str] | None = None) -> None:
        """Store users in place of what is stored; an insert_timestamp that is stored stays.

        ``known``: only of these users there may be a row, which is read first; None: of any.
        """
        for batch in batches(users):
            stored = await self._table.batch_get(
                (user.slack_uid,) for user in batch if known is None or user.slack_uid in known
            )
            name = "insert_timestamp"
            stays = {text(item, "slack_uid"): {name: item[name]} for item in stored if name in item}
            puts = [_user_item(user) | stays.get(user.slack_uid, {}) for user in batch]
            await self._table.batch_write(puts=puts)

    async def delete(self, uid: str) -> None:
        await self._table.delete((uid,))

    async def add(self, users: Iterable[User]) -> None:
        """Store the users that have no row yet."""
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
        return {
            text(item, "slack_cid"): struct_of(Channel, item)
            async for item in every_item(self._table)
            if item.get("channel_key") == item.get("slack_cid")
        }

    async def put(self, channels: Iterable[Channel]) -> None:
        """Store channels, under the ID and under the name. Of one name the last wins."""
        rows: dict[str, Item] = {}
        for channel in channels:
            rows |= {key: _channel_item(key, channel) for key in _keys(channel)}
        await write_all(self._table, puts=rows.values())

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
        return None if item is None else struct_of(Channel, item)


class UsersCreated:
    """The table UserCreated: when an account was first seen, or made. The earliest date stays."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def all(self) -> dict[str, int]:
        """Seconds since the epoch by user."""
        return {
            text(item, "slack_uid"): since
            async for item in every_item(self._table)
            if (since := number(item, "ts"))
        }

    async def delete(self, uid: str) -> None:
        await self._table.delete((uid,))

    async def add(self, created: Iterable[tuple[str, int]]) -> int:
        """Store them; return of how many users nothing as early was known."""
        known = await self.all()
        earlier = {
            uid: ts for uid, ts in sorted(created, reverse=True) if ts < known.get(uid, ts + 1)
        }
        rows: list[Item] = [{"slack_uid": uid, "ts": ts} for uid, ts in earlier.items()]
        await write_all(self._table, puts=rows)
        return len(rows)


class FirstPost(NamedTuple):
    """Compares as earlier or later: by time, then by channel."""

    message_id: str
    slack_cid: str

    @property
    def ts(self) -> int:
        return seconds(self.message_id)


class FirstPosts:
    """The table FirstPost: where and when each person first said something. Rows whose key is no
    user, or whose time is 0, are strays of the past and are left out.
    """

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def all(self) -> dict[str, FirstPost]:
        """First posts by author."""
        posts: dict[str, FirstPost] = {}
        async for items in everything(self._table):
            # In a thread: of 20,000 people it takes a tenth of a second.
            posts |= await asyncio.to_thread(_first_posts_of, items)
        return posts

    async def put(self, posts: Iterable[tuple[str, FirstPost]]) -> None:
        """Store first posts in place of what is stored."""
        rows = ({"slack_uid": uid, **post._asdict(), "ts": post.ts} for uid, post in posts)
        await write_all(self._table, puts=rows)

    async def delete(self, users: Iterable[str]) -> None:
        await write_all(self._table, deletes=users)


def _first_posts_of(items: Iterable[Item]) -> dict[str, FirstPost]:
    posts = {}
    for item in items:
        uid, post = text(item, "slack_uid"), text(item, "message_id")
        if is_user_id(uid) and number(item, "ts") and is_timestamp(post):
            posts[uid] = FirstPost(post, text(item, "slack_cid"))
    return posts


def _user_item(user: User) -> Item:
    flags = {name: getattr(user, name) or None for name in ("is_bot", "is_stranger", "unlisted")}
    return without_empty(msgspec.structs.asdict(user) | flags)


def _keys(channel: Channel) -> set[str]:
    # What looks like an ID is nobody's name, or it could take the row of another channel.
    if is_channel_id(channel.name):
        return {channel.slack_cid}
    return {channel.slack_cid, channel.name}


def _channel_item(key: str, channel: Channel) -> Item:
    item = {"channel_key": key, **msgspec.structs.asdict(channel)}
    del item["is_general"]
    return without_empty(item)


def key_of(uid: str) -> str:
    return uid[-1]


class UserHash:
    """The table UserHash: many user IDs in few rows, by the last character of the ID. One writer at
    a time. An ID is known only as a whole token of its row.

    A row of 300,000 characters holds 20,000 IDs at 15 characters each; 35 last characters make room
    for 700,000 users, in at most 35 reads.
    """

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def all(self) -> set[str]:
        return {uid async for item in every_item(self._table) for uid in text(item, "uids").split()}

    async def known(self, uids: Iterable[str]) -> set[str]:
        """Those of the IDs that are stored."""
        rows = await self._rows(asked := set(uids))
        return {uid for uid in asked if uid in rows[key_of(uid)]}

    async def add(self, uids: Iterable[str]) -> None:
        """Store IDs; those that are stored already stay as they are."""
        rows = await self._rows(new := set(uids))
        changed = defaultdict(list)
        for uid in sorted(new):
            if uid not in rows[key_of(uid)]:
                changed[key_of(uid)].append(uid)
        await self._table.batch_write(
            puts=[
                {"user_key": key, "uids": " ".join((*rows[key], *added))}
                for key, added in changed.items()
            ]
        )

    async def remove(self, uid: str) -> None:
        """Take an ID out."""
        left = dict.fromkeys((await self._rows({uid}))[key_of(uid)])
        if uid in left:
            del left[uid]
            if left:
                await self._table.put({"user_key": key_of(uid), "uids": " ".join(left)})
            else:
                await self._table.delete((key_of(uid),))

    async def _rows(self, uids: Iterable[str]) -> defaultdict[str, dict[str, None]]:
        """The IDs of every row that could hold one of these, in their order."""
        rows: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for item in await self._table.batch_get({(key_of(uid),): None for uid in uids}):
            rows[text(item, "user_key")] = dict.fromkeys(text(item, "uids").split())
        return rows


class MembersLog:
    """The table ChannelMembersLog: how many members a channel had. A sample is a column of its own,
    `ts_<seconds>`, so adding one never touches another.
    """

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def add(self, seconds: int, members: Mapping[str, int]) -> None:
        """Add a sample, taken at that time, for each channel."""
        name = f"ts_{seconds}"
        sample = Update(set=(name,))
        for batch in batches(members.items()):
            await asyncio.gather(
                *(self._table.update((cid,), sample, {name: count}) for cid, count in batch)
            )

    async def samples(self, cid: str) -> list[tuple[int, int]]:
        """Times and numbers of members of a channel, in the order of time."""
        return _samples(await self._table.get((cid,)) or {})

    async def all(self) -> dict[str, list[tuple[int, int]]]:
        """The samples of every channel, by its ID."""
        return {text(item, "slack_cid"): _samples(item) async for item in every_item(self._table)}


def _samples(item: Item) -> list[tuple[int, int]]:
    times = (name for name in item if name.startswith("ts_") and name[3:].isdecimal())
    samples = ((int(name[3:]), number(item, name)) for name in times)
    return sorted((at, count) for at, count in samples if count is not None)


_WATERMARK: Final = "last_message_timestamp"
_OLDER_WATERMARK: Final = "last_message_ts"

_RAISE: Final = Update(set=(_WATERMARK,))
_IS_LOWER: Final = Attr(_WATERMARK).absent() | (Attr(_WATERMARK) < Param(_WATERMARK))


class Watermarks:
    """The table ChannelConfiguration: up to where each channel was read, in whole seconds of the
    newest message that is no reply. It only rises, and is written after the messages below it.
    """

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def get(self, cid: str) -> int:
        """The watermark of a channel; 0 for one never read."""
        return _watermark(await self._table.get((cid,)) or {})

    async def all(self) -> dict[str, int]:
        """The watermark of every channel, by its ID."""
        return {text(item, "slack_cid"): _watermark(item) async for item in every_item(self._table)}

    async def raise_to(self, cid: str, seconds: int) -> None:
        if seconds <= await self.get(cid):
            return
        try:
            await self._table.update((cid,), _RAISE, {_WATERMARK: seconds}, condition=_IS_LOWER)
        except ConditionFailed:
            return  # another reader was further


def _watermark(item: Item) -> int:
    return number(item, _WATERMARK) or number(item, _OLDER_WATERMARK) or 0
