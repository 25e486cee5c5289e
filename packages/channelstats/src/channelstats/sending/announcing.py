"""Notifies the subscribers of the dashboard of a new weekly report, and before a week is over of
goals already missed and of alerts.

Rule: nobody is notified of anything twice, nor of a week that was complete when they subscribed. A
run holds the lease of the subscriptions while it sends, so of several programs one sends; if it is
killed, another one sends when the lease has expired. Where a message is sent twice nevertheless,
both have the same topic, and the push service keeps one.

What a push service or a mail server does not take now is left to the next run; what has failed for
a month is removed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from http import HTTPStatus
from typing import Final, TypeAlias

import msgspec

from channelstats.facts import Period
from channelstats.render.words import plural
from channelstats.sending.mail import Mail, MailSender, MailServer, reason
from channelstats.sending.web_push import DEFAULT_CONTACT, push_sender, vapid_key
from channelstats.sending.week_messages import (
    WARNED,
    WeekMessage,
    newest_week,
    warning_mail,
    warning_message,
    week_report,
)
from channelstats.settings import Settings
from channelstats.slack.rate_limits import Sleep
from channelstats.tables import Tables
from channelstats.tables.sending import Subscription, warned
from keytables import Clock, Value
from keytables.lease import Lease, LeaseLost

CHECK_EVERY: Final = 600
RETRY_AFTER: Final = 3600
"""Seconds until the dashboard looks for a new week again; until it tries again who was left."""
LONGEST_RUN: Final = 600
"""Seconds after which no further message is sent."""
GIVEN_UP: Final = 28 * 86_400
"""Seconds of failure after which a subscription is removed."""
PUSHES_AT_ONCE: Final = 8

TOPIC: Final = "weekly-report"
_GONE: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)

_log: Final = logging.getLogger("channelstats.notifications")


async def subscribed(
    new: Subscription, tables: Tables, settings: Settings, clock: Clock
) -> Subscription:
    """A subscription that is made now: the newest complete week is known to it."""
    week = await newest_week(tables, settings, clock)
    start = "" if week is None else week.start.isoformat()
    return msgspec.structs.replace(new, created_at=int(clock()), announced=start)


class AnnounceResult(msgspec.Struct):
    """How many subscriptions were notified, left for later or removed, or knew already; what else
    is to be said of them; and whether another run is sending, so that this one did not.
    """

    notified: int = 0
    left: int = 0
    removed: int = 0
    knew: int = 0
    remarks: list[str] = []
    is_busy: bool = False
    is_dry_run: bool = False

    def __str__(self) -> str:
        how = "would be notified" if self.is_dry_run else "notified"
        parts = [f"{self.notified:,} {plural(self.notified, 'subscriber')} {how}"]
        parts += [f"{self.left:,} left for later"] if self.left else []
        parts += [f"{self.removed:,} unsubscribed"] if self.removed else []
        parts += [f"{self.knew:,} knew already"] if self.knew else []
        parts += ["another run is notifying"] if self.is_busy else []
        return ", ".join(parts + self.remarks)


class Notice(msgspec.Struct, frozen=True):
    """What one subscriber is sent. Of each ``topic`` a push service keeps the last message. The
    ``columns`` of the subscription note that it was sent.
    """

    to: Subscription
    topic: str
    message: WeekMessage
    mail: Callable[[], Mail]
    columns: Mapping[str, Value]


Send: TypeAlias = Callable[[Notice], Awaitable[int]]
"""Sends once; returns the status of the answer as in HTTP, 0 for none."""


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
        subscriptions = await self._tables.subscriptions.all()
        done = [known for known in subscriptions if not known.waits_for(week.start)]
        later = sum(known.created_at >= week.end for known in done)
        result = AnnounceResult(knew=len(done) - later, is_dry_run=dry_run)
        if later:
            after = f"{later:,} subscribed after it was over: theirs is the next one"
            result.remarks.append(after)
        if len(done) == len(subscriptions):
            return result
        report = await week_report(self._tables, self._settings, week, self._clock)
        message = await asyncio.to_thread(report.message)
        if message is None:
            return AnnounceResult(remarks=["as there were no messages in this week"])
        if dry_run:
            result.notified = len(subscriptions) - len(done)
            return result
        mail, columns = cache(report.mail), {"announced": week.start.isoformat()}

        def notice_for(to: Subscription) -> Notice | None:
            notice = Notice(to, TOPIC, message, mail, columns)
            return notice if to.waits_for(week.start) else None

        return await self._send_all(notice_for, result)

    async def warn(self, week: Period, lines: Mapping[str, str]) -> AnnounceResult:
        """Tell everybody those of the lines, as `sure_lines` has them, that they were not told.

        :raises SettingError: the key cannot be used
        """
        result, topic = AnnounceResult(), f"{WARNED}-{week.start.isoformat()}-{len(lines)}"

        def notice_for(to: Subscription) -> Notice | None:
            known = to.warned_of(week.start)
            new = [line for bound, line in lines.items() if bound not in known]
            if not new:
                result.knew += 1
                return None
            columns = {"warned": warned(week.start, known | lines.keys())}
            message, mail = warning_message(week, new), partial(warning_mail, week, new)
            return Notice(to, topic, message, mail, columns)

        return await self._send_all(notice_for, result) if lines else result

    # ── sending ──────────────────────────────────────────────────────────────────────────────────

    async def _send_all(
        self, notice_for: Callable[[Subscription], Notice | None], result: AnnounceResult
    ) -> AnnounceResult:
        """Send everybody what they wait for, unless another run does."""
        lease = self._tables.subscriptions.lease(self._clock)
        result.is_busy = not await lease.acquire()
        if result.is_busy:
            return result
        try:
            async with lease:
                # Read again: another run may have sent meanwhile.
                subscriptions = await self._tables.subscriptions.all()
                notices = [notice for to in subscriptions if (notice := notice_for(to))]
                if pushes := [notice for notice in notices if not notice.to.address]:
                    await self._push(pushes, lease, result)
                if mails := [notice for notice in notices if notice.to.address]:
                    await self._mail(mails, lease, result)
        except LeaseLost:
            result.is_busy = True
        return result

    async def _push(self, notices: list[Notice], lease: Lease, result: AnnounceResult) -> None:
        settings = self._settings
        key = await asyncio.to_thread(vapid_key, settings.folder)
        reachable = [notice for notice in notices if notice.to.vapid == key.public]
        if foreign := len(notices) - len(reachable):
            result.left += foreign
            question = "is this the dashboard's data folder?"
            result.remarks.append(f"{foreign:,} with another key: {question}")
        contact = settings.push_contact or DEFAULT_CONTACT
        async with push_sender(key, contact, self._clock, settings.push_hosts) as push:

            async def send(notice: Notice) -> int:
                return await push(notice.to, msgspec.json.encode(notice.message), notice.topic)

            await self._send_each(reachable, send, PUSHES_AT_ONCE, lease, result)

    async def _mail(self, notices: list[Notice], lease: Lease, result: AnnounceResult) -> None:
        if self._mail_server is None:
            result.left += len(notices)
            result.remarks.append(f"{len(notices):,} of them by mail: mail_server is not set")
            return
        folder, clock = self._settings.folder, self._clock
        sender = await asyncio.to_thread(MailSender, self._mail_server, folder, clock)

        async def send(notice: Notice) -> int:
            try:
                await sender.send(notice.to, await asyncio.to_thread(notice.mail))
            except OSError as error:
                _log.warning("a mail was not taken: %s", reason(error))
                return 0
            return HTTPStatus.OK

        await self._send_each(notices, send, 1, lease, result)

    async def _send_each(
        self, notices: list[Notice], send: Send, at_once: int, lease: Lease, result: AnnounceResult
    ) -> None:
        end = self._clock() + LONGEST_RUN
        for start in range(0, len(notices), at_once):
            batch = notices[start : start + at_once]
            if self._clock() >= end:
                result.left += len(batch)
                continue
            await lease.confirm()
            await asyncio.gather(*(self._send(notice, send, result) for notice in batch))

    async def _send(self, notice: Notice, send: Send, result: AnnounceResult) -> None:
        """Send to one, and note what came of it."""
        subscriptions, to = self._tables.subscriptions, notice.to
        status, now = await send(notice), int(self._clock())
        since = to.failing_since or now
        # An address was written down by the operator; what refuses it may be a setting.
        is_given_up = now - since >= GIVEN_UP and not to.address
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            await subscriptions.note(to.endpoint, failing_since=0, **notice.columns)
            result.notified += 1
        elif status in _GONE or is_given_up:
            await subscriptions.remove(to.endpoint)
            result.removed += 1
        else:
            await subscriptions.note(to.endpoint, failing_since=since)
            result.left += 1

    # ── as long as the dashboard runs ────────────────────────────────────────────────────────────

    async def check(self) -> AnnounceResult | None:
        """Announce the newest week; None where there is nothing to do."""
        week = await newest_week(self._tables, self._settings, self._clock)
        if week is None or week == self._done:
            return None
        result = await self.announce(week)
        if not (result.left or result.is_busy):
            self._done = week
        return result

    async def run(self) -> None:
        """Check now, and again and again. What goes wrong is logged, and it goes on."""
        while True:
            pause = CHECK_EVERY
            try:
                result = await self.check()
            except Exception:  # noqa: BLE001 - a fault of today must not silence next week
                _log.exception("the new week could not be announced")
            else:
                if result is not None and result.left:
                    pause = RETRY_AFTER
                if result is not None and (result.notified or result.left or result.removed):
                    _log.info("%s", result)
            await self._sleep(pause)
