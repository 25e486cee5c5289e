"""One message, one push service, one try; and the key that signs it."""

import asyncio
import base64
import json
import os
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

from channelstats.sending.delivery import Answer, Outcome
from channelstats.sending.push_sender import (
    HEADERS,
    KEY_FILE,
    LIFETIME,
    PushSender,
    answer_of,
    vapid_key,
)
from channelstats.settings import SettingError
from support.channelstats.push_service import Browser, PushService
from support.clocks import ManualClock

# ── vapid ─────────────────────────────────────────────────────────────────────────────────────────


NOW = 1_711_000_000.0


def claims(authorization: str) -> dict[str, Any]:
    payload = authorization.split("t=")[1].split(",", maxsplit=1)[0].split(".")[1]
    found = json.loads(base64.urlsafe_b64decode(payload + "=="))
    assert isinstance(found, dict)
    return found


def test_the_key_is_made_once_and_its_owner_alone_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    made = vapid_key(folder)
    assert vapid_key(folder).public == made.public
    assert (folder / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == [KEY_FILE]
    assert len(base64.urlsafe_b64decode(made.public + "=")) == 65


async def test_of_several_makers_one_makes_the_key(tmp_path: Path) -> None:
    found = await asyncio.gather(*(asyncio.to_thread(vapid_key, tmp_path) for _ in range(8)))
    assert len({key.public for key in found}) == 1


def test_a_key_that_somebody_else_made_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_by_another(whole: Path, path: Path) -> None:
        monkeypatch.undo()
        public.append(vapid_key(path.parent).public)
        os.link(whole, path)

    public: list[str] = []
    monkeypatch.setattr(os, "link", made_by_another)
    assert [vapid_key(tmp_path).public] == public
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


def test_a_signature_holds_for_the_origin_of_the_endpoint(tmp_path: Path) -> None:
    key = vapid_key(tmp_path)
    header = key.authorization("https://push.example:8443/p/abc", "mailto:a@b.example", NOW)
    assert claims(header) == {
        "aud": "https://push.example:8443",
        "exp": NOW + LIFETIME,
        "sub": "mailto:a@b.example",
    }
    assert header.endswith(f",k={key.public}")
    assert Vapid02.verify(header)


def test_a_page_can_be_the_contact(tmp_path: Path) -> None:
    header = vapid_key(tmp_path).authorization("https://p.example/1", "https://a.example/x", NOW)
    assert claims(header)["sub"] == "https://a.example/x"


def pem(private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, password: bytes = b"") -> bytes:
    protection = BestAvailableEncryption(password) if password else NoEncryption()
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a key",
        b"\xff" * 20_000,
        pem(ec.generate_private_key(ec.SECP384R1())),
        pem(rsa.generate_private_key(65_537, 2048)),
        pem(ec.generate_private_key(ec.SECP256R1()), b"password"),
        pem(ec.generate_private_key(ec.SECP256R1()))[:100],
    ],
    ids=["empty", "text", "bytes", "other curve", "rsa", "password", "cut"],
)
def test_what_is_no_key_is_said_in_one_line_and_left_as_it_is(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / KEY_FILE).write_bytes(content)
    with pytest.raises(SettingError, match=r"vapid\.pem: expected a private key") as error:
        vapid_key(tmp_path)
    assert "\n" not in str(error.value)
    assert (tmp_path / KEY_FILE).read_bytes() == content


# ── sending ───────────────────────────────────────────────────────────────────────────────────────


TEXT = b'{"title": "a"}'


@pytest.fixture
async def sender(tmp_path: Path) -> AsyncIterator[PushSender]:
    clock = ManualClock(NOW)
    async with PushSender.open(vapid_key(tmp_path), "mailto:a@b.example", clock) as opened:
        yield opened


async def test_a_browser_decrypts_what_was_sent(service: PushService, sender: PushSender) -> None:
    browser = service.browser()
    assert await sender.send(browser.subscription(), TEXT) == Answer(Outcome.TAKEN)
    assert browser.got == [{"title": "a"}]
    [headers] = browser.headers
    assert {name: headers[name] for name in HEADERS} == HEADERS
    assert Vapid02.verify(headers["Authorization"])


async def test_a_signature_serves_all_browsers_of_a_push_service(
    service: PushService, sender: PushSender
) -> None:
    browsers = [service.browser() for _ in range(3)]
    for browser in browsers:
        await sender.send(browser.subscription(), TEXT)
    assert len({browser.headers[0]["Authorization"] for browser in browsers}) == 1


async def test_no_proxy_of_the_environment_is_asked(
    service: PushService, sender: PushSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
        monkeypatch.setenv(name.upper(), "http://127.0.0.1:1")
    browser = service.browser()
    assert await sender.send(browser.subscription(), TEXT) == Answer(Outcome.TAKEN)


async def test_redirections_are_not_followed(service: PushService, sender: PushSender) -> None:
    other = service.browser()
    for status in (301, 302, 303, 307, 308):
        browser = service.browser((status, {"Location": other.endpoint}))
        assert await sender.send(browser.subscription(), TEXT) == Answer(Outcome.FAILED)
    assert other.got == []


async def test_a_name_of_a_private_network_is_not_connected_to(
    service: PushService, sender: PushSender
) -> None:
    port = service.origin.rpartition(":")[2]
    for host in ("127.1", "2130706433", "0x7f000001", "ip6-localhost"):
        there = Browser(f"http://{host}:{port}/push/0").subscription()
        assert await sender.send(there, TEXT) == Answer(Outcome.FAILED)
    assert service.requests == 0


async def test_localhost_is_this_machine(service: PushService, sender: PushSender) -> None:
    browser = service.browser()
    endpoint = browser.endpoint.replace("127.0.0.1", "localhost")
    there = msgspec.structs.replace(browser.subscription(), endpoint=endpoint)
    assert (await sender.send(there, TEXT)).outcome is Outcome.TAKEN
    assert browser.got == [{"title": "a"}]


async def test_what_cannot_be_reached_has_failed(sender: PushSender) -> None:
    assert await sender.send(Browser("http://127.0.0.1:1/x").subscription(), TEXT) == Answer(
        Outcome.FAILED
    )


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Outcome.TAKEN),
        (201, Outcome.TAKEN),
        (202, Outcome.TAKEN),
        (204, Outcome.TAKEN),
        (302, Outcome.FAILED),
        (400, Outcome.FAILED),
        (401, Outcome.FAILED),
        (403, Outcome.FAILED),
        (404, Outcome.GONE),
        (410, Outcome.GONE),
        (413, Outcome.FAILED),
        (429, Outcome.BUSY),
        (500, Outcome.BUSY),
        (503, Outcome.BUSY),
    ],
)
def test_a_status_has_a_meaning(status: int, outcome: Outcome) -> None:
    assert answer_of(status, {}, NOW) == Answer(outcome)


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("0", 0),
        ("120", 120),
        ("99999999", 86_400),
        ("9" * 40, 0),
        ("-5", 0),
        ("1.5", 0),
        ("soon", 0),
        ("", 0),
        ("²", 0),
        ("Thu, 21 Mar 2024 05:48:20 GMT", 100),
        ("Thu, 21 Mar 2024 05:40:00 GMT", 0),
        ("Thu, 21 Mar 2030 05:48:20 GMT", 86_400),
        ("Thu, 21 Mar 2024 05:48:20 -0000", 100),
        ("Thu, 99 Mar 2024 05:48:20 GMT", 0),
    ],
)
def test_a_push_service_says_how_long_to_wait_in_seconds_or_as_a_date(text: str, wait: int) -> None:
    assert answer_of(503, {"Retry-After": text}, NOW) == Answer(Outcome.BUSY, wait)


async def test_no_more_than_a_few_are_on_their_way(
    service: PushService, sender: PushSender
) -> None:
    service.gate = asyncio.Event()
    tasks = [
        asyncio.create_task(sender.send(service.browser().subscription(), TEXT)) for _ in range(20)
    ]
    await service.arrived.wait()
    service.gate.set()
    await asyncio.gather(*tasks)
    assert service.most_at_once <= 8
