"""The Web API of a workspace → every table.

Rule: users, then channels, then messages; a part that fails does not keep the next from being read,
unless nothing can be asked any more. Every run can be repeated, at once or a week later. Up to when
everything was read is noted by a run that read every channel there was to read, and by no other.
"""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final

from channelstats.counting import Counting
from channelstats.ingest.events import OnEvent, ignore_event
from channelstats.ingest.removal import (
    PEOPLE_PLACE,
    Exclusions,
    unknown_channels,
    unknown_people,
)
from channelstats.ingest.sync_directory import (
    CHANNELS_PLACE,
    MEMBERS_PLACE,
    USERS_PLACE,
    list_channels,
    list_users,
    put_channels,
    put_users,
)
from channelstats.ingest.sync_messages import MessageSync
from channelstats.ingest.sync_run import SyncOptions, SyncResult, SyncRun
from channelstats.slack.errors import SlackError, TokenRefused
from channelstats.slack.objects import ListedChannel
from channelstats.slack.web_api import WebApi
from channelstats.tables import Tables
from keytables import Clock


class Part(StrEnum):
    USERS = "users"
    CHANNELS = "channels"
    MESSAGES = "messages"


ALL: Final = frozenset(Part)
MESSAGES_PLACE: Final = "messages"


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
        self._run = SyncRun(api, tables, clock, options or SyncOptions(), on_event)
        self._counting, self._parts = counting, parts
        self._people_known = False
        self._listed: list[ListedChannel] = []
        self._reading: MessageSync | None = None
        self._whole: list[str] = []
        """Why no messages can be read: steps without which they cannot be, and which failed."""

    async def run(self) -> SyncResult:
        """Take in what is wanted."""
        begun = self._run.now
        of_channels = {Part.CHANNELS, Part.MESSAGES}
        await self._step({Part.USERS}, USERS_PLACE, self._users)
        await self._step(of_channels, PEOPLE_PLACE, self._people)
        if not self._whole:
            await self._step(of_channels, CHANNELS_PLACE, self._list)
        if not self._whole:
            await self._step({Part.CHANNELS}, MEMBERS_PLACE, self._channels)
        if not self._whole:
            await self._step({Part.MESSAGES}, MESSAGES_PLACE, self._messages)
        await self._run.tables.messages.close_days()
        if Part.MESSAGES in self._parts and not self._run.options.only:
            await self._note_end(begun)
        return self._run.result

    async def _step(
        self, parts: set[Part], place: str, step: Callable[[], Awaitable[None]]
    ) -> None:
        if not parts & self._parts or self._run.result.stopped:
            return
        try:
            await step()
        except TokenRefused as error:
            self._run.stop(error)
        except SlackError as error:
            self._run.fail(place, error)
            if place in (PEOPLE_PLACE, CHANNELS_PLACE, MESSAGES_PLACE):
                self._whole.append(str(self._run.result.failed[-1]))

    async def _note_end(self, begun: int) -> None:
        """Note up to when everything was read, or why it was not."""
        configuration, reading = self._run.tables.configuration, self._reading
        if self._run.result.stopped:
            await configuration.put_unread(self._run.result.stopped)
        elif self._whole:
            await configuration.put_unread(self._whole[0])
        elif reading is not None and reading.unread:
            await configuration.put_unread(reading.unread)
        elif reading is not None:
            await configuration.raise_last_run(min(begun, reading.begun))

    async def _users(self) -> None:
        users = await list_users(self._run)
        if not users:
            self._run.fail(USERS_PLACE, "an empty list; the users stay as they are")
            return
        wanted = self._run.options.exclude_people
        self._run.report(*unknown_people(wanted, users))
        self._run.excluded = await Exclusions.load(self._run.tables, wanted, users)
        self._people_known = True
        await put_users(self._run, users)

    async def _people(self) -> None:
        """Find out who is left out, unless that is known from the users that were just read."""
        if self._people_known:
            return
        wanted = self._run.options.exclude_people
        known = await self._run.tables.users.all()
        if unknown_people(wanted, known):
            known |= await list_users(self._run)
            self._run.report(*unknown_people(wanted, known))
        self._run.excluded = await Exclusions.load(self._run.tables, wanted, known)

    async def _list(self) -> None:
        run, options = self._run, self._run.options
        self._listed, names = await list_channels(run)
        names |= {channel.name for channel in (await run.tables.channels.all()).values()}
        kind = "" if options.include_private else "public "
        run.report(*unknown_channels(options.exclude, names, kind))
        found = {key for one in self._listed for key in (one.id, one.name)}
        for name in sorted(options.only - found):
            run.fail(name, "no channel is called so, or it is private, or hidden")

    async def _channels(self) -> None:
        await put_channels(self._run, self._listed)

    async def _messages(self) -> None:
        self._reading = MessageSync(self._run, self._counting)
        await self._reading.run(self._listed)
