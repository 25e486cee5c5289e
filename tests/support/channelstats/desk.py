"""Sending over the fake Slack, with tables and clocks of its own."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any

from channelstats.render.slack import Content, SlackBlock
from channelstats.sending.sender import Sender, SendJob
from channelstats.slack.client import SlackClient
from channelstats.slack.rate_limits import AppKind
from channelstats.slack.transport import SdkTransport
from channelstats.slack.web_api import WebApi
from channelstats.tables.sent_reports import HELD, SentKey, SentReports
from keytables.lease import RENEWALS
from support.channelstats.fake_slack import TOKEN
from support.channelstats.house import NOW
from support.channelstats.slack_house import Slack
from support.channelstats.workspace import Raw, Workspace

KEY = SentKey("global", "", date(2024, 3, 10), 7, "CGEN")
TO_ALICE = SentKey("user", "UALICE", date(2024, 3, 10), 7, "UALICE")


def block(number: int, length: int = 100) -> SlackBlock:
    text = f"{number} ".ljust(length, "x")
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def content(blocks: int, length: int = 100) -> Content:
    return Content("A report", [block(number, length) for number in range(blocks)])


def errand(key: SentKey = KEY) -> SendJob:
    """A report."""
    return SendJob(key, content(3))


def office(**channels: Raw) -> Workspace:
    """Channels by name that a report may go to; each one's ID is C and its name in capitals."""
    users = [{"id": uid, "name": uid[1:].lower()} for uid in ("UALICE", "UBOB", "UCARA")]
    listed = [
        {"id": f"C{name.upper()}", "name": name, "is_member": True, "members": ["UALICE"], **more}
        for name, more in {"gen": {}, **channels}.items()
    ]
    return Workspace(users=users, channels=listed)


@dataclass
class Wall:
    """The time of day, which goes on while somebody sleeps."""

    slack: Slack

    def __call__(self) -> float:
        return NOW + self.slack.waits.now


@dataclass
class Desk:
    """What posts, over one connection. ``meanwhile`` is what others do while it waits."""

    slack: Slack
    api: WebApi
    meanwhile: Callable[[], Awaitable[None]] | None = None

    def sender(self, sent: SentReports) -> Sender:
        return Sender(self.api, sent, clock=Wall(self.slack))

    async def sleep(self, seconds: float) -> None:
        """Sleep, in pieces: others may do something in between."""
        self.slack.waits.slept.append(seconds)
        while seconds > 0:
            piece = min(seconds, HELD / RENEWALS)
            self.slack.waits.now += piece
            seconds -= piece
            if self.meanwhile is not None:
                await self.meanwhile()


@asynccontextmanager
async def desk(slack: Slack) -> AsyncIterator[Desk]:
    async def sleep(seconds: float) -> None:
        await opened.sleep(seconds)

    async with SdkTransport.open(TOKEN, base_url=f"{slack.url}/api/") as transport:
        calls = SlackClient(transport, AppKind.INTERNAL, clock=slack.waits.clock, sleep=sleep)
        opened = Desk(slack, WebApi(calls))
        yield opened


def posted(slack: Slack, cid: str = "CGEN") -> list[Raw]:
    """The messages of a channel."""
    found: list[Raw] = slack.told()["messages"].get(cid, [])
    return found


def blocks_in(messages: list[Raw]) -> list[Any]:
    return [of for message in messages for of in message.get("blocks", [])]
