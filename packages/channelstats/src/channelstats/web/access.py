"""Who may look at the dashboard.

Rule: without a token only this machine may, by a name of this machine and straight, not through a
proxy; a page of somebody else that had its own name point here (DNS rebinding) bears that name.
With a token whoever has it may, from anywhere.

A browser keeps not the token but a value that follows from it. Tokens are compared in constant
time, and wrong ones are counted.
"""

import hmac
import ipaddress
from collections import OrderedDict, deque
from collections.abc import Mapping
from enum import Enum, auto
from typing import Final
from urllib.parse import urlsplit

from keytables import Clock

SHORTEST_TOKEN: Final = 12
COOKIE: Final = "channelstats"
COOKIE_SECONDS: Final = 30 * 86_400

_FORWARDED: Final = ("Forwarded", "X-Forwarded-For", "X-Real-IP")
MAX_FAILURES: Final = 10
"""Wrong tokens that an address may send in a minute."""

_MINUTE: Final = 60.0
_ADDRESSES: Final = 1_000
_OWN: Final = ("same-origin", "none")


class Verdict(Enum):
    LET_IN = auto()
    LOG_IN = auto()
    OTHER_NAME = auto()
    THROUGH_PROXY = auto()


class TooManyFailures(Exception):  # noqa: N818 - named for what happened
    """Wrong tokens came too fast; even the right one has to wait."""


class Authenticator:
    """``token`` is what a visitor has to show; None where only this machine is served."""

    def __init__(self, token: str | None, clock: Clock) -> None:
        self._token = None if token is None else token.encode()
        self._failures = _Failures(clock)
        self.cookie = "" if token is None else _derived(token)

    @property
    def asks(self) -> bool:
        """Whether visitors have to log in."""
        return self._token is not None

    def judge(self, headers: Mapping[str, str], cookie: str) -> Verdict:
        """What becomes of a request. ``headers`` are found whatever their case."""
        if self._token is not None:
            known = hmac.compare_digest(cookie.encode(errors="replace"), self.cookie.encode())
            return Verdict.LET_IN if known else Verdict.LOG_IN
        if not is_this_machine(host_name(headers.get("Host", ""))):
            return Verdict.OTHER_NAME
        if any(name in headers for name in _FORWARDED):
            return Verdict.THROUGH_PROXY
        return Verdict.LET_IN

    def is_right(self, token: str, address: str) -> bool:
        """Whether that is the token; ``address`` is whence it came.

        :raises TooManyFailures: too many were wrong
        """
        self._failures.check(address)
        if self._token is not None and hmac.compare_digest(token.encode(), self._token):
            return True
        self._failures.add(address)
        return False


def is_own(headers: Mapping[str, str]) -> bool:
    """Whether what changes something was sent by a page of the dashboard, or by no page at all."""
    site = headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in _OWN
    here = headers.get("Host")
    return headers.get("Origin") in (None, f"http://{here}", f"https://{here}")


def host_name(header: str) -> str:
    """The name in a Host header, without the port: of `[::1]:8090` `::1`."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def is_this_machine(host: str) -> bool:
    """Whether a name or an address means the machine it is used on."""
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Failures:
    """When each address sent a wrong token; of the addresses the latest are remembered."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._of: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, address: str) -> None:
        times = self._of.get(_group(address), deque())
        recent = [at for at in times if at > self._clock() - _MINUTE]
        if len(recent) >= MAX_FAILURES:
            raise TooManyFailures

    def add(self, address: str) -> None:
        group = _group(address)
        self._of.setdefault(group, deque(maxlen=MAX_FAILURES)).append(self._clock())
        self._of.move_to_end(group)
        while len(self._of) > _ADDRESSES:
            self._of.popitem(last=False)


def _group(address: str) -> str:
    """Addresses of one owner: of IPv6 a whole /64."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(found) if found.version == 4 else str(ipaddress.ip_network((int(found), 64), False))


def _derived(token: str) -> str:
    return hmac.digest(token.encode(), b"channelstats dashboard", "sha256").hex()
