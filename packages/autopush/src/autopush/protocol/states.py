"""The states of a user agent's session, as a table.

Rule: what may happen when stands in `TRANSITIONS` and nowhere else. The session looks every event
up here, and the documentation draws its diagram from the same rows.
"""

from enum import Enum
from typing import Final


class State(Enum):
    """Where a session stands. The value is the sentence the documentation prints."""

    CONNECTED = "the socket is open, no hello yet"
    GREETING = "hello is being looked up and written; input waits"
    ACTIVE = "greeted: notifications flow both ways"
    WORKING = "a register or unregister waits for the store; input waits, notifications flow"
    MOVING = "the user goes to the message table of this month; input and notifications wait"
    CLOSED = "over: nothing more is sent or accepted"


class Event(Enum):
    """What can happen to a session. The value says who causes it."""

    HELLO = "user agent: hello"
    PING = "user agent: {} or ping"
    REGISTER = "user agent: register"
    UNREGISTER = "user agent: unregister"
    ACK = "user agent: ack"
    NACK = "user agent: nack"
    BROADCASTS = "user agent: broadcast_subscribe"
    IGNORED = "user agent: a known message that needs no answer (urgency)"
    NONSENSE = "user agent: a message that cannot be understood"
    GREETED = "store: the user agent is known and written"
    MOVES = "server: all of an earlier month is acked"
    MOVED = "store: the user has the table of this month"
    DONE = "store: the change is committed"
    FAILED = "store: it could not be done"
    DROPPED = "server: the user is reset, replaced, told to go, or could not be looked up"
    GONE = "the socket is closed"


TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.CONNECTED, Event.HELLO): State.GREETING,
    (State.CONNECTED, Event.DROPPED): State.CLOSED,
    (State.CONNECTED, Event.GONE): State.CLOSED,
    (State.GREETING, Event.GREETED): State.ACTIVE,
    (State.GREETING, Event.DROPPED): State.CLOSED,
    (State.GREETING, Event.GONE): State.CLOSED,
    (State.ACTIVE, Event.HELLO): State.ACTIVE,
    (State.ACTIVE, Event.PING): State.ACTIVE,
    (State.ACTIVE, Event.REGISTER): State.WORKING,
    (State.ACTIVE, Event.UNREGISTER): State.WORKING,
    (State.ACTIVE, Event.ACK): State.ACTIVE,
    (State.ACTIVE, Event.NACK): State.ACTIVE,
    (State.ACTIVE, Event.BROADCASTS): State.ACTIVE,
    (State.ACTIVE, Event.IGNORED): State.ACTIVE,
    (State.ACTIVE, Event.DROPPED): State.CLOSED,
    (State.ACTIVE, Event.GONE): State.CLOSED,
    (State.ACTIVE, Event.MOVES): State.MOVING,
    (State.WORKING, Event.DONE): State.ACTIVE,
    (State.WORKING, Event.FAILED): State.ACTIVE,
    (State.WORKING, Event.DROPPED): State.CLOSED,
    (State.WORKING, Event.GONE): State.CLOSED,
    (State.MOVING, Event.MOVED): State.ACTIVE,
    (State.MOVING, Event.FAILED): State.ACTIVE,
    (State.MOVING, Event.DROPPED): State.CLOSED,
    (State.MOVING, Event.GONE): State.CLOSED,
}
"""Every legal step. An event of the user agent that is not here breaks the protocol: close 1008."""

GREETED_STATES: Final = frozenset({State.ACTIVE, State.WORKING})
"""The states in which notifications may be sent."""

WAITING_STATES: Final = frozenset({State.GREETING, State.WORKING, State.MOVING})
"""The states in which input waits."""
