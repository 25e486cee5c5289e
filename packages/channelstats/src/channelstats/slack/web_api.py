"""The methods of the Web API that are used: what is read, channels that are changed, messages and
files that are posted.

Rule: a post that may have succeeded is not repeated.
"""

import re
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from channelstats.identifiers import is_channel_id, is_timestamp
from channelstats.slack.errors import NoAnswer
from channelstats.slack.objects import (
    Broken,
    HistoryMessage,
    Identity,
    ListedChannel,
    Loose,
    SlackUser,
    object_of,
    objects_of,
)

if TYPE_CHECKING:  # slack_sdk and aiohttp take a third of the start of a command
    from channelstats.slack.client import Check, Params, SlackClient

_T = TypeVar("_T")

_ADDRESS: Final = re.compile(r"https?://[\x21-\x7e]{1,2000}")


class ListingPage(msgspec.Struct, Generic[_T], frozen=True):
    """What one call gave, without the ``broken``: of those, what is wrong with each. ``limited``:
    the workspace's plan hides older messages.
    """

    items: list[_T]
    broken: list[str]
    limited: bool = False


class Topic(msgspec.Struct):
    value: str = ""


class ChannelInfo(msgspec.Struct):
    """A channel as Slack has it now."""

    id: str = ""
    name: str = ""
    created: Loose = None
    topic: Topic = msgspec.field(default_factory=Topic)
    is_member: bool = False


class Posted(msgspec.Struct, frozen=True):
    """A message. ``channel`` is that of a direct message, where it was posted to a person."""

    channel: str
    ts: str


class WebApi:
    """Everything raises `SlackError`."""

    def __init__(self, client: "SlackClient") -> None:
        self._client = client

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def users(self) -> AsyncIterator[ListingPage[SlackUser]]:
        """All users, deactivated ones and bots among them."""
        return self._pages("users.list", "members", SlackUser, {})

    def channels(self, *, private: bool) -> AsyncIterator[ListingPage[ListedChannel]]:
        """All public channels, archived ones among them; the private ones as well on demand."""
        types = "public_channel,private_channel" if private else "public_channel"
        asked: Params = {"types": types, "exclude_archived": False}
        return self._pages("conversations.list", "channels", ListedChannel, asked)

    def members(self, cid: str) -> AsyncIterator[ListingPage[str]]:
        """The IDs of a channel's members."""
        return self._pages("conversations.members", "members", str, {"channel": cid})

    def history(self, cid: str, oldest: str) -> AsyncIterator[ListingPage[HistoryMessage]]:
        """The messages of a channel from the timestamp ``oldest`` on, in any order: those outside
        threads, heads and broadcasts.
        """
        asked: Params = {"channel": cid, "oldest": oldest, "inclusive": True}
        return self._pages("conversations.history", "messages", HistoryMessage, asked)

    def replies(self, cid: str, ts: str) -> AsyncIterator[ListingPage[HistoryMessage]]:
        """The thread of the head ``ts``: the head, then its replies."""
        asked: Params = {"channel": cid, "ts": ts}
        return self._pages("conversations.replies", "messages", HistoryMessage, asked)

    async def _pages(
        self, method: str, key: str, kind: type[_T], asked: "Params"
    ) -> AsyncIterator[ListingPage[_T]]:
        async for body in self._client.pages(method, key, asked):
            items, broken = objects_of(body[key], kind)
            yield ListingPage(items, broken, limited=body.get("is_limited") is True)

    async def identity(self) -> Identity:
        """Whose token it is."""
        answer = await self._client.call("auth.test")
        texts = {name: answer.get(name) for name in ("url", "team", "user", "bot_id")}
        names = {name: text for name, text in texts.items() if isinstance(text, str)}
        scopes = answer.headers.get("X-OAuth-Scopes", "").replace(" ", "").split(",")
        return Identity(**names, scopes=frozenset(filter(None, scopes)))

    async def about(self, cid: str) -> ChannelInfo:
        answer = await self._client.call("conversations.info", {"channel": cid})
        try:
            return object_of(answer.get("channel"), ChannelInfo)
        except Broken:
            raise NoAnswer("conversations.info", "an answer without a channel") from None

    # ── changing ─────────────────────────────────────────────────────────────────────────────────

    async def join(self, cid: str) -> None:
        """Make the token's bot a member of a public channel."""
        await self._client.call("conversations.join", json={"channel": cid})

    async def leave(self, cid: str) -> None:
        await self._client.call("conversations.leave", json={"channel": cid})

    async def set_topic(self, cid: str, topic: str) -> None:
        await self._client.call("conversations.setTopic", json={"channel": cid, "topic": topic})

    # ── posting ──────────────────────────────────────────────────────────────────────────────────

    async def post(
        self, to: str, message: Mapping[str, object], *, before: "Check | None" = None
    ) -> Posted:
        """Post a message, as `channelstats.render.slack` makes them, to a channel or a
        person, once. ``before``: see `SlackClient.call`.

        :raises NoAnswer: it may be there
        """
        method, body = "chat.postMessage", {"channel": to, **message}
        answer = await self._client.call(method, json=body, once=True, before=before)
        channel, ts = answer.get("channel"), answer.get("ts")
        if not (is_channel_id(channel) and is_timestamp(ts)):
            raise NoAnswer(method, "an answer that does not say what was posted")
        return Posted(channel, ts)

    async def permalink(self, channel: str, ts: str) -> str:
        asked: Params = {"channel": channel, "message_ts": ts}
        address = (await self._client.call("chat.getPermalink", asked)).get("permalink")
        if not (isinstance(address, str) and _ADDRESS.fullmatch(address)):
            raise NoAnswer("chat.getPermalink", "an answer without an address")
        return address

    async def upload(
        self, posted: Posted, name: str, title: str, data: bytes, *, before: "Check | None" = None
    ) -> None:
        """Put a file into the thread of a message. ``before``: see `SlackClient.call`."""
        await self._client.upload(
            before,
            channel=posted.channel,
            thread_ts=posted.ts,
            filename=name,
            title=title,
            content=data,
        )
