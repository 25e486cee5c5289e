"""People and channels of another installation → User, UserCreated, Channel and what is beside them.

Rule: whoever and whatever is known here already stays as it is; of two dates of an account the
earlier one is right.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Mapping
from typing import Final

import msgspec

from channelstats.days import date_at
from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.ingest.older_tables import OlderTables
from channelstats.ingest.opted_out import OptedOut
from channelstats.ingest.people import store_users
from channelstats.tables import Tables
from channelstats.tables.attributes import number, text
from channelstats.tables.configuration import Configuration, Counts
from channelstats.tables.directory import Channels, User, UsersCreated
from channelstats.tables.text_store import TextStore

_SAMPLE: Final = "ts_"


class DirectoryMigration:
    """``users`` are those of the other installation, ``out`` those of them who are left out;
    ``hidden`` channels are, by ID. ``now``: epoch seconds.
    """

    def __init__(
        self,
        source: OlderTables,
        tables: Tables,
        users: Mapping[str, User],
        out: OptedOut,
        hidden: Collection[str],
        now: int,
    ) -> None:
        self._source, self._tables, self._users, self._out = source, tables, users, out
        self._hidden, self._now = hidden, now

    async def run(self) -> AsyncGenerator[tuple[str, int], None]:
        """Take in one thing after the other; yield what it was, and how many there are of it."""
        yield "users", await self._put_users()
        yield "channels", await self._put_channels()
        yield "memberships", await self._put_memberships()
        yield "samples of members", await self._put_samples()

    async def put_counts(self) -> None:
        """How many users there were, as of now where it is not known here."""
        configuration = self._tables.configuration
        if (handle := self._source.get("Configuration")) is None:
            return
        source = Configuration(handle)
        counts, history = await source.counts(), await source.history()
        if counts == Counts():
            return
        if not counts.active_humans:
            humans = sum(not (user.deleted or user.is_bot) for user in self._users.values())
            counts = msgspec.structs.replace(counts, active_humans=humans)
        known = await configuration.history()
        for day, taken in (history or {date_at(self._now, self._tables.zone): counts}).items():
            if day not in known and (history or not known):
                await configuration.add_to_history(day, taken)
        if await configuration.counts() == Counts():
            await configuration.put_counts(counts)

    async def _put_users(self) -> int:
        tables, source = self._tables, self._source
        known = await tables.users.all()
        users = {uid: user for uid, user in self._users.items() if is_user_id(uid)}
        new = [user for uid, user in users.items() if uid not in known]
        await store_users(tables, self._out.users(new), self._now)
        if (handle := source.get("UserCreated")) is not None:
            created = await UsersCreated(handle).all()
            await tables.users_created.add(
                (uid, at) for uid, at in created.items() if is_user_id(uid) and uid not in self._out
            )
        async for items in source.pages("UserHash"):
            uids = {uid for item in items for uid in text(item, "uids").split()}
            await tables.user_hash.add(
                uid for uid in uids if is_user_id(uid) and uid not in self._out
            )
        return len(users)

    async def _put_channels(self) -> int:
        channels = self._tables.channels
        if (handle := self._source.get("Channel")) is None:
            return 0
        found = {
            cid: one for cid, one in (await Channels(handle).all()).items() if self._is_wanted(cid)
        }
        known = await channels.all()
        new = [one for cid, one in found.items() if cid not in known]
        await channels.put(sorted(new, key=lambda one: not one.is_archived))
        await self._tables.configuration.put_names({**found, **known}.values())
        async for items in self._source.pages("Channel"):
            for item in items:
                key, channel = text(item, "channel_key"), found.get(text(item, "slack_cid"))
                if channel is not None and key != channel.name and not is_channel_id(key):
                    await channels.put_alias(key, channel)
        return len(found)

    async def _put_memberships(self) -> int:
        if (handle := self._source.get("BulkStore")) is None:
            return 0
        texts, bulk, done = TextStore(handle), self._tables.bulk, 0
        async for items in self._source.pages("BulkStore"):
            for cid in filter(self._is_wanted, (text(item, "item_id") for item in items)):
                uids = (await texts.get(cid) or "").split(",")
                members = [uid for uid in uids if is_user_id(uid) and uid not in self._out]
                if members and await bulk.get(cid) is None:
                    await bulk.put(cid, ",".join(members))
                done += bool(members)
        return done

    async def _put_samples(self) -> int:
        log, done = self._tables.members_log, 0
        new: dict[int, dict[str, int]] = defaultdict(dict)
        async for items in self._source.pages("ChannelMembersLog"):
            for item in items:
                if not self._is_wanted(cid := text(item, "slack_cid")):
                    continue
                known = dict(await log.samples(cid))
                for name in item:
                    at = name.removeprefix(_SAMPLE)
                    count = number(item, name)
                    if name != at and at.isdecimal() and count is not None:
                        done += 1
                        if int(at) not in known:
                            new[int(at)][cid] = count
        for second, members in sorted(new.items()):
            await log.add(second, members)
        return done

    def _is_wanted(self, cid: str) -> bool:
        return is_channel_id(cid) and cid not in self._hidden
