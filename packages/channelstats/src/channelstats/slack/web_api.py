"""The methods of the Web API that are used: what is read, channels that are changed, messages and
files that are posted.

Rule: a post that may have succeeded is not repeated.
"""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec

from channelstats.identifiers import is_channel_id, is_timestamp
from channelstats.slack.client import Check, ListingPage, Params, SlackClient
from channelstats.slack.errors import NoAnswer
from channelstats.slack.objects import (
    Broken,
    HistoryMessage,
    Identity,
    ListedChannel,
    Loose,
    SlackUser,
    object_of,
)

_ADDRESS: Final = re.compile(r"https?://[\x21-\x7e]{1,2000}")


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

    def __init__(self, client: SlackClient) -> None:
        self._client = client

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def users(self) -> AsyncIterator[ListingPage[SlackUser]]:
        """All users, deactivated ones and bots among them."""
        return self._client.pages("users.list", "members", SlackUser, {})

    def channels(self, *, private: bool) -> AsyncIterator[ListingPage[ListedChannel]]:
        """All public channels, archived ones among them; the private ones as well on demand."""
        types = "public_channel,private_channel" if private else "public_channel"
        asked: Params = {"types": types, "exclude_archived": False}
        return self._client.pages("conversations.list", "channels", ListedChannel, asked)

    def members(self, cid: str) -> AsyncIterator[ListingPage[str]]:
        """The IDs of a channel's members."""
        return self._client.pages("conversations.members", "members", str, {"channel": cid})

    def history(self, cid: str, oldest: str) -> AsyncIterator[ListingPage[HistoryMessage]]:
        """The messages of a channel from the timestamp ``oldest`` on, in any order: those outside
        threads, heads and broadcasts.
        """
        asked: Params = {"channel": cid, "oldest": oldest, "inclusive": True}
        return self._client.pages("conversations.history", "messages", HistoryMessage, asked)

    def replies(self, cid: str, ts: str) -> AsyncIterator[ListingPage[HistoryMessage]]:
        """The thread of the head ``ts``: the head, then its replies."""
        asked: Params = {"channel": cid, "ts": ts}
        return self._client.pages("conversations.replies", "messages", HistoryMessage, asked)

    async def identity(self) -> Identity:
        """Whose token it is."""
        answer = await self._client.answer("auth.test", {})
        found = {name: text for name, text in answer.body.items() if isinstance(text, str)}
        names = {name: found.get(name, "") for name in ("url", "team", "user", "bot_id")}
        scopes = frozenset(scope.strip() for scope in answer.scopes.split(",") if scope.strip())
        return Identity(**names, scopes=scopes)

    async def about(self, cid: str) -> ChannelInfo:
        method = "conversations.info"
        return _channel(method, await self._client.call(method, {"channel": cid}))

    # ── changing ─────────────────────────────────────────────────────────────────────────────────

    async def join(self, cid: str) -> None:
        """Make the token's bot a member of a public channel."""
        await self._client.write("conversations.join", {"channel": cid})

    async def leave(self, cid: str) -> None:
        await self._client.write("conversations.leave", {"channel": cid})

    async def set_topic(self, cid: str, topic: str) -> None:
        await self._client.write("conversations.setTopic", {"channel": cid, "topic": topic})

    # ── posting ──────────────────────────────────────────────────────────────────────────────────

    async def post(
        self, to: str, message: Mapping[str, object], *, before: Check | None = None
    ) -> Posted:
        """Post a message, as `channelstats.render.slack` makes them, to a channel or a
        person, once. ``before``: see `SlackClient.write`.

        :raises NoAnswer: it may be there
        """
        body = {"channel": to, **message}
        answer = await self._client.write("chat.postMessage", body, once=True, before=before)
        channel, ts = answer.get("channel"), answer.get("ts")
        if not (is_channel_id(channel) and is_timestamp(ts)):
            raise NoAnswer("chat.postMessage", "an answer that does not say what was posted")
        return Posted(channel, ts)

    async def permalink(self, channel: str, ts: str) -> str:
        asked: Params = {"channel": channel, "message_ts": ts}
        answer = await self._client.call("chat.getPermalink", asked)
        return _address("chat.getPermalink", answer.get("permalink"))

    async def upload(
        self,
        channel: str,
        name: str,
        title: str,
        data: bytes,
        *,
        thread_ts: str,
        before: Check | None = None,
    ) -> str:
        """Put a file into a thread; return its ID. ``before``: see `SlackClient.write`."""
        method = "files.getUploadURLExternal"
        asked: Params = {"filename": name, "length": len(data)}
        answer = await self._client.call(method, asked)
        url, file = _address(method, answer.get("upload_url")), answer.get("file_id")
        if not isinstance(file, str):
            raise NoAnswer(method, "an answer without a file")
        await self._client.upload(method, url, data)
        files = [{"id": file, "title": title}]
        body = {"files": files, "channel_id": channel, "thread_ts": thread_ts}
        await self._client.write("files.completeUploadExternal", body, once=True, before=before)
        return file


def _channel(method: str, answer: Mapping[str, object]) -> ChannelInfo:
    try:
        return object_of(answer.get("channel"), ChannelInfo)
    except Broken:
        raise NoAnswer(method, "an answer without a channel") from None


def _address(method: str, value: object) -> str:
    if not (isinstance(value, str) and _ADDRESS.fullmatch(value)):
        raise NoAnswer(method, "an answer without an address")
    return value
