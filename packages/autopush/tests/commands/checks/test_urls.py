"""The public URLs and the clock."""

import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from email.utils import formatdate
from pathlib import Path

import pytest

from autopush.commands.checks import Finding, PortUse, Subject
from autopush.commands.checks.urls import (
    check_clock,
    check_endpoint_url,
    check_websocket_url,
    clock_urls,
    judge_clock,
)
from autopush.settings import Settings
from autopush.version import VERSION
from support.certificates import tls_pair
from support.checks import NOW, answering, findings, json_response, subject
from support.sockets import unused_port

OURS = json_response({"status": "OK", "version": VERSION})
RUNNING = {"endpoint": PortUse.OURS}


@pytest.fixture(autouse=True)
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback addresses count as those of another machine."""
    monkeypatch.setattr("autopush.commands.checks.urls.is_loopback", lambda _: False)


@pytest.mark.parametrize(
    ("response", "level", "found"),
    [
        (OURS, "OK", "is this service"),
        (json_response({"status": "OK", "version": "1.33"}), "WARN", "is version 1.33, and"),
        (json_response({"status": "OK", "version": VERSION}, status=404), "FAIL", "answered 404"),
        (json_response({}), "FAIL", "is answered 200, and not by this service"),
        (b"", "FAIL", "the connection was closed without an answer"),
    ],
)
async def test_the_service_must_answer_at_its_endpoint_url(
    response: bytes, level: str, found: str
) -> None:
    async with answering(response) as server:
        settings = Settings(endpoint_url=f"http://127.0.0.1:{server.port}")
        *_, last = await findings(check_endpoint_url, subject(settings, ports=RUNNING))
    assert (last[0], found in last[1]) == (level, True), last
    if server.heads[:1]:
        assert server.heads[0].startswith(b"GET /status HTTP/1.1\r\n")


@pytest.mark.parametrize("check", [check_endpoint_url, check_websocket_url])
async def test_a_url_that_refuses_is_a_failure_only_while_the_service_runs(
    check: Callable[[Subject], Awaitable[Sequence[Finding]]],
) -> None:
    port = unused_port()
    settings = Settings(
        endpoint_url=f"https://127.0.0.1:{port}", websocket_url=f"wss://127.0.0.1:{port}"
    )
    for uses, level in ((RUNNING, "FAIL"), ({"endpoint": PortUse.FREE}, "WARN"), ({}, "WARN")):
        [(found, text)] = await findings(check, subject(settings, ports=uses))
        assert (found, "nothing listens there" in text) == (level, True)


async def test_a_certificate_that_clients_refuse_is_a_failure_and_one_that_ends_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_tls, client_tls = tls_pair(tmp_path)  # for one day
    async with answering(OURS, tls=server_tls) as server:
        settings = Settings(endpoint_url=f"https://127.0.0.1:{server.port}")
        examined = subject(settings, now=time.time())
        [(level, text)] = await findings(check_endpoint_url, examined)
        assert (level, "its certificate is refused" in text) == ("FAIL", True)
        monkeypatch.setattr(ssl, "create_default_context", lambda: client_tls)
        well, (level, text) = await findings(check_endpoint_url, examined)
        assert well[0] == "OK"
        assert (level, "its certificate is valid for" in text) == ("WARN", True)


async def test_a_url_without_tls_or_of_this_machine_alone_is_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with answering(OURS) as server:
        settings = Settings(endpoint_url=f"http://127.0.0.1:{server.port}")
        (level, text), _ = await findings(check_endpoint_url, settings)
        assert (level, "is not encrypted" in text) == ("WARN", True)
        monkeypatch.setattr("autopush.commands.checks.urls.is_loopback", lambda _: True)
        (level, text), _ = await findings(check_endpoint_url, settings)
        assert (level, "reaches this machine only" in text) == ("WARN", True)


async def test_a_websocket_must_open_at_its_url() -> None:
    async with answering(b"HTTP/1.1 101 X\r\nSec-WebSocket-Accept: wrong\r\n\r\n") as server:
        settings = Settings(websocket_url=f"ws://127.0.0.1:{server.port}/")
        *_, (level, text) = await findings(check_websocket_url, settings)
        assert (level, "no WebSocket is opened" in text) == ("FAIL", True)
    async with answering(OURS) as server:
        settings = Settings(websocket_url=f"ws://127.0.0.1:{server.port}/")
        *_, (level, text) = await findings(check_websocket_url, settings)
        assert (level, "answers 200: no WebSocket is opened" in text) == ("FAIL", True)


async def test_an_endpoint_node_checks_the_websocket_url_only_when_it_is_given() -> None:
    [(level, text)] = await findings(check_websocket_url, Settings(command="endpoint"))
    assert (level, text.startswith("not checked")) == ("OK", True)
    url = f"wss://127.0.0.1:{unused_port()}"
    settings = Settings(command="endpoint", websocket_url=url)
    [(level, _)] = await findings(check_websocket_url, settings)
    assert level == "WARN"


# ── Clock ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ahead", [0, 4.9, 6, 29, 31, 86_400])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_clock_may_be_off_by_half_a_minute(ahead: float, sign: int) -> None:
    finding = judge_clock("the database", sign * ahead)
    level = "OK" if ahead < 5 else "WARN" if ahead <= 30 else "FAIL"
    assert finding.level == level
    if level != "OK":
        assert f"s {'ahead of' if sign > 0 else 'behind'} that of the database" in finding.found


@pytest.mark.parametrize(("off", "level"), [(0, "OK"), (-20, "WARN"), (60, "FAIL")])
async def test_the_clock_is_compared_with_those_of_the_url_and_the_database(
    off: int, level: str
) -> None:
    date = f"Date: {formatdate(NOW + off, usegmt=True)}"
    async with answering(json_response({}, date, status=400)) as server:
        url = f"http://127.0.0.1:{server.port}"
        settings = Settings(endpoint_url=url, store=f"dynamodb://?endpoint={url}")
        found = await findings(check_clock, settings)
    assert [each for each, _ in found] == [level, level]


async def test_without_another_clock_it_is_a_warning() -> None:
    async with answering(json_response({})) as server:
        for port in (server.port, unused_port()):
            settings = Settings(endpoint_url=f"http://127.0.0.1:{port}")
            [(level, text)] = await findings(check_clock, settings)
            assert (level, text.startswith("not compared")) == ("WARN", True)


def test_the_database_is_asked_where_it_is() -> None:
    def database(store: str) -> str:
        return clock_urls(Settings(store=store)).get("the database", "")

    assert database("dynamodb://eu-west-1") == "https://dynamodb.eu-west-1.amazonaws.com/"
    assert database("dynamodb://x?endpoint=http://a:1,http://b:1") == "http://a:1"
    assert database("sqlite:///srv/x") == ""
