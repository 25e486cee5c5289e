"""How right To do is, on constructed conversations.

Those of `talks.txt` are strewn over the days of a channel, at random and so that they overlap: of a
channel without threads, of a course, of a Spanish community, of a company. What is open is known,
and so how much of what is listed that is, of all and of the first ten, and how much of what is open
is listed, or stands with a question of the same asker that is.
"""

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from channelstats.counting import Counting
from channelstats.days import Calendar
from channelstats.facts import Inputs, Options, Period
from channelstats.facts.periods import History
from channelstats.ingest.rows import Origin, latest, row_of
from channelstats.pages.annotations import NO_MARKS, with_marks
from channelstats.pages.loading import DashboardData
from channelstats.pages.model import TO_DO, Choice
from channelstats.pages.queue import QUEUE
from channelstats.pages.views import view_of
from channelstats.slack.objects import SlackMessage
from channelstats.tables.columns import frame_of
from channelstats.tables.directory import Channel
from channelstats.tables.message_row import item_of

TALKS: Final = Path(__file__).with_name("talks.txt")
STYLES: Final = {"free": 9, "course": 10, "spanish": 7, "pro": 9}
"""Conversations of a day in a channel of each style."""

JUDGED: Final = Period(date(2024, 3, 4), 5, ZoneInfo("UTC"))
_PEOPLE: Final = 40
_CHANNEL: Final = "C1"
_LINE: Final = re.compile(
    r"(?P<who>[A-Z])\+(?P<minutes>\d+)(?: >(?P<head>\d+))?(?:: (?P<open>O )?(?P<text>.*)"
    r"| :(?P<emoji>\w+): (?P<of>\d+))$"
)


class Line(NamedTuple):
    """What somebody says so many minutes after the first, in the thread of the line ``head`` or in
    the channel; with an ``emoji`` it is a reaction to the line ``of``.
    """

    who: str
    minutes: int
    head: int
    is_open: bool
    text: str
    emoji: str
    of: int


class Message(NamedTuple):
    """As Slack writes it, and whether it is an open question."""

    raw: dict[str, Any]
    is_open: bool


@dataclass
class Judged:
    """What was listed, in its order: whether each is open; the texts of what was listed wrongly and
    of what is missing.
    """

    listed: list[bool] = field(default_factory=list)
    first: list[bool] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)

    @property
    def precision(self) -> float:
        return sum(self.listed) / len(self.listed)

    @property
    def precision_of_first(self) -> float:
        return sum(self.first) / len(self.first)

    @property
    def recall(self) -> float:
        return sum(self.listed) / (sum(self.listed) + self.missing.total())


def lines(block: str) -> list[Line]:
    """The lines of a conversation.

    :raises ValueError: one is none
    """
    found = list[Line]()
    for line in block.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"no line of a conversation: {line}")
        who, minutes, head, is_open, text, emoji, of = match.groups()
        numbers = (int(minutes), int(head or 0), int(of or 0))
        found.append(Line(who, *numbers[:2], bool(is_open), text or "", emoji or "", numbers[2]))
    return found


def said(talk: Sequence[Line], at: int, people: dict[str, str]) -> list[Message]:
    """The messages of a conversation that begins then (seconds)."""
    found = list[Message]()
    for number, line in enumerate(talk):
        uid, ts = people[line.who], f"{at + 60 * line.minutes}.{number:06d}"
        if line.emoji:
            reaction = {"name": line.emoji, "users": [uid], "count": 1}
            found[line.of - 1].raw.setdefault("reactions", []).append(reaction)
            continue
        text = re.sub("<@([A-Z])>", lambda of: f"<@{people[of[1]]}>", line.text)
        raw: dict[str, Any] = {"type": "message", "ts": ts, "user": uid, "text": text}
        if line.head:
            head = found[line.head - 1].raw
            head["thread_ts"] = raw["thread_ts"] = head["ts"]
            head.setdefault("replies", []).append({"user": uid, "ts": ts})
            raw["parent_user_id"] = head["user"]
        found.append(Message(raw, line.is_open))
    return found


def strewn(style: str, rng: random.Random) -> Iterator[Message]:
    """The messages of a channel of a style; nobody in it is new."""
    text = "\n".join(line for line in TALKS.read_text().splitlines() if not line.startswith("#"))
    titled = (block.partition("\n") for block in text.strip().split("\n\n"))
    talks = [lines(block) for title, _, block in titled if style in title.strip("[]").split()]
    everybody = [f"U{number:02d}" for number in range(_PEOPLE)]
    roles = "ABCD"
    for number, uid in enumerate(everybody):
        hello = Line("A", number, 0, is_open=False, text="hello", emoji="", of=0)
        yield from said([hello], JUDGED.begin - 60 * 86_400, {"A": uid})
    for day in range(JUDGED.days):
        for _ in range(STYLES[style]):
            at = JUDGED.begin + day * 86_400 + rng.randrange(8 * 3600, 20 * 3600)
            people = dict(zip(roles, rng.sample(everybody, len(roles)), strict=True))
            yield from said(rng.choice(talks), at, people)


def data_of(messages: Iterable[Message]) -> DashboardData:
    """A workspace with one channel of these messages."""
    now = int(datetime.combine(JUDGED.last + timedelta(30), time(), UTC).timestamp())
    origin = Origin(_CHANNEL, "judged", now, latest(now))
    raw = sorted((of.raw for of in messages), key=lambda of: str(of["ts"]))
    rows = (row_of(msgspec.convert(of, SlackMessage), origin) for of in raw)
    calendar = Calendar(JUDGED.zone)
    frame = frame_of([item_of(row, calendar) for row in rows])
    history = History(JUDGED.start - timedelta(400), JUDGED.last)
    inputs = Inputs(frame, {}, {_CHANNEL: Channel(_CHANNEL, _CHANNEL)}, history=history)
    return DashboardData(inputs, JUDGED, Options(Counting()))


def judge(style: str, seeds: Iterable[int]) -> Judged:
    """What To do lists of channels of a style, each strewn from another seed."""
    found = Judged()
    for seed in seeds:
        rng = random.Random(f"{style} {seed}")
        messages = {of.raw["ts"]: of for of in strewn(style, rng)}
        days = Choice(JUDGED.start, JUDGED.last)
        page = with_marks(view_of(TO_DO, data_of(messages.values()), days), NO_MARKS)
        rows = next(of.rows for of in page.tables if of.name == QUEUE)
        answer = rows.filter(action="Answer")["message"]
        listed = [messages[cell.split("/")[1]] for cell in answer]
        found.listed += [of.is_open for of in listed]
        found.first += [of.is_open for of in listed[:10]]
        found.wrong.update(of.raw["text"] for of in listed if not of.is_open)
        askers = {of.raw["user"] for of in listed if of.is_open}
        missing = (of.raw for of in messages.values() if of.is_open)
        found.missing.update(of["text"] for of in missing if of["user"] not in askers)
    return found
