"""What a session asks of its connection: plain values, carried out in the order they are given.

Rule: each `StoreRequest` is answered exactly once, by `on_result`, `on_failure` or `on_refused` of
the session; other effects need no answer.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from msgspec import Struct

from autopush.webpush.notification import Notification
from autopush.webpush.stored import Row, StoredPage
from autopush.webpush.urgency import LOWEST

# --- codes and reasons of a close -----------------------------------------------------------------

NORMAL_CLOSURE: Final = 1000
GOING_AWAY: Final = 1001
UNSUPPORTED_DATA: Final = 1003
PROTOCOL_VIOLATION: Final = 1008
INTERNAL_ERROR: Final = 1011
TRY_AGAIN_LATER: Final = 1013
PINGED_TOO_OFTEN: Final = 4774
"""Firefox does not reconnect after this code until it has a new channel to register."""
IDLE: Final = 4774
"""The same code, for a device that can be woken: it does not reconnect by itself either."""

REPLACED: Final = "replaced"
"""Reason of a close: the user agent has a newer connection."""
USER_RESET: Final = "user reset"
"""Reason of a close: the next hello gets a new UAID."""
TOO_OFTEN: Final = "pinged too often"
TOO_MANY_MESSAGES: Final = "too many messages"
STOPPING: Final = "going away"
RECORD_OUTDATED: Final = "the record is outdated"
REVOKED: Final = "the user was revoked"
NO_ACCOUNT: Final = "the token of a user is required"
TOO_MANY_CONNECTIONS: Final = "too many connections of this user"


# --- effects that need no answer ------------------------------------------------------------------


class Send(Struct, frozen=True):
    """Write one text frame."""

    payload: bytes


class Close(Struct, frozen=True):
    """Start the closing handshake with this code."""

    code: int
    reason: str = ""


class Ack(Struct, frozen=True):
    """`version`: the message id. `code`: of the user agent, None if it sent none."""

    version: str
    code: int | None


class DeleteMessages(Struct, frozen=True):
    """Delete these rows: acked, expired, or of a channel that is unsubscribed.

    `acked`: those acked messages whose senders want a receipt; they may have no row.
    """

    rows: Sequence[Row]
    acked: Sequence[Ack] = ()


class ReportRetrieved(Struct, frozen=True):
    """These stored messages were sent; their senders want a receipt."""

    versions: Sequence[str]


class CheckRecord(Struct, frozen=True):
    """The user agent wants to know that it is reached: see whether its router record is true."""


class DropReason(Enum):
    """The value is that of the metric `ua.expiration`."""

    ROUTER_TYPE_CHANGED = "router_type_changed"
    INCOMPLETE_RECORD = "incomplete_record"
    NO_MESSAGE_TABLE = "no_message_table"
    OLD_RECORD_VERSION = "old_record_version"
    TOO_MANY_MESSAGES = "too_many_messages"


class DropUser(Struct, frozen=True):
    """Delete the user: its next hello gets a new UAID, and it subscribes again."""

    reason: DropReason


class ReportNack(Struct, frozen=True):
    """Log that the user agent could not process a notification.

    `channel_id`: None if it is not unacked. `code`: None if none was given.
    """

    version: str
    channel_id: str | None
    code: int | None


class TimerReason(Enum):
    IDLE = "the device can be woken: close its connection if it has been silent for `wake_timeout`"
    CLOSE = "the hello could not be looked up: close"
    RETRY_READ = "a page of stored messages could not be read: read it again"
    OVERDUE = "a page was sent `unacked_timeout` ago: its unacked messages hold back no other"
    ROTATE = "the user has an old message table: read it to its end, then change tables"


class SetTimer(Struct, frozen=True):
    """Call `Session.on_timer` after a random time in this range, in seconds. It replaces a pending
    timer of the same reason.
    """

    between: tuple[float, float]
    reason: TimerReason


# --- requests to the store ------------------------------------------------------------------------


class Identify(Struct, frozen=True):
    """Look the user agent up and record its connection. Result: `Identified`."""

    uaid: str | None
    """None if it has sent none, or a malformed one."""
    min_urgency: str | None = None
    """None to leave it as recorded."""
    broadcasts: object = None
    """Those to subscribe to, as sent."""
    is_simplepush: bool = False
    wake_data: Mapping[str, str] | None = None
    """Where a SimplePush device can be woken."""
    secret_hash: str = ""
    """The hash of the secret it has sent, "" if it has sent none."""
    wants_secret: bool = False
    """Whether a new UAID shall have a secret."""


class Subscribe(Struct, frozen=True):
    """Result: the endpoint URL (str). `wake_data`: for a user that has no record yet."""

    channel_id: str
    key: bytes | None
    wake_data: Mapping[str, str] | None = None


class Unsubscribe(Struct, frozen=True):
    """Result: None. `spelling`: the channel as sent. `code`: None if no reason was given."""

    channel_id: str
    spelling: str
    code: int | None = None


class SetUrgency(Struct, frozen=True):
    """Record the lowest urgency that is sent.

    Result: True when it is done, False when another connection has the user.
    """

    min_urgency: str


class ReadStored(Struct, frozen=True):
    """Read messages after the sort key `after` (None: from the first). Result: `StoredPage`."""

    after: str | None


class ChangeTable(Struct, frozen=True):
    """Move a user whose stored messages are all acked to this month's message table.

    Result: True when it is done, False when another connection has the user.
    """


class Identified(Struct, frozen=True):
    """The user of a hello: the one it has named, or a new one."""

    uaid: str
    connected_at: int
    """Milliseconds, as in the router record."""
    new: bool
    """Whether the UAID is new: nothing of this user is stored, not even its record."""
    reset: bool = False
    """Whether its record is of an old version: then it is dropped once its messages are acked."""
    old_table: bool = False
    """Whether its message table is that of an earlier month."""
    min_urgency: str = LOWEST
    """As recorded."""
    secret: str | None = None
    """For the reply, if a new UAID has one."""

    def __repr__(self) -> str:  # without its secret
        return f"Identified(new={self.new})"


class StoreFailure(Enum):
    OVERLOADED = "the store is too busy, or cannot serve now"
    TABLE_GONE = "the user's message table does not exist any more"
    BROKEN = "anything else"


class Undelivered(Struct, frozen=True):
    """What a closed session had accepted and the user agent has not acked.

    `unsaved`: messages that are not stored. `stored`: rows of the others, which another connection
    of the user agent has to read. `direct`: how many of both were not read from storage.
    """

    unsaved: Sequence[Notification]
    stored: Sequence[Row]
    direct: int = 0


NOTHING_UNDELIVERED: Final = Undelivered((), ())


class TooOften(Struct, frozen=True):
    """A rate limit refuses a request. `reason`: for the user agent. `retry_after`: seconds."""

    reason: str
    retry_after: float


UserChange = Subscribe | Unsubscribe | SetUrgency
StoreRequest = Identify | UserChange | ReadStored | ChangeTable
StoreResult = Identified | str | StoredPage | bool | None
Effect = (
    Send
    | CheckRecord
    | Close
    | DeleteMessages
    | DropUser
    | ReportNack
    | ReportRetrieved
    | SetTimer
    | StoreRequest
)
