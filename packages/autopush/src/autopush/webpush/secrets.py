"""The secret of a bridge registration: what proves that a caller owns a UAID.

Rule: the first ``auth_key`` signs, every one verifies, and no comparison tells by its time.
"""

import hmac
from collections.abc import Sequence


def registration_secret(auth_key: str, uaid: str) -> str:
    """HMAC-SHA256 of the UAID in hex.

    The key is the configured text as it stands, not its base64 decoding.
    """
    return hmac.digest(auth_key.encode(), uaid.encode(), "sha256").hex()


def check_registration_secret(auth_keys: Sequence[str], uaid: str, secret: str) -> bool:
    """Whether ``secret`` was made for ``uaid`` with one of the keys; without keys, never."""
    given = secret.encode("utf-8", "surrogatepass")
    matched = False
    for auth_key in auth_keys:  # all of them: which key matched must not show in the time
        expected = registration_secret(auth_key, uaid).encode()
        matched |= hmac.compare_digest(given, expected)
    return matched
