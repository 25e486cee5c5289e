"""What is read from the Web API: users, channels, members, messages, threads.

Rule: everything raises `SlackError`.
"""

from collections.abc import AsyncIterator

from channelstats.slack.client import Page, SlackClient
from channelstats.slack.objects import HistoryMessage, Identity, ListedChannel, SlackUser
from channelstats.slack.transport import Params


class WebApi:
    def __init__(self, client: SlackClient) -> None:
        self._client = client

    async def close(self) -> None:
        await self._client.close()

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

    async def join(self, cid: str) -> None:
        """Make the token's bot a member of a public channel."""
        await self._client.write("conversations.join", {"channel": cid})

    async def identity(self) -> Identity:
        """Whose token it is."""
        answer = await self._client.answer("auth.test", {})
        found = {name: text for name, text in answer.body.items() if isinstance(text, str)}
        scopes = frozenset(scope.strip() for scope in answer.scopes.split(",") if scope.strip())
        return Identity(
            found.get("url", ""),
            found.get("team", ""),
            found.get("user", ""),
            found.get("bot_id", ""),
            scopes,
        )
