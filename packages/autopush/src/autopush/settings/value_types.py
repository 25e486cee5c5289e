"""Parsers of option values, and what they expect.

Rule: a parser depends only on its text; it returns the value or raises ValueError.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import orjson

from autopush.hosts import canonical_host, join_url

_UNITS: Final = {"s": 1, "min": 60, "h": 3600}
"""Seconds in each unit of a rate."""


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` per `unit`, which is also the largest burst."""

    count: int
    unit: str

    def __str__(self) -> str:
        return f"{self.count}/{self.unit}"

    @property
    def seconds(self) -> int:
        return _UNITS[self.unit]


NamedObjects = Mapping[str, Mapping[str, object]]
"""JSON objects by name, such as credentials by application."""

NamedTexts = Mapping[str, tuple[str, ...]]

Value = str | int | float | bool | Path | Rate | tuple[str, ...] | NamedObjects | NamedTexts | None

_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})
_HOST: Final = re.compile(
    r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?|\[?[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*\]?"
)
_TABLE: Final = re.compile(r"[A-Za-z0-9_.-]{3,200}")
_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9}")
_KEY_LABEL: Final = re.compile(r"Key +=\s*")
_FERNET_KEY: Final = re.compile(r"[A-Za-z0-9_-]{43}=")
_FINGERPRINT: Final = re.compile(r"[0-9A-F]{2}(:[0-9A-F]{2}){31}")
_SENTRY_DSN: Final = re.compile(r"https?://\w+(:\w*)?@[^\s/@]+/(\S*/)?[0-9]+")
_RATE: Final = re.compile(rf"([1-9][0-9]{{0,8}})/({'|'.join(_UNITS)})")
_BASE64: Final = re.compile(r"[A-Za-z0-9_+/-]+={0,2}")
_EMAIL: Final = re.compile(r"[^@\s,<>]+@[A-Za-z0-9.-]+")
_DOMAIN: Final = re.compile(r"([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]([a-z0-9-]*[a-z0-9])?")
_STORES: Final = (
    "sqlite:///PATH, dynamodb://REGION?endpoint=URL&prefix=TEXT "
    "or postgresql://USER@HOST/DATABASE?schema=NAME"
)
NO_NETWORK: Final = "none"


@dataclass(frozen=True, slots=True)
class ValueType:
    """If `parse` raises ValueError, the user is shown `expected`, not its text."""

    metavar: str
    expected: str
    parse: Callable[[str], Value]
    is_flag: bool = False
    is_list: bool = False
    explains: bool = False
    """The text of the ValueError is shown instead of `expected`; it holds no secret."""
    without_secret: Callable[[str], str] | None = None
    """The text of a value that may hold a secret, without it."""


def _valid(text: str, is_valid: bool) -> str:
    if not is_valid:
        raise ValueError
    return text


def whole_number(lowest: int, highest: int | None = None, metavar: str = "NUMBER") -> ValueType:
    """Decimal digits; both bounds are inclusive."""

    def parse(text: str) -> int:
        value = int(_valid(text, text.isascii() and text.isdecimal() and len(text) < 19))
        _valid(text, lowest <= value and (highest is None or value <= highest))
        return value

    bounds = f"of at least {lowest}" if highest is None else f"from {lowest} to {highest}"
    return ValueType(metavar, f"a whole number {bounds}", parse)


def choice(*words: str) -> ValueType:
    return _text("|".join(words), f"{', '.join(words[:-1])} or {words[-1]}", words.__contains__)


def url(*schemes: str, assumed: str = "") -> ValueType:
    """An absolute URL without user, query and fragment, made canonical; `assumed`: its scheme."""

    def parse(text: str) -> str:
        if assumed and "://" not in text:
            text = f"{assumed}://{text}"
        parts = urlsplit(text)
        is_plain = not (parts.query or parts.fragment or "@" in parts.netloc)
        is_text = parts.path.isascii() and text.isprintable()
        _valid(text, parts.port != 0 and is_plain and is_text and parts.scheme in schemes)
        return join_url(
            parts.scheme, _parse_host(parts.hostname or ""), parts.port, parts.path.rstrip("/")
        )

    beginnings = " or ".join(f"{scheme}://" for scheme in schemes)
    return ValueType("URL", f"a URL that starts with {beginnings} and has no query", parse)


def _list_of(
    is_valid: Callable[[str], bool],
    expected: str,
    metavar: str = "KEY",
    read: Callable[[str], str] = str,
) -> ValueType:
    """`[a, b]`, `a, b` or `a`; quotes and spaces around members and empty members are dropped.
    `read`: makes a value of each member.
    """

    def parse(text: str) -> tuple[str, ...]:
        if text.startswith("[") and text.endswith("]"):
            text = text[1:-1]
        members = [read(member.strip().strip("\"'")) for member in text.split(",")]
        return tuple(_valid(member, is_valid(member)) for member in members if member)

    return ValueType(metavar, expected, parse, is_list=True)


def _text(metavar: str, expected: str, is_valid: Callable[[str], object]) -> ValueType:
    return ValueType(metavar, expected, lambda text: _valid(text, bool(is_valid(text))))


def _seconds(expected: str, *, lowest: float) -> ValueType:
    def parse(text: str) -> float:
        value = float(_valid(text, _SECONDS.fullmatch(text) is not None))
        _valid(text, value >= lowest)
        return value

    return ValueType("SECONDS", expected, parse)


def _parse_rate(text: str) -> Rate | None:
    if text == "none":
        return None
    parts = _RATE.fullmatch(text)
    if parts is None:
        raise ValueError
    return Rate(int(parts[1]), parts[2])


def _parse_boolean(text: str) -> bool:
    return _valid(text.lower(), text.lower() in _TRUE | _FALSE) in _TRUE


def _parse_object(text: str) -> dict[str, object]:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - one error for callers
    return document


def _parse_named_objects(text: str) -> NamedObjects:
    document: dict[str, dict[str, object]] = {}
    for name, members in _parse_object(text).items():
        if not isinstance(members, dict):
            raise ValueError(f"the value of {name!r} is not a JSON object")  # noqa: TRY004
        document[name] = members
    return document


def _parse_fingerprints(text: str) -> NamedTexts:
    fingerprints: dict[str, tuple[str, ...]] = {}
    owners: dict[str, str] = {}
    for name, listed in _parse_object(text).items():
        if not isinstance(listed, list):
            raise ValueError(f"the value of {name!r} is not a list")  # noqa: TRY004
        for fingerprint in listed:
            if not isinstance(fingerprint, str) or not _FINGERPRINT.fullmatch(fingerprint):
                raise ValueError(
                    f"a fingerprint of {name!r} is not that of a SHA-256: 32 bytes as upper-case "
                    "hex digits, with colons between them"
                )
            if (owner := owners.setdefault(fingerprint, name)) != name:
                raise ValueError(f"{owner!r} and {name!r} have the same fingerprint")
        if len(set(listed)) != len(listed):
            raise ValueError(f"{name!r} has the same fingerprint twice")
        fingerprints[name] = tuple(listed)
    return fingerprints


UNIX: Final = "unix:"
"""Before the path of a Unix socket, in place of a host."""
MAX_SOCKET_PATH: Final = 107
"""Bytes: see unix(7)."""


def _parse_host(text: str) -> str:
    host = canonical_host(text)
    return _valid(host, is_host(host))


def _parse_listen_host(text: str) -> str:
    if not text.startswith(UNIX):
        return _parse_host(text)
    path = text.removeprefix(UNIX)
    return _valid(text, path.startswith("/") and len(path.encode()) <= MAX_SOCKET_PATH)


def _parse_store(text: str) -> str:
    from keytables.stores import parse_store  # noqa: PLC0415 - most starts name no store

    parse_store(text)
    return text


def without_password(store_url: str) -> str:
    from keytables.stores import without_password  # noqa: PLC0415 - only to show it

    return without_password(store_url)


def is_host(text: str) -> bool:
    """A canonical host name, or an IPv4 or IPv6 address."""
    # No resolver takes a label that is empty or longer than 63 characters.
    is_resolvable = all(0 < len(label) < 64 for label in text.split("."))
    return is_resolvable and len(text) <= 255 and _HOST.fullmatch(text) is not None


PUBLISHED_KEYS: Final = frozenset(
    (
        "hkclU1V37Dnp-0DMF9HLe_40Nnr8kDTYVbo2yxuylzk=",  # documentation of the original
        "mqCGb8D-N7mqx6iWJov9wm70Us6kA9veeXdb8QUuzLQ=",  # scripts and tests of its successor
        "HJVPy4ZwF4Yz_JdvXTL8hRcwIhv742vC60Tg5Ycrvw8=",  # the same
        "cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4=",  # specification of Fernet
    )
)
"""Keys that anybody can read: who knows the key of a service can make endpoints and call nodes."""


def without_label(key: str) -> str:
    """A key as `autokey` prints it, `Key = …`, or alone."""
    label = _KEY_LABEL.match(key)
    return key[label.end() :] if label else key


def is_fernet_key(text: str) -> bool:
    """32 bytes as url-safe base64 with padding: 44 characters; no published key."""
    return _FERNET_KEY.fullmatch(text) is not None and text not in PUBLISHED_KEYS


def _is_printable(text: str) -> bool:
    return text.isascii() and text.isprintable()


def is_auth_key(text: str) -> bool:
    """Printable ASCII without spaces, whose bytes are the key; no published key."""
    is_key = _is_printable(text) and bool(text) and " " not in text
    return is_key and text not in PUBLISHED_KEYS


def is_sender(text: str) -> bool:
    """A VAPID public key, or the `sub` of a token."""
    from autopush.webpush.public_keys import parse_public_key  # noqa: PLC0415 - few list senders

    if text.startswith(("mailto:", "https:")):
        return True
    try:
        parse_public_key(text)
    except ValueError:
        return False
    return True


def base64_text() -> ValueType:
    return _text("KEY", "base64url, as the directory shows it", _BASE64.fullmatch)


def email_address() -> ValueType:
    return _text("EMAIL", "an address such as admin@example.org", _EMAIL.fullmatch)


def is_domain(text: str) -> bool:
    """A canonical host name of the public DNS: no address, no wildcard, no name without a dot."""
    return _DOMAIN.fullmatch(text) is not None and is_host(text)


def _domain(text: str) -> str:
    return canonical_host(text) if text else text


def is_network(text: str) -> bool:
    """An address, a network in CIDR notation, or `none`."""
    try:
        return text == NO_NETWORK or bool(ip_network(text))
    except ValueError:
        return False


# ── Annotated types of the fields of `Settings` ───────────────────────────────────────────────────

TEXT: Final = ValueType("TEXT", "a text", str)
BOOLEAN: Final = ValueType("BOOLEAN", "true or false", _parse_boolean, is_flag=True)
FOLDER: Final = ValueType("DIR", "a folder", lambda text: Path(text).expanduser())

Port = Annotated[int, whole_number(0, 65535, "PORT")]
OptionalPort = Annotated[int | None, whole_number(0, 65535, "PORT")]
Seconds = Annotated[float, _seconds("a number of seconds, such as 30 or 0.5", lowest=0)]
PositiveSeconds = Annotated[
    float, _seconds("a number of seconds above 0, such as 4 or 0.5", lowest=1e-9)
]
OptionalSeconds = Annotated[float | None, Seconds.__metadata__[0]]
OptionalRate = Annotated[
    Rate | None,
    ValueType("RATE", "a rate such as 10/s, 600/min or 1000/h, or `none`", _parse_rate),
]
HeaderText = Annotated[str, _text("HEADER", "printable ASCII characters", _is_printable)]
SentryDsn = Annotated[str, _text("DSN", "https://KEY@HOST/PROJECT", _SENTRY_DSN.fullmatch)]
HostName = Annotated[
    str, ValueType("HOST", "a host name or address, without scheme and port", _parse_host)
]
ListenHost = Annotated[
    str,
    ValueType("HOST", "a host name or address, or unix:/PATH of a socket", _parse_listen_host),
]
HttpUrl = Annotated[str, url("http", "https")]
DomainNames = Annotated[
    tuple[str, ...],
    _list_of(
        is_domain,
        "host names such as push.example.org, without scheme, port and wildcard",
        "DOMAIN",
        read=_domain,
    ),
]
TableName = Annotated[str, _text("NAME", "3 to 200 letters, digits or _.-", _TABLE.fullmatch)]
StoreUrl = Annotated[
    str, ValueType("URL", _STORES, _parse_store, explains=True, without_secret=without_password)
]
Objects = Annotated[
    NamedObjects | None, ValueType("JSON", "a JSON object", _parse_named_objects, explains=True)
]
Fingerprints = Annotated[
    NamedTexts | None, ValueType("JSON", "a JSON object", _parse_fingerprints, explains=True)
]
_FERNET_KEYS: Final = (
    "keys made by `autokey`: 44 characters of url-safe base64 each, none of them published"
)
_AUTH_KEYS: Final = "keys without spaces, such as `autokey` makes, none of them published"
_SENDERS: Final = (
    "public VAPID keys, 65 bytes as 87 characters of base64, or mailto: and https: subjects"
)
_NETWORKS: Final = "networks such as 10.0.0.0/8, with no bits of the host set, addresses, or `none`"
FernetKeys = Annotated[tuple[str, ...], _list_of(is_fernet_key, _FERNET_KEYS, read=without_label)]
SecretTexts = Annotated[tuple[str, ...], _list_of(is_auth_key, _AUTH_KEYS, read=without_label)]
Senders = Annotated[tuple[str, ...], _list_of(is_sender, _SENDERS, "SENDER")]
Networks = Annotated[tuple[str, ...], _list_of(is_network, _NETWORKS, "NETWORK")]


_PATH: Final = re.compile(r"[\w./~ -]{1,200}\.(json|pem|p8|key|crt|cert)")


def shown_path(text: str) -> str:
    """A path for a message, after a space; empty if it may be a misplaced key."""
    try:
        is_path = _PATH.fullmatch(text) is not None or Path(text).expanduser().exists()
    except (OSError, ValueError, RuntimeError):  # too long, a NUL, no such home folder
        is_path = False
    return f" {text}" if is_path else ""
