"""The Web API of a workspace → every table: users, channels and who is in them here, messages by
`sync_messages`.

Rule: users, then channels, then messages; a part that fails does not keep the next from being read,
unless nothing can be asked any more. Every run can be repeated, at once or a week later. Up to when
everything was read is noted by a run that read every channel there was to read, and by no other.

Rule: nothing is stored before a whole list is there; when somebody was first seen never changes. A
membership is replaced by a later one, never by an empty one; a number of members that Slack does
not give is not logged.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

import msgspec

from channelstats.counting import Counting
from channelstats.days import date_at
from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.ingest.home import Home, check_home, grids_of
from channelstats.ingest.people import home_teams, join_stored, people_of
from channelstats.ingest.rows import counts_of, listed_channel_of, stored_name
from channelstats.ingest.runs import (
    PEOPLE_PLACE,
    UNANSWERED,
    OnEvent,
    SyncOptions,
    SyncResult,
    SyncRun,
    ignore_event,
    unknown_people,
)
from channelstats.ingest.sync_messages import MessageSync
from channelstats.slack.errors import MissingScope, NoAnswer, SlackError, TokenRefused
from channelstats.slack.export import left_out
from channelstats.slack.objects import ListedChannel, SlackUser, int_of
from channelstats.slack.web_api import ListingPage, WebApi
from channelstats.tables import Tables
from channelstats.tables.directory import Channel, User, ids_of_people
from keytables import Clock

USERS_PLACE: Final = "users.list"
CHANNELS_PLACE: Final = "conversations.list"
MEMBERS_PLACE: Final = "conversations.members"
MESSAGES_PLACE: Final = "messages"


class Part(StrEnum):
    USERS = "users"
    CHANNELS = "channels"
    MESSAGES = "messages"


ALL: Final = frozenset(Part)
IsId: TypeAlias = Callable[[object], bool]
Listed = TypeVar("Listed", SlackUser, ListedChannel)
_OF_CHANNELS: Final = frozenset({Part.CHANNELS, Part.MESSAGES})


class Sync:
    """One run. Start another one to go on after an interruption."""

    def __init__(
        self,
        api: WebApi,
        tables: Tables,
        *,
        clock: Clock,
        counting: Counting,
        options: SyncOptions | None = None,
        parts: frozenset[Part] = ALL,
        on_event: OnEvent = ignore_event,
    ) -> None:
        self._run = SyncRun(api, tables, clock, counting, options or SyncOptions(), on_event)
        self._parts = parts
        self._messages = MessageSync(self._run)
        self._people_known = False
        self._listed: list[ListedChannel] = []

    async def run(self) -> SyncResult:
        """Take in what is wanted."""
        run, begun, blocked = self._run, self._run.now, ""
        for parts, place, step, is_needed in (
            ({Part.USERS}, USERS_PLACE, self._read_users, False),
            (_OF_CHANNELS, PEOPLE_PLACE, self._find_people, True),
            (_OF_CHANNELS, CHANNELS_PLACE, self._list_channels, True),
            ({Part.CHANNELS}, MEMBERS_PLACE, self._read_channels, False),
            ({Part.MESSAGES}, MESSAGES_PLACE, lambda: self._messages.run(self._listed), True),
        ):
            if not parts & self._parts:
                continue
            try:
                await step()
            except TokenRefused as error:
                run.stop(error)
            except SlackError as error:
                failure = run.fail(place, error)
                blocked = str(failure) if is_needed else ""
            if blocked or run.result.stopped:
                break
        await run.tables.messages.close_days()
        if Part.MESSAGES in self._parts and not run.options.only:
            configuration = run.tables.configuration
            if unread := run.result.stopped or blocked or self._messages.unread:
                await configuration.put_unread(unread)
            else:
                await configuration.raise_last_run(min(begun, self._messages.begun))
        run.result.problems = run.problems
        return run.result

    # ── users ────────────────────────────────────────────────────────────────────────────────────

    async def _list(
        self, place: str, kind: str, pages: AsyncIterator[ListingPage[Listed]], is_id: IsId
    ) -> dict[str, Listed]:
        """The users or channels of a list by their IDs; what has none is reported."""
        listed: dict[str, Listed] = {}
        broken: list[str] = []
        async for page in pages:
            broken += page.broken
            for item in page.items:
                if is_id(item.id):
                    listed[item.id] = item
                else:
                    broken.append(f"{item.id[:20]!r} is not the ID of a {kind}")
        self._run.report(left_out(place, broken))
        return listed

    async def _list_users(self) -> dict[str, User]:
        pages = self._run.api.users()
        listed = (await self._list(USERS_PLACE, "user", pages, is_user_id)).values()
        await self._check_home(listed)
        people = people_of(listed, await self._run.tables.users.all(), home_teams(listed))
        return {user.slack_uid: user for user in people}

    async def _check_home(self, users: Collection[SlackUser]) -> None:
        """:raises OtherWorkspace: what is stored is of another one"""
        home = Home(grids_of(users) or home_teams(users), "of the token")
        members = (user.id for user in users if not user.is_stranger)
        await check_home(self._run.tables, home, members, ())

    async def _read_users(self) -> None:
        """Store the users, but for those who are left out: they are only counted."""
        run, tables, excluded = self._run, self._run.tables, self._run.options.exclude_people
        users = await self._list_users()
        if not users:
            run.fail(USERS_PLACE, "an empty list; the users stay as they are")
            return
        await run.exclude_people(excluded, users)
        self._people_known = True
        await join_stored(tables, ids_of_people(users), await tables.users.all())
        now, created = run.now, await tables.users_created.all()
        kept = run.excluded.users(users.values())
        await tables.users_created.add(
            (user.slack_uid, now) for user in kept if user.slack_uid not in created
        )
        rows = (
            msgspec.structs.replace(
                user, insert_timestamp=min(created.get(user.slack_uid, now), now)
            )
            for user in kept
        )
        known = await tables.put_users(rows, now)
        counts = counts_of(users.values())
        await tables.configuration.put_counts(counts)
        await tables.configuration.add_to_history(date_at(now, tables.zone), counts)
        await tables.configuration.raise_directory_as_of(now)
        run.result.users, run.result.new_users = len(users), len(kept) - len(known)

    async def _find_people(self) -> None:
        """Find out who is left out, unless that is known from the users that were just read."""
        if self._people_known:
            return
        run, excluded = self._run, self._run.options.exclude_people
        known = await run.tables.users.all()
        if unknown_people(excluded, known):
            known |= await self._list_users()
        await run.exclude_people(excluded, known)

    # ── channels ─────────────────────────────────────────────────────────────────────────────────

    async def _list_channels(self) -> None:
        """Find the channels that are wanted."""
        run, options = self._run, self._run.options
        names = {channel.name for channel in (await run.tables.channels.all()).values()}
        pages = run.api.channels(private=options.include_private)
        every = await self._list(CHANNELS_PLACE, "channel", pages, is_channel_id)
        names |= {channel.name or "" for channel in every.values()}
        run.check_channels(options.exclude, names, private=options.include_private)
        self._listed = [every[cid] for cid in sorted(every) if options.wants(every[cid])]
        keys = {key for channel in self._listed for key in (channel.id, channel.name)}
        for name in sorted(options.only - keys):
            run.fail(name, "no channel is called so, or it is private, or hidden")

    async def _read_channels(self) -> None:
        """Store everything about the channels but their messages. Of one name, a channel in use has
        it.
        """
        run, tables, now = self._run, self._run.tables, self._run.now
        stored = await tables.channels.all()
        rows = {
            channel.id: listed_channel_of(channel, _members(channel, stored))
            for channel in self._listed
        }
        archived_first = sorted(self._listed, key=lambda channel: not channel.is_archived)
        await tables.channels.put(rows[channel.id] for channel in archived_first)
        await tables.configuration.put_names({**stored, **rows}.values())
        await tables.configuration.put_general(rows.values())
        for channel in archived_first:
            for alias in map(stored_name, channel.previous_names or ()):
                if alias and not is_channel_id(alias):
                    await tables.channels.put_alias(alias, rows[channel.id])
        numbers = (
            (channel.id, int_of(channel.num_members))
            for channel in self._listed
            if not channel.is_archived
        )
        sample = {cid: number for cid, number in numbers if number is not None and number >= 0}
        await tables.members_log.add(now, sample)
        await tables.configuration.raise_directory_as_of(now)
        await self._read_memberships(rows)
        run.result.listed = len(self._listed)

    async def _read_memberships(self, rows: Mapping[str, Channel]) -> None:
        run, checkpoint = self._run, self._run.checkpoint("members")
        done, ids = await checkpoint.start(), ids_of_people(await run.tables.users.all())
        unanswered = 0
        for number, channel in enumerate(self._listed, 1):
            if channel.is_archived or channel.id in done:
                continue
            name = rows[channel.id].name
            try:
                run.result.memberships += await self._read_members(channel, ids)
            except (TokenRefused, MissingScope):
                raise
            except SlackError as error:
                unanswered = unanswered + 1 if isinstance(error, NoAnswer) else 0
                if unanswered == UNANSWERED:
                    raise
                run.fail(f"members of {name}", error)
                continue
            unanswered = 0
            await checkpoint.add(channel.id)
            run.progress("members", number, len(self._listed), name)
        await checkpoint.clear()

    async def _read_members(self, channel: ListedChannel, ids: Mapping[str, str]) -> bool:
        """Store who is in a channel; return whether anybody is."""
        run, members = self._run, dict[str, None]()
        async for page in run.api.members(channel.id):
            listed = (uid for uid in page.items if is_user_id(uid))
            members |= dict.fromkeys(ids.get(uid, uid) for uid in listed)
        await run.put_members(channel.id, members)
        if int_of(channel.num_members) is None:
            await run.tables.channels.put([listed_channel_of(channel, len(members))])
        return bool(members)


def _members(channel: ListedChannel, stored: Mapping[str, Channel]) -> int:
    """How many members Slack says a channel has, else as many as it had."""
    number = int_of(channel.num_members)
    if number is None:
        return stored[channel.id].members if channel.id in stored else 0
    return max(number, 0)
