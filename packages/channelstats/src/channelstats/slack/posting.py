"""Posting messages and files, and finding again what was posted.

Rule: posting is never repeated where it may have been done: whoever posts has to look first, by the
mark that every message carries where people do not see it.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from channelstats.identifiers import is_channel_id, is_timestamp, is_user_id, timestamp
from channelstats.slack.client import Check, Params, SlackClient
from channelstats.slack.errors import NoAnswer

MARK: Final = "channelstats_report"
"""The type of the metadata that messages carry."""

PAGES: Final = 10
"""Pages that are looked through for a message."""

_ADDRESS: Final = re.compile(r"https?://[\x21-\x7e]{1,2000}")


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


class Posting:
    """Messages and files, over HTTP. Everything raises `SlackError`."""

    def __init__(self, client: SlackClient) -> None:
        self._client = client

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


def _address(method: str, value: object) -> str:
    if not (isinstance(value, str) and _ADDRESS.fullmatch(value)):
        raise NoAnswer(method, "an answer without an address")
    return value
