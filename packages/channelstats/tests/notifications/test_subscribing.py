"""What is stored can be sent to; everything else is refused by its field."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pywebpush import WebPusher

from channelstats.notifications.subscribing import endpoint_of, subscription_of
from support.channelstats.push_service import Browser, base64url

BROWSER = Browser("https://push.example.com/p/1")


def changed(**keys: Any) -> bytes:
    return json.dumps({**BROWSER.json, "keys": {**BROWSER.json["keys"], **keys}}).encode()


def test_what_a_browser_gives_is_taken() -> None:
    body = json.dumps(BROWSER.json).encode()
    found = subscription_of(body, from_here=False)
    assert found == BROWSER.subscription()


@given(padding=st.integers(0, 2))
def test_keys_may_be_padded_and_are_sent_to_all_the_same(padding: int) -> None:
    keys = {name: text + "=" * padding for name, text in BROWSER.json["keys"].items()}
    found = subscription_of(changed(**keys), from_here=False)
    info = {"endpoint": found.endpoint, "keys": {"p256dh": found.p256dh, "auth": found.auth}}
    body = WebPusher(info).encode(b'{"a": 1}')["body"]
    assert BROWSER.decrypted(body) == {"a": 1}


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("endpoint", b'{"keys": {"p256dh": "", "auth": ""}}'),
        ("endpoint", b'{"endpoint": 1, "keys": {"p256dh": "", "auth": ""}}'),
        ("keys", b'{"endpoint": "https://push.example.com/p"}'),
        ("keys", b'{"endpoint": "https://push.example.com/p", "keys": []}'),
        ("auth", b'{"endpoint": "https://push.example.com/p", "keys": {"p256dh": ""}}'),
        (r"keys\.p256dh", changed(p256dh="")),
        (r"keys\.p256dh", changed(p256dh="not base64url!")),
        (r"keys\.p256dh", changed(p256dh="A" * 87)),
        (r"keys\.p256dh", changed(p256dh=base64url(b"\x04" + bytes(64)))),
        (r"keys\.auth", changed(auth="")),
        (r"keys\.auth", changed(auth=base64url(bytes(15)))),
        (r"keys\.auth", changed(auth=base64url(bytes(17)))),
        (r"keys\.auth", changed(auth="====")),
        (r"keys\.auth", changed(auth="é" * 22)),
    ],
)
def test_what_cannot_be_sent_to_is_refused_by_its_field(field: str, body: bytes) -> None:
    with pytest.raises(ValueError, match=field):
        subscription_of(body, from_here=False)


@given(st.binary(max_size=60))
def test_no_bytes_are_anything_but_refused(body: bytes) -> None:
    for read in (lambda: subscription_of(body, from_here=True), lambda: endpoint_of(body)):
        with pytest.raises(ValueError):
            read()


def test_a_refusal_says_nothing_of_the_keys() -> None:
    secret = base64url(b"secret auth of 17")
    with pytest.raises(ValueError) as error:
        subscription_of(changed(auth=secret), from_here=False)
    assert secret not in str(error.value)


def test_a_subscription_does_not_show_its_endpoint() -> None:
    subscription = BROWSER.subscription()
    for part in (subscription.endpoint, subscription.auth, subscription.p256dh):
        assert part not in repr(subscription)
