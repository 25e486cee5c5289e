"""Messages of one week, and of days before it, for the lists of what is to be done."""

from datetime import date
from typing import Any

from channelstats.days import DAY
from channelstats.facts import Period
from channelstats.facts.periods import History
from support.channelstats.house import UTC
from support.channelstats.workspace import Raw

WEEK = Period(date(2024, 3, 10), 7, UTC)
LONG_AGO = History(WEEK.start - 100 * DAY, WEEK.last)


def said(day: int, user: str, thread: Raw | None = None, **more: Any) -> Raw:
    """A message at noon of a day of the week; negative ones lie before."""
    ts = f"{WEEK.begin + 86_400 * day + 43_200 + len(user)}.000000"
    message: Raw = {"type": "message", "user": user, "ts": ts, "text": "a b", **more}
    if thread is not None:
        message |= {"thread_ts": thread["ts"], "parent_user_id": thread["user"]}
    return message


def liked(day: int, user: str, by: str) -> Raw:
    return said(day, user, reactions=[{"name": "wave", "users": [by], "count": 1}])


def joined(day: int, user: str) -> Raw:
    return said(day, user, subtype="channel_join")
