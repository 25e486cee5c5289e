"""Sends one message to one push service (RFC 8030, 8291, 8292), encrypted by pywebpush.

Rule: a push service is a stranger: it is asked once a call, within a time, directly (no proxy of
the environment), its redirections are not followed, and its answer is not read.

Rule: the VAPID key is made once, when it is first needed, and never changes: every subscription
depends on it.
"""

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

import aiohttp
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from py_vapid import Vapid02
from pywebpush import WebPusher

from channelstats.credentials import read_or_create
from channelstats.sending.endpoints import GuardedResolver
from channelstats.settings import SettingError
from channelstats.tables.subscriptions import Subscription
from keytables import Clock

KEY_FILE: Final = "vapid.pem"
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


class PushSender:
    """Sends to many."""

    def __init__(
        self, session: aiohttp.ClientSession, key: VapidKey, contact: str, clock: Clock
    ) -> None:
        self._session, self._key, self._contact, self._clock = session, key, contact, clock

    @classmethod
    @asynccontextmanager
    async def open(
        cls, key: VapidKey, contact: str, clock: Clock, own_hosts: Collection[str] = ()
    ) -> AsyncIterator[Self]:
        """A sender that goes only where `channelstats.sending.endpoints` lets it."""
        connector = aiohttp.TCPConnector(resolver=GuardedResolver(own_hosts))
        jar = aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(
            connector=connector, trust_env=False, timeout=_TIMEOUT, cookie_jar=jar
        ) as session:
            yield cls(session, key, contact, clock)

    async def send(self, to: Subscription, plaintext: bytes, topic: str) -> int:
        """Send once; it replaces what still waits there of the same topic. Returns the status of
        the answer; 0 for none.
        """
        info = {"endpoint": to.endpoint, "keys": {"p256dh": to.p256dh, "auth": to.auth}}
        body = (await asyncio.to_thread(WebPusher(info).encode, plaintext))["body"]
        signature = self._key.authorization(to.endpoint, self._contact, self._clock())
        headers = {**HEADERS, "Topic": topic, "Authorization": signature}
        try:
            async with self._session.post(
                to.endpoint, data=body, headers=headers, allow_redirects=False
            ) as response:
                return response.status
        except (aiohttp.ClientError, OSError, ValueError):  # TimeoutError is an OSError
            return 0
