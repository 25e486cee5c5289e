"""Waking devices: the request to the wake server, and what it may do."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from autopush.bridges import udp_wake
from autopush.bridges.udp_wake import UdpWaker, load_waker
from autopush.settings import Settings, StartupError
from autopush.store import UserRecord
from autopush.store.users import SIMPLEPUSH
from autopush.telemetry import logs
from support.connection_harness import UAID
from support.wake_server import WakeServer, wake_server

WAKE_DATA = {"ip": "192.0.2.7", "port": "4711", "mcc": "310", "mnc": "26", "netid": "home & away"}
RECORD = UserRecord(UAID, SIMPLEPUSH, 5, wake_data=WAKE_DATA)


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WakeServer]:
    async with wake_server(tmp_path) as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.trust))
        yield server


@pytest.fixture
def settings(server: WakeServer) -> Settings:
    return Settings(wake_server=server.url, wake_pem=str(server.client), wake_timeout=30.0)


@pytest.fixture
async def waker(settings: Settings) -> AsyncIterator[UdpWaker]:
    waker = load_waker(settings)
    assert waker is not None
    yield waker
    await waker.close()


async def form(server: WakeServer) -> dict[str, str]:
    return await asyncio.wait_for(server.forms.get(), 30)


async def finished(waker: UdpWaker) -> None:
    await asyncio.wait_for(asyncio.gather(*waker._running), 30)


async def test_the_server_gets_the_wake_data_as_a_form_over_our_certificate(
    server: WakeServer, waker: UdpWaker
) -> None:
    waker.wake(RECORD)
    assert await form(server) == WAKE_DATA


async def test_without_the_right_certificate_the_server_gets_nothing(
    server: WakeServer, settings: Settings
) -> None:
    stranger = load_waker(replace(settings, wake_pem=str(server.trust)))
    assert stranger is not None
    stranger.wake(RECORD)
    await finished(stranger)
    assert server.forms.empty()
    await stranger.close()


async def test_what_a_record_of_another_service_lacks_is_empty(
    server: WakeServer, waker: UdpWaker
) -> None:
    waker.wake(UserRecord(UAID, SIMPLEPUSH, 5, wake_data={"ip": "192.0.2.7", "port": 4711}))
    network = dict.fromkeys(("mcc", "mnc", "netid"), "")
    assert await form(server) == {"ip": "192.0.2.7", "port": "4711"} | network


async def test_a_server_that_does_not_answer_has_a_bounded_number_of_requests(
    server: WakeServer, waker: UdpWaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(udp_wake, "MAX_UNDER_WAY", 3)
    server.answers.clear()
    for _ in range(10):
        waker.wake(RECORD)
    for _ in range(3):
        await form(server)
    waker.wake(RECORD)
    server.answers.set()
    await finished(waker)
    assert server.forms.empty()


async def test_a_request_has_its_time_and_is_given_up_then(
    server: WakeServer, waker: UdpWaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(udp_wake, "TIMEOUT", 0.05)
    server.answers.clear()
    waker.wake(RECORD)
    await finished(waker)
    assert not server.answers.is_set()


async def test_failures_are_logged_once_without_the_wake_data(
    server: WakeServer, waker: UdpWaker, tmp_path: Path
) -> None:
    file = tmp_path / "log"
    logs.configure(output=str(file), level="debug", version="2.0")
    for status in (500, 500, 302, 200, 200):
        server.status = status
        waker.wake(RECORD)
        await form(server)
        await finished(waker)
    logs.shutdown()
    text = file.read_text()
    events = [json.loads(line)["Fields"]["message"] for line in text.splitlines()]
    own = [event for event in events if "wake server" in event]
    assert own == ["The wake server does not wake devices", "The wake server wakes devices again"]
    assert not [value for value in (WAKE_DATA["ip"], WAKE_DATA["netid"], UAID) if value in text]


@pytest.mark.parametrize(("pem", "seconds"), [(True, 30.0), (False, 30.0), (True, 0.0)])
async def test_devices_are_woken_only_with_certificate_and_timeout(
    settings: Settings, pem: bool, seconds: float
) -> None:
    wake_pem = settings.wake_pem if pem else ""
    waker = load_waker(replace(settings, wake_pem=wake_pem, wake_timeout=seconds))
    assert (waker is not None) is (pem and seconds > 0)
    if waker is not None:
        await waker.close()


def test_a_start_without_a_wake_server_or_with_a_bad_certificate_fails(tmp_path: Path) -> None:
    settings = Settings(wake_pem=str(tmp_path / "none.pem"), wake_timeout=1.0)
    with pytest.raises(StartupError, match="wake_pem needs wake_server"):
        load_waker(settings)
    settings = replace(settings, wake_server="https://wake.example")
    with pytest.raises(StartupError, match=r"none\.pem is no PEM file"):
        load_waker(settings)
    (tmp_path / "none.pem").write_text("no certificate")
    with pytest.raises(StartupError, match=r"none\.pem is no PEM file"):
        load_waker(settings)
