"""The methods of the Web API that are used: what is read, channels that are changed, messages and
files that are posted, and found again.

Rule: a change that is in effect already counts as success, so every change of a channel can be
repeated.

Rule: a post that may have succeeded is not repeated: the caller searches for it first, by the mark
in the metadata of every message, which people do not see.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import msgspec

from channelstats.identifiers import is_channel_id, is_timestamp, is_user_id, timestamp
from channelstats.slack.client import Check, ListingPage, Params, SlackClient
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

MARK: Final = "channelstats_report"
"""The type of the metadata that messages carry."""

PAGES: Final = 10
"""Pages that are looked through for a message."""

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


class Mark(msgspec.Struct, frozen=True):
    """Which message it is: the part of an edition of a report, and the blocks that are posted with
    it and the ones before it.
    """

    edition: str
    part: int
    blocks: int


class Posted(msgspec.Struct, frozen=True):
    """A message that is there. ``channel`` is that of a direct message, where it was posted to a
    person.
    """

    channel: str
    ts: str
    mark: Mark


class _Metadata(msgspec.Struct):
    event_type: str
    event_payload: Mark


class _Message(msgspec.Struct):
    """A message, if it has no mark or one like ours. Any other is broken, and nobody's loss."""

    ts: str = ""
    metadata: _Metadata | None = None

    @property
    def mark(self) -> Mark | None:
        found = self.metadata
        if found is None or found.event_type != MARK or not is_timestamp(self.ts):
            return None
        return found.event_payload


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

    # ── posting ──────────────────────────────────────────────────────────────────────────────────

    async def post(
        self,
        to: str,
        message: Mapping[str, object],
        mark: Mark,
        *,
        thread_ts: str = "",
        before: Check | None = None,
    ) -> Posted:
        """Post a message, as `channelstats.render.slack` makes them, to a channel or a
        person, once. ``before``: see `SlackClient.write`.

        :raises NoAnswer: it may be there; `find` tells
        """
        thread = {"thread_ts": thread_ts} if thread_ts else {}
        metadata = {"event_type": MARK, "event_payload": msgspec.structs.asdict(mark)}
        body = {"channel": to, **message, **thread, "metadata": metadata}
        answer = await self._client.write("chat.postMessage", body, once=True, before=before)
        channel, ts = answer.get("channel"), answer.get("ts")
        if not (is_channel_id(channel) and is_timestamp(ts)):
            raise NoAnswer("chat.postMessage", "an answer that does not say what was posted")
        return Posted(channel, ts, mark)

    async def note(self, channel: str, text: str) -> None:
        """Post a line that nobody looks for again."""
        body = {"channel": channel, "text": text, "unfurl_links": False, "unfurl_media": False}
        await self._client.write("chat.postMessage", body, once=True)

    async def find(
        self, to: str, edition: str, part: int, *, thread_ts: str = "", since: int
    ) -> Posted | None:
        """The message with the mark, if it was posted since then (in seconds)."""
        channel = await self.direct(to) if is_user_id(to) else to
        asked: Params = {
            "channel": channel,
            "oldest": timestamp(since * 1_000_000),
            "include_all_metadata": True,
        }
        method = "conversations.history"
        if thread_ts:
            method, asked = "conversations.replies", {**asked, "ts": thread_ts}
        async for page in self._client.pages(method, "messages", _Message, asked, most=PAGES):
            for message in page.items:
                mark = message.mark
                if mark is not None and (mark.edition, mark.part) == (edition, part):
                    return Posted(channel, message.ts, mark)
        return None

    async def direct(self, uid: str) -> str:
        """The ID of the direct messages with somebody."""
        answer = await self._client.write("conversations.open", {"users": uid})
        channel = answer.get("channel")
        cid = channel.get("id") if isinstance(channel, dict) else None
        if not is_channel_id(cid):
            raise NoAnswer("conversations.open", "an answer without a channel")
        return cid

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
