"""Public keys of application servers and user agents: points of the curve P-256.

They come as `k` of VAPID, `p256ecdsa` of its first draft, `key` of a registration, `p256dh` of a
subscription, and in options that list senders, and are read by one rule:

    alphabet   that of base64url or of base64, with or without padding; no space within
    form       65 bytes, 04 and the point; 64, the point alone; 91, a SubjectPublicKeyInfo in DER

Pure functions: any thread may call them.
"""

import re
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey

from autopush.shown import shown
from autopush.webpush.syntax import decode_any_base64

EXPECTED_KEY: Final = (
    "expected an uncompressed public key of P-256: 65 bytes, which are 87 characters of base64url"
)

# The DER of a P-256 SubjectPublicKeyInfo up to its 65-byte point: 91 bytes in all (RFC 5480).
_SPKI: Final = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")
_P256: Final = SECP256R1()
_HEX: Final = re.compile(r"(04)?[0-9a-fA-F]{128}")


def parse_public_key(text: object) -> bytes:
    """The 65 bytes of a key that is on the curve.

    :raises ValueError: anything else; the message has its shape, and fits into a reply
    """
    try:
        point = uncompressed_point(decode_public_key(text))
        EllipticCurvePublicKey.from_encoded_point(_P256, point)
    except ValueError as error:
        said = str(error)
        if said.startswith(EXPECTED_KEY):
            raise
        raise ValueError(f"{EXPECTED_KEY}, got 65 bytes that are no point of the curve") from None
    return point


def decode_public_key(text: object) -> bytes:
    """The bytes of a key in one of the three forms, as they were sent. Whether it is on the curve
    is not checked.

    :raises ValueError: as `parse_public_key`
    """
    if not isinstance(text, str):
        raise ValueError(f"{EXPECTED_KEY}, got {shown(text)}")  # noqa: TRY004 - one error
    try:
        raw = decode_any_base64(text)
    except ValueError:
        raise ValueError(f"{EXPECTED_KEY}, got {_text_shape(text)}") from None
    if len(raw) == 64 or (len(raw) == 65 and raw[0] == 4):
        return raw
    if len(raw) == 91 and raw.startswith(_SPKI) and raw[26] == 4:
        return raw
    raise ValueError(f"{EXPECTED_KEY}, got {_byte_shape(text, raw)}")


def uncompressed_point(raw: bytes) -> bytes:
    """The 65 bytes of a key in one of the three forms. Whether it is on the curve is not checked.

    :raises ValueError: another form
    """
    if len(raw) == 65:
        return raw
    if len(raw) == 64:
        return b"\x04" + raw
    if len(raw) == 91 and raw.startswith(_SPKI):
        return raw[26:]
    raise ValueError(f"{EXPECTED_KEY}, got {len(raw)} bytes")


def load_key(raw: bytes) -> EllipticCurvePublicKey:
    """The key of one of the three forms.

    :raises ValueError: another form, or no point of the curve
    """
    return EllipticCurvePublicKey.from_encoded_point(_P256, uncompressed_point(raw))


def _text_shape(text: str) -> str:
    """Of what is no base64; never the text, which may be another key."""
    if text.lstrip().startswith("-----BEGIN"):
        return "a key in PEM"
    if text.count(".") == 2:
        return f"{len(text)} characters with two dots, as a token has"
    return f"{len(text)} characters that are no base64"


def _byte_shape(text: str, raw: bytes) -> str:
    """Of bytes in another form."""
    if not raw:
        return "an empty text"
    if _HEX.fullmatch(text):
        return f"{len(text)} hexadecimal digits"
    kinds = {32: ", as a private key has", 33: ", as a compressed key has"}
    kind = kinds.get(len(raw), "")
    if len(raw) == 65:
        kind = f" that begin with {raw[0]:02x} in place of 04"
    if len(raw) == 91:
        kind = " that are no SubjectPublicKeyInfo of P-256"
    return f"{len(raw)} bytes{kind}"
