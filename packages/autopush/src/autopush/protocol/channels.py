"""Register and unregister: what is asked of the store, or why it is refused.

Rule: a request that cannot be granted is answered, with the channel it named where that was text,
and the session goes on.
"""

from collections.abc import Collection

from msgspec import UNSET

from autopush.protocol import messages
from autopush.protocol.actions import Send, Subscribe, Unsubscribe
from autopush.protocol.messages import ClientMessage
from autopush.webpush.endpoint_token import decode_key
from autopush.webpush.identifiers import canonical_uuid, is_channel_id


def subscribe(message: ClientMessage, channels: Collection[str], limit: int) -> Subscribe | Send:
    """What a register asks for, `channels` being those there are and `limit` how many may be."""
    channel = message.channel_id
    if not is_channel_id(channel):
        reason = None if channel is UNSET else messages.INVALID_UUID
        if canonical_uuid(channel) is not None:
            reason = messages.BAD_UUID_FORMAT
        return _refusal("register", channel, 401, reason)
    if len(channels) >= limit and channel not in channels:
        return _refusal("register", channel, 400, "too many channels")
    try:
        return Subscribe(channel, decode_key(message.key))
    except ValueError as error:
        return _refusal("register", channel, 400, str(error))


def unsubscribe(message: ClientMessage) -> Unsubscribe | Send:
    """What an unregister asks for."""
    spelling = message.channel_id
    if spelling is UNSET:
        return _refusal("unregister", None, 401, "Missing ChannelID")
    channel = canonical_uuid(spelling)
    if channel is None or not isinstance(spelling, str):
        return _refusal("unregister", spelling, 401, "Invalid ChannelID")
    return Unsubscribe(channel, spelling)


def unanswered(question: Subscribe | Unsubscribe, *, overloaded: bool) -> Send:
    """The reply when the store could not do it."""
    kind = "register" if isinstance(question, Subscribe) else "unregister"
    reason = "overloaded" if overloaded else "storage error"
    return _refusal(kind, question.channel_id, 503, reason)


def _refusal(kind: str, channel: object, status: int, reason: str | None) -> Send:
    return Send(messages.refused(kind, channel, status, reason))
