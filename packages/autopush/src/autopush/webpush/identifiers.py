"""UAIDs and channel ids as text.

Rule: inside the service a UAID is 32 lower-case hex digits and a channel id the 36-character
dashed lower-case form; whatever spelling came in is brought to that form at the edge. The
questions take any object, because what a client sends may be anything.
"""

import uuid
from typing import TypeGuard

_HEX = "0123456789abcdef"


def is_uaid(value: object) -> TypeGuard[str]:
    """Whether ``value`` is a UAID in the one form it has on the wire: 32 lower-case hex digits."""
    # strip() takes hex digits off both ends; nothing is left only if there was nothing else.
    return isinstance(value, str) and len(value) == 32 and not value.strip(_HEX)


def is_channel_id(value: object) -> TypeGuard[str]:
    """Whether ``value`` is a channel id in its one form: lower-case, dashed, 36 characters."""
    return (
        isinstance(value, str)
        and len(value) == 36
        and value[8] == value[13] == value[18] == value[23] == "-"
        and is_uaid(value.replace("-", ""))
    )


def undashed(channel_id: str) -> str:
    """The 32 hex digits of a dashed id."""
    return channel_id.replace("-", "")


def dashed(digits: str) -> str:
    """The dashed form of 32 hex digits."""
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def canonical_uaid(value: object) -> str | None:
    """The UAID that ``value`` spells in any way a UUID is spelt, or None: it spells none."""
    if not isinstance(value, str) or len(value) > 45:  # urn:uuid: and 36 characters
        return None
    bare = value.lower().removeprefix("urn:uuid:").removeprefix("{").removesuffix("}")
    bare = bare.replace("-", "")
    return bare if is_uaid(bare) else None


def canonical_uuid(value: object) -> str | None:
    """The channel id (lower-case, dashed) that ``value`` spells in any way, or None."""
    digits = canonical_uaid(value)
    return None if digits is None else dashed(digits)


def new_uaid() -> str:
    """A fresh random UAID."""
    return uuid.uuid4().hex
