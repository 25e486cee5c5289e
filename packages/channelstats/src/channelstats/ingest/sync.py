"""The Web API of a workspace → every table.

Rule: users, then channels, then messages; a part that fails does not keep the next from being read,
unless nothing can be asked any more. Every run can be repeated, at once or a week later. Up to when
everything was read is noted by a run that read every channel there was to read, and by no other.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from channelstats.counting import Counting
from channelstats.ingest.opted_out import (
    PEOPLE_PLACE,
    OptedOut,
    channels_not_meant,
    not_meant,
    opted_out,
)
from channelstats.ingest.sync_channels import (
    CHANNELS_PLACE,
    MEMBERS_PLACE,
    ChannelSync,
    list_channels,
)
from channelstats.ingest.sync_choice import SyncChoice
from channelstats.ingest.sync_events import (
    ChannelSynced,
    Failed,
    Gap,
    LeftOut,
    Problem,
    Refused,
    Stopped,
    SyncEvent,
    SyncFinished,
)
from channelstats.ingest.sync_messages import MessageSync
from channelstats.ingest.sync_users import USERS_PLACE, list_users, put_users
from channelstats.slack.api import SlackApi
from channelstats.slack.api_errors import SlackError, TokenRefused
from channelstats.slack.api_objects import ListedChannel
from channelstats.tables import Tables
from channelstats.tables.directory import User
from keytables import Clock


class Part(StrEnum):
    USERS = "users"
    CHANNELS = "channels"
    MESSAGES = "messages"


ALL: Final = frozenset(Part)
MESSAGES_PLACE: Final = "messages"

_Events: TypeAlias = AsyncGenerator[SyncEvent, None]
_Step: TypeAlias = Callable[[], _Events]


class Sync:
    """One run. Start another one to go on after an interruption."""

    def __init__(
        self,
        api: SlackApi,
        tables: Tables,
        *,
        clock: Clock,
        counting: Counting,
        choice: SyncChoice | None = None,
        parts: frozenset[Part] = ALL,
    ) -> None:
        self._api, self._tables, self._clock = api, tables, clock
        self._counting, self._choice, self._parts = counting, choice or SyncChoice(), parts
        self._listed: list[ListedChannel] = []
        self._out: OptedOut | None = None
        self._reading: MessageSync | None = None
        self._sum = SyncFinished()

    async def run(self) -> AsyncGenerator[SyncEvent, None]:
        """Take in what is wanted, and report as it goes on. The last event is `SyncFinished`."""
        steps: tuple[tuple[set[Part], str, _Step], ...] = (
            ({Part.USERS}, USERS_PLACE, self._users),
            ({Part.CHANNELS, Part.MESSAGES}, PEOPLE_PLACE, self._people),
            ({Part.CHANNELS, Part.MESSAGES}, CHANNELS_PLACE, self._list),
            ({Part.CHANNELS}, MEMBERS_PLACE, self._channels),
            ({Part.MESSAGES}, MESSAGES_PLACE, self._messages),
        )
        begun = int(self._clock())
        for parts, place, step in steps:
            if parts & self._parts and not self._over(step):
                async with aclosing(_told(place, step)) as events:
                    async for event in events:
                        self._sum = _added(self._sum, event)
                        yield event
        await self._tables.messages.close_days()
        if Part.MESSAGES in self._parts and not self._choice.only:
            await self._note_end(begun)
        yield self._sum

    async def _note_end(self, begun: int) -> None:
        """Note up to when everything was read, or why it was not."""
        configuration, reading = self._tables.configuration, self._reading
        if self._sum.stopped:
            await configuration.put_unread(self._sum.stopped)
        elif whole := self._failed_whole():
            await configuration.put_unread(str(whole[0]))
        elif reading is not None and reading.unread:
            await configuration.put_unread(reading.unread)
        elif reading is not None:
            await configuration.raise_last_run(min(begun, reading.begun))

    def _failed_whole(self) -> list[Failed]:
        """The steps without which no messages can be read, and which failed."""
        whole = {PEOPLE_PLACE, CHANNELS_PLACE, MESSAGES_PLACE}
        failed = (one for one in self._sum.failed if not isinstance(one, Refused))
        return [one for one in failed if one.place in whole]

    def _over(self, step: _Step) -> bool:
        """Whether a step cannot be done any more."""
        of_channels = step in (self._list, self._channels, self._messages)
        return bool(self._sum.stopped) or (of_channels and bool(self._failed_whole()))

    async def _users(self) -> _Events:
        users, problems = await list_users(self._api)
        for problem in problems:
            yield problem
        if not users:
            yield Failed(USERS_PLACE, "an empty list; the users stay as they are")
            return
        for problem in not_meant(self._choice.exclude_people, users):
            yield problem
        self._out = await self._out_of(users)
        yield await put_users(self._tables, users, self._out, int(self._clock()))

    async def _people(self) -> _Events:
        """Find out who is left out, unless that is known from the users that were just read."""
        if self._out is not None:
            return
        known = await self._tables.users.all()
        if not_meant(self._choice.exclude_people, known):
            users, problems = await list_users(self._api)
            known |= users
            for problem in (*problems, *not_meant(self._choice.exclude_people, known)):
                yield problem
        self._out = await self._out_of(known)

    async def _out_of(self, users: Mapping[str, User]) -> OptedOut:
        return await opted_out(self._tables, self._choice.exclude_people, users)

    async def _list(self) -> _Events:
        self._listed, names, problems = await list_channels(self._api, self._choice)
        names |= {channel.name for channel in (await self._tables.channels.all()).values()}
        kind = "" if self._choice.include_private else "public "
        for problem in (*problems, *channels_not_meant(self._choice.exclude, names, kind)):
            yield problem
        found = {key for one in self._listed for key in (one.id, one.name)}
        for name in sorted(self._choice.only - found):
            yield Failed(name, "no channel is called so, or it is private, or hidden")

    def _channels(self) -> _Events:
        assert self._out is not None
        run = ChannelSync(self._api, self._tables, self._clock, self._choice, self._out)
        return run.run(self._listed)

    def _messages(self) -> _Events:
        assert self._out is not None
        self._reading = MessageSync(
            self._api,
            self._tables,
            clock=self._clock,
            counting=self._counting,
            choice=self._choice,
            out=self._out,
        )
        return self._reading.run(self._listed)


async def _told(place: str, step: _Step) -> _Events:
    """The events of a step, with its failure as one of them."""
    try:
        async with aclosing(step()) as events:
            async for event in events:
                yield event
    except TokenRefused as error:
        yield Stopped(str(error))
    except SlackError as error:
        yield Failed(place, str(error))


def _added(total: SyncFinished, event: SyncEvent) -> SyncFinished:
    """The sums with one event more."""
    change = msgspec.structs.replace
    match event:
        case Problem() | Gap():
            return change(total, problems=total.problems + 1)
        case Failed():
            return change(total, failed=(*total.failed, event))
        case LeftOut():
            return change(total, left_out=total.left_out + 1)
        case Stopped():
            return change(total, stopped=event.reason)
        case ChannelSynced():
            return change(
                total,
                channels=total.channels + 1,
                messages=total.messages + event.messages,
                changed=total.changed + event.changed,
                edited=total.edited + event.edited,
                deleted=total.deleted + event.deleted,
            )
        case _:
            return total
