"""One message, one push service, one try; and the key that signs it."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from py_vapid import Vapid02

from channelstats.sending.push_sender import HEADERS, KEY_FILE, LIFETIME, PushSender, vapid_key
from channelstats.settings import SettingError
from channelstats.tables.subscriptions import Subscription
from support.channelstats.push_service import Browser, PushService
from support.clocks import ManualClock

NOW = 1_711_000_000.0


def claims(authorization: str) -> dict[str, Any]:
    payload = authorization.split("t=")[1].split(",", maxsplit=1)[0].split(".")[1]
    decoded = json.loads(base64.urlsafe_b64decode(payload + "=="))
    assert isinstance(decoded, dict)
    return decoded


# ── the key ──────────────────────────────────────────────────────────────────────────────────────


def test_the_key_is_made_once_and_its_owner_alone_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    made = vapid_key(folder)
    assert vapid_key(folder).public == made.public
    assert (folder / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == [KEY_FILE]
    assert len(base64.urlsafe_b64decode(made.public + "=")) == 65


@pytest.mark.parametrize("contact", ["mailto:a@b.example", "https://a.example/x"])
def test_a_signature_holds_for_the_origin_of_the_endpoint(tmp_path: Path, contact: str) -> None:
    key = vapid_key(tmp_path)
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
        b"",
        b"\xff" * 20_000,
        pem(ec.generate_private_key(ec.SECP384R1())),
        pem(rsa.generate_private_key(65_537, 2048)),
        pem(ec.generate_private_key(ec.SECP256R1()), b"password"),
        pem(ec.generate_private_key(ec.SECP256R1()))[:100],
    ],
    ids=["empty", "bytes", "other curve", "rsa", "password", "cut"],
)
def test_what_is_no_key_is_said_in_one_line_and_left_as_it_is(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / KEY_FILE).write_bytes(content)
    with pytest.raises(SettingError, match=r"vapid\.pem: expected a private key") as error:
        vapid_key(tmp_path)
    assert "\n" not in str(error.value)
    assert (tmp_path / KEY_FILE).read_bytes() == content


# ── sending ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def sender(tmp_path: Path) -> AsyncIterator[PushSender]:
    clock = ManualClock(NOW)
    async with PushSender.open(vapid_key(tmp_path), "mailto:a@b.example", clock) as opened:
        yield opened


async def status_of(sender: PushSender, to: Subscription) -> int:
    return await sender.send(to, b'{"title": "a"}', "a-topic")


async def test_a_browser_decrypts_what_was_sent_and_no_proxy_of_the_environment_is_asked(
    service: PushService, sender: PushSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
        monkeypatch.setenv(name.upper(), "http://127.0.0.1:1")
    browser = service.browser()
    assert await status_of(sender, browser.subscription()) == 201
    assert browser.got == [{"title": "a"}]
    [headers] = browser.headers
    assert {name: headers[name] for name in HEADERS} == HEADERS
    assert headers["Topic"] == "a-topic"
    assert Vapid02.verify(headers["Authorization"])


async def test_redirections_are_not_followed(service: PushService, sender: PushSender) -> None:
    other = service.browser()
    for status in (301, 302, 303, 307, 308):
        browser = service.browser((status, {"Location": other.endpoint}))
        assert await status_of(sender, browser.subscription()) == status
    assert other.got == []


async def test_a_name_of_a_private_network_is_not_connected_to(
    service: PushService, sender: PushSender
) -> None:
    port = service.origin.rpartition(":")[2]
    for host in ("127.1", "2130706433", "0x7f000001", "ip6-localhost"):
        there = Browser(f"http://{host}:{port}/push/0").subscription()
        assert await status_of(sender, there) == 0
    assert service.requests == 0


async def test_localhost_is_this_machine(service: PushService, sender: PushSender) -> None:
    browser = service.browser()
    endpoint = browser.endpoint.replace("127.0.0.1", "localhost")
    there = msgspec.structs.replace(browser.subscription(), endpoint=endpoint)
    assert await status_of(sender, there) == 201
    assert browser.got == [{"title": "a"}]


async def test_what_cannot_be_reached_has_no_status(sender: PushSender) -> None:
    assert await status_of(sender, Browser("http://127.0.0.1:1/x").subscription()) == 0
