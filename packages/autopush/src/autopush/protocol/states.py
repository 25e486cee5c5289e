"""The states of a session, as a table that also draws the diagram in the documentation."""

from enum import Enum
from typing import Final


class State(Enum):
    """The value is the sentence in the documentation."""

    CONNECTED = "the socket is open, no hello yet"
    IDENTIFYING = "the user agent is looked up and its connection recorded; input waits"
    ACTIVE = "identified: notifications and acks flow"
    UPDATING = "a change waits for the store (register, unregister, urgency), as input does"
    ROTATING = "the user changes to this month's message table; input and notifications wait"
    CLOSED = "nothing more is sent or accepted"

    __hash__ = object.__hash__  # Enum's is Python code: slow for a lookup per frame


class Event(Enum):
    """The value says who causes it."""

    HELLO = "user agent: hello"
    PING = "user agent: {} or ping"
    REGISTER = "user agent: register"
    UNREGISTER = "user agent: unregister"
    ACK = "user agent: ack"
    NACK = "user agent: nack"
    BROADCASTS = "user agent: broadcast_subscribe"
    URGENCY = "user agent: urgency"
    INVALID = "user agent: a message of no known type"
    IDENTIFIED = "store: the user agent is known and its connection recorded"
    TABLE_DRAINED = "server: all messages of an earlier month are acked"
    TABLE_CHANGED = "store: the user has this month's table"
    DONE = "store: the change is committed"
    FAILED = "store: it could not be done"
    DROPPED = "server: the user is reset or replaced, the server stops, or the lookup failed"
    GONE = "the socket is closed"

    __hash__ = object.__hash__


TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.CONNECTED, Event.HELLO): State.IDENTIFYING,
    (State.CONNECTED, Event.DROPPED): State.CLOSED,
    (State.CONNECTED, Event.GONE): State.CLOSED,
    (State.IDENTIFYING, Event.IDENTIFIED): State.ACTIVE,
    (State.IDENTIFYING, Event.DROPPED): State.CLOSED,
    (State.IDENTIFYING, Event.GONE): State.CLOSED,
    (State.ACTIVE, Event.HELLO): State.ACTIVE,
    (State.ACTIVE, Event.PING): State.ACTIVE,
    (State.ACTIVE, Event.REGISTER): State.UPDATING,
    (State.ACTIVE, Event.UNREGISTER): State.UPDATING,
    (State.ACTIVE, Event.ACK): State.ACTIVE,
    (State.ACTIVE, Event.NACK): State.ACTIVE,
    (State.ACTIVE, Event.BROADCASTS): State.ACTIVE,
    (State.ACTIVE, Event.URGENCY): State.UPDATING,
    (State.ACTIVE, Event.DROPPED): State.CLOSED,
    (State.ACTIVE, Event.GONE): State.CLOSED,
    (State.ACTIVE, Event.TABLE_DRAINED): State.ROTATING,
    (State.UPDATING, Event.DONE): State.ACTIVE,
    (State.UPDATING, Event.FAILED): State.ACTIVE,
    (State.UPDATING, Event.DROPPED): State.CLOSED,
    (State.UPDATING, Event.GONE): State.CLOSED,
    (State.ROTATING, Event.TABLE_CHANGED): State.ACTIVE,
    (State.ROTATING, Event.FAILED): State.ACTIVE,
    (State.ROTATING, Event.DROPPED): State.CLOSED,
    (State.ROTATING, Event.GONE): State.CLOSED,
}
"""Every legal step. An event of the user agent that is not here breaks the protocol: close 1008."""

IDENTIFIED_STATES: Final = frozenset({State.ACTIVE, State.UPDATING})
"""The states in which notifications may be sent."""

BLOCKED_STATES: Final = frozenset({State.IDENTIFYING, State.UPDATING, State.ROTATING})
"""The states in which input waits for the store."""


class TableState(Enum):
    """Progress of the change to this month's message table."""

    CURRENT = "the table is this month's, or may stay what it is for now"
    OLD = "the user changes tables when all stored messages are read"
    DRAINED = "the user changes tables when all messages are acked; nothing more is accepted"
