"""Everything that goes out every week.

Rule: what goes wrong with one report costs that report alone; a run ends early only where no other
could be sent either. It can be done again, and sends what is not there yet.
"""

import html
from collections.abc import AsyncGenerator, Awaitable
from typing import Final, TypeAlias

import msgspec

from channelstats.days import period_text
from channelstats.render.names import Directory
from channelstats.render.slack import Content, SlackBlock, content_of, escaped
from channelstats.sending.sender import Sender, SendJob, SendResult, SendState
from channelstats.sending.targets import LINK, Target, WeeklyPlan
from channelstats.settings import Settings
from channelstats.slack.channel_admin import ChannelAdmin
from channelstats.slack.errors import MissingScope, NoAnswer, SlackError, TokenRefused
from channelstats.slack.posting import Posting
from channelstats.stats import Period
from channelstats.tables.sent_reports import SentKey
from channelstats.views.report_data import ReportData
from channelstats.views.reports import ReportKind, Wanted, report_on

MAX_UNANSWERED: Final = 5
"""Reports in a row without an answer after which Slack counts as out of reach."""

_LINK, _TOPIC = "link to", "topic for"
"""Steps after a report, as messages name them."""


class Delivered(msgspec.Struct, frozen=True):
    """A report that is there, or is being sent by another run."""

    target: Target
    result: SendResult


class Skipped(msgspec.Struct, frozen=True):
    """A report that is not sent, on purpose."""

    target: Target
    reason: str


class WeeklyFailed(msgspec.Struct, frozen=True):
    """Something that was not done; run again, it may be."""

    what: str
    reason: str

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"


class RunStopped(msgspec.Struct, frozen=True):
    """Nothing after this was tried."""

    reason: str

    def __str__(self) -> str:
        return f"stopped: {self.reason}"


Event: TypeAlias = Delivered | Skipped | WeeklyFailed | RunStopped


def weekly_key(target: Target, week: Period) -> SentKey:
    return SentKey(target.kind, target.subject, week.start, week.days, target.destination)


class WeeklyReports:
    """The reports of one period, made one after the other of the same frames."""

    def __init__(self, data: ReportData, directory: Directory, settings: Settings) -> None:
        self._data, self._directory, self._settings = data, directory, settings

    @property
    def period(self) -> str:
        return period_text(self._data.period.start, self._data.period.last)

    def is_hidden(self, target: Target) -> bool:
        """Whether a channel has too few posters to be reported on."""
        groups, subject = self._data.groups, target.subject
        is_channel = target.kind is ReportKind.CHANNEL and subject in groups.posters
        return is_channel and not groups.shows(subject)

    def content(self, target: Target) -> Content:
        settings = self._settings
        wanted = Wanted(target.kind, target.subject, settings.optin_channel, settings.help_channel)
        return content_of(report_on(wanted, self._data), self._directory)

    def topic(self, target: Target) -> str:
        """The topic of the stats channel of a channel."""
        return f"Weekly reports on {self._directory.channel(target.subject)}"

    def link(self, target: Target, permalink: str) -> Content:
        """The message that links to a channel report."""
        name = self._directory.channel(target.subject)
        text = f"<{permalink}|The report> on <#{target.subject}>, {self.period}"
        block: SlackBlock = {"type": "section", "text": {"type": "mrkdwn", "text": text}}
        return Content(f"The report on #{escaped(name)}", [block])


class WeeklyRun:
    """Sends every report of a plan."""

    def __init__(
        self,
        sender: Sender,
        posting: Posting,
        channels: ChannelAdmin,
        reports: WeeklyReports,
        week: Period,
    ) -> None:
        self._sender, self._posting, self._channels = sender, posting, channels
        self._reports, self._week = reports, week
        self._given_up: set[str] = set()

    async def run(self, plan: WeeklyPlan) -> AsyncGenerator[Event, None]:
        """Send, and report as it goes on."""
        unanswered = 0
        for target in plan.targets:
            if self._reports.is_hidden(target):
                yield Skipped(target, "too few people posted there")
                continue
            try:
                async for event in self._send(target, plan.links):
                    yield event
                unanswered = 0
            except TokenRefused as error:
                yield RunStopped(str(error))
                return
            except SlackError as error:
                yield WeeklyFailed(target.words, str(error))
                unanswered = unanswered + 1 if isinstance(error, NoAnswer) else 0
                if isinstance(error, MissingScope):
                    yield RunStopped(f"nothing can be sent without the scope {error.needed}")
                    return
                if unanswered == MAX_UNANSWERED:
                    yield RunStopped(f"no answer for {MAX_UNANSWERED} reports in a row")
                    return

    async def _send(self, target: Target, links: str) -> AsyncGenerator[Event, None]:
        content = self._reports.content(target)
        result = await self._sender.send(SendJob(weekly_key(target, self._week), content))
        yield Delivered(target, result)
        if target.kind is not ReportKind.CHANNEL or result.state is SendState.BUSY:
            return
        if links:
            async for failed in self._after(_LINK, self._post_link(target, result, links), target):
                yield failed
        if result.state is SendState.SENT:
            async for failed in self._after(_TOPIC, self._set_topic(target), target):
                yield failed

    # ── after the report on a channel ────────────────────────────────────────────────────────────

    async def _after(
        self, what: str, step: Awaitable[None], target: Target
    ) -> AsyncGenerator[WeeklyFailed, None]:
        """Do what the report does not depend on; where it lacks a scope, once."""
        try:
            await step
        except TokenRefused:
            raise
        except SlackError as error:
            if isinstance(error, MissingScope):
                self._given_up.add(what)
            yield WeeklyFailed(f"{what} the {target.words}", str(error))

    async def _post_link(self, target: Target, result: SendResult, links: str) -> None:
        """Post where the report is to the channel for links."""
        if _LINK in self._given_up:
            return
        permalink = await self._posting.permalink(result.channel, result.thread)
        content = self._reports.link(target, permalink)
        key = SentKey(LINK, target.subject, self._week.start, self._week.days, links)
        await self._sender.send(SendJob(key, content))

    async def _set_topic(self, target: Target) -> None:
        """Say in the topic of the stats channel what it is for."""
        if _TOPIC in self._given_up:
            return
        cid, topic = target.destination, self._reports.topic(target)
        about = await self._channels.about(cid)
        if html.unescape(about.topic) == topic:
            return
        if not about.is_member:
            await self._channels.join(cid)
        try:
            await self._channels.set_topic(cid, topic)
        finally:
            if not about.is_member:
                await self._channels.leave(cid)
