"""The limits of sessions: what an operator may set, and what the protocol fixes."""

from typing import Final

from msgspec import Struct

NORMAL_CLOSURE: Final = 1000
GOING_AWAY: Final = 1001
UNSUPPORTED_DATA: Final = 1003
PROTOCOL_VIOLATION: Final = 1008
INTERNAL_ERROR: Final = 1011
TRY_AGAIN_LATER: Final = 1013
PINGED_TOO_OFTEN: Final = 4774
"""Firefox does not reconnect after this code until it has a new channel to register."""
IDLE: Final = 4774
"""A device that can be woken need not keep its connection; it does not reconnect by itself."""

REPLACED: Final = "replaced"
"""Reason of a close: the user agent has a newer connection."""
USER_RESET: Final = "user reset"
"""Reason of a close: the next hello gets a new UAID."""
TOO_OFTEN: Final = "pinged too often"
TOO_MANY_MESSAGES: Final = "too many messages"
STOPPING: Final = "going away"

CLOSE_DELAY: Final = (4.0, 8.0)
READ_RETRY_DELAY: Final = (5.0, 59.0)
TABLE_CHANGE_DELAY: Final = (1.0, 1799.0)
"""Seconds, at random, so that user agents refused by one overload do not all return at once."""


class Rules(Struct, frozen=True):
    """What an operator may set. Counts of messages; seconds; whether SimplePush is spoken; the URL
    that explains refusals.
    """

    max_unacked: int = 128
    msg_limit: int = 100
    max_channels: int = 1000
    min_ping_gap: float = 55.0
    auto_ping_interval: float = 0.0
    env: str = "development"
    simplepush: bool = True
    wake_timeout: float = 0.0
    more_info: str = ""
