"""The Web API: users, channels, members, messages, threads.

Rule: a listing goes on until Slack gives no further cursor; a short page is not its end. If a
cursor has expired it begins anew, so what it yields may come twice.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from channelstats.slack.api_calls import Calls
from channelstats.slack.api_errors import InvalidCursor, NoAnswer
from channelstats.slack.api_objects import HistoryMessage, Identity, ListedChannel
from channelstats.slack.api_transport import Params
from channelstats.slack.decoding import Broken, object_of
from channelstats.slack.objects import SlackUser

_T = TypeVar("_T")

RESTARTS: Final = 5
"""Times that a listing begins anew."""


class Page(msgspec.Struct, Generic[_T], frozen=True):
    """What one call gave, without the ``broken``: of those, what is wrong with each. ``limited``:
    the workspace's plan hides older messages.
    """

    items: list[_T]
    broken: list[str]
    limited: bool = False


class SlackApi(Protocol):
    """What is asked of a workspace. Everything raises `SlackError`."""

    def users(self) -> AsyncIterator[Page[SlackUser]]:
        """All users, deactivated ones and bots among them."""
        ...

    def channels(self, *, private: bool) -> AsyncIterator[Page[ListedChannel]]:
        """All public channels, archived ones among them; the private ones as well on demand."""
        ...

    def members(self, cid: str) -> AsyncIterator[Page[str]]:
        """The IDs of a channel's members."""
        ...

    def history(self, cid: str, oldest: str) -> AsyncIterator[Page[HistoryMessage]]:
        """The messages of a channel from the timestamp ``oldest`` on, in any order: those outside
        threads, heads and broadcasts.
        """
        ...

    def replies(self, cid: str, ts: str) -> AsyncIterator[Page[HistoryMessage]]:
        """The thread of the head ``ts``: the head, then its replies."""
        ...

    async def join(self, cid: str) -> None:
        """Make the token's bot a member of a public channel."""
        ...


class WebApi:
    """A `SlackApi` over HTTP."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def close(self) -> None:
        await self._calls.close()

    def users(self) -> AsyncIterator[Page[SlackUser]]:
        return self._pages("users.list", "members", SlackUser, {})

    def channels(self, *, private: bool) -> AsyncIterator[Page[ListedChannel]]:
        types = "public_channel,private_channel" if private else "public_channel"
        asked: Params = {"types": types, "exclude_archived": False}
        return self._pages("conversations.list", "channels", ListedChannel, asked)

    def members(self, cid: str) -> AsyncIterator[Page[str]]:
        return self._pages("conversations.members", "members", str, {"channel": cid})

    def history(self, cid: str, oldest: str) -> AsyncIterator[Page[HistoryMessage]]:
        asked: Params = {"channel": cid, "oldest": oldest, "inclusive": True}
        return self._pages("conversations.history", "messages", HistoryMessage, asked)

    def replies(self, cid: str, ts: str) -> AsyncIterator[Page[HistoryMessage]]:
        asked: Params = {"channel": cid, "ts": ts}
        return self._pages("conversations.replies", "messages", HistoryMessage, asked)

    async def join(self, cid: str) -> None:
        await self._calls.write("conversations.join", {"channel": cid})

    async def identity(self) -> Identity:
        """Whose token it is."""
        answer = await self._calls.answer("auth.test", {})
        found = {name: text for name, text in answer.body.items() if isinstance(text, str)}
        scopes = frozenset(scope.strip() for scope in answer.scopes.split(",") if scope.strip())
        return Identity(
            found.get("url", ""),
            found.get("team", ""),
            found.get("user", ""),
            found.get("bot_id", ""),
            scopes,
        )

    async def _pages(
        self, method: str, key: str, kind: type[_T], asked: Params
    ) -> AsyncIterator[Page[_T]]:
        """Every page of a listing whose items are under ``key``."""
        limit, cursor, restarts = self._calls.limit(method).items, "", 0
        while True:
            at: Params = {"cursor": cursor} if cursor else {}
            try:
                body = await self._calls.call(method, {**asked, "limit": limit, **at})
            except InvalidCursor:
                if not cursor or restarts == RESTARTS:
                    raise
                cursor, restarts = "", restarts + 1
                continue
            values = body.get(key)
            if not isinstance(values, list):
                raise NoAnswer(method, f"an answer without a list {key!r}")
            yield _page(values, kind, limited=body.get("is_limited") is True)
            following = _next_cursor(body)
            if not following:
                return
            if following == cursor:
                raise NoAnswer(method, "the listing does not get on")
            cursor = following


def _page(values: list[object], kind: type[_T], *, limited: bool) -> Page[_T]:
    items, broken = [], []
    for value in values:
        try:
            items.append(object_of(value, kind))
        except Broken as error:
            broken.append(str(error))
    return Page(items, broken, limited)


def _next_cursor(body: Mapping[str, object]) -> str:
    metadata = body.get("response_metadata")
    cursor = metadata.get("next_cursor") if isinstance(metadata, dict) else None
    return cursor if isinstance(cursor, str) else ""
