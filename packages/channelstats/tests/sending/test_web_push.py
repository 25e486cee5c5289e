"""What a browser gives is stored only if messages can be and may be sent there; one message, one
push service, one try; and the key that signs it.
"""

import base64
import json
from collections.abc import AsyncIterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from aiohttp.resolver import ThreadedResolver
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from hypothesis import given
from hypothesis import strategies as st
from py_vapid import Vapid02
from pywebpush import WebPusher

from channelstats.sending.web_push import (
    HEADERS,
    KEY_FILE,
    LIFETIME,
    LONGEST,
    GuardedResolver,
    Push,
    check_endpoint,
    endpoint_of,
    is_public,
    push_sender,
    subscription_of,
    vapid_key,
)
from channelstats.settings import SettingError
from channelstats.tables.sending import Subscription
from support.cases import cases
from support.channelstats.house import NOW
from support.channelstats.push_service import Browser, PushService, base64url
from support.clocks import ManualClock

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


async def resolved(
    monkeypatch: pytest.MonkeyPatch, host: str, addresses: list[str], *own: str
) -> list[str]:
    """The addresses of a host that has these that may be sent to."""

    async def resolve(*_: object) -> list[dict[str, str]]:
        return [{"host": address} for address in addresses]

    monkeypatch.setattr(ThreadedResolver, "resolve", resolve)
    return [result["host"] for result in await GuardedResolver(own).resolve(host, 443)]


@pytest.mark.parametrize(
    ("host", "own", "expected"),
    [
        ("push", (), ["93.184.215.14"]),
        ("push", ("push",), ["10.0.0.1", "93.184.215.14", "127.0.0.1"]),
        ("localhost", (), ["127.0.0.1"]),
    ],
)
async def test_a_name_stands_for_the_addresses_that_it_may_alone(
    monkeypatch: pytest.MonkeyPatch, host: str, own: tuple[str, ...], expected: list[str]
) -> None:
    every = ["10.0.0.1", "93.184.215.14", "127.0.0.1"]
    assert await resolved(monkeypatch, host, every, *own) == expected


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "fd00::1"])
async def test_a_name_that_leads_into_a_private_network_leads_nowhere(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    with pytest.raises(OSError, match="network"):
        await resolved(monkeypatch, "rebound", [address])


# ── subscribing ───────────────────────────────────────────────────────────────────────────────────


BROWSER = Browser("https://push.example.com/p/1")


def changed(**keys: Any) -> bytes:
    return json.dumps({**BROWSER.json, "keys": {**BROWSER.json["keys"], **keys}}).encode()


def test_what_a_browser_gives_is_taken_and_not_shown() -> None:
    subscription = subscription_of(json.dumps(BROWSER.json).encode(), from_here=False)
    assert subscription == BROWSER.subscription()
    for part in (subscription.endpoint, subscription.auth, subscription.p256dh):
        assert part not in repr(subscription)
    secret = base64url(b"secret auth of 17")
    with pytest.raises(ValueError) as error:
        subscription_of(changed(auth=secret), from_here=False)
    assert secret not in str(error.value)


def test_keys_may_be_padded_and_are_sent_to_all_the_same() -> None:
    keys = {name: f"{text}==" for name, text in BROWSER.json["keys"].items()}
    given_keys = subscription_of(changed(**keys), from_here=False)
    info = {"endpoint": "", "keys": {"p256dh": given_keys.p256dh, "auth": given_keys.auth}}
    assert BROWSER.decrypted(WebPusher(info).encode(b'{"a": 1}')["body"]) == {"a": 1}


@cases(
    ("field", "body"),
    [
        ("endpoint", json.dumps({**BROWSER.json, "endpoint": 1}).encode()),
        ("keys", b'{"endpoint": "https://push.example.com/p"}'),
        ("auth", b'{"endpoint": "https://push.example.com/p", "keys": {"p256dh": "AAAA"}}'),
        (r"keys\.p256dh", changed(p256dh="not base64url!")),
        (r"keys\.p256dh", changed(p256dh=base64url(b"\x04" + bytes(64)))),
        (r"keys\.auth", changed(auth="")),
        (r"keys\.auth", changed(auth=base64url(bytes(15)))),
        (r"keys\.auth", changed(auth=base64url(bytes(17)))),
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


# ── the key ──────────────────────────────────────────────────────────────────────────────────────


def claims(authorization: str) -> dict[str, Any]:
    payload = authorization.split("t=")[1].split(",", maxsplit=1)[0].split(".")[1]
    decoded = json.loads(base64.urlsafe_b64decode(payload + "=="))
    assert isinstance(decoded, dict)
    return decoded


def test_the_key_is_made_once_and_its_owner_alone_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    made = vapid_key(folder)
    assert vapid_key(folder).public == made.public
    assert (folder / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == [KEY_FILE]
    assert len(base64.urlsafe_b64decode(made.public + "=")) == 65


def test_a_signature_holds_for_the_origin_of_the_endpoint(tmp_path: Path) -> None:
    key, contact = vapid_key(tmp_path), "https://a.example/x"  # the library knows mailto alone
    header = key.authorization("https://push.example:8443/p/abc", contact, NOW)
    assert claims(header) == {
        "aud": "https://push.example:8443",
        "exp": NOW + LIFETIME,
        "sub": contact,
    }
    assert header.endswith(f",k={key.public}")
    assert Vapid02.verify(header)


def pem(private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, password: bytes = b"") -> bytes:
    protection = BestAvailableEncryption(password) if password else NoEncryption()
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection)


@pytest.mark.parametrize(
    "content",
    [
        pem(ec.generate_private_key(ec.SECP384R1())),
        pem(rsa.generate_private_key(65_537, 2048)),
        pem(ec.generate_private_key(ec.SECP256R1()), b"password"),
        pem(ec.generate_private_key(ec.SECP256R1()))[:100],
    ],
    ids=["other curve", "rsa", "password", "cut"],
)
def test_what_is_no_key_is_said_in_one_line_and_left_as_it_is(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / KEY_FILE).write_bytes(content)
    with pytest.raises(SettingError, match=r"^\S+vapid\.pem: expected a private key .*$"):
        vapid_key(tmp_path)
    assert (tmp_path / KEY_FILE).read_bytes() == content


# ── sending ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def push(tmp_path: Path) -> AsyncIterator[Push]:
    clock = ManualClock(NOW)
    async with push_sender(vapid_key(tmp_path), "mailto:a@b.example", clock) as opened:
        yield opened


async def status_of(push: Push, to: Subscription) -> int:
    return await push(to, b'{"title": "a"}', "a-topic")


async def test_a_browser_decrypts_what_was_sent_and_no_proxy_of_the_environment_is_asked(
    service: PushService, push: Push, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
        monkeypatch.setenv(name.upper(), "http://127.0.0.1:1")
    browser = service.browser()
    assert await status_of(push, browser.subscription()) == 201
    assert browser.got == [{"title": "a"}]
    [headers] = browser.headers
    assert {name: headers[name] for name in HEADERS} == HEADERS
    assert headers["Topic"] == "a-topic"
    assert Vapid02.verify(headers["Authorization"])


async def test_redirections_are_not_followed(service: PushService, push: Push) -> None:
    other = service.browser()
    for status in (301, 302, 303, 307, 308):
        browser = service.browser((status, {"Location": other.endpoint}))
        assert await status_of(push, browser.subscription()) == status
    assert other.got == []


async def test_a_name_of_a_private_network_is_not_connected_to(
    service: PushService, push: Push
) -> None:
    port = service.origin.rpartition(":")[2]
    for host in ("127.1", "2130706433", "0x7f000001", "ip6-localhost"):
        there = Browser(f"http://{host}:{port}/push/0").subscription()
        assert await status_of(push, there) == 0
    assert service.requests == 0


async def test_what_cannot_be_reached_has_no_status(push: Push) -> None:
    assert await status_of(push, Browser("http://127.0.0.1:1/x").subscription()) == 0
