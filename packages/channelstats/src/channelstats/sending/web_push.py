"""Web Push: what a browser gives when it subscribes (`PushSubscription.toJSON()`), where messages
may be sent to, and sending one (RFC 8030, 8291, 8292), encrypted by pywebpush.

Rule: an endpoint comes from a stranger's browser, and this program sends to it from inside the
operator's network. So it has to be one of these:

    https, a public name or address                        always
    http or https on this machine's loopback               if the page was opened on this machine
    https, a host that the operator named (`push_hosts`)   always

Names are judged at the time of sending, by the very addresses that are connected to. No proxy is
asked, no redirection is followed, and no answer is read.
"""

import asyncio
import re
import socket
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Annotated, Final, TypeAlias
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp.abc import ResolveResult
from aiohttp.resolver import ThreadedResolver
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from py_vapid import Vapid02
from pywebpush import WebPusher

from channelstats.credentials import read_or_create
from channelstats.settings import HOST, SettingError, is_loopback
from channelstats.tables.sending import Subscription
from keytables import Clock

MAX_SUBSCRIPTIONS: Final = 5000
"""Subscriptions of one dashboard."""
LONGEST: Final = 2048
"""Characters of an endpoint. Those of the large push services have 200 to 600."""
_NAT64: Final = IPv6Network("64:ff9b::/96")
"""IPv4 addresses for hosts that only have IPv6 (RFC 6052)."""
_AUTH_BYTES: Final = 16
"""Of the authentication secret (RFC 8291, section 3.2)."""

KEY_FILE: Final = "vapid.pem"
"""Made once, when it is first needed: every subscription depends on this key."""
DEFAULT_CONTACT: Final = "mailto:channelstats@example.com"
"""Where `push_contact` is not set. Some push services refuse a contact whose host cannot exist,
`localhost` among them."""
LIFETIME: Final = 12 * 3600
"""Seconds that a signature is good for; 24 hours are the most."""
HEADERS: Final[Mapping[str, str]] = {
    "TTL": str(3 * 86_400),  # seconds that the push service keeps it for a browser that is away
    "Urgency": "low",  # it may wait until the device is awake and on Wi-Fi
    "Content-Encoding": "aes128gcm",
    "Content-Type": "application/octet-stream",
}
_TIMEOUT: Final = aiohttp.ClientTimeout(total=20)

# ── subscriptions ────────────────────────────────────────────────────────────────────────────────

_Base64: TypeAlias = Annotated[
    str, msgspec.Meta(pattern="^([A-Za-z0-9_-]{4})*([A-Za-z0-9_-]{2,4})={0,2}\\Z")
]


class _Keys(msgspec.Struct, frozen=True):
    p256dh: _Base64
    auth: _Base64


class _Endpoint(msgspec.Struct, frozen=True):
    endpoint: str


class _Subscription(_Endpoint, frozen=True):
    keys: _Keys


def subscription_of(
    body: bytes, *, from_here: bool, own_hosts: Collection[str] = ()
) -> Subscription:
    """Read a subscription. ``from_here``: the page was opened on this machine.

    :raises ValueError: it cannot be sent to, or must not; says which field and what was expected
    """
    read = msgspec.json.decode(body, type=_Subscription)
    check_endpoint(read.endpoint, from_here=from_here, own_hosts=own_hosts)
    # More padding than it needs does no harm.
    point, secret = (
        urlsafe_b64decode(text.rstrip("=") + "==") for text in (read.keys.p256dh, read.keys.auth)
    )
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except ValueError:
        raise ValueError("keys.p256dh: expected a point of the curve P-256") from None
    if len(secret) != _AUTH_BYTES:
        raise ValueError(f"keys.auth: expected {_AUTH_BYTES} bytes")
    return Subscription(read.endpoint, read.keys.p256dh, read.keys.auth)


def endpoint_of(body: bytes) -> str:
    """The endpoint of a subscription that is to be removed.

    :raises ValueError: there is none
    """
    return msgspec.json.decode(body, type=_Endpoint).endpoint


def check_endpoint(endpoint: str, *, from_here: bool, own_hosts: Collection[str] = ()) -> None:
    """Check an endpoint by the rule above.

    :raises ValueError: nothing is sent there; says what was expected
    """
    try:
        parts = urlsplit(endpoint if re.fullmatch("[!-~]+", endpoint) else "")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", 0
    is_plain = HOST.fullmatch(host) and port != 0 and parts.username is None and not parts.fragment
    if not is_plain or len(endpoint) > LONGEST:
        raise ValueError(f"endpoint: expected https, a host and a path, {LONGEST} characters")
    is_local = is_loopback(host)
    if parts.scheme != "https" and not (is_local and parts.scheme == "http"):
        raise ValueError("endpoint: expected https")
    if is_local and not from_here:
        raise ValueError("endpoint: a push service on loopback serves this machine alone")
    try:
        address = ip_address(host)
    except ValueError:
        return  # a name, judged when it is resolved
    if not (is_local or host in own_hosts or is_public(address)):
        raise ValueError("endpoint: expected an address that is open to the Internet")


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether it can be reached from the whole Internet: it belongs to no private network."""
    if isinstance(address, IPv6Address):
        if address.sixtofour is not None or address.teredo is not None:
            return False  # a tunnel to an IPv4 address, which may be anybody's
        translated = IPv4Address(address.packed[-4:]) if address in _NAT64 else None
        address = address.ipv4_mapped or translated or address
    return address.is_global and not address.is_multicast


class GuardedResolver(ThreadedResolver):
    """Resolves a host without the addresses that nothing may be sent to."""

    def __init__(self, own_hosts: Collection[str] = ()) -> None:
        super().__init__()
        self._own_hosts = own_hosts

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        results = await super().resolve(host, port, family)
        if host == "localhost":
            results = [result for result in results if ip_address(result["host"]).is_loopback]
        elif host not in self._own_hosts:
            results = [result for result in results if is_public(ip_address(result["host"]))]
        if not results:
            raise OSError("the host is in a network of somebody's own")
        return results


# ── the key ──────────────────────────────────────────────────────────────────────────────────────


class VapidKey:
    """The key pair of this dashboard; ``public`` is what a page subscribes with (base64url)."""

    def __init__(self, private: ec.EllipticCurvePrivateKey) -> None:
        # The settings know what a contact is; the library's own check takes no page.
        self._vapid = Vapid02(private, conf={"no-strict": True})
        point = private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self.public = urlsafe_b64encode(point).rstrip(b"=").decode()

    def authorization(self, endpoint: str, contact: str, now: float) -> str:
        """The header that proves to the endpoint's service who sends."""
        parts = urlsplit(endpoint)
        audience = f"{parts.scheme}://{parts.netloc}"
        claims = {"aud": audience, "exp": int(now) + LIFETIME, "sub": contact}
        return str(self._vapid.sign(claims)["Authorization"])


def vapid_key(folder: Path) -> VapidKey:
    """The key in the data folder, made when there is none.

    :raises SettingError: the file is there, and no key
    :raises OSError: the folder cannot be written, or the file not be read
    """
    text = read_or_create(folder / KEY_FILE, _new_key)
    try:
        private = load_pem_private_key(text, password=None)
    except (ValueError, TypeError):  # no PEM, no key; or one with a password
        private = None
    if not isinstance(private, ec.EllipticCurvePrivateKey) or private.curve.name != "secp256r1":
        raise SettingError(
            f"{folder / KEY_FILE}: expected a private key of the curve P-256 (PEM, no password); "
            "without the file a new one is made, and everybody has to subscribe again"
        )
    return VapidKey(private)


def _new_key() -> bytes:
    vapid = Vapid02()
    vapid.generate_keys()
    return bytes(vapid.private_pem())


# ── sending ──────────────────────────────────────────────────────────────────────────────────────

Push: TypeAlias = Callable[[Subscription, bytes, str], Awaitable[int]]
"""Sends a plaintext once; it replaces what still waits at the push service of the same topic.
Returns the status of the answer; 0 for none."""


@asynccontextmanager
async def push_sender(
    key: VapidKey, contact: str, clock: Clock, own_hosts: Collection[str] = ()
) -> AsyncIterator[Push]:
    connector = aiohttp.TCPConnector(resolver=GuardedResolver(own_hosts))
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(
        connector=connector, trust_env=False, timeout=_TIMEOUT, cookie_jar=jar
    ) as session:

        async def push(to: Subscription, plaintext: bytes, topic: str) -> int:
            info = {"endpoint": to.endpoint, "keys": {"p256dh": to.p256dh, "auth": to.auth}}
            body = (await asyncio.to_thread(WebPusher(info).encode, plaintext))["body"]
            signature = key.authorization(to.endpoint, contact, clock())
            headers = {**HEADERS, "Topic": topic, "Authorization": signature}
            try:
                async with session.post(
                    to.endpoint, data=body, headers=headers, allow_redirects=False
                ) as response:
                    return response.status
            except (aiohttp.ClientError, OSError, ValueError):  # TimeoutError is an OSError
                return 0

        yield push
