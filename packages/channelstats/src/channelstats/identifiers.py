"""Identifiers of Slack: what an ID and a timestamp look like, and the time a timestamp means.

Rule: what does not match is none. It reaches no key and no codec, so nothing has to be escaped.
"""

import re
from typing import Final, TypeGuard

SLACKBOT: Final = "USLACKBOT"

USER_ID: Final = r"[UWB][A-Z0-9]+"
"""People and apps (U, W) and bots known by their `bot_id` alone (B)."""

UNLISTED_CHANNEL: Final = "CUNLISTED"
"""How the IDs begin that are made up here, for folders of an export that no list knows."""

_USER: Final = re.compile(rf"{USER_ID}")
_CHANNEL: Final = re.compile(r"[A-Z][A-Z0-9]+")
_TIMESTAMP: Final = re.compile(r"[0-9]{10}\.[0-9]{6}")
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,1000}")
_LONGEST: Final = 64


def is_user_id(text: object) -> TypeGuard[str]:
    return isinstance(text, str) and len(text) <= _LONGEST and _USER.fullmatch(text) is not None


def is_bot_id(text: object) -> TypeGuard[str]:
    return is_user_id(text) and text.startswith("B")


def is_channel_id(text: object) -> TypeGuard[str]:
    return isinstance(text, str) and len(text) <= _LONGEST and _CHANNEL.fullmatch(text) is not None


def is_timestamp(text: object) -> TypeGuard[str]:
    """Ten digits of seconds, a point, six digits. As text they sort by time."""
    return isinstance(text, str) and _TIMESTAMP.fullmatch(text) is not None


def is_token(text: str) -> bool:
    """Whether it may be a token of Slack: visible ASCII characters."""
    return _TOKEN.fullmatch(text) is not None


def seconds(ts: str) -> int:
    """Whole seconds since the epoch of a timestamp."""
    return int(ts[:10])


def timestamp(microseconds: int) -> str:
    """The timestamp of so many microseconds since the epoch."""
    whole, part = divmod(microseconds, 1_000_000)
    return f"{whole:010d}.{part:06d}"
