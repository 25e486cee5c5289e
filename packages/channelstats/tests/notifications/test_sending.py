"""One message, one push service, one try."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from py_vapid import Vapid02

from channelstats.notifications.sending import HEADERS, Answer, Outcome, Sender, answer_of
from channelstats.notifications.vapid import vapid_key
from support.channelstats.push_service import Browser, PushService
from support.clocks import ManualClock

NOW = 1_711_000_000.0
TEXT = b'{"title": "a"}'


@pytest.fixture
async def sender(tmp_path: Path) -> AsyncIterator[Sender]:
    clock = ManualClock(NOW)
    async with Sender(vapid_key(tmp_path), "mailto:a@b.example", clock) as opened:
        yield opened


async def test_a_browser_decrypts_what_was_sent(service: PushService, sender: Sender) -> None:
    browser = service.browser()
    assert await sender.send(browser.subscription(), TEXT) == Answer(Outcome.TAKEN)
    assert browser.got == [{"title": "a"}]
    [headers] = browser.headers
    assert {name: headers[name] for name in HEADERS} == HEADERS
    assert Vapid02.verify(headers["Authorization"])


async def test_a_signature_serves_all_browsers_of_a_push_service(
    service: PushService, sender: Sender
) -> None:
    browsers = [service.browser() for _ in range(3)]
    for browser in browsers:
        await sender.send(browser.subscription(), TEXT)
    assert len({browser.headers[0]["Authorization"] for browser in browsers}) == 1


async def test_no_proxy_of_the_environment_is_asked(
    service: PushService, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
        monkeypatch.setenv(name.upper(), "http://127.0.0.1:1")
    browser = service.browser()
    assert await sender.send(browser.subscription(), TEXT) == Answer(Outcome.TAKEN)


async def test_redirections_are_not_followed(service: PushService, sender: Sender) -> None:
    other = service.browser()
    for status in (301, 302, 303, 307, 308):
        browser = service.browser((status, {"Location": other.endpoint}))
        assert await sender.send(browser.subscription(), TEXT) == Answer(Outcome.FAILED)
    assert other.got == []


async def test_a_name_of_a_private_network_is_not_connected_to(
    service: PushService, sender: Sender
) -> None:
    port = service.origin.rpartition(":")[2]
    for host in ("127.1", "2130706433", "0x7f000001", "ip6-localhost"):
        there = Browser(f"http://{host}:{port}/push/0").subscription()
        assert await sender.send(there, TEXT) == Answer(Outcome.FAILED)
    assert service.requests == 0


async def test_localhost_is_this_machine(service: PushService, sender: Sender) -> None:
    browser = service.browser()
    endpoint = browser.endpoint.replace("127.0.0.1", "localhost")
    there = msgspec.structs.replace(browser.subscription(), endpoint=endpoint)
    assert (await sender.send(there, TEXT)).outcome is Outcome.TAKEN
    assert browser.got == [{"title": "a"}]


async def test_what_cannot_be_reached_has_failed(sender: Sender) -> None:
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
        ("9" * 40, None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("²", None),
        ("Thu, 21 Mar 2024 05:48:20 GMT", 100),
        ("Thu, 21 Mar 2024 05:40:00 GMT", 0),
        ("Thu, 21 Mar 2030 05:48:20 GMT", 86_400),
        ("Thu, 21 Mar 2024 05:48:20 -0000", 100),
        ("Thu, 99 Mar 2024 05:48:20 GMT", None),
    ],
)
def test_a_push_service_says_how_long_to_wait_in_seconds_or_as_a_date(
    text: str, wait: int | None
) -> None:
    assert answer_of(503, {"Retry-After": text}, NOW) == Answer(Outcome.BUSY, wait)


async def test_no_more_than_a_few_are_on_their_way(service: PushService, sender: Sender) -> None:
    service.gate = asyncio.Event()
    tasks = [
        asyncio.create_task(sender.send(service.browser().subscription(), TEXT)) for _ in range(20)
    ]
    await service.arrived.wait()
    service.gate.set()
    await asyncio.gather(*tasks)
    assert service.most_at_once <= 8
