"""What a session asks of the world: plain values that the owner of the socket carries out.

Rule: an action of the group `Question` is answered exactly once, by `Session.answer` or
`Session.fail`; all others are carried out and forgotten.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from autopush.webpush.notification import Notification


class Row(NamedTuple):
    """A stored message's place.

    `update_id` is set where the row may be replaced (topics): delete only that version.
    """

    sort_key: str
    update_id: str | None


class Send(Struct, frozen=True):
    """Write one text frame."""

    payload: bytes


class Close(Struct, frozen=True):
    """Start the closing handshake with this code."""

    code: int
    reason: str = ""


class Forget(Struct, frozen=True):
    """Delete these rows: acked, expired, or of a channel that is gone. Nobody waits for it."""

    rows: Sequence[Row]


class DropUser(Struct, frozen=True):
    """Forget the user altogether: the next hello gets a new UAID and subscribes anew."""


class Greet(Struct, frozen=True):
    """Question: who is it? Answered by `Greeting`."""

    uaid: str | None


class Subscribe(Struct, frozen=True):
    """Question: add the channel and make its endpoint. Answered by the endpoint URL (str)."""

    channel_id: str
    key: bytes | None


class Unsubscribe(Struct, frozen=True):
    """Question: remove the channel (`spelling`: as the user agent wrote it). Answered by None."""

    channel_id: str
    spelling: str


class ReadStored(Struct, frozen=True):
    """Question: the next stored messages behind `after` (a sort key; None: from the start).

    Answered by `Batch`.
    """

    after: str | None


class Greeting(Struct, frozen=True):
    """Who the user agent turned out to be.

    `connected_at`: ms, as written in the router record. `new`: nothing is stored yet, not even the
    user. `reset`: an old record that is dropped once storage is drained.
    """

    uaid: str
    connected_at: int
    new: bool
    reset: bool = False


class StoredMessage(Struct, frozen=True):
    """A message as read from storage, with the row it came from."""

    row: Row
    notification: Notification


class Batch(Struct, frozen=True):
    """One page of stored messages.

    `channels`: all subscriptions, with the first page (None otherwise). `read_to`: the
    read pointer found there (µs). `last`: sort key to go on after, None when this was the last
    page.
    """

    messages: Sequence[StoredMessage]
    last: str | None
    channels: frozenset[str] | None = None
    read_to: int = 0


class Farewell(Struct, frozen=True):
    """What a closed session leaves behind.

    `unsaved`: accepted, not acked and in no storage. `waiting`: messages that are stored but that
    the user agent has not acked, so a connection it may have opened elsewhere must look for them.
    """

    unsaved: Sequence[Notification]
    waiting: bool


Question = Greet | Subscribe | Unsubscribe | ReadStored
Answer = Greeting | str | Batch | None
Action = Send | Close | Forget | DropUser | Question
