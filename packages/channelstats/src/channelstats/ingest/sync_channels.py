"""Channels from the Web API → Channel, their members → BulkStore and ChannelMembersLog.

Rule: a membership is replaced by a later one, never by an empty one; a number of members that Slack
does not give is not logged.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Final

from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.ingest.opted_out import OptedOut
from channelstats.ingest.people import channel_name, listed_channel_of
from channelstats.ingest.sync_choice import UNANSWERED, SyncChoice
from channelstats.ingest.sync_events import (
    ChannelsDone,
    Failed,
    MembersRead,
    Problem,
    SyncEvent,
)
from channelstats.ingest.sync_progress import Progress
from channelstats.ingest.sync_users import as_of
from channelstats.slack.api import SlackApi
from channelstats.slack.api_errors import MissingScope, NoAnswer, SlackError, TokenRefused
from channelstats.slack.api_objects import ListedChannel
from channelstats.slack.export import left_out
from channelstats.slack.objects import whole
from channelstats.tables import Tables
from channelstats.tables.directory import Channel
from keytables import Clock

CHANNELS_PLACE: Final = "conversations.list"
MEMBERS_PLACE: Final = "conversations.members"


async def list_channels(
    api: SlackApi, choice: SyncChoice
) -> tuple[list[ListedChannel], set[str], list[Problem]]:
    """The channels that are wanted, sorted by ID; the names of all; what was wrong with others.

    :raises SlackError: they could not be read
    """
    found: dict[str, ListedChannel] = {}
    names: set[str] = set()
    broken: list[str] = []
    async for page in api.channels(private=choice.include_private):
        broken += page.broken
        for channel in page.items:
            names.add(channel.name or "")
            if not is_channel_id(channel.id):
                broken.append(f"{channel.id[:20]!r} is not the ID of a channel")
            elif choice.wants(channel):
                found[channel.id] = channel
    wanted = [channel for _, channel in sorted(found.items())]
    return wanted, names, left_out(CHANNELS_PLACE, broken)


class ChannelSync:
    """Stores the channels of a list, then the members of one after the other."""

    def __init__(
        self, api: SlackApi, tables: Tables, clock: Clock, choice: SyncChoice, out: OptedOut
    ) -> None:
        self._api, self._tables, self._clock = api, tables, clock
        self._choice, self._out = choice, out

    async def run(self, listed: list[ListedChannel]) -> AsyncGenerator[SyncEvent, None]:
        """Store everything about these channels but their messages.

        :raises SlackError: nothing more can be asked; what was stored until then stays
        """
        stored = await self._tables.channels.all()
        rows = {
            channel.id: listed_channel_of(channel, _members(channel, stored)) for channel in listed
        }
        await self._put(rows, stored, listed)
        now = int(self._clock())
        await self._tables.members_log.add(now, dict(_sample(listed)))
        await as_of(self._tables, now)

        mark = self._choice.mark
        progress = Progress(self._tables.configuration, "members", self._clock, mark)
        done = await progress.start()
        memberships = unanswered = 0
        for number, channel in enumerate(listed, 1):
            if channel.is_archived or channel.id in done:
                continue
            try:
                memberships += await self._put_members(channel)
            except (TokenRefused, MissingScope):
                raise
            except SlackError as error:
                unanswered = unanswered + 1 if isinstance(error, NoAnswer) else 0
                if unanswered == UNANSWERED:
                    raise
                yield Failed(f"members of {rows[channel.id].name}", str(error))
                continue
            unanswered = 0
            await progress.add(channel.id)
            yield MembersRead(channel.id, rows[channel.id].name, number, len(listed))
        await progress.forget()
        archived = sum(bool(channel.is_archived) for channel in listed)
        yield ChannelsDone(len(listed), archived, memberships)

    async def _put(
        self,
        rows: Mapping[str, Channel],
        stored: Mapping[str, Channel],
        listed: Iterable[ListedChannel],
    ) -> None:
        """Store channels and their previous names. Of one name, a channel in use has it."""
        tables = self._tables
        archived_first = sorted(rows.values(), key=lambda row: not row.is_archived)
        await tables.channels.put(archived_first)
        await tables.configuration.put_names({**stored, **rows}.values())
        for channel in sorted(listed, key=lambda one: not one.is_archived):
            for previous in channel.previous_names or ():
                alias = channel_name(previous)
                if alias and not is_channel_id(alias):
                    await tables.channels.put_alias(alias, rows[channel.id])

    async def _put_members(self, channel: ListedChannel) -> bool:
        """Store who is in a channel; return whether anybody is."""
        members: dict[str, None] = {}
        async for page in self._api.members(channel.id):
            members |= dict.fromkeys(uid for uid in page.items if is_user_id(uid))
        if kept := [uid for uid in members if uid not in self._out]:
            await self._tables.bulk.put(channel.id, ",".join(kept))
        if whole(channel.num_members) is None:
            await self._tables.channels.put([listed_channel_of(channel, len(members))])
        return bool(members)


def _members(channel: ListedChannel, stored: Mapping[str, Channel]) -> int:
    """How many members Slack says a channel has, else as many as it had."""
    number = whole(channel.num_members)
    if number is None:
        return stored[channel.id].members if channel.id in stored else 0
    return max(number, 0)


def _sample(listed: Iterable[ListedChannel]) -> Iterable[tuple[str, int]]:
    for channel in listed:
        number = whole(channel.num_members)
        if number is not None and number >= 0 and not channel.is_archived:
            yield channel.id, number
