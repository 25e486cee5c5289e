"""The headers and body of a push: checks made once the endpoint is known.

Rule: Topic, TTL, Urgency, size, encryption; the first error is reported.
"""

import re
from collections.abc import Mapping
from string import ascii_letters, digits
from typing import Final

import msgspec

from autopush.shown import shown
from autopush.webpush.errors import Errno, PushError
from autopush.webpush.syntax import encode_base64url, parse_parameters, without_padding
from autopush.webpush.urgency import LEVELS, NORMAL

MAX_TTL: Final = 2_592_000
"""Seconds in 30 days."""

MAX_DATA: Final = 4096
"""Bytes of body that a push service must accept (RFC 8030, section 7.2)."""

MISSING_TTL: Final = (
    "Missing TTL Header, see: https://webpush-wg.github.io/webpush-protocol/#rfc.section.6.2"
)

DECLARATIVE: Final = "application/notification+json"
"""The content type of declarative web push, the only one that is passed to user agents."""

_PARAMETERS: Final = frozenset({"encryption", "crypto-key", "encryption-key"})
"""Headers that say how a body is encrypted; with aes128gcm it says so itself."""
_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,32}")
_BASE64URL: Final = frozenset(ascii_letters + digits + "-_")
_NOT_BASE64URL = re.compile(r"[^0-9A-Za-z_-]")
_MAX_NAMED: Final = 5
"""Names that are listed in a refusal."""


class Content(msgspec.Struct, frozen=True, gc=False):
    """The members of a notification, in the same units."""

    ttl: int
    topic: str | None = None
    data: str | None = None
    headers: dict[str, str] | None = None
    urgency: str = NORMAL


def check_content(
    headers: Mapping[str, str], body: bytes, *, max_ttl: int = MAX_TTL, max_data: int = MAX_DATA
) -> Content:
    """``headers`` have lower-case names; limits are seconds and bytes.

    :raises PushError: 113, 111 or 112, 115, 104, then 101, 110 or 111, in this order
    """
    topic = check_topic(headers.get("topic"))
    ttl = check_ttl(headers.get("ttl"), max_ttl)
    urgency = headers.get("urgency", NORMAL)
    if urgency not in LEVELS:
        urgency = check_urgency(urgency)
    if not body:
        return Content(ttl, topic, urgency=urgency)
    if len(body) > max_data:
        raise PushError.invalid(
            Errno.PAYLOAD_TOO_LARGE,
            f"Data payload must be smaller than {max_data}: at most that many bytes after "
            f"encryption, got {len(body)}",
        )
    kept = check_encryption(headers)
    content_type = headers.get("content-type")
    if content_type is not None and "+" in content_type and _is_declarative(content_type):
        kept["content_type"] = DECLARATIVE
    return Content(ttl, topic, encode_base64url(body), kept, urgency)


def check_topic(text: str | None) -> str | None:
    """A topic (RFC 8030, section 5.4); an empty header is treated as absent.

    :raises PushError: 400/113
    """
    if not text:
        return None
    if _TOPIC.fullmatch(text) is None:
        raise PushError.invalid(
            Errno.INVALID_TOPIC,
            f"Topic must be at most 32 characters of A-Z a-z 0-9 - _, got {len(text)} characters: "
            + shown(text, is_public=True),
        )
    return text


def check_ttl(text: str | None, max_ttl: int = MAX_TTL) -> int:
    """Seconds to live (RFC 8030, section 5.2), at most ``max_ttl``.

    :raises PushError: 400/111 without the header, 400/112 if not a whole number, 0 or greater
    """
    if text is None:
        raise PushError.invalid(
            Errno.MISSING_HEADER, MISSING_TTL, errors={"ttl": ["Missing required header."]}
        )
    if text.isascii() and text.isdigit():
        # int() refuses very long numbers, and 19 digits are above any maximum already.
        return min(int(text.lstrip("0")[:19] or "0"), max_ttl)
    raise PushError.invalid(
        Errno.INVALID_TTL,
        f"TTL must be a whole number of seconds, 0 or greater, in digits, got {shown(text)}",
    )


def check_urgency(text: str) -> str:
    """The urgency (RFC 8030, section 5.3); an unknown one is treated as absent: as normal.

    :raises PushError: 400/115, more than one
    """
    if "," in text:
        raise PushError.invalid(
            Errno.INVALID_URGENCY,
            "Urgency must be one value, got several: "
            f"{shown(text)}, expected one of {', '.join(LEVELS)}",
        )
    return text if text in LEVELS else NORMAL


def check_encryption(headers: Mapping[str, str]) -> dict[str, str]:
    """The encryption headers for the user agent, without quotes and padding.

    :raises PushError: 400/111, a header is missing; 400/101, it lacks its salt or dh; 400/110
    """
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding == "aes128gcm" and _PARAMETERS.isdisjoint(headers):
        return {"encoding": "aes128gcm"}
    encryption = headers.get("encryption") or None
    crypto_key = headers.get("crypto-key") or None
    encryption_key = headers.get("encryption-key") or None
    if encoding == "aes128gcm":
        _forbid("Encryption", encryption, "salt", encoding)
        _forbid("Crypto-Key", crypto_key, "dh", encoding)
        if encryption_key is not None:
            _parse("Encryption-Key", encryption_key)
    elif encoding == "aesgcm":
        encryption = _require("Encryption", encryption, "salt", encoding)
        if encryption_key is not None:
            raise _wrong("Do not include Encryption-Key with aesgcm: send dh in Crypto-Key")
        crypto_key = _require("Crypto-Key", crypto_key, "dh", encoding)
    elif encoding == "aesgcm128":
        encryption = _require("Encryption", encryption, "salt", encoding)
        _forbid("Crypto-Key", crypto_key, "dh", encoding)
        encryption_key = _require("Encryption-Key", encryption_key, "dh", encoding)
    else:
        given = headers.get("content-encoding")
        got = "there is none" if given is None else f"got {shown(given)}"
        raise _wrong(f"Unknown Content-Encoding: expected aes128gcm or aesgcm, {got}")
    kept = {"encoding": encoding}
    if encryption is not None:
        kept["encryption"] = without_padding(encryption)
    if crypto_key is not None:
        kept["crypto_key"] = without_padding(crypto_key)
    if encryption_key is not None:
        kept["encryption_key"] = without_padding(encryption_key)
    return kept


def _is_declarative(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == DECLARATIVE


def parse_crypto_key(field: str) -> dict[str, str]:
    """:raises PushError: 400/110"""
    return _parse("Crypto-Key", field)


def _parse(name: str, field: str) -> dict[str, str]:
    try:
        return parse_parameters(field)
    except ValueError as error:
        raise PushError.invalid(Errno.INVALID_CRYPTO, f"Invalid {name} header: {error}") from None


def _forbid(name: str, field: str | None, label: str, encoding: str) -> None:
    if field is not None and label in _parse(name, field):
        raise _wrong(f"Do not include '{label}' in {encoding} {name} header")


def _require(name: str, field: str | None, label: str, encoding: str) -> str:
    """The field, whose value of that label is base64url, as user agents expect it. A `dh` may come
    in the other alphabet, as every public key.
    """
    if field is None:
        raise PushError.invalid(
            Errno.MISSING_HEADER,
            f"Missing {name} header, required with {encoding}",
            errors={name.lower().replace("-", "_"): ["Missing required header."]},
        )
    parameters = _parse(name, field)
    value = parameters.get(label)
    if value is None:
        given = ", ".join(shown(each) for each in list(parameters)[:_MAX_NAMED])
        raise PushError.invalid(
            Errno.MISSING_CRYPTO_KEYS,
            f"Missing '{label}' in {encoding} {name} header, which has {given}",
        )
    if label == "dh" and ("+" in value or "/" in value):
        given, value = value, value.replace("+", "-").replace("/", "_")
        field = field.replace(given, value)
    bare = value.rstrip("=")
    if not bare or not _BASE64URL.issuperset(bare):
        raise _wrong(
            f"Invalid '{label}' in {encoding} {name} header: expected base64url, "
            f"got {len(value)} characters{_odd_character(value)}"
        )
    return field


def _odd_character(value: str) -> str:
    odd = _NOT_BASE64URL.search(value)
    return f", of which {shown(odd[0])} is none" if odd else ""


def _wrong(detail: str) -> PushError:
    return PushError.invalid(Errno.INVALID_CRYPTO, detail)
