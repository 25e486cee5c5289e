"""The weekly message on goals and alerts.

Rule: it is one message a week, and none where there is neither a goal nor an alert.
"""

from collections.abc import Sequence
from typing import Final

from channelstats.days import period_text
from channelstats.render.slack import Content, SlackBlock, escaped, split_text
from channelstats.render.words import weekly_lines
from channelstats.sending.sender import SendJob
from channelstats.stats import Period
from channelstats.tables.sent_reports import SentKey
from channelstats.views.goals import Measured

GOALS: Final = "goals"
"""The kind of the message."""


def goals_key(week: Period, destination: str) -> SentKey:
    return SentKey(GOALS, "", week.start, week.days, destination)


def goals_job(
    goals: Sequence[Measured], alerts: Sequence[Measured], week: Period, destination: str
) -> SendJob | None:
    """The message of a week; None where there is nothing to say."""
    lines = weekly_lines(goals, alerts)
    if not lines:
        return None
    text = f"Goals and alerts, {period_text(week.start, week.last)}"
    blocks: list[SlackBlock] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": part}}
        for part in split_text("\n".join([f"*{escaped(text)}*", *map(escaped, lines)]))
    ]
    return SendJob(goals_key(week, destination), Content(text, blocks))
