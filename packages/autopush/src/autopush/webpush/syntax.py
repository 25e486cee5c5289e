"""The syntax of values in URLs and headers: base64url, parameter fields.

Rule: a value is accepted or refused as a whole. What does not fit raises ValueError, with the shape
of the value; the value itself only as `shown` writes it.
"""

import pybase64

from autopush.shown import shown

MAX_PARAMETERS = 64


# ── base64url (RFC 4648, section 5) ──────────────────────────────────────────────────────────────


def encode_base64url(raw: bytes) -> str:
    """Without padding."""
    return pybase64.b64encode_as_string(raw, b"-_").rstrip("=")


def decode_base64url(text: str) -> bytes:
    """Padding is optional.

    :raises ValueError: another character, padding inside, or an impossible length
    """
    bare = text.rstrip("=")
    if len(text) - len(bare) > 2:
        raise ValueError(f"not base64url: more than two '=' after {len(bare)} characters")
    # The decoder accepts the standard alphabet too, so that is refused here.
    if "+" in bare or "/" in bare or not bare.isascii():
        raise ValueError(f"not base64url: text of {len(text)} characters, expected A-Za-z0-9-_")
    try:
        return pybase64.b64decode(bare + "=" * (-len(bare) % 4), b"-_", validate=True)
    except ValueError:
        raise ValueError(
            f"not base64url: text of {len(text)} characters, expected A-Za-z0-9-_"
        ) from None


def decode_any_base64(text: str) -> bytes:
    """The bytes of base64 in either alphabet, with any padding, as senders write keys.

    :raises ValueError: not base64 at all
    """
    return decode_base64url(text.strip().rstrip("=").replace("+", "-").replace("/", "_"))


# ── parameter fields: `label=value` pairs, as in Encryption and Crypto-Key ───────────────────────


def parse_parameters(field: str) -> dict[str, str]:
    """Labels (lower case) and values (without quotes); the first occurrence of a label wins.

    :raises ValueError: not ASCII, a piece without ``=``, or more than `MAX_PARAMETERS`
    """
    if not field.isascii():
        odd = next(character for character in field if not character.isascii())
        raise ValueError(f"expected ASCII text, got the character {shown(odd)}")
    parameters: dict[str, str] = {}
    pieces = field.replace(",", ";").split(";", MAX_PARAMETERS)
    if len(pieces) > MAX_PARAMETERS:
        raise ValueError(f"expected at most {MAX_PARAMETERS} label=value pairs")
    for piece in pieces:
        label, equals, value = piece.partition("=")
        label = label.strip().lower()
        if not equals or not label:
            raise ValueError(f"expected label=value pairs between ';' or ',', got {shown(piece)}")
        parameters.setdefault(label, value.strip().strip('"').strip())
    return parameters


def without_padding(field: str) -> str:
    """The field as user agents read it: no quotes, no base64 padding."""
    pairs = field.replace('"', "").split(";")
    return ";".join(",".join(map(_without_padding, pair.split(","))) for pair in pairs)


def _without_padding(piece: str) -> str:
    bare = piece.rstrip()
    return bare.rstrip("=") if bare.endswith("=") else piece
