"""What a session asks of the world: plain values that the owner of the socket carries out.

Rule: an action of the group `Question` is answered exactly once, by `Session.answer` or
`Session.fail`; all others are carried out and forgotten.
"""

from collections.abc import Sequence
from enum import Enum
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


class Again(Enum):
    """What a session takes up again after a pause."""

    LEAVING = "the hello could not be looked up: it ends"
    READING = "a page of stored messages could not be read: it is asked for again"
    MOVING = "the user could not be moved, or should be: storage is read to its end, then it moves"


class Later(Struct, frozen=True):
    """Call `Session.take_up` after a random time between these two, in seconds."""

    between: tuple[float, float]
    again: Again


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


class MoveMonth(Struct, frozen=True):
    """Question: may the user, who has acked all that was stored, go to the message table of this
    month? Answered by whether it is still this connection's user, and is there now.
    """


class Failure(Enum):
    """Why a question has no answer."""

    OVERLOADED = "the store has too much to do just now"
    GONE = "the user's message table is not there any more"
    BROKEN = "anything else"


class Greeting(Struct, frozen=True):
    """Who the user agent turned out to be.

    `connected_at`: ms, as written in the router record. `new`: nothing is stored yet, not even the
    user. `reset`: an old record that is dropped once storage is drained. `moves`: its message table
    is not that of this month.
    """

    uaid: str
    connected_at: int
    new: bool
    reset: bool = False
    moves: bool = False


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

    `unsaved`: accepted, not acked and in no storage. `waiting`: the rows of messages that are in
    storage but that the user agent has not acked, so a connection it may have opened elsewhere must
    look for them.
    """

    unsaved: Sequence[Notification]
    waiting: Sequence[Row]


Question = Greet | Subscribe | Unsubscribe | ReadStored | MoveMonth
Answer = Greeting | str | Batch | bool | None
Action = Send | Close | Forget | DropUser | Later | Question
