"""Base64url (RFC 4648, section 5) as Web Push uses it: unpadded going out.

Rule: what is not base64 raises ValueError; nothing is skipped over or guessed.
"""

import pybase64


def encode(raw: bytes) -> str:
    """Base64url without padding."""
    return pybase64.b64encode_as_string(raw, b"-_").rstrip("=")


def decode(text: str) -> bytes:
    """The bytes of base64url text, padded or not.

    :raises ValueError: another character, padding inside, or an impossible length
    """
    bare = text.rstrip("=")
    if len(text) - len(bare) > 2:
        raise ValueError(f"not base64url: more than two '=' after {len(bare)} characters")
    # The decoder accepts the standard alphabet beside ours, so that is refused here.
    if "+" in bare or "/" in bare or not bare.isascii():
        raise ValueError(f"not base64url: text of {len(text)} characters, expected A-Za-z0-9-_")
    try:
        return pybase64.b64decode(bare + "=" * (-len(bare) % 4), b"-_", validate=True)
    except ValueError:
        raise ValueError(
            f"not base64url: text of {len(text)} characters, expected A-Za-z0-9-_"
        ) from None


def decode_lenient(text: str) -> bytes:
    """The bytes of base64 in either alphabet, with any padding, as keys are met in the wild.

    :raises ValueError: not base64 at all
    """
    return decode(text.strip().rstrip("=").replace("+", "-").replace("/", "_"))
