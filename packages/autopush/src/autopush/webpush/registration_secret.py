"""The secrets of the registration API: who shows the one of a UAID may manage that user.

    secret = hex( HMAC-SHA256( key as it is configured, UAID in 32 hex digits ) )

Nothing is stored for it. With several keys the first one signs and all verify, so a new key can be
put in front of an old one while secrets of the old one are in use.

Rule: the comparison takes the same time for every wrong secret and for every key, and no error
shows a secret.
"""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from autopush.webpush.errors import Errno, Header, PushError

CHALLENGE: Final[Header] = ("WWW-Authenticate", "webpush")
"""What a 401 of the registration API carries."""

_SCHEMES: Final = frozenset({"bearer", "webpush", "vapid"})
"""`Bearer` is the documented scheme; the original takes the others too."""


class RegistrationSecrets:
    """``keys``: the option ``auth_key``, newest first.

    :raises ValueError: no key: every secret would be right
    """

    __slots__ = ("_keys",)

    def __init__(self, keys: Sequence[str]) -> None:
        if not keys or not all(keys):
            raise ValueError("auth_key: at least one key is needed, and none may be empty")
        self._keys = tuple(key.encode() for key in keys)

    def secret(self, uaid: str) -> str:
        """The secret of that UAID (32 lower-case hex digits)."""
        return _sign(self._keys[0], uaid)

    def check(self, authorization: str | None, uaid: str) -> None:
        """Check the header `Authorization` of a request about that UAID.

        :raises PushError: 401/109, it is missing or wrong
        """
        words = (authorization or "").split()
        if not words:
            raise _unauthorized("Unauthorized")
        if len(words) != 2 or words[0].lower() not in _SCHEMES:
            raise _unauthorized("Invalid Authentication")
        given = words[1].encode()
        matches = [hmac.compare_digest(given, _sign(key, uaid).encode()) for key in self._keys]
        if True not in matches:
            raise _unauthorized("Invalid Authentication")


def _sign(key: bytes, uaid: str) -> str:
    return hmac.digest(key, uaid.encode(), hashlib.sha256).hex()


def _unauthorized(message: str) -> PushError:
    return PushError(Errno.INVALID_AUTHENTICATION, message, headers=(CHALLENGE,))
