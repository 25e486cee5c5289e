"""What the text of a setting may be, and what is understood by it.

Rule: each takes the text of a flag, a variable or a file, and returns the value, or raises
ValueError that says what was expected. The text itself is in no error: it may be a secret that
somebody put in the wrong place.
"""

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from channelstats.counting import Profile
from channelstats.days import zone_of
from channelstats.slack.rate_limits import AppKind
from keytables.stores import parse_store

WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_WORDS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]+(-+[a-z0-9]+)*", re.IGNORECASE)
_SUBTYPE: Final = re.compile(r"[a-z][a-z0-9_]{0,79}")
_PREFIX: Final = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_CONTACT: Final = re.compile(r"mailto:[^@\s]+@[^@\s]+|https://\S+")
_HOST: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_TOKEN: Final = ("xoxp-", "xoxb-", "xoxe", "xapp-", "xoxa-", "xoxc-", "xoxs-")
_MOST: Final = 1_000_000
_MOST_DAYS: Final = 36_600


def zone(text: str) -> str:
    if zone_of(text) is None:
        raise ValueError("expected the name of a time zone, like Europe/Berlin")
    return text


def profile(text: str) -> str:
    if text not in tuple(Profile):
        raise ValueError(f"expected {' or '.join(Profile)}")
    return text


def switch(text: str) -> bool:
    if text.lower() not in _WORDS:
        raise ValueError("expected yes or no")
    return _WORDS[text.lower()]


def count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= _MOST):
        raise ValueError("expected a whole number from 1 on")
    return int(text)


def days(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= _MOST_DAYS):
        raise ValueError("expected a number of days")
    return int(text)


def port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= 65_535):
        raise ValueError("expected a port, from 0 (any free one) to 65535")
    return int(text)


def weekday(text: str) -> str:
    if text.lower() not in WEEKDAYS:
        raise ValueError("expected a weekday, like sunday or monday")
    return text.lower()


def app_kind(text: str) -> str:
    if text not in tuple(AppKind):
        raise ValueError(f"expected {', '.join(AppKind)}")
    return text


def store(text: str) -> str:
    parse_store(text)
    return text


def prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise ValueError("expected letters, digits, '_', '-', '.'")
    return text


def subdomain(text: str) -> str:
    if not _SUBDOMAIN.fullmatch(text):
        raise ValueError("expected the part before .slack.com of the workspace's address")
    return text


def name(text: str) -> str:
    """The name of a channel, or its ID, without the sign before it."""
    found = text.strip().removeprefix("#")
    if not found or "," in found:
        raise ValueError("expected the name of a channel, or its ID")
    return found


def names(text: str) -> str:
    """Names and IDs, separated by commas, without the signs before them."""
    return ",".join(listed(text))


def subtypes(text: str) -> str:
    found = listed(text)
    if not all(map(_SUBTYPE.fullmatch, found)):
        raise ValueError("expected subtypes of messages, like channel_join,reminder_add")
    return ",".join(sorted(set(found)))


def listed(text: str) -> list[str]:
    """The items of a list."""
    items = (item.strip().lstrip("#@") for item in text.split(","))
    return [item for item in items if item]


def address(text: str) -> str:
    """Where a token may be sent: over TLS, or to this machine."""
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and _is_local(host))):
        raise ValueError("expected https://…, or http:// and an address of this machine")
    return text.rstrip("/") + "/"


def token_file(text: str) -> str:
    """The name of a file: what is a token would end up in errors."""
    if text.strip().startswith(_TOKEN):
        raise ValueError("expected the name of a file, not the token itself")
    return text


def contact(text: str) -> str:
    if not _CONTACT.fullmatch(text):
        raise ValueError("expected mailto:name@example.org or https://…")
    return text


def hosts(text: str) -> str:
    """Names or addresses of hosts, without port."""
    found = [host.lower() for host in listed(text)]
    if not all(map(_HOST.fullmatch, found)):
        raise ValueError("expected hosts without port, like push.example.lan")
    return ",".join(found)


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
