"""Changing channels: made, named, joined, filled with people.

Rule: what is so already counts as done, so that everything here can be done again.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.slack.client import SlackClient
from channelstats.slack.errors import CallRefused, NoAnswer
from channelstats.slack.objects import Broken, Loose, object_of, whole

MOST_INVITED: Final = 900
"""People invited in one call; Slack takes 1,000."""


class ChannelState(msgspec.Struct, frozen=True):
    """A channel as Slack has it now."""

    topic: str
    is_member: bool


class CreatedChannel(msgspec.Struct, frozen=True):
    """A channel that was made."""

    cid: str
    name: str
    created: int


class _Text(msgspec.Struct):
    value: str = ""


class _Channel(msgspec.Struct):
    id: str = ""
    name: str = ""
    created: Loose = None
    topic: _Text = msgspec.field(default_factory=_Text)
    is_member: bool = False


class ChannelAdmin:
    """Over HTTP. Everything raises `SlackError`."""

    def __init__(self, client: SlackClient) -> None:
        self._client = client

    async def own_id(self) -> str:
        """The ID of the user or bot of the token."""
        answer = await self._client.call("auth.test", {})
        uid = answer.get("user_id")
        if not is_user_id(uid):
            raise NoAnswer("auth.test", "an answer without a user")
        return uid

    async def about(self, cid: str) -> ChannelState:
        method = "conversations.info"
        found = _channel(method, await self._client.call(method, {"channel": cid}))
        return ChannelState(found.topic.value, found.is_member)

    async def join(self, cid: str) -> None:
        await self._client.write("conversations.join", {"channel": cid})

    async def leave(self, cid: str) -> None:
        await self._client.write("conversations.leave", {"channel": cid})

    async def set_topic(self, cid: str, topic: str) -> None:
        await self._client.write("conversations.setTopic", {"channel": cid, "topic": topic})

    async def set_purpose(self, cid: str, purpose: str) -> None:
        await self._client.write("conversations.setPurpose", {"channel": cid, "purpose": purpose})

    async def create(self, name: str) -> CreatedChannel:
        """Make a public channel."""
        method = "conversations.create"
        found = _channel(method, await self._client.write(method, {"name": name}, once=True))
        if not is_channel_id(found.id):
            raise NoAnswer(method, "an answer without a channel")
        return CreatedChannel(found.id, found.name or name, whole(found.created) or 0)

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
        return _refused(answer)


def _refused(answer: Mapping[str, object]) -> int:
    errors = answer.get("errors")
    if not isinstance(errors, list):
        return 0
    codes = [error.get("error") for error in errors if isinstance(error, dict)]
    return sum(code != "already_in_channel" for code in codes)


def _channel(method: str, answer: Mapping[str, object]) -> _Channel:
    try:
        return object_of(answer.get("channel"), _Channel)
    except Broken:
        raise NoAnswer(method, "an answer without a channel") from None
