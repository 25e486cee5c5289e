"""VAPID for the load: one application server with its key and tokens.

Rule: every token is signed before a clock starts.
"""

import base64
import time

import orjson
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ES256 = ec.ECDSA(hashes.SHA256())
_HALF_A_DAY = 12 * 3600


def base64url(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


class ApplicationServer:
    """A key pair and the tokens it signs (RFC 8292)."""

    def __init__(self) -> None:
        self._private = ec.generate_private_key(ec.SECP256R1())
        point = self._private.public_key().public_bytes(
            Encoding.X962, PublicFormat.UncompressedPoint
        )
        self.key = base64url(point).decode()
        self._made = 0

    def token(self, audience: str) -> bytes:
        """A token that was never used, good for twelve hours."""
        self._made += 1
        header = base64url(b'{"typ":"JWT","alg":"ES256"}')
        claims = {
            "aud": audience,
            "exp": int(time.time()) + _HALF_A_DAY,
            "sub": f"mailto:bench{self._made}@example.com",
        }
        text = header + b"." + base64url(orjson.dumps(claims))
        r, s = decode_dss_signature(self._private.sign(text, ES256))
        return text + b"." + base64url(r.to_bytes(32, "big") + s.to_bytes(32, "big"))

    def tokens(self, audience: str, count: int) -> list[bytes]:
        return [self.token(audience) for _ in range(count)]
