"""JSON Web Tokens (RFC 7519) signed with ES256, the only algorithm of VAPID and of Apple.

Pure functions: any thread may call them.
"""

import json
from collections.abc import Mapping
from math import isfinite

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.hashes import SHA256

from autopush.shown import shown
from autopush.webpush.syntax import decode_base64url, encode_base64url

_ES256 = ECDSA(SHA256())
try:
    # RFC 6979: the same claims give the same token, in every process.
    _SIGNATURE = ECDSA(SHA256(), deterministic_signing=True)
except UnsupportedAlgorithm:  # cryptography that was built with OpenSSL before 3.2
    _SIGNATURE = _ES256
_MAX_NAMED = 4


class SignedToken(msgspec.Struct, frozen=True, gc=False):
    """A parsed token; ``claims`` are unverified."""

    signed: bytes
    signature: bytes
    claims: dict[str, object]


class _Header(msgspec.Struct, gc=False):
    alg: str


_header = msgspec.json.Decoder(_Header)
_claims = msgspec.json.Decoder(dict[str, object])


def parse(text: str) -> SignedToken:
    """:raises ValueError: not three base64url parts, not JSON, another algorithm"""
    signed, _, signature = text.rpartition(".")
    header, dot, claims = signed.partition(".")
    if not dot or "." in claims:
        raise ValueError(
            f"expected three parts with dots between them, got {text.count('.') + 1} in a token "
            f"of {len(text)} characters"
        )
    try:
        algorithm = _header.decode(decode_base64url(header)).alg
        members = _claims.decode(decode_base64url(claims))
        raw_signature = decode_base64url(signature)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise ValueError(_complaint(header, claims, signature)) from None
    if algorithm != "ES256":
        raise ValueError(f"alg must be ES256, got {shown(algorithm)}")
    return SignedToken(signed.encode(), raw_signature, members)


def _complaint(header: str, claims: str, signature: str) -> str:
    """What is wrong with the parts of a token that cannot be parsed."""
    for name, part in (("header", header), ("payload", claims)):
        try:
            members = json.loads(decode_base64url(part))
            msgspec.json.decode(decode_base64url(part))
        except UnicodeDecodeError:
            return f"header and claims must be JSON objects in base64url: the {name} is not UTF-8"
        except msgspec.DecodeError:  # which the library, unlike this decoder, takes for numbers
            odd = [
                f"{shown(member)}: {shown(value)}"
                for member, value in (members.items() if isinstance(members, dict) else ())
                if isinstance(value, float) and not isfinite(value)
            ]
            return (
                f"header and claims must be JSON objects in base64url: the {name} is not JSON, "
                f"which has no {', '.join(odd[:_MAX_NAMED]) or 'NaN or Infinity'}"
            )
        except json.JSONDecodeError:
            return f"header and claims must be JSON objects in base64url: the {name} is not JSON"
        except (ValueError, RecursionError) as error:
            return f"header and claims must be JSON objects in base64url: the {name} is {error}"
        if not isinstance(members, dict):
            return (
                "header and claims must be JSON objects in base64url: "
                f"the {name} is {shown(members)}"
            )
        if name == "header" and not isinstance(members.get("alg"), str):
            got = f"got {shown(members['alg'])}" if "alg" in members else "it is missing"
            return f"alg must be ES256, {got} in the header {shown(members)}"
    try:
        decode_base64url(signature)
    except ValueError as error:
        return f"the signature is {error}"
    return "header and claims must be JSON objects in base64url"


def verify(token: SignedToken, key: EllipticCurvePublicKey) -> bool:
    """A signature of 64 bytes is r and s, any other is DER."""
    signature = token.signature
    if len(signature) == 64:
        signature = encode_dss_signature(
            int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        )
    try:
        key.verify(signature, token.signed, _ES256)
    except InvalidSignature:
        return False
    return True


def sign(
    claims: Mapping[str, object], key: EllipticCurvePrivateKey, key_id: str | None = None
) -> str:
    """A compact token. `key_id`: the `kid` of its header, for readers that need it."""
    header = {"alg": "ES256", "typ": "JWT"} if key_id is None else {"alg": "ES256", "kid": key_id}
    parts = (header, claims)
    signed = ".".join(encode_base64url(msgspec.json.encode(part)) for part in parts)
    r, s = decode_dss_signature(key.sign(signed.encode(), _SIGNATURE))
    return f"{signed}.{encode_base64url(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"
