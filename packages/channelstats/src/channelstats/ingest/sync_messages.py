"""Messages from the Web API → Message, FirstPost and ChannelConfiguration, many at once.

Rule: of a channel, everything is stored before it counts as read: messages, then the watermark,
then the note that it is done. What one channel meets is not the trouble of another; but the run has
read up to its beginning only when it read every channel that Slack lets it read.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing

import msgspec

from channelstats.counting import Counting
from channelstats.identifiers import seconds
from channelstats.ingest.first_posts import FirstPostKeeper
from channelstats.ingest.message_row import Origin
from channelstats.ingest.opted_out import OptedOut
from channelstats.ingest.people import channel_name, store_users, user_of_profile
from channelstats.ingest.seen import put_seen, seen_of, step_of
from channelstats.ingest.sync_choice import DAY, UNANSWERED, SyncChoice
from channelstats.ingest.sync_events import (
    ChannelSynced,
    Failed,
    Gap,
    LeftOut,
    MessagesStarted,
    Outside,
    Refused,
    Stopped,
    SyncEvent,
)
from channelstats.ingest.sync_progress import Progress
from channelstats.ingest.sync_reading import ChannelReader, gone
from channelstats.ingest.threads import Change, lowest, settle
from channelstats.slack.api import SlackApi
from channelstats.slack.api_errors import (
    NOT_A_MEMBER,
    CallRefused,
    ChannelRefused,
    MissingScope,
    NoAnswer,
    SlackError,
    TokenRefused,
)
from channelstats.slack.api_objects import ListedChannel
from channelstats.slack.export import left_out
from channelstats.tables import Tables
from keytables import Clock


class MessageSync:
    """One run over the messages of some channels. Afterwards: ``begun``, since when those that are
    done were read, in this run and the interrupted ones before it; ``unread``, what it could have
    read and did not, or why it read nothing; "" for everything being read.
    """

    def __init__(
        self,
        api: SlackApi,
        tables: Tables,
        *,
        clock: Clock,
        counting: Counting,
        choice: SyncChoice,
        out: OptedOut,
    ) -> None:
        self._api, self._tables, self._clock = api, tables, clock
        self._counting, self._choice, self._out = counting, choice, out
        self._lacking: dict[bool, str] = {}  # scopes, by whether channels are private
        self._unanswered = 0
        self._stopped = False
        self._joins = choice.join
        self._users: set[str] = set()
        self.begun = 0
        self.unread = "nothing was read"

    async def run(self, listed: list[ListedChannel]) -> AsyncGenerator[SyncEvent, None]:
        """Read the channels, and report as they are done, in whichever order that is."""
        users = await self._tables.users.all()
        self._users = set(users)
        bots = frozenset(user.slack_uid for user in users.values() if user.is_bot)
        keeper = FirstPostKeeper(self._tables, self._counting, bots)
        mark = self._choice.mark
        progress = Progress(self._tables.configuration, "messages", self._clock, mark)
        done = await progress.start()
        yield MessagesStarted(len(listed), len(done & {channel.id for channel in listed}))

        await keeper.start()
        self.begun = progress.begun
        read, failed = len(done), list[Failed]()
        left = ((n, one) for n, one in enumerate(listed, 1) if one.id not in done)
        events: asyncio.Queue[SyncEvent | None] = asyncio.Queue(2 * self._choice.concurrency)

        async def work() -> None:
            nonlocal read
            for number, channel in left:
                for event in await self._attempt(channel, number, len(listed), keeper):
                    if isinstance(event, ChannelSynced):
                        await progress.add(channel.id)
                        read += 1
                    elif isinstance(event, Failed):
                        failed.append(event)
                    await events.put(event)
                if self._stopped:
                    return

        async with aclosing(_gathered(work, self._choice.concurrency, events)) as told:
            async for event in told:
                yield event
        await keeper.finish()
        self.unread = _unread(read, failed)
        if not self._stopped:
            await progress.forget()

    async def _attempt(
        self, channel: ListedChannel, number: int, channels: int, keeper: FirstPostKeeper
    ) -> list[SyncEvent]:
        """Read a channel; return what there is to report of it."""
        name, private = channel_name(channel.name) or channel.id, bool(channel.is_private)
        if private in self._lacking:
            return []
        try:
            found, done = await self._read_or_join(channel, keeper)
        except TokenRefused as error:
            return self._stop(str(error))
        except MissingScope as error:
            if private in self._lacking:
                return []  # another channel has told
            self._lacking[private] = error.needed
            every = "every private channel" if private else "every public channel"
            return [Failed(every, str(error))]
        except ChannelRefused as error:
            self._unanswered = 0
            outside = error.code == NOT_A_MEMBER
            if outside and channel.is_archived:  # nobody can let it in any more
                return [LeftOut(channel.id, name)]
            return [Outside(name, str(error)) if outside else Refused(name, str(error))]
        except SlackError as error:
            failed = Failed(name, str(error))
            self._unanswered = self._unanswered + 1 if isinstance(error, NoAnswer) else 0
            if self._unanswered < UNANSWERED:
                return [failed]
            return [failed, *self._stop(f"no answer for {UNANSWERED} channels in a row")]
        self._unanswered = 0
        synced = msgspec.structs.replace(done, number=number, channels=channels)
        return [*found, synced]

    def _stop(self, reason: str) -> list[SyncEvent]:
        if self._stopped:
            return []
        self._stopped = True
        return [Stopped(reason)]

    # ── one channel ──────────────────────────────────────────────────────────────────────────────

    async def _read_or_join(
        self, channel: ListedChannel, keeper: FirstPostKeeper
    ) -> tuple[list[SyncEvent], ChannelSynced]:
        """Read a channel; where its bot has to be a member first, and that is wanted, join it."""
        try:
            return await self._read(channel, keeper)
        except ChannelRefused as error:
            may_join = self._joins and not channel.is_private and not channel.is_archived
            if error.code != NOT_A_MEMBER or not may_join:
                raise
        try:
            await self._api.join(channel.id)
        except MissingScope as error:  # for joining, not for reading
            self._joins = False
            raise CallRefused(error.method, error.reason) from None
        return await self._read(channel, keeper)

    async def _read(
        self, channel: ListedChannel, keeper: FirstPostKeeper
    ) -> tuple[list[SyncEvent], ChannelSynced]:
        """Read a channel and store it; return what was met and what was done."""
        tables, cid, now = self._tables, channel.id, int(self._clock())
        name = channel_name(channel.name) or cid
        watermark = await tables.watermarks.get(cid)
        since = self._choice.window(watermark, now)
        oldest = _ts(min(self._choice.threads(now), since))
        stored = await tables.messages.of_channel(cid, oldest)
        origin = Origin(cid, "api", now, _ts(now + DAY))
        reader = ChannelReader(self._api, origin, oldest=oldest, window=_ts(since), stored=stored)
        reading = await reader.read()

        if (low := lowest(reading.rows)) and low < oldest:
            stored = await tables.messages.of_channel(cid, low)
        deleted = [
            msgspec.structs.replace(row, deleted=True, fetched_at=now)
            for row in gone(reading, stored)
        ]
        seen = await seen_of(tables.configuration, cid)
        before = max([watermark, *(step.at for step in seen.steps)])
        changes = settle(stored, [*self._out.rows(reading.rows), *deleted], seen)
        await tables.messages.write(row for row, _ in changes)
        times = {row.ts for row in reading.rows}
        step = step_of(
            times, stored, at=now, since=_ts(since), until=_ts(now), threads=reading.threads
        )
        await put_seen(tables.configuration, cid, seen.with_step(step))
        for row, replaced in changes:
            keeper.consider(row, replaced)
        new = {uid: name for uid, name in reading.profiles.items() if uid not in self._users}
        profiles = [user_of_profile(*one) for one in new.items() if one[0] not in self._out]
        await store_users(tables, profiles, now, replace=False)
        self._users |= new.keys()
        top = max((row.ts for row in reading.rows if not row.is_reply), default="")
        if top:
            await tables.watermarks.raise_to(cid, seconds(top))
        gap = [Gap(name, before, since)] if self._choice.leaves_a_gap(before, now) else []
        return [*left_out(name, reading.broken), *gap], ChannelSynced(
            cid,
            name,
            0,
            0,
            messages=len(times),
            threads=len(reading.threads),
            changed=len(changes),
            edited=sum(map(_is_edited, changes)),
            deleted=len(deleted),
        )


async def _gathered(
    work: Callable[[], Coroutine[object, object, None]],
    workers: int,
    events: asyncio.Queue[SyncEvent | None],
) -> AsyncGenerator[SyncEvent, None]:
    """The events that several workers put into the queue, until all have ended."""
    tasks = [asyncio.create_task(work()) for _ in range(workers)]

    async def end() -> None:
        try:
            await asyncio.gather(*tasks)
        finally:
            await events.put(None)

    ending = asyncio.create_task(end())
    try:
        while (event := await events.get()) is not None:
            yield event
        await ending
    finally:
        for task in (*tasks, ending):
            task.cancel()
        await asyncio.gather(*tasks, ending, return_exceptions=True)


def _unread(read: int, failed: list[Failed]) -> str:
    """What of the channels was not read; "" if all was that Slack lets the token read."""
    missed = [one for one in failed if not isinstance(one, Refused)]
    if not missed and not read:
        missed = failed
    if not missed:
        return "" if read else "there is no channel to read"
    more = f" and {len(missed) - 1:,} more" if len(missed) > 1 else ""
    return f"{missed[0]}{more}"


def _ts(second: int) -> str:
    return f"{second:010d}.000000"


def _is_edited(change: Change) -> bool:
    row, replaced = change
    return replaced is not None and row.edited_ts > replaced.edited_ts
