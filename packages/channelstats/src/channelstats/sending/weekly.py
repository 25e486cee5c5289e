"""Everything that goes out every week.

Rule: what goes wrong with one report costs that report alone; a run ends early only where no other
could be sent either. It can be done again, and sends what is not there yet.
"""

import html
from collections.abc import Awaitable, Callable
from typing import Final

from channelstats.days import period_text
from channelstats.facts import Period
from channelstats.pages.goals import Measured, measure_week
from channelstats.pages.model import ChoiceError
from channelstats.pages.reports import ReportData, ReportKind, ReportRequest
from channelstats.render.names import Directory
from channelstats.render.slack import Content, blocks_of, content_of, escaped, text_block
from channelstats.render.words import weekly_lines
from channelstats.sending.sender import Sender, SendJob, SendResult, SendState
from channelstats.sending.targets import Target, WeeklyPlan
from channelstats.settings import Settings
from channelstats.slack.errors import MissingScope, NoAnswer, SlackError, TokenRefused
from channelstats.slack.web_api import WebApi
from channelstats.tables import Tables
from channelstats.tables.sent_reports import SentKey

LINK, GOALS = "link", "goals"
"""The kinds of the message that links to a channel report, and of that on goals and alerts."""

MAX_UNANSWERED: Final = 5
"""Reports in a row without an answer after which Slack counts as out of reach."""

_LINK, _TOPIC = "link to", "topic for"
"""Steps after a report, as messages name them."""


def weekly_key(target: Target, week: Period) -> SentKey:
    return SentKey(target.kind, target.subject, week.start, week.days, target.destination)


class WeeklyRun:
    """Sends every report of a period, made one after the other of the same frames. ``say`` is given
    a line for what was sent, ``complain`` for what was not; ``show`` how many are done, of all.
    """

    def __init__(
        self,
        sender: Sender,
        api: WebApi,
        data: ReportData,
        directory: Directory,
        settings: Settings,
        *,
        say: Callable[[str], None],
        complain: Callable[[str], None],
        show: Callable[[int, int], None],
    ) -> None:
        self._sender, self._api = sender, api
        self._data, self._directory, self._settings = data, directory, settings
        self._say, self._complain, self._show = say, complain, show
        self._week = data.period
        self._is_news = False
        self._given_up: set[str] = set()

    async def run(self, plan: WeeklyPlan, tables: Tables) -> bool:
        """Send everything; return whether it ended before all was tried."""
        unanswered = 0
        for number, target in enumerate(plan.targets, 1):
            if self._is_hidden(target):
                self._tell(target.words, "not sent, too few people posted there")
                continue
            try:
                await self._send(target, plan.links)
                unanswered = 0
            except TokenRefused as error:
                return self._stop(str(error))
            except SlackError as error:
                self._fail(target.words, error)
                unanswered = unanswered + 1 if isinstance(error, NoAnswer) else 0
                if isinstance(error, MissingScope):
                    return self._stop(f"nothing can be sent without the scope {error.needed}")
                if unanswered == MAX_UNANSWERED:
                    return self._stop(f"no answer for {MAX_UNANSWERED} reports in a row")
            self._show(number, len(plan.targets) + bool(plan.goals))
        if plan.goals:
            await self._send_goals(tables, plan.goals)
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

    def _tell_of(self, what: str, result: SendResult) -> None:
        if result.state is not SendState.ALREADY:
            self._tell(what, result.text(self._week.zone))

    def _is_hidden(self, target: Target) -> bool:
        """Whether a channel has too few posters to be reported on."""
        groups, subject = self._data.groups, target.subject
        is_channel = target.kind is ReportKind.CHANNEL and subject in groups.posters
        return is_channel and not groups.shows(subject)

    async def _send(self, target: Target, links: str) -> None:
        settings = self._settings
        wanted = ReportRequest(
            target.kind,
            target.subject,
            settings.optin_channel,
            settings.help_channel,
            settings.dashboard_url,
        )
        content = content_of(wanted, self._data, self._directory)
        result = await self._sender.send(SendJob(weekly_key(target, self._week), content))
        self._tell_of(target.words, result)
        if target.kind is not ReportKind.CHANNEL or result.state is SendState.BUSY:
            return
        if links:
            await self._after(_LINK, target, lambda: self._post_link(target, result, links))
        if result.state is SendState.SENT:
            await self._after(_TOPIC, target, lambda: self._set_topic(target))

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
        permalink = await self._api.permalink(result.channel, result.ts)
        week, name = self._week, self._directory.channel(target.subject)
        period = period_text(week.start, week.last)
        text = f"<{permalink}|The report> on <#{target.subject}>, {period}"
        content = Content(f"The report on #{escaped(name)}", [text_block(text)])
        key = SentKey(LINK, target.subject, week.start, week.days, links)
        await self._sender.send(SendJob(key, content))

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

    # ── goals and alerts ─────────────────────────────────────────────────────────────────────────

    async def _send_goals(self, tables: Tables, destination: str) -> None:
        """Post how goals and alerts came out; nothing where there is nothing to say."""
        settings, what = self._settings, "goals and alerts"
        try:
            goals, alerts = await measure_week(
                tables,
                self._week,
                settings.goals,
                settings.alerts,
                settings.options,
                first_weekday=settings.first_weekday,
            )
            content = goals_content(goals, alerts, self._week)
            if content is not None:
                key = SentKey(GOALS, "", self._week.start, self._week.days, destination)
                self._tell_of(what, await self._sender.send(SendJob(key, content)))
        except (SlackError, ChoiceError) as error:
            self._fail(what, error)


def goals_content(goals: list[Measured], alerts: list[Measured], week: Period) -> Content | None:
    """The message on goals and alerts; None where there is nothing to say."""
    lines = weekly_lines(goals, alerts)
    if not lines:
        return None
    title = f"Goals and alerts, {period_text(week.start, week.last)}"
    text = "\n".join([f"*{escaped(title)}*", *map(escaped, lines)])
    return Content(title, blocks_of([text]))
