"""What a browser gives is stored only if messages can be and may be sent there."""

import json
import socket
from ipaddress import ip_address
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from hypothesis import given
from hypothesis import strategies as st
from pywebpush import WebPusher

from channelstats.sending.endpoints import (
    LONGEST,
    GuardedResolver,
    check_endpoint,
    endpoint_of,
    is_public,
    subscription_of,
)
from channelstats.settings import load
from support.cases import cases
from support.channelstats.push_service import Browser, base64url

# ── endpoints ─────────────────────────────────────────────────────────────────────────────────────


FIT_ENDPOINTS = """
https://push.example.com/wpush/v2/token https://push.example.com:8443/p?x=1
https://93.184.215.14/p https://PUSH.example.com/p
"""
UNFIT_ENDPOINTS = """
push.example.com/p http://push.example.com/p ftp://push.example.com/p https:///p
https://user@push.example.com/p https://push.example.com/p#x https://push.example.com:0/p
https://push.example.com:99999/p https://push.example.com./p https://pusch.exämple.com/p
https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/p https://10.0.0.1/p https://192.168.1.1/p
https://169.254.169.254/latest/meta-data https://100.64.0.1/p https://0.0.0.0/p https://224.0.0.1/p
https://[::1]/p
"""
MORE = ("", "https://push .example.com/p", "https://push.example.com/p\nx")
LONG = "https://push.example.com/" + "x" * LONGEST


@cases("endpoint", FIT_ENDPOINTS.split())
def test_an_endpoint_on_the_internet_is_taken_over_tls(endpoint: str) -> None:
    check_endpoint(endpoint, from_here=False)


@cases("endpoint", [*UNFIT_ENDPOINTS.split(), *MORE, LONG])
def test_another_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match=r"^endpoint: expected"):
        check_endpoint(endpoint, from_here=True)


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:8082/p", "https://localhost/p", "http://127.8.9.1/p"]
)
def test_loopback_is_for_pages_that_were_opened_there(endpoint: str) -> None:
    check_endpoint(endpoint, from_here=True)
    with pytest.raises(ValueError, match="loopback"):
        check_endpoint(endpoint, from_here=False)


def test_a_host_that_the_operator_named_may_be_private_and_still_needs_tls() -> None:
    own = {"10.0.0.1", "push.lan"}
    for host in own:
        check_endpoint(f"https://{host}/p", from_here=False, own_hosts=own)
        with pytest.raises(ValueError, match="https"):
            check_endpoint(f"http://{host}/p", from_here=False, own_hosts=own)


PUBLIC_ADDRESSES = """
93.184.215.14 2606:2800:21f:cb07:6820:80da:af6b:8b2c ::ffff:93.184.215.14 64:ff9b::93.184.215.14
"""
OTHER_ADDRESSES = """
64:ff9b::10.0.0.1 2002:7f00:1:: 2002:5db8:d70e:: 2001:0:4136:e378:8000:63bf:3fff:fdd2 127.0.0.1
::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 10.1.2.3 172.16.0.1 192.168.0.1 169.254.169.254 fe80::1
fd00::1 224.0.0.1 ff02::1 0.0.0.0 255.255.255.255
"""


@cases(
    ("address", "expected"),
    [
        *((address, True) for address in PUBLIC_ADDRESSES.split()),
        *((address, False) for address in OTHER_ADDRESSES.split()),
    ],
)
def test_an_address_is_public_when_it_is_nobodys_own(address: str, expected: bool) -> None:
    assert is_public(ip_address(address)) is expected


def test_the_operator_names_hosts_in_any_case() -> None:
    found = load({"push_hosts": "Push.lan, 10.0.0.7"}, {}).push_hosts
    assert found == {"push.lan", "10.0.0.7"}
    assert load({}, {}).push_hosts == frozenset()


class Names(AbstractResolver):
    """A resolver that knows these names."""

    def __init__(self, **addresses: list[str]) -> None:
        self.addresses = addresses
        self.closed = False

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=found, port=port, family=family, proto=0, flags=0)
            for found in self.addresses[host]
        ]

    async def close(self) -> None:
        self.closed = True


async def resolved(host: str, *own: str, **addresses: list[str]) -> list[str]:
    found = await GuardedResolver(own, Names(**addresses)).resolve(host, 443)
    return [result["host"] for result in found]


async def test_a_name_stands_for_its_open_addresses_alone() -> None:
    both = ["10.0.0.1", "93.184.215.14", "127.0.0.1"]
    assert await resolved("push", push=both) == ["93.184.215.14"]


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1"])
async def test_a_name_that_leads_into_a_private_network_leads_nowhere(address: str) -> None:
    with pytest.raises(OSError, match="network"):
        await resolved("rebound", rebound=[address])


async def test_the_operators_host_may_be_anywhere() -> None:
    assert await resolved("push", "push", push=["10.0.0.1"]) == ["10.0.0.1"]


async def test_localhost_is_loopback_and_nothing_else() -> None:
    assert await resolved("localhost", localhost=["127.0.0.1", "10.0.0.1"]) == ["127.0.0.1"]


# ── subscribing ───────────────────────────────────────────────────────────────────────────────────


BROWSER = Browser("https://push.example.com/p/1")


def changed(**keys: Any) -> bytes:
    return json.dumps({**BROWSER.json, "keys": {**BROWSER.json["keys"], **keys}}).encode()


def test_what_a_browser_gives_is_taken_and_not_shown() -> None:
    subscription = subscription_of(json.dumps(BROWSER.json).encode(), from_here=False)
    assert subscription == BROWSER.subscription()
    for part in (subscription.endpoint, subscription.auth, subscription.p256dh):
        assert part not in repr(subscription)


def test_keys_may_be_padded_and_are_sent_to_all_the_same() -> None:
    keys = {name: f"{text}==" for name, text in BROWSER.json["keys"].items()}
    given_keys = subscription_of(changed(**keys), from_here=False)
    info = {"endpoint": "", "keys": {"p256dh": given_keys.p256dh, "auth": given_keys.auth}}
    assert BROWSER.decrypted(WebPusher(info).encode(b'{"a": 1}')["body"]) == {"a": 1}


@cases(
    ("field", "body"),
    [
        ("endpoint", json.dumps({"keys": BROWSER.json["keys"]}).encode()),
        ("endpoint", json.dumps({**BROWSER.json, "endpoint": 1}).encode()),
        ("keys", b'{"endpoint": "https://push.example.com/p"}'),
        ("keys", b'{"endpoint": "https://push.example.com/p", "keys": []}'),
        ("auth", b'{"endpoint": "https://push.example.com/p", "keys": {"p256dh": "AAAA"}}'),
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
