from typing import Any

from autopush.testing.mistakes import mistakes
from autopush.testing.user_agents import UserAgentKeys
from autopush.webpush.encryption import SubscriptionKeys, encrypt
from autopush.webpush.syntax import encode_base64url
from autopush.webpush.tokens import EndpointTokens, KeyRing, new_key
from support.cases import cases
from support.senders import Sender

ORIGIN = "https://push.example"
NOW = 1_800_000_000
HOUR = 3600

tokens = EndpointTokens(KeyRing((new_key(),)), ORIGIN, 16)
keys = UserAgentKeys()
sender = Sender()
BODY = encrypt(b"Hello", SubscriptionKeys(keys.p256dh, keys.auth))
CLAIMS = {"aud": ORIGIN, "exp": NOW + HOUR, "sub": "mailto:admin@example.com"}


def found(
    *,
    body: bytes = BODY,
    key: bytes | None = None,
    claims: dict[str, Any] | None = None,
    **headers: str | None,
) -> list[str]:
    """Of a push that is right but for what is given; a header that is None is left out."""
    given: dict[str, str | None] = {
        "ttl": "60",
        "content_encoding": "aes128gcm",
        "authorization": sender.vapid(CLAIMS | (claims or {})),
        **headers,
    }
    url = tokens.url("0" * 32, "11111111-2222-3333-4444-555555555555", key)
    sent = {name.replace("_", "-"): text for name, text in given.items() if text is not None}
    return mistakes(url.removeprefix(ORIGIN), sent, body, tokens=tokens, keys=keys, now=float(NOW))


def test_a_sender_who_does_all_right_is_told_nothing() -> None:
    assert found() == []
    assert found(body=b"", content_encoding=None) == []
    assert found(key=sender.point, topic="news", urgency="low") == []


@cases(
    ("changes", "said"),
    [
        ({"ttl": None}, "Missing TTL"),
        ({"ttl": "1.5"}, "TTL must be a whole number"),
        ({"ttl": "9999999"}, "at most 2592000 (30 days)"),
        ({"topic": "a" * 33}, "opic"),
        ({"topic": "c2l4dGVlbg=="}, "opic"),
        ({"topic": ""}, "Topic is empty"),
        ({"urgency": "urgent"}, "Urgency is"),
        ({"urgency": "low, high"}, "Urgency must be one value"),
        ({"content_encoding": None}, "Unknown Content-Encoding"),
        ({"encryption": "keyid=p256dh"}, "Encryption is of a former draft"),
        ({"body": bytes(4097)}, "the body has 4097 bytes"),
        ({"body": BODY[:16] + (len(BODY) - 86).to_bytes(4, "big") + BODY[20:]}, "record size is"),
        ({"body": BODY[:-1] + b"\0"}, "cannot be decrypted"),
        ({"authorization": None}, "not signed"),
        ({"authorization": None, "key": sender.point}, "missing authorization header"),
        ({"authorization": "Basic YTpi"}, "expected vapid"),
        ({"claims": {"aud": f"{ORIGIN}/wpush"}}, "expected the origin alone"),
        ({"claims": {"aud": "https://other.example"}}, "Invalid Audience"),
        ({"claims": {"exp": NOW - 1}}, "Auth expired"),
        ({"claims": {"exp": NOW + 25 * HOUR}}, "24 hours"),
        ({"claims": {"exp": (NOW + HOUR) * 1000}}, "milliseconds"),
        ({"claims": {"sub": ""}}, "no sub"),
        ({"claims": {"sub": "admin@example.com"}}, "expected a mailto: or https: URL"),
        ({"key": Sender().point}, "Key mismatch"),
    ],
)
def test_each_mistake_is_named(changes: dict[str, Any], said: str) -> None:
    assert any(said in each for each in found(**changes)), found(**changes)


def test_what_this_service_tolerates_is_named_too() -> None:
    token = sender.token(CLAIMS)
    padded = found(authorization=f"vapid t={token},k={sender.key_text}=")
    assert padded == ["the public key has =: base64url has - and _, and no padding"]
    spki = found(authorization=f"vapid t={token},k={encode_base64url(sender.der)}")
    assert spki == ["the public key has 91 bytes, expected 65: 04 and the point"]
    der = sender.token(CLAIMS, der_signature=True)
    [text] = found(authorization=f"vapid t={der},k={sender.key_text}")
    assert text.endswith("expected r and s in 64, not DER")
    draft = found(authorization=f"WebPush {token}", crypto_key=f"p256ecdsa={sender.key_text}")
    assert draft == [
        "Authorization is of a former draft; expected vapid t=<token>,k=<key> (RFC 8292)"
    ]


def test_all_mistakes_of_a_push_are_listed_at_once() -> None:
    assert len(found(ttl=None, topic="!", urgency="x", authorization=None, body=b"plain")) == 5
