"""What a browser gives when it subscribes (`PushSubscription.toJSON()`), and which of its endpoints
messages are sent to.

Rule: an endpoint comes from a stranger's browser, and this program sends to it from inside the
operator's network. So it has to be one of these:

    https, a public name or address                        always
    http or https on this machine's loopback               if the page was opened on this machine
    https, a host that the operator named (`push_hosts`)   always

Names are resolved and judged at the time of sending, by the very addresses that are connected to;
redirections are not followed.
"""

import re
import socket
from base64 import urlsafe_b64decode
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Annotated, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from cryptography.hazmat.primitives.asymmetric import ec

from channelstats.settings.declaration import is_loopback
from channelstats.tables.subscriptions import Subscription

MAX_SUBSCRIPTIONS: Final = 5000
"""Subscriptions of one dashboard."""
LONGEST: Final = 2048
"""Characters of an endpoint. Those of the large push services have 200 to 600."""

_HOST: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_NAT64: Final = IPv6Network("64:ff9b::/96")
"""IPv4 addresses for hosts that only have IPv6 (RFC 6052)."""
_AUTH_BYTES: Final = 16
"""Of the authentication secret (RFC 8291, section 3.2)."""

_Base64: TypeAlias = Annotated[
    str, msgspec.Meta(pattern="^([A-Za-z0-9_-]{4})*([A-Za-z0-9_-]{2,4})={0,2}\\Z")
]


class _Keys(msgspec.Struct, frozen=True):
    p256dh: _Base64
    auth: _Base64


class _Endpoint(msgspec.Struct, frozen=True):
    endpoint: str


class _Given(_Endpoint, frozen=True):
    keys: _Keys


def subscription_of(
    body: bytes, *, from_here: bool, own_hosts: Collection[str] = ()
) -> Subscription:
    """Read a subscription. ``from_here``: see `check_endpoint`.

    :raises ValueError: it cannot be sent to, or must not; says which field and what was expected
    """
    given = msgspec.json.decode(body, type=_Given)
    check_endpoint(given.endpoint, from_here=from_here, own_hosts=own_hosts)
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _bytes(given.keys.p256dh))
    except ValueError:
        raise ValueError("keys.p256dh: expected a point of the curve P-256") from None
    if len(_bytes(given.keys.auth)) != _AUTH_BYTES:
        raise ValueError(f"keys.auth: expected {_AUTH_BYTES} bytes")
    return Subscription(given.endpoint, given.keys.p256dh, given.keys.auth)


def endpoint_of(body: bytes) -> str:
    """The endpoint of a subscription that is to be removed.

    :raises ValueError: there is none
    """
    return msgspec.json.decode(body, type=_Endpoint).endpoint


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text.rstrip("=") + "==")  # more than it needs does no harm


def check_endpoint(endpoint: str, *, from_here: bool, own_hosts: Collection[str] = ()) -> None:
    """Check an endpoint by the rule above. ``from_here``: the page was opened on this machine.

    :raises ValueError: nothing is sent there; says what was expected
    """
    try:
        parts = urlsplit(endpoint if re.fullmatch("[!-~]+", endpoint) else "")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", 0
    is_plain = _HOST.fullmatch(host) and port != 0 and parts.username is None and not parts.fragment
    if not is_plain or len(endpoint) > LONGEST:
        raise ValueError(f"endpoint: expected https, a host and a path, {LONGEST} characters")
    if parts.scheme not in (("http", "https") if is_loopback(host) else ("https",)):
        raise ValueError("endpoint: expected https")
    if is_loopback(host) and not from_here:
        raise ValueError("endpoint: a push service on loopback serves this machine alone")
    if is_loopback(host) or host in own_hosts:
        return
    try:
        is_fit = is_public(ip_address(host))
    except ValueError:
        return  # a name, judged when it is resolved
    if not is_fit:
        raise ValueError("endpoint: expected an address that is open to the Internet")


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether it can be reached from the whole Internet: it belongs to no private network."""
    if isinstance(address, IPv6Address):
        if address.sixtofour is not None or address.teredo is not None:
            return False  # a tunnel to an IPv4 address, which may be anybody's
        translated = IPv4Address(address.packed[-4:]) if address in _NAT64 else None
        address = address.ipv4_mapped or translated or address
    return address.is_global and not address.is_multicast


class GuardedResolver(AbstractResolver):
    """Resolves a host without the addresses that nothing may be sent to."""

    def __init__(
        self, own_hosts: Collection[str] = (), behind: AbstractResolver | None = None
    ) -> None:
        self._own_hosts, self._behind = own_hosts, behind or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        results = await self._behind.resolve(host, port, family)
        results = [one for one in results if self._may_send(host, ip_address(one["host"]))]
        if not results:
            raise OSError("the host is in a network of somebody's own")
        return results

    async def close(self) -> None:
        await self._behind.close()

    def _may_send(self, host: str, address: IPv4Address | IPv6Address) -> bool:
        if host == "localhost":
            return address.is_loopback
        return host in self._own_hosts or is_public(address)
