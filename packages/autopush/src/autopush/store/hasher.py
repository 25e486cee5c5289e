"""The storage key of a user: its UAID, or a keyed hash of it where the operator set `key_hash`.

Rule: only the store knows which of the two is in use.
"""

import hashlib
import hmac
from collections.abc import Callable

Hasher = Callable[[str], str]


def hasher(key_hash: str) -> Hasher:
    """The function from UAID to storage key. An empty key leaves UAIDs as they are."""
    if not key_hash:
        return str
    key = key_hash.encode()
    return lambda uaid: hmac.digest(key, uaid.encode(), hashlib.sha256).hex()
