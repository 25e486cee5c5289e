"""Reports in Slack: one on its way to one place, and everything that goes out every week.

Rule: a run posts only while it holds the lease of the report, which is checked just before, and
notes in the row of the lease what was posted. Slack cannot post something only if it is not there
yet: where its answer was lost, an error says that the message may be there, and nothing is noted.

Rule: what goes wrong with one report costs that report alone; a weekly run ends early only where no
other could be sent either. It can be done again, and sends what is not there yet.
"""

import html
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from channelstats.days import minute_text, period_text
from channelstats.facts import Period
from channelstats.pages.goals import Measured
from channelstats.pages.model import ChoiceError
from channelstats.pages.reports import ReportData, ReportKind
from channelstats.render.names import Directory
from channelstats.render.slack import Content, blocks_of, content_of, escaped, text_block
from channelstats.render.words import weekly_lines
from channelstats.sending.targets import GOALS, Target, WeeklyPlan, report_request
from channelstats.sending.week_messages import measured
from channelstats.settings import Settings
from channelstats.slack.errors import MissingScope, NoAnswer, SlackError, TokenRefused
from channelstats.slack.web_api import Posted, WebApi
from channelstats.tables import Tables
from channelstats.tables.sending import NOT_DONE, Sent, SentKey, SentReports, columns_of
from keytables import Clock, Unavailable
from keytables.lease import Lease, LeaseLost


class Attachment(msgspec.Struct, frozen=True):
    """A file that goes into the thread of a report."""

    name: str
    title: str
    data: bytes


class SendState(StrEnum):
    SENT = "sent"
    ALREADY = "sent already"
    BUSY = "being sent by another run"


class SendResult(msgspec.Struct, frozen=True):
    """``row`` is where the message is, and when it was done; empty while another run sends it."""

    state: SendState
    row: Sent = Sent()

    def text(self, zone: ZoneInfo) -> str:
        """sent; sent already on 2024-03-17 08:00."""
        if self.state is SendState.ALREADY:
            return f"{self.state} on {minute_text(self.row.done, zone)}"
        return str(self.state)


class Sender:
    """Sends one report after the other."""

    def __init__(self, api: WebApi, sent: SentReports, *, clock: Clock) -> None:
        self._api, self._sent, self._clock = api, sent, clock

    async def send(
        self,
        key: SentKey,
        content: Content,
        attachment: Attachment | None = None,
        *,
        again: bool = False,
    ) -> SendResult:
        """Send a report, unless it was sent already; ``again``: whether or not it was.

        :raises SlackError: it could not be posted, or not its file; another call goes on with that
        :raises Unavailable: the lease could not be renewed, or what was posted not be noted
        """
        lease = self._sent.lease(key, self._clock)
        if not await lease.acquire(None if again else NOT_DONE):
            row = await self._sent.get(key)
            if row is not None and row.done and not again:
                return SendResult(SendState.ALREADY, row)
            return SendResult(SendState.BUSY)
        try:
            async with lease:
                row = (None if again else await self._sent.get(key)) or Sent()
                if not row.ts:
                    row = await self._note(await self._post(key, content, lease), lease)
                if attachment is not None:
                    thread, file = Posted(row.channel, row.ts), attachment
                    await self._api.upload(
                        thread, file.name, file.title, file.data, before=lease.confirm
                    )
                done = int(self._clock())
                row = await self._note(msgspec.structs.replace(row, done=done), lease)
        except LeaseLost:
            if await lease.release():  # nobody else has it
                raise Unavailable("the store could not be written for too long") from None
            return SendResult(SendState.BUSY)
        return SendResult(SendState.SENT, row)

    async def _post(self, key: SentKey, content: Content, lease: Lease) -> Sent:
        """:raises LeaseLost: another run has taken over"""
        try:
            posted = await self._api.post(key.destination, content.message, before=lease.confirm)
        except NoAnswer as error:
            raise NoAnswer(
                error.method, f"{error.reason}; if the message is there, do not send it again"
            ) from None
        return Sent(posted.channel, posted.ts)

    async def _note(self, row: Sent, lease: Lease) -> Sent:
        """:raises LeaseLost: another run has taken over"""
        if not await lease.renew(columns_of(row)):
            raise LeaseLost
        return row


# ── every week ───────────────────────────────────────────────────────────────────────────────────

LINK: Final = "link"
"""The kind of the message that links to a channel report."""

MAX_UNANSWERED: Final = 5
"""Reports in a row without an answer after which Slack counts as out of reach."""

_LINK, _TOPIC = "link to", "topic for"
"""Steps after a report, as messages name them."""


class WeeklyRun:
    """Sends every report of a period, made one after the other of the same frames. ``say`` is given
    a line for what was sent, ``complain`` for what was not; ``show`` how many are done, of all.
    """

    def __init__(
        self,
        api: WebApi,
        sender: Sender,
        tables: Tables,
        settings: Settings,
        data: ReportData,
        directory: Directory,
        *,
        say: Callable[[str], None],
        complain: Callable[[str], None],
        show: Callable[[int, int], None],
    ) -> None:
        self._api, self._sender, self._tables, self._settings = api, sender, tables, settings
        self._data, self._directory, self._week = data, directory, data.period
        self._say, self._complain, self._show = say, complain, show
        self._is_news = False
        self._given_up: set[str] = set()

    async def run(self, plan: WeeklyPlan) -> bool:
        """Send everything; return whether it ended before all was tried."""
        unanswered = 0
        for number, target in enumerate(plan.targets, 1):
            try:
                await self._send(target, plan.links)
                unanswered = 0
            except TokenRefused as error:
                return self._stop(str(error))
            except (SlackError, ChoiceError) as error:
                self._fail(target.words, error)
                unanswered = unanswered + 1 if isinstance(error, NoAnswer) else 0
                if isinstance(error, MissingScope):
                    return self._stop(f"nothing can be sent without the scope {error.needed}")
                if unanswered == MAX_UNANSWERED:
                    return self._stop(f"no answer for {MAX_UNANSWERED} reports in a row")
            self._show(number, len(plan.targets))
        if not self._is_news:
            self._say(f"nothing left to send for the week of {self._week.start}")
        return False

    def _stop(self, reason: str) -> bool:
        self._complain(f"stopped: {reason}")
        return True

    def _fail(self, what: str, error: Exception) -> None:
        """Something was not sent; run again, it may be."""
        self._complain(f"{what}: {error}")
        self._is_news = True

    def _tell(self, what: str, became: str) -> None:
        self._say(f"{what}: {became}")
        self._is_news = True

    async def _send(self, target: Target, links: str) -> None:
        groups, subject = self._data.groups, target.subject
        is_channel = target.kind == ReportKind.CHANNEL
        if is_channel and subject in groups.posters and not groups.shows(subject):
            self._tell(target.words, "not sent, too few people posted there")
            return
        content = await self._content(target)
        if content is None:
            return
        result = await self._sender.send(target.key(self._week), content)
        if result.state is not SendState.ALREADY:
            self._tell(target.words, result.text(self._week.zone))
        if not is_channel or result.state is SendState.BUSY:
            return
        if links:
            await self._after(_LINK, target, lambda: self._post_link(target, result, links))
        if result.state is SendState.SENT:
            await self._after(_TOPIC, target, lambda: self._set_topic(target))

    async def _content(self, target: Target) -> Content | None:
        """The message; None where there is nothing to say."""
        if target.kind == GOALS:
            goals, alerts = await measured(self._tables, self._settings, self._week)
            return goals_content(goals, alerts, self._week)
        request = report_request(self._settings, ReportKind(target.kind), target.subject)
        return content_of(request, self._data, self._directory)

    # ── after the report on a channel ────────────────────────────────────────────────────────────

    async def _after(self, what: str, target: Target, step: Callable[[], Awaitable[None]]) -> None:
        """Do what the report does not depend on; where it lacks a scope, once."""
        if what in self._given_up:
            return
        try:
            await step()
        except TokenRefused:
            raise
        except SlackError as error:
            if isinstance(error, MissingScope):
                self._given_up.add(what)
            self._fail(f"{what} the {target.words}", error)

    async def _post_link(self, target: Target, result: SendResult, links: str) -> None:
        """Post where the report is to the channel for links."""
        permalink = await self._api.permalink(result.row.channel, result.row.ts)
        week, name = self._week, self._directory.channel(target.subject)
        period = period_text(week.start, week.last)
        text = f"<{permalink}|The report> on <#{target.subject}>, {period}"
        content = Content(f"The report on #{escaped(name)}", [text_block(text)])
        key = SentKey(LINK, target.subject, week.start, week.days, links)
        await self._sender.send(key, content)

    async def _set_topic(self, target: Target) -> None:
        """Say in the topic of the stats channel what it is for."""
        topic = f"Weekly reports on {self._directory.channel(target.subject)}"
        cid = target.destination
        about = await self._api.about(cid)
        if html.unescape(about.topic.value) == topic:
            return
        if not about.is_member:
            await self._api.join(cid)
        try:
            await self._api.set_topic(cid, topic)
        finally:
            if not about.is_member:
                await self._api.leave(cid)


def goals_content(goals: list[Measured], alerts: list[Measured], week: Period) -> Content | None:
    """The message on goals and alerts; None where there is nothing to say."""
    lines = weekly_lines(goals, alerts)
    if not lines:
        return None
    title = f"Goals and alerts, {period_text(week.start, week.last)}"
    text = "\n".join([f"*{escaped(title)}*", *map(escaped, lines)])
    return Content(title, blocks_of([text]))
