"""The numbers of sessions: what an operator may set, and what the protocol fixes.

Rule: a limit that a user agent can meet stands here, and nowhere else.
"""

from typing import Final

from msgspec import Struct

NORMAL_CLOSURE: Final = 1000
PROTOCOL_VIOLATION: Final = 1008
UNSUPPORTED_DATA: Final = 1003
INTERNAL_ERROR: Final = 1011
TRY_AGAIN_LATER: Final = 1013
PINGED_TOO_OFTEN: Final = 4774
"""Firefox stays away after this code until it has something new to register."""

LEAVING_PAUSE: Final = (4.0, 8.0)
READING_PAUSE: Final = (5.0, 59.0)
MOVING_PAUSE: Final = (1.0, 1799.0)
"""Seconds, by chance: those whom one overload met do not come back together."""


class Rules(Struct, frozen=True):
    """What an operator may set about sessions. Counts of messages; seconds."""

    max_unacked: int = 128
    msg_limit: int = 100
    max_channels: int = 1000
    min_ping_gap: float = 55.0
    auto_ping_interval: float = 0.0
    env: str = "development"
