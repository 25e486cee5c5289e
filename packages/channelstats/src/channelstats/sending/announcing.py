"""Announces a new weekly report to the subscribers of the dashboard.

Rule: nobody is notified about a week twice, nor about one that was complete when they subscribed.
Who sends to a subscription holds its lease, for longer than sending takes: of several programs one
sends, and what a killed one has held is sent later. Should a message go out twice all the same, its
topic makes one of the two.

A run ends: push services that are busy or silent are asked again a few times and left for the next
run, and subscriptions that nothing has come through to for a month are removed.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import date
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from channelstats.days import date_at
from channelstats.render.words import change_text, number_text, plural, shortened, unmet_lines
from channelstats.sending.push_sender import (
    AT_ONCE,
    DEFAULT_CONTACT,
    PushAnswer,
    PushOutcome,
    PushSender,
    vapid_key,
)
from channelstats.settings import Settings
from channelstats.slack.rate_limits import Sleep
from channelstats.stats import Period
from channelstats.stats.document import document_of
from channelstats.stats.period import WEEK, last_complete_week
from channelstats.stats.quantities import Change
from channelstats.tables import Tables
from channelstats.tables.subscriptions import Subscription, announced, failed
from channelstats.views.goals import measure_week
from channelstats.views.model import ChoiceError
from keytables import Clock
from keytables.retries import Backoff

ATTEMPTS: Final = 3
LONGEST_WAIT: Final = 30
"""Seconds that are waited for within a run. A push service that wants more is left for later."""
BACKOFF: Final = Backoff(2, LONGEST_WAIT, jitter=0.0)
"""Where the push service names no time to wait."""
WHOLE_RUN: Final = 600
"""Seconds after which no further subscription is begun."""
SHORTEST_PAUSE: Final = 3600
LONGEST_PAUSE: Final = 86_400
"""Seconds that a failing subscription is left alone for; in between, as long again as it has failed
already."""
GIVEN_UP: Final = 28 * 86_400
"""Seconds without a message that came through, after which a subscription is removed."""
EVERY: Final = 600
"""Seconds from one look for a new week to the next."""

MAX_LINES: Final = 3
"""Of goals and alerts in a notification; screens show no more."""

TITLE: Final = "A new weekly report is ready"

_log: Final = logging.getLogger("channelstats.notifications")

# ── The week and its message ─────────────────────────────────────────────────────────────────────


def complete_week(read_up_to: int, now: float, zone: ZoneInfo, first_weekday: int) -> Period | None:
    """The newest week that is over and read to its end. ``read_up_to``: seconds, 0 for nothing."""
    if read_up_to <= 0:
        return None
    at = min(read_up_to, int(now))
    return Period(last_complete_week(date_at(at, zone), first_weekday), WEEK, zone)


async def newest_week(tables: Tables, settings: Settings, clock: Clock) -> Period | None:
    """The newest complete week of the store."""
    read = await tables.configuration.last_run()
    return complete_week(read, clock(), tables.zone, settings.first_weekday)


class WeekMessage(msgspec.Struct, frozen=True):
    """What a notification shows. ``url`` is a path of the dashboard."""

    title: str
    body: str
    url: str


class _Compared(msgspec.Struct):
    statistics: dict[str, Change]


class _Document(msgspec.Struct):
    """What is read of a document."""

    compared: _Compared
    channels: dict[str, msgspec.Raw]


def message_of(document: bytes, week: Period) -> WeekMessage | None:
    """The message about a week, from the document of its report; None when there were no messages.

    Rule: it has numbers of the whole workspace and names nobody and nothing: others may see the
    screen that shows it.
    """
    report = msgspec.json.decode(document, type=_Document)
    messages = report.compared.statistics["messages"]
    number = messages["cur"]
    if not number:
        return None
    change = change_text(messages)
    posters = report.compared.statistics["posters"]["cur"]
    channels = len(report.channels)
    body = (
        f"{_days(week.start, week.last)}: {number_text(number)} {plural(number, 'message')}"
        f"{f' ({change})' if change else ''} by {number_text(posters)} "
        f"{plural(posters, 'person')} in {channels:,} {plural(channels, 'channel')}"
    )
    url = f"/report?from={week.start.isoformat()}&to={week.last.isoformat()}"
    return WeekMessage(TITLE, body, url)


async def _with_goals(
    message: WeekMessage, tables: Tables, week: Period, settings: Settings
) -> WeekMessage:
    """The message with the goals that were not met, and the alerts."""
    try:
        goals, alerts = await measure_week(
            tables,
            week,
            settings.goals,
            settings.alerts,
            settings.options,
            first_weekday=settings.first_weekday,
        )
    except ChoiceError as error:
        _log.warning("goals and alerts are not in the notification: %s", error)
        return message
    lines = shortened(unmet_lines(goals, alerts), MAX_LINES)
    return msgspec.structs.replace(message, body="\n".join([message.body, *lines]))


def _days(first: date, last: date) -> str:
    """10 to 16 March 2024; 31 March to 6 April 2024."""
    begin = f"{first.day}" if first.month == last.month else f"{first.day} {first:%B}"
    return f"{begin} to {last.day} {last:%B %Y}"


# ── One week, to everybody ───────────────────────────────────────────────────────────────────────


class AnnounceResult(msgspec.Struct):
    """How many subscriptions were notified, left for later, removed; are being notified by another
    run; or knew of the week before.
    """

    notified: int = 0
    left: int = 0
    removed: int = 0
    held: int = 0
    knew: int = 0
    foreign: int = 0
    """Of those left, how many subscribed with another key than that of this data folder."""
    is_empty_week: bool = False
    """There were no messages in the week, so nobody is notified."""
    is_dry_run: bool = False

    def __str__(self) -> str:
        if self.is_empty_week:
            return "there were no messages in this week: nobody is notified"
        how = "would be notified" if self.is_dry_run else "notified"
        parts = [f"{self.notified:,} {plural(self.notified, 'browser')} {how}"]
        parts += [f"{self.left:,} left for later"] if self.left else []
        parts += [f"{self.removed:,} unsubscribed"] if self.removed else []
        parts += [f"{self.held:,} being notified by another run"] if self.held else []
        parts += [f"{self.knew:,} knew already"] if self.knew else []
        if self.foreign:
            parts += [f"{self.foreign:,} with another key: is this the dashboard's data folder?"]
        return ", ".join(parts)


class Announcer:
    """Announces a week to everybody who waits for it; `run` looks for new weeks."""

    def __init__(
        self, tables: Tables, settings: Settings, *, clock: Clock, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._tables, self._settings = tables, settings
        self._clock, self._sleep = clock, sleep
        self._done: Period | None = None

    async def announce(self, week: Period, *, dry_run: bool = False) -> AnnounceResult:
        """Notify everybody who waits for that week; where nobody does, the report is not computed.
        With ``dry_run``, only count them.

        :raises SettingError: the key cannot be used
        """
        tables, settings = self._tables, self._settings
        result, now = AnnounceResult(is_dry_run=dry_run), self._clock()
        waiting = []
        for one in await tables.subscriptions.all():
            if one.waits_for(week.start, now):
                waiting.append(one)
            elif one.waits_for(week.start, one.not_before):
                result.left += 1
            else:
                result.knew += 1
        if not waiting:
            return result
        document = await document_of(tables, week, settings.options, clock=self._clock)
        message = await asyncio.to_thread(message_of, document, week)
        if message is None:
            return AnnounceResult(is_empty_week=True)
        if dry_run:
            result.notified = len(waiting)
            return result
        message = await _with_goals(message, tables, week, settings)
        key = await asyncio.to_thread(vapid_key, settings.folder)
        reachable = [one for one in waiting if one.vapid == key.public]
        result.foreign = len(waiting) - len(reachable)
        result.left += result.foreign
        contact, hosts = settings.push_contact or DEFAULT_CONTACT, settings.push_hosts
        async with PushSender.open(key, contact, self._clock, hosts) as sender:
            text, end = msgspec.json.encode(message), self._clock() + WHOLE_RUN
            queue = iter(reachable)

            async def work() -> None:
                for one in queue:
                    if self._clock() < end:
                        await self._notify(one, week.start, sender, text, result)
                    else:
                        result.left += 1

            async with asyncio.TaskGroup() as group:
                for _ in range(min(AT_ONCE, len(reachable))):
                    group.create_task(work())
        return result

    async def _notify(
        self, one: Subscription, week: date, sender: PushSender, text: bytes, result: AnnounceResult
    ) -> None:
        """Send to a subscription, and note what came of it."""
        subscriptions = self._tables.subscriptions
        lease = await subscriptions.lease_if_due(one.endpoint, week, self._clock)
        if lease is None:
            result.held += 1
            return
        answer = await self._attempts(one, sender, text)
        now = int(self._clock())
        since = one.failing_since or now
        if answer.outcome is PushOutcome.TAKEN:
            await lease.release(announced(week))
            result.notified += 1
        elif answer.outcome is PushOutcome.GONE or now - since >= GIVEN_UP:
            await subscriptions.remove(one.endpoint)
            result.removed += 1
        else:
            wait = answer.wait
            if answer.outcome is PushOutcome.FAILED:
                wait = max(SHORTEST_PAUSE, min(now - since, LONGEST_PAUSE))
            await lease.release(failed(now + wait, since))
            result.left += 1

    async def _attempts(self, to: Subscription, sender: PushSender, text: bytes) -> PushAnswer:
        """What the push service answered last."""
        for attempt in range(1, ATTEMPTS):
            answer = await sender.send(to, text)
            pause = max(answer.wait, BACKOFF.delay(attempt))
            if answer.outcome is not PushOutcome.BUSY or pause > LONGEST_WAIT:
                return answer
            await self._sleep(pause)
        return await sender.send(to, text)

    # ── as long as the dashboard runs ────────────────────────────────────────────────────────────

    async def check(self) -> AnnounceResult | None:
        """Announce the newest week; None where there is nothing to do."""
        week = await newest_week(self._tables, self._settings, self._clock)
        if week is None or week == self._done:
            return None
        result = await self.announce(week)
        if not (result.left or result.held):
            self._done = week
        return result

    async def run(self) -> None:
        """Check now, and again and again. What goes wrong is logged, and it goes on."""
        while True:
            try:
                result = await self.check()
            except Exception:  # noqa: BLE001 - a fault of today must not silence next week
                _log.exception("the new week could not be announced")
            else:
                if result is not None and (result.notified or result.left or result.removed):
                    _log.info("%s", result)
            await self._sleep(EVERY)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """A context in which it runs as a task of its own."""
        task = asyncio.create_task(self.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
