"""Encryption for a subscription, against the example of RFC 8291 and an independent library."""

import os

import http_ece
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    derive_private_key,
    generate_private_key,
)
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from autopush.webpush.encryption import MAX_PLAINTEXT, SubscriptionKeys, encrypt
from autopush.webpush.syntax import decode_base64url, encode_base64url
from support.cases import cases

# RFC 8291, section 5 and appendix A
PLAINTEXT = b"When I grow up, I want to be a watermelon"
P256DH = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
AUTH = "BTBZMqHH6r4Tts7J_aSIgg"
SENDER = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
SALT = "DGv6ra1nlYgDCS1FRnbzlw"
BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6"
    "TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulc"
    "y4a-fN"
)


def private_key(text: str) -> EllipticCurvePrivateKey:
    return derive_private_key(int.from_bytes(decode_base64url(text), "big"), SECP256R1())


def receiver() -> tuple[EllipticCurvePrivateKey, bytes, SubscriptionKeys]:
    """A user agent: its private key, its secret, and what it gives to senders."""
    key, auth = generate_private_key(SECP256R1()), os.urandom(16)
    point = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return key, auth, SubscriptionKeys(encode_base64url(point), encode_base64url(auth))


def test_the_example_of_the_rfc_gives_its_body() -> None:
    keys = SubscriptionKeys(P256DH, AUTH)
    body = encrypt(PLAINTEXT, keys, sender_key=private_key(SENDER), salt=decode_base64url(SALT))
    assert encode_base64url(body) == BODY


@pytest.mark.parametrize("length", [0, 1, 100, MAX_PLAINTEXT])
def test_the_user_agent_decrypts_it(length: int) -> None:
    key, auth, keys = receiver()
    message = os.urandom(length)
    body = encrypt(message, keys)
    assert len(body) <= 4096
    assert http_ece.decrypt(body, private_key=key, auth_secret=auth) == message


def test_the_longest_message_fills_a_body_of_4096_bytes() -> None:
    *_, keys = receiver()
    assert len(encrypt(bytes(MAX_PLAINTEXT), keys)) == 4096
    with pytest.raises(ValueError, match=f"at most 3,993 bytes, got {MAX_PLAINTEXT + 1:,}"):
        encrypt(bytes(MAX_PLAINTEXT + 1), keys)


def test_each_message_has_a_key_and_a_salt_of_its_own() -> None:
    *_, keys = receiver()
    bodies = [encrypt(b"same", keys) for _ in range(4)]
    assert len({body[:16] for body in bodies}) == 4
    assert len({body[21:86] for body in bodies}) == 4


def test_keys_may_be_padded_and_of_the_standard_alphabet() -> None:
    standard = P256DH.replace("-", "+").replace("_", "/") + "="
    assert SubscriptionKeys(standard, AUTH + "==").point == decode_base64url(P256DH)


@cases(
    ("p256dh", "auth", "name"),
    [
        (P256DH[:-2], AUTH, "p256dh"),
        ("", AUTH, "p256dh"),
        ("%", AUTH, "p256dh"),
        (encode_base64url(b"\x04" + bytes(64)), AUTH, "p256dh"),
        (P256DH, AUTH[:-2], "auth"),
        (P256DH, "", "auth"),
        (P256DH, "secret\n%", "auth"),
    ],
)
def test_a_malformed_key_is_named_and_not_shown(p256dh: str, auth: str, name: str) -> None:
    with pytest.raises(ValueError) as caught:
        SubscriptionKeys(p256dh, auth)
    text = str(caught.value)
    assert text.startswith(f"{name}: expected ")
    for secret in filter(None, (p256dh, auth)):
        assert secret not in text
