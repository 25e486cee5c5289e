"""What is read from the Web API: users, channels, members, messages, threads; and channels that are
changed: made, named, joined, filled with people.

Rule: what is so already counts as done, so that every change can be done again.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import msgspec

from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.slack.client import Page, Params, SlackClient
from channelstats.slack.errors import CallRefused, NoAnswer
from channelstats.slack.objects import (
    Broken,
    HistoryMessage,
    Identity,
    ListedChannel,
    Loose,
    SlackUser,
    object_of,
)

MOST_INVITED: Final = 900
"""People invited in one call; Slack takes 1,000."""


class Topic(msgspec.Struct):
    value: str = ""


class ChannelInfo(msgspec.Struct):
    """A channel as Slack has it now."""

    id: str = ""
    name: str = ""
    created: Loose = None
    topic: Topic = msgspec.field(default_factory=Topic)
    is_member: bool = False


class WebApi:
    """Everything raises `SlackError`."""

    def __init__(self, client: SlackClient) -> None:
        self._client = client

    async def close(self) -> None:
        await self._client.close()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def users(self) -> AsyncIterator[Page[SlackUser]]:
        """All users, deactivated ones and bots among them."""
        return self._client.pages("users.list", "members", SlackUser, {})

    def channels(self, *, private: bool) -> AsyncIterator[Page[ListedChannel]]:
        """All public channels, archived ones among them; the private ones as well on demand."""
        types = "public_channel,private_channel" if private else "public_channel"
        asked: Params = {"types": types, "exclude_archived": False}
        return self._client.pages("conversations.list", "channels", ListedChannel, asked)

    def members(self, cid: str) -> AsyncIterator[Page[str]]:
        """The IDs of a channel's members."""
        return self._client.pages("conversations.members", "members", str, {"channel": cid})

    def history(self, cid: str, oldest: str) -> AsyncIterator[Page[HistoryMessage]]:
        """The messages of a channel from the timestamp ``oldest`` on, in any order: those outside
        threads, heads and broadcasts.
        """
        asked: Params = {"channel": cid, "oldest": oldest, "inclusive": True}
        return self._client.pages("conversations.history", "messages", HistoryMessage, asked)

    def replies(self, cid: str, ts: str) -> AsyncIterator[Page[HistoryMessage]]:
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

    async def own_id(self) -> str:
        """The ID of the user or bot of the token."""
        uid = (await self._client.call("auth.test", {})).get("user_id")
        if not is_user_id(uid):
            raise NoAnswer("auth.test", "an answer without a user")
        return uid

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

    async def set_purpose(self, cid: str, purpose: str) -> None:
        await self._client.write("conversations.setPurpose", {"channel": cid, "purpose": purpose})

    async def create(self, name: str) -> ChannelInfo:
        """Make a public channel."""
        method = "conversations.create"
        found = _channel(method, await self._client.write(method, {"name": name}, once=True))
        if not is_channel_id(found.id):
            raise NoAnswer(method, "an answer without a channel")
        found.name = found.name or name
        return found

    async def unarchive(self, cid: str) -> None:
        try:
            await self._client.write("conversations.unarchive", {"channel": cid})
        except CallRefused as error:
            if error.code != "not_archived":
                raise

    async def invite(self, cid: str, people: Sequence[str]) -> int:
        """Invite up to `MOST_INVITED` people; those who cannot be are left out. Return how many
        could not.
        """
        body = {"channel": cid, "users": ",".join(people), "force": True}
        try:
            answer = await self._client.write("conversations.invite", body)
        except CallRefused as error:
            if error.code != "already_in_channel":
                raise
            return 0
        errors = answer.get("errors")
        codes = [
            error.get("error")
            for error in (errors if isinstance(errors, list) else [])
            if isinstance(error, dict)
        ]
        return sum(code != "already_in_channel" for code in codes)


def _channel(method: str, answer: Mapping[str, object]) -> ChannelInfo:
    try:
        return object_of(answer.get("channel"), ChannelInfo)
    except Broken:
        raise NoAnswer(method, "an answer without a channel") from None
