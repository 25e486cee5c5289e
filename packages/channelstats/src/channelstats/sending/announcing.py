"""Notifies the subscribers of the dashboard of a new weekly report, and before a week is over of
goals that are sure to be missed and of alerts.

Rule: nobody is notified of anything twice, nor of a week that was complete when they subscribed. A
run holds the lease of a subscription while it sends to it, so of several programs one sends; if it
is killed, another one sends when the lease has expired. Where a message is sent twice nevertheless,
both have the same topic, and the push service keeps one.

A run ends: push services that are busy or do not answer are tried a few times and left to the next
run. Subscriptions that have failed for a month are removed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import date
from functools import cache, partial
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from channelstats.days import date_at
from channelstats.facts import Period
from channelstats.facts.periods import WEEK, last_complete_week
from channelstats.metrics.quantities import change
from channelstats.metrics.query import aggregated
from channelstats.pages.digest import digest_of
from channelstats.pages.goals import Measured, decided, measure_week
from channelstats.pages.model import Choice, ChoiceError, Page, Text
from channelstats.pages.reports import ReportData, ReportKind, ReportRequest, load_report_data
from channelstats.render.html import html_of
from channelstats.render.names import Directory, load
from channelstats.render.text import line_text, text_of
from channelstats.render.words import (
    change_text,
    number_text,
    plural,
    shortened,
    unmet_lines,
    weekly_lines,
)
from channelstats.sending.delivery import Answer, Outcome, attempts
from channelstats.sending.mail import Mail, MailSender, MailServer
from channelstats.sending.push_sender import (
    AT_ONCE,
    DEFAULT_CONTACT,
    TOPIC,
    PushSender,
    vapid_key,
)
from channelstats.settings import Settings
from channelstats.slack.rate_limits import Sleep
from channelstats.tables import Tables
from channelstats.tables.subscriptions import Subscription, announced, failed, warned
from keytables import Clock, Values
from keytables.lease import Lease

WHOLE_RUN: Final = 600
"""Seconds after which no further subscription is begun."""
SHORTEST_PAUSE: Final = 3600
LONGEST_PAUSE: Final = 86_400
"""Seconds until a failing subscription is tried again: as long as it has failed, within these."""
GIVEN_UP: Final = 28 * 86_400
"""Seconds of failure after which a subscription is removed."""
EVERY: Final = 600
"""Seconds between checks for a new week."""

MAX_LINES: Final = 3
"""Of goals and alerts in a notification; screens show no more."""

TITLE: Final = "A new weekly report is ready"
WARNING: Final = "Already sure this week"
WARNED: Final = "warned"
"""The kind of what is sent before a week is over."""

_NOBODY: Final = Directory()

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


def subscribed(new: Subscription, week: Period | None, now: int) -> Subscription:
    """A subscription that is made now, when ``week`` is the newest complete one."""
    start = "" if week is None else week.start.isoformat()
    return msgspec.structs.replace(new, created_at=now, announced=start)


class WeekMessage(msgspec.Struct, frozen=True):
    """What a notification shows. ``url`` is a path of the dashboard."""

    title: str
    body: str
    url: str


def message_of(data: ReportData) -> WeekMessage | None:
    """The message about a week; None when there were no messages.

    Rule: it has numbers of the whole workspace and names nobody and nothing: others may see the
    screen that shows it.
    """
    week = data.period
    names = ("messages", "posters", "channels")
    (written, posters, channels), (before, *_) = (
        aggregated(part, (), names).row(0) for part in (data.now, data.before)
    )
    messages = change(written, before)
    if not (number := messages["cur"]):
        return None
    compared = change_text(messages)
    body = (
        f"{_days(week.start, week.last)}: {number_text(number)} {plural(number, 'message')}"
        f"{f' ({compared})' if compared else ''} by {number_text(posters)} "
        f"{plural(posters, 'person')} in {channels:,} {plural(channels, 'channel')}"
    )
    url = f"/report?from={week.start.isoformat()}&to={week.last.isoformat()}"
    return WeekMessage(TITLE, body, url)


def _with_goals(message: WeekMessage, goals: list[Measured], alerts: list[Measured]) -> WeekMessage:
    """The message with the goals that were not met, and the alerts."""
    lines = shortened(unmet_lines(goals, alerts), MAX_LINES)
    return msgspec.structs.replace(message, body="\n".join([message.body, *lines]))


def _days(first: date, last: date) -> str:
    """10 to 16 March 2024; 31 March to 6 April 2024."""
    begin = f"{first.day}" if first.month == last.month else f"{first.day} {first:%B}"
    return f"{begin} to {last.day} {last:%B %Y}"


def digest_mail(
    data: ReportData,
    names: Directory,
    goals: list[Measured],
    alerts: list[Measured],
    help_channel: str,
) -> Mail:
    """The mail about a week: the digest of its report, goals and alerts."""
    names = replace(names, signs=True)
    page = digest_of(ReportRequest(ReportKind.GLOBAL, "", "", help_channel, ""), data)
    if lines := weekly_lines(goals, alerts):
        said = Text(tuple((line,) for line in lines))
        page = msgspec.structs.replace(page, lead=(*page.lead, said))
    week = data.period
    subject = f"{line_text(page.title, names)}, {_days(week.start, week.last)}"
    return Mail(subject, text_of(page, names), html_of(page, names), week.start)


async def measured_week(
    tables: Tables, settings: Settings, week: Period
) -> tuple[list[Measured], list[Measured]]:
    """Goals and alerts of a week; none where there is too much to measure."""
    try:
        return await measure_week(
            tables,
            week,
            settings.goals,
            settings.alerts,
            settings.options,
            first_weekday=settings.first_weekday,
        )
    except ChoiceError as error:
        _log.warning("goals and alerts are not in the notification: %s", error)
        return [], []


async def sure_lines(tables: Tables, settings: Settings, week: Period) -> dict[str, str]:
    """What is sure before a week is over: a line for each goal that is missed and each alert, by
    what tells them apart.
    """
    goals, alerts = await measured_week(tables, settings, week)
    missed = [goal for goal in goals if decided(goal, is_alert=False)]
    found = [(of, unmet_lines([of], [])) for of in missed]
    found += [(of, unmet_lines([], [of])) for of in alerts if decided(of, is_alert=True)]
    return {of.bound.text: line for of, (line,) in found}


# ── One week, to everybody ───────────────────────────────────────────────────────────────────────


class AnnounceResult(msgspec.Struct):
    """How many subscriptions were notified, left for later, removed; are being notified by another
    run; or knew of the week before, of whom ``later`` ones subscribed when it was over.
    """

    notified: int = 0
    left: int = 0
    removed: int = 0
    held: int = 0
    knew: int = 0
    later: int = 0
    foreign: int = 0
    """Of those left, how many subscribed with another key than that of this data folder."""
    without_server: int = 0
    """Of those left, how many want mail where no server is set."""
    is_empty_week: bool = False
    """There were no messages in the week, so nobody is notified."""
    is_dry_run: bool = False

    def __str__(self) -> str:
        if self.is_empty_week:
            return "there were no messages in this week: nobody is notified"
        how = "would be notified" if self.is_dry_run else "notified"
        parts = [f"{self.notified:,} {plural(self.notified, 'subscriber')} {how}"]
        parts += [f"{self.left:,} left for later"] if self.left else []
        parts += [f"{self.removed:,} unsubscribed"] if self.removed else []
        parts += [f"{self.held:,} being notified by another run"] if self.held else []
        told = self.knew - self.later
        parts += [f"{told:,} knew already"] if told else []
        if self.later:
            parts += [f"{self.later:,} subscribed after it was over: theirs is the next one"]
        if self.foreign:
            parts += [f"{self.foreign:,} with another key: is this the dashboard's data folder?"]
        if self.without_server:
            parts += [f"{self.without_server:,} of them by mail: mail_server is not set"]
        return ", ".join(parts)


class News(msgspec.Struct, frozen=True):
    """What every subscriber is notified of once. Of each ``topic`` a push service keeps the last
    message. ``lease`` is that of a subscription, None where it needs no notification; ``told`` are
    the columns of one that was notified.
    """

    topic: str
    message: Callable[[Subscription], WeekMessage]
    mail: Callable[[Subscription], Mail]
    lease: Callable[[Subscription], Awaitable[Lease | None]]
    told: Callable[[Subscription], Values]


class Announcer:
    """Tells everybody who waits for it of a week that is over, and of what is sure within one;
    `run` looks for new weeks.
    """

    def __init__(
        self,
        tables: Tables,
        settings: Settings,
        *,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
        mail_server: MailServer | None = None,
    ) -> None:
        self._tables, self._settings, self._mail_server = tables, settings, mail_server
        self._clock, self._sleep = clock, sleep
        self._done: Period | None = None

    async def announce(self, week: Period, *, dry_run: bool = False) -> AnnounceResult:
        """Notify everybody who waits for that week; where nobody does, the report is not computed.
        With ``dry_run``, only count them.

        :raises SettingError: the key cannot be used
        """
        tables, settings, subscriptions = self._tables, self._settings, self._tables.subscriptions
        result = AnnounceResult(is_dry_run=dry_run)
        every = await self._tables.subscriptions.all()
        result.later = sum(
            one.created_at >= week.end and not one.waits_for(week.start) for one in every
        )
        waiting = await self._waiting(lambda one: one.waits_for(week.start), result)
        if not waiting:
            return result
        data = await load_report_data(
            tables,
            week,
            settings.options,
            now=int(self._clock()),
            smallest_group=settings.min_group,
        )
        message = await asyncio.to_thread(message_of, data)
        if message is None:
            return AnnounceResult(is_empty_week=True)
        if dry_run:
            result.notified = len(waiting)
            return result
        goals, alerts = await measured_week(tables, settings, week)
        message = _with_goals(message, goals, alerts)
        names = await load(tables, settings.slack_name)
        digest = cache(lambda: digest_mail(data, names, goals, alerts, settings.help_channel))
        news = News(
            topic=TOPIC,
            message=lambda _: message,
            mail=lambda _: digest(),
            lease=lambda one: subscriptions.lease_if_due(one.endpoint, week.start, self._clock),
            told=lambda _: announced(week.start),
        )
        await self._tell(waiting, news, result)
        return result

    async def mail_about(self, week: Period) -> Mail:
        """The mail about a week, as everybody gets it."""
        tables, settings = self._tables, self._settings
        data = await load_report_data(
            tables,
            week,
            settings.options,
            now=int(self._clock()),
            smallest_group=settings.min_group,
        )
        goals, alerts = await measured_week(tables, settings, week)
        names = await load(tables, settings.slack_name)
        made = partial(digest_mail, data, names, goals, alerts, settings.help_channel)
        return await asyncio.to_thread(made)

    async def warn(self, week: Period, lines: Mapping[str, str]) -> AnnounceResult:
        """Tell everybody those of the lines, as `sure_lines` has them, that they were not told.

        :raises SettingError: the key cannot be used
        """
        subscriptions = self._tables.subscriptions
        url = f"/?from={week.start.isoformat()}&to={week.last.isoformat()}"

        def new(one: Subscription) -> dict[str, str]:
            known = one.warned_of(week.start)
            return {bound: line for bound, line in lines.items() if bound not in known}

        def mail(one: Subscription) -> Mail:
            first, *more = new(one).values()
            subject = f"{WARNING}: {first}{f' and {len(more):,} more' if more else ''}"
            days, before = Choice(week.start, week.last), week.previous
            said = Text(tuple((line,) for line in (first, *more)))
            page = Page(WARNED, (WARNING,), days, (before.start, before.last), lead=(said,))
            return Mail(subject, text_of(page, _NOBODY), html_of(page, _NOBODY), week.start)

        def message(one: Subscription) -> WeekMessage:
            body = "\n".join(shortened(list(new(one).values()), MAX_LINES))
            return WeekMessage(WARNING, body, url)

        news = News(
            topic=f"{WARNED}-{week.start.isoformat()}-{len(lines)}",
            message=message,
            mail=mail,
            lease=lambda one: subscriptions.lease_to_warn(one, self._clock),
            told=lambda one: warned(one, week.start, lines),
        )
        result = AnnounceResult()
        if lines:
            await self._tell(await self._waiting(lambda one: bool(new(one)), result), news, result)
        return result

    async def _waiting(
        self, waits: Callable[[Subscription], bool], result: AnnounceResult
    ) -> list[Subscription]:
        """Who waits for something and may be told now."""
        now, found = self._clock(), []
        for one in await self._tables.subscriptions.all():
            if not waits(one):
                result.knew += 1
            elif one.not_before > now:
                result.left += 1
            else:
                found.append(one)
        return found

    async def _tell(self, waiting: list[Subscription], news: News, result: AnnounceResult) -> None:
        """Tell browsers, then mail addresses."""
        pushes = [one for one in waiting if not one.address]
        mails = [one for one in waiting if one.address]
        end = self._clock() + WHOLE_RUN
        if pushes:
            await self._push(pushes, news, end, result)
        if mails and self._mail_server is not None:
            folder, clock = self._settings.folder, self._clock
            sender = await asyncio.to_thread(MailSender, self._mail_server, folder, clock)

            async def send(one: Subscription) -> Answer:
                return await sender.send(one, await asyncio.to_thread(news.mail, one))

            await self._send(mails, news, end, result, send, 1)
        elif mails:
            result.without_server = len(mails)
            result.left += len(mails)

    async def _push(
        self, waiting: list[Subscription], news: News, end: float, result: AnnounceResult
    ) -> None:
        settings = self._settings
        key = await asyncio.to_thread(vapid_key, settings.folder)
        reachable = [one for one in waiting if one.vapid == key.public]
        result.foreign = len(waiting) - len(reachable)
        result.left += result.foreign
        contact, hosts = settings.push_contact or DEFAULT_CONTACT, settings.push_hosts

        async with PushSender.open(key, contact, self._clock, hosts) as sender:

            def send(one: Subscription) -> Awaitable[Answer]:
                return sender.send(one, msgspec.json.encode(news.message(one)), news.topic)

            await self._send(reachable, news, end, result, send, AT_ONCE)

    async def _send(
        self,
        waiting: list[Subscription],
        news: News,
        end: float,
        result: AnnounceResult,
        send: Callable[[Subscription], Awaitable[Answer]],
        at_once: int,
    ) -> None:
        """Send to each, so many at once."""
        queue = iter(waiting)

        async def work() -> None:
            for one in queue:
                if self._clock() < end:
                    await self._notify(one, news, partial(send, one), result)
                else:
                    result.left += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(waiting))):
                group.create_task(work())

    async def _notify(
        self,
        one: Subscription,
        news: News,
        send: Callable[[], Awaitable[Answer]],
        result: AnnounceResult,
    ) -> None:
        """Send to a subscription, and store the outcome."""
        lease = await news.lease(one)
        if lease is None:
            result.held += 1
            return
        answer = await attempts(send, self._sleep)
        now = int(self._clock())
        since = one.failing_since or now
        # An address was written down by the operator; what refuses it may be a setting.
        is_given_up = now - since >= GIVEN_UP and not one.address
        if answer.outcome is Outcome.TAKEN:
            await lease.release(news.told(one))
            result.notified += 1
        elif answer.outcome is Outcome.GONE or is_given_up:
            await self._tables.subscriptions.remove(one.endpoint)
            result.removed += 1
        else:
            wait = answer.wait
            if answer.outcome is Outcome.FAILED:
                wait = max(SHORTEST_PAUSE, min(now - since, LONGEST_PAUSE))
            await lease.release(failed(now + wait, since))
            result.left += 1

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
