import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from autopush.webpush import jwt
from autopush.webpush.public_keys import load_key
from autopush.webpush.syntax import decode_base64url, encode_base64url
from support.cases import cases
from support.senders import Sender

SENDER = Sender()
KEY = load_key(SENDER.point)
CLAIMS = {"aud": "https://push.example", "exp": 1}


def part(value: object) -> str:
    return encode_base64url(json.dumps(value).encode())


def test_a_token_is_taken_apart() -> None:
    text = SENDER.token(CLAIMS)
    token = jwt.parse(text)
    assert token.claims == CLAIMS
    assert token.signed.decode() == text.rpartition(".")[0]
    assert len(token.signature) == 64


def test_a_token_signed_here_verifies_and_names_its_key() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    text = jwt.sign(CLAIMS, key, "ABC123DEFG")
    token = jwt.parse(text)
    assert token.claims == CLAIMS
    assert len(token.signature) == 64
    assert jwt.verify(token, key.public_key())
    assert not jwt.verify(token, KEY)
    header = json.loads(decode_base64url(text.partition(".")[0]))
    assert header == {"alg": "ES256", "kid": "ABC123DEFG"}


@pytest.mark.parametrize("der_signature", [False, True])
def test_both_forms_of_signature_verify(der_signature: bool) -> None:
    token = jwt.parse(SENDER.token(CLAIMS, der_signature=der_signature))
    assert jwt.verify(token, KEY)
    assert not jwt.verify(token, load_key(Sender().point))


@given(st.integers(min_value=0), st.integers(1, 255))
def test_a_signature_changed_anywhere_does_not_verify(where: int, change: int) -> None:
    token = jwt.parse(SENDER.token(CLAIMS))
    signature = bytearray(token.signature)
    signature[where % 64] ^= change
    assert not jwt.verify(jwt.SignedToken(token.signed, bytes(signature), token.claims), KEY)


@given(st.binary(max_size=80))
def test_random_bytes_are_no_signature(signature: bytes) -> None:
    assert not jwt.verify(jwt.SignedToken(b"a.b", signature, {}), KEY)


def test_claims_of_one_token_do_not_go_with_the_signature_of_another() -> None:
    header, _, signature = SENDER.token(CLAIMS).split(".")
    forged = jwt.parse(f"{header}.{part({**CLAIMS, 'exp': 2})}.{signature}")
    assert not jwt.verify(forged, KEY)


@cases("alg", ["none", "HS256", "es256", "ES384", "", None, 5])
def test_another_algorithm_is_refused(alg: object) -> None:
    with pytest.raises(ValueError):
        jwt.parse(SENDER.token(CLAIMS, header={"typ": "JWT", "alg": alg}))


@cases("claims", [[], ["exp"], "exp", 5, None, True])
def test_claims_that_are_no_object_are_refused(claims: object) -> None:
    with pytest.raises(ValueError, match="JSON objects"):
        jwt.parse(SENDER.token(claims))


GOOD = part({"alg": "ES256"})
BODY = part({})
DEEP = b'{"a":' * 5000
NOT_UTF8 = b'{"a":"\xff"}'


@cases(
    "text",
    [
        f"{GOOD}..YQ",
        "..",
        f"{part([])}.{part({})}.YQ",
        f"{part({})}.{part({})}.YQ",
        f"{GOOD}.{part({})}.Y+",
        f"{GOOD}.{encode_base64url(b'not json')}.YQ",
        f"{GOOD}.{encode_base64url(b'[' * 9000)}.YQ",
        f"{GOOD}.{encode_base64url(DEEP)}.YQ",
        f"{GOOD}.{encode_base64url(NOT_UTF8)}.YQ",
        f"{GOOD}é.{part({})}.YQ",
    ],
)
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        jwt.parse(text)


@cases("text", ["", "a", "a.b", f"{GOOD}.{BODY}", f"{GOOD}.{BODY}.a.b", f".{GOOD}.{BODY}."])
def test_a_token_has_three_parts(text: str) -> None:
    with pytest.raises(ValueError, match="three parts"):
        jwt.parse(text)
