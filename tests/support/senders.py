"""Application servers with a VAPID key of their own, for tests."""

import json
from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from autopush.webpush.syntax import encode_base64url


def public_point(private: ec.EllipticCurvePrivateKey) -> bytes:
    """Its public key, as browsers and VAPID have it."""
    return private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


class Sender:
    """Signs any claims, valid or not."""

    def __init__(self) -> None:
        self._private = ec.generate_private_key(ec.SECP256R1())
        self.point = public_point(self._private)
        self.der = self._private.public_key().public_bytes(
            Encoding.DER, PublicFormat.SubjectPublicKeyInfo
        )
        self.key_text = encode_base64url(self.point)

    def token(self, claims: object, *, header: object = None, der_signature: bool = False) -> str:
        head = {"typ": "JWT", "alg": "ES256"} if header is None else header
        signed = ".".join(encode_base64url(json.dumps(part).encode()) for part in (head, claims))
        signature = self._private.sign(signed.encode(), ec.ECDSA(SHA256()))
        if not der_signature:
            r, s = decode_dss_signature(signature)
            signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
        return f"{signed}.{encode_base64url(signature)}"

    def vapid(self, claims: Mapping[str, object]) -> str:
        """An Authorization header of RFC 8292."""
        return f"vapid t={self.token(claims)},k={self.key_text}"
