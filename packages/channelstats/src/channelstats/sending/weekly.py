"""Everything that goes out every week.

Rule: what goes wrong with one report costs that report alone; a run ends early only where no other
could be sent either. It can be done again, and sends what is not there yet.
"""

import html
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, TypeAlias

import msgspec

from channelstats.days import period_text
from channelstats.render.names import Directory
from channelstats.render.slack import Content, SlackBlock, content_of, escaped
from channelstats.sending.sender import Errand, Outcome, Sender, State
from channelstats.sending.targets import LINK, Plan, Target
from channelstats.settings import Settings
from channelstats.slack.channel_admin import ChannelAdmin
from channelstats.slack.errors import MissingScope, NoAnswer, SlackError, TokenRefused
from channelstats.slack.posting import Posting
from channelstats.stats import Period
from channelstats.tables.sent_reports import SentKey
from channelstats.views.report_data import ReportData
from channelstats.views.reports import ReportKind, Wanted, report_on

UNANSWERED: Final = 5
"""Reports in a row without an answer after which Slack counts as out of reach."""


class Delivered(msgspec.Struct, frozen=True):
    """A report that is there, or is being sent by another run."""

    target: Target
    outcome: Outcome


class LeftOut(msgspec.Struct, frozen=True):
    """A report that is not sent, on purpose."""

    target: Target
    reason: str


class Failed(msgspec.Struct, frozen=True):
    """Something that was not done; run again, it may be."""

    what: str
    reason: str

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"


class Stopped(msgspec.Struct, frozen=True):
    """Nothing after this was tried."""

    reason: str

    def __str__(self) -> str:
        return f"stopped: {self.reason}"


Event: TypeAlias = Delivered | LeftOut | Failed | Stopped


def weekly_key(target: Target, week: Period) -> SentKey:
    return SentKey(target.kind, target.subject, week.start, week.days, target.destination)


class Reports:
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
        """What the channel beside a channel is for."""
        return f"Weekly reports on {self._directory.channel(target.subject)}"

    def link(self, target: Target, permalink: str) -> Content:
        """The message that links to a channel report."""
        name = self._directory.channel(target.subject)
        text = f"<{permalink}|The report> on <#{target.subject}>, {self.period}"
        block: SlackBlock = {"type": "section", "text": {"type": "mrkdwn", "text": text}}
        return Content(f"The report on #{escaped(name)}", [block])


class Weekly:
    """One run; see the module."""

    def __init__(
        self, sender: Sender, posting: Posting, care: ChannelAdmin, reports: Reports, week: Period
    ) -> None:
        self._sender, self._posting, self._care = sender, posting, care
        self._reports, self._week = reports, week
        self._given_up: set[_Step] = set()

    async def run(self, plan: Plan) -> AsyncGenerator[Event, None]:
        """Send, and report as it goes on."""
        unanswered = 0
        for target in plan.targets:
            if self._reports.is_hidden(target):
                yield LeftOut(target, "too few people posted there")
                continue
            try:
                async for event in self._send(target, plan.links):
                    yield event
                unanswered = 0
            except TokenRefused as error:
                yield Stopped(str(error))
                return
            except SlackError as error:
                yield Failed(target.words, str(error))
                unanswered = unanswered + 1 if isinstance(error, NoAnswer) else 0
                if isinstance(error, MissingScope):
                    yield Stopped(f"nothing can be sent without the scope {error.needed}")
                    return
                if unanswered == UNANSWERED:
                    yield Stopped(f"no answer for {UNANSWERED} reports in a row")
                    return

    async def _send(self, target: Target, links: str) -> AsyncGenerator[Event, None]:
        content = self._reports.content(target)
        outcome = await self._sender.send(Errand(weekly_key(target, self._week), content))
        yield Delivered(target, outcome)
        if target.kind is not ReportKind.CHANNEL or outcome.state is State.BUSY:
            return
        if links and (failed := await self._beside(self._link, target, outcome, links)):
            yield failed
        if outcome.state is not State.SENT:
            return
        if failed := await self._beside(self._topic, target, outcome, links):
            yield failed

    # ── beside the report on a channel ───────────────────────────────────────────────────────────

    async def _beside(
        self, step: "_Step", target: Target, outcome: Outcome, links: str
    ) -> Failed | None:
        """Do what the report does not depend on. Where it lacks a scope, it is told of once."""
        if step in self._given_up:
            return None
        try:
            await step(target, outcome, links)
        except TokenRefused:
            raise
        except SlackError as error:
            if isinstance(error, MissingScope):
                self._given_up.add(step)
            what = "link to" if step == self._link else "topic beside"
            return Failed(f"{what} the {target.words}", str(error))
        return None

    async def _link(self, target: Target, outcome: Outcome, links: str) -> None:
        """Post where the report is to the channel for links."""
        permalink = await self._posting.permalink(outcome.channel, outcome.thread)
        content = self._reports.link(target, permalink)
        of, week = target.subject, self._week
        key = SentKey(LINK, of, week.start, week.days, links)
        await self._sender.send(Errand(key, content))

    async def _topic(self, target: Target, outcome: Outcome, links: str) -> None:  # noqa: ARG002
        """Say in the topic of the channel beside it what it is for."""
        cid, topic = target.destination, self._reports.topic(target)
        about = await self._care.about(cid)
        if html.unescape(about.topic) == topic:
            return
        if not about.is_member:
            await self._care.join(cid)
        try:
            await self._care.set_topic(cid, topic)
        finally:
            if not about.is_member:
                await self._care.leave(cid)


_Step: TypeAlias = Callable[[Target, Outcome, str], Awaitable[None]]
