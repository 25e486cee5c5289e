"""An application server that sends with pywebpush, to a browser."""

from pathlib import Path

import requests
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from py_vapid import Vapid02
from pywebpush import webpush

from autopush.webpush.syntax import encode_base64url
from support.firefox import Subscription


class PywebpushSender:
    """Signs with a key of its own, `key`. `ca`: PEM file of the CA that it trusts over https."""

    def __init__(self, ca: Path | None = None) -> None:
        self._ca = ca
        self._vapid = Vapid02()
        self._vapid.generate_keys()
        self.key = encode_base64url(
            self._vapid.public_key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        )

    def send(
        self,
        subscription: Subscription,
        text: str | bytes | None,
        *,
        ttl: int = 600,
        topic: str | None = None,
        content_type: str | None = None,
        encoding: str = "aes128gcm",
    ) -> str:
        """Send over a new connection; returns the message's id, which the user agent sees as its
        version.

        :raises WebPushException: the service refused the message
        """
        given = {"Topic": topic, "Content-Type": content_type}
        with requests.Session() as session:
            session.trust_env = False
            session.verify = str(self._ca) if self._ca else True
            answer = webpush(
                subscription.info,
                text,
                vapid_private_key=self._vapid,
                vapid_claims={"sub": "mailto:tests@example.com"},
                content_encoding=encoding,
                ttl=ttl,
                timeout=30,
                headers={name: value for name, value in given.items() if value},
                requests_session=session,
            )
        return message_id(answer.headers["Location"])


def message_id(location: str) -> str:
    """The last part of a `Location`."""
    return location.rpartition("/")[2]
