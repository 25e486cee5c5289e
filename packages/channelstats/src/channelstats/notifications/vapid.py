"""The key that messages are signed with, and who answers for them (RFC 8292).

Rule: the key is made once, at the first need, and never changes; every subscription hangs on it.
"""

from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from py_vapid import Vapid02

from channelstats.settings import SettingError, Settings
from channelstats.settings.kept_files import kept_file

FILE: Final = "vapid.pem"
DEFAULT_CONTACT: Final = "mailto:channelstats@example.com"
"""Some push services refuse a contact whose host cannot exist, `localhost` among them."""

LIFETIME: Final = 12 * 3600
"""Seconds that a signature is good for; 24 hours are the most."""


class VapidKey:
    """The key pair of this dashboard; ``public`` is what a page subscribes with (base64url)."""

    def __init__(self, private: ec.EllipticCurvePrivateKey) -> None:
        # The settings know what a contact is; the library's own check takes no page.
        self._vapid = Vapid02(private, conf={"no-strict": True})
        point = private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self.public = urlsafe_b64encode(point).rstrip(b"=").decode()

    def authorization(self, endpoint: str, contact: str, now: float) -> str:
        """The header that proves to the endpoint's service who sends."""
        claims = {"aud": audience(endpoint), "exp": int(now) + LIFETIME, "sub": contact}
        return str(self._vapid.sign(claims)["Authorization"])


def audience(endpoint: str) -> str:
    """The origin of an endpoint, which a signature is good for."""
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc}"


def vapid_key(folder: Path) -> VapidKey:
    """The key in the data folder, made when there is none.

    :raises SettingError: the file is there, and no key
    :raises OSError: the folder cannot be written, or the file not be read
    """
    text = kept_file(folder, FILE, _new_key)
    try:
        private = load_pem_private_key(text, password=None)
    except (ValueError, TypeError):  # no PEM, no key; or one with a password
        private = None
    if not isinstance(private, ec.EllipticCurvePrivateKey) or private.curve.name != "secp256r1":
        raise SettingError(
            f"{folder / FILE}: expected a private key of the curve P-256 (PEM, no password); "
            "without the file a new one is made, and everybody has to subscribe again"
        )
    return VapidKey(private)


def contact_of(settings: Settings) -> str:
    """Who answers for the messages."""
    return settings.push_contact or DEFAULT_CONTACT


def _new_key() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
