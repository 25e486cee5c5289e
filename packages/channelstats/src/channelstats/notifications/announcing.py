"""A week, to everybody who waits for it.

Rule: whoever sends to a subscription has claimed it before, for a time that is longer than sending
takes; so of several programs at work one sends, and what dies in the middle is taken up later.
Should a message go out twice all the same, its topic makes one of the two.

A run ends: push services that are busy or silent are asked again a few times and left for the next
run, and subscriptions that nothing has come through to for a month are given up.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import msgspec

from channelstats.notifications.message import message_of
from channelstats.notifications.sending import AT_ONCE, Outcome, Sender
from channelstats.notifications.vapid import contact_of, vapid_key
from channelstats.render.words import plural
from channelstats.settings import Settings
from channelstats.stats import Period
from channelstats.stats.stored_document import document_of
from channelstats.tables import Tables
from channelstats.tables.subscriptions import Subscription
from keytables import Clock

Sleep: TypeAlias = Callable[[float], Awaitable[object]]

ATTEMPTS: Final = 3
FIRST_WAIT: Final = 2
"""Seconds after the first attempt, where the push service names none; doubled after each."""
LONGEST_WAIT: Final = 30
"""Seconds that are waited for within a run. A push service that wants more gets it."""
LEASE: Final = 300
"""Seconds that a claim lasts: more than all attempts and waits together."""
WHOLE_RUN: Final = 600
"""Seconds after which nobody new is sent to."""
SHORTEST_PAUSE: Final = 3600
LONGEST_PAUSE: Final = 86_400
"""Seconds that a subscription which cannot be sent to is left alone for; in between, as long again
as it has failed already."""
GIVEN_UP: Final = 28 * 86_400
"""Seconds without a message that came through."""


class Told(msgspec.Struct):
    """How many subscriptions were told, left for later, removed; or knew of the week before."""

    told: int = 0
    left: int = 0
    removed: int = 0
    knew: int = 0
    foreign: int = 0
    """Of those left, how many subscribed with a key that is not the one of this data folder."""
    silent: bool = False
    """Whether nothing was said in the week, so that there is nothing to tell."""
    dry: bool = False
    """Whether all this only would be so."""

    def __str__(self) -> str:
        if self.silent:
            return "nothing was said in this week: nobody is notified"
        how = "would be notified" if self.dry else "notified"
        parts = [f"{self.told:,} {plural(self.told, 'browser')} {how}"]
        parts += [f"{self.left:,} left for later"] if self.left else []
        parts += [f"{self.removed:,} unsubscribed"] if self.removed else []
        parts += [f"{self.knew:,} knew already"] if self.knew else []
        if self.foreign:
            parts += [f"{self.foreign:,} with another key: is this the dashboard's data folder?"]
        return ", ".join(parts)


async def announce(
    tables: Tables,
    week: Period,
    settings: Settings,
    *,
    clock: Clock,
    sleep: Sleep = asyncio.sleep,
    dry_run: bool = False,
) -> Told:
    """Tell everybody who waits for that week. With ``dry_run``, only count them.

    :raises SettingError: the key cannot be used
    """
    told = Told(dry=dry_run)
    now = clock()
    every = await tables.subscriptions.all()
    waiting = []
    for one in every:
        if one.waits_for(week.start, now):
            waiting.append(one)
        elif one.waits_for(week.start, one.not_before):
            told.left += 1
        else:
            told.knew += 1
    if not waiting:
        return told
    document = await document_of(tables, week, settings.options, clock=clock)
    message = await asyncio.to_thread(message_of, document, week)
    if message is None:
        return Told(silent=True)
    if dry_run:
        return msgspec.structs.replace(told, told=len(waiting))
    key = await asyncio.to_thread(vapid_key, settings.folder)
    reached = [one for one in waiting if one.vapid == key.public]
    told.foreign = len(waiting) - len(reached)
    told.left += told.foreign
    own_hosts = settings.own_push_hosts
    async with Sender(key, contact_of(settings), clock, own_hosts) as sender:
        run = _Run(tables, week, sender, message.encoded(), told, clock, sleep)
        await run.tell(reached)
    return told


class _Run:
    def __init__(
        self,
        tables: Tables,
        week: Period,
        sender: Sender,
        text: bytes,
        told: Told,
        clock: Clock,
        sleep: Sleep,
    ) -> None:
        self._subscriptions, self._week, self._sender = tables.subscriptions, week, sender
        self._text, self._told, self._clock, self._sleep = text, told, clock, sleep
        self._end = clock() + WHOLE_RUN

    async def tell(self, waiting: list[Subscription]) -> None:
        queue = iter(waiting)

        async def work() -> None:
            for one in queue:
                await self._tell(one)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(waiting))):
                group.create_task(work())

    async def _tell(self, one: Subscription) -> None:
        now = int(self._clock())
        if now >= self._end:
            self._told.left += 1
            return
        lease = now + LEASE
        if not await self._subscriptions.claim(one.endpoint, self._week.start, now, lease):
            self._told.knew += 1  # or is being told by somebody else
            return
        outcome, wait = await self._attempts(one)
        now = int(self._clock())
        since = one.failing_since or now
        if outcome is Outcome.TAKEN:
            await self._subscriptions.note_announced(one.endpoint, self._week.start, lease)
            self._told.told += 1
        elif outcome is Outcome.GONE or now - since >= GIVEN_UP:
            await self._subscriptions.remove(one.endpoint)
            self._told.removed += 1
        else:
            if outcome is Outcome.FAILED:
                wait = max(SHORTEST_PAUSE, min(now - since, LONGEST_PAUSE))
            await self._subscriptions.failed(one.endpoint, lease, now + wait, since)
            self._told.left += 1

    async def _attempts(self, to: Subscription) -> tuple[Outcome, int]:
        """What came of all attempts, and the seconds that the push service wants to be left alone
        for.
        """
        wait = FIRST_WAIT
        for attempt in range(1, ATTEMPTS + 1):
            answer = await self._sender.send(to, self._text)
            if answer.outcome is not Outcome.BUSY:
                return answer.outcome, 0
            asked = answer.wait or 0
            if attempt == ATTEMPTS or max(asked, wait) > LONGEST_WAIT:
                return answer.outcome, asked
            await self._sleep(max(asked, wait))
            wait *= 2
        raise AssertionError("every attempt has an outcome")
