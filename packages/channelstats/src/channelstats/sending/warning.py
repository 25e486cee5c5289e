"""Tells within a week what is sure before it is over: goals that are missed, and alerts.

Rule: nobody is told of a line twice in that week: who tells it holds the lease of the row of what
was sent, which then says so.
"""

import asyncio
import html
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from channelstats.render.words import unmet_lines
from channelstats.sending.announcing import AnnounceResult, WeekMessage, measured_week
from channelstats.sending.delivery import Answer, Outcome, attempts
from channelstats.sending.mail import Mail, MailSender, MailServer
from channelstats.sending.push_sender import DEFAULT_CONTACT, PushSender, vapid_key
from channelstats.settings import Settings
from channelstats.slack.rate_limits import Sleep
from channelstats.stats import Period
from channelstats.tables import Tables
from channelstats.tables.sent_reports import NOT_DONE, SentKey
from channelstats.tables.subscriptions import id_of
from channelstats.views.goals import decided
from keytables import Clock

WARNING: Final = "Already sure this week"
WARNED: Final = "warned"
"""The kind of what is sent within a week."""


async def sure_lines(tables: Tables, settings: Settings, week: Period) -> dict[str, str]:
    """A line for each goal that is missed and each alert, by what tells them apart."""
    goals, alerts = await measured_week(tables, settings, week)
    missed = [goal for goal in goals if decided(goal, is_alert=False)]
    found = [(of, unmet_lines([of], [])) for of in missed]
    found += [(of, unmet_lines([], [of])) for of in alerts if decided(of, is_alert=True)]
    return {of.bound.text: line for of, (line,) in found}


class Warner:
    """Tells every subscriber of the dashboard."""

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

    async def warn(self, week: Period, lines: Mapping[str, str]) -> AnnounceResult:
        """Tell each of the lines, as `sure_lines` has them.

        :raises SettingError: the key cannot be used
        """
        settings, result = self._settings, AnnounceResult()
        every = await self._tables.subscriptions.all() if lines else []
        if not every:
            return result
        key = await asyncio.to_thread(vapid_key, settings.folder)
        contact, hosts = settings.push_contact or DEFAULT_CONTACT, settings.push_hosts
        server, mailing = self._mail_server, None
        if server is not None:
            mailing = await asyncio.to_thread(MailSender, server, settings.folder, self._clock)
        async with PushSender.open(key, contact, self._clock, hosts) as pushing:
            for bound, line in lines.items():
                url = f"/?from={week.start.isoformat()}&to={week.last.isoformat()}"
                push = msgspec.json.encode(WeekMessage(WARNING, line, url))
                mail = Mail(f"{WARNING}: {line}", f"{line}\n", _page(line), week.start)
                for one in every:
                    send: Callable[[], Awaitable[Answer]] | None = None
                    if one.address and mailing is not None:
                        send = partial(mailing.send, one, mail)
                    elif one.vapid == key.public:
                        send = partial(pushing.send, one, push, WARNED)
                    sent = SentKey(WARNED, bound, week.start, week.days, id_of(one.endpoint))
                    await self._warn(sent, send, result)
        return result

    async def _warn(
        self, key: SentKey, send: Callable[[], Awaitable[Answer]] | None, result: AnnounceResult
    ) -> None:
        lease = self._tables.sent.lease(key, self._clock)
        if send is None:
            result.left += 1
        elif not await lease.acquire(NOT_DONE):
            result.knew += 1
        elif (await attempts(send, self._sleep)).outcome is Outcome.TAKEN:
            await lease.release({"done": int(self._clock())})
            result.notified += 1
        else:
            await lease.release()
            result.left += 1


def _page(line: str) -> str:
    return f"<!doctype html><html><body><p>{html.escape(line)}</p></body></html>"
