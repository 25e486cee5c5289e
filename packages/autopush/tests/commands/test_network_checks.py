"""The checks of `autopush doctor` that look at ports, URLs, clocks and providers."""

import errno
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path

import pytest

from autopush.commands import network_checks
from autopush.commands.checks import Findings, PortUse, Subject
from autopush.commands.network_checks import (
    ProbeFailed,
    certificate_expiry,
    check_clock,
    check_credentials,
    check_endpoint_url,
    check_ports,
    check_websocket_url,
    clock_urls,
    fetch,
    find_port_uses,
    judge_clock,
    service_version,
)
from autopush.delivery.bridge_contract import Router, RouterError, RouterResponse
from autopush.net.http_client import WEBSOCKET_CLOSE
from autopush.settings import Settings
from autopush.version import VERSION
from autopush.webpush.errors import Errno
from support.cases import cases
from support.certificates import tls_pair
from support.checks import NOW, answering, findings, json_response, subject
from support.sockets import full_port, silent_port, unused_port

# ── Ports ─────────────────────────────────────────────────────────────────────────────────────────

OURS = json_response({"status": "OK", "version": VERSION})
ORIGINAL = json_response({"status": "OK", "version": "1.33.0"})
OTHER = json_response({"status": "up"})


@pytest.fixture
def occupied() -> Iterator[int]:
    with silent_port() as port:
        yield port


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autopush.commands.network_checks.TIMEOUT", 0.3)


async def test_free_ports_are_well() -> None:
    settings = Settings(command="endpoint", port=unused_port())
    assert await find_port_uses(settings) == {"endpoint": PortUse.FREE}
    examined = subject(settings, ports={"endpoint": PortUse.FREE})
    assert await findings(check_ports, examined) == [("OK", f"port {settings.port}: free")]
    assert await find_port_uses(Settings(command="endpoint", port=0)) == {}
    examined = subject(Settings(command="endpoint", port=0))
    assert await findings(check_ports, examined) == [("OK", "port 0: any free port")]


@pytest.mark.parametrize(
    ("response", "use"),
    [(OURS, PortUse.OURS), (ORIGINAL, PortUse.OTHER_VERSION), (OTHER, PortUse.OTHER)],
)
async def test_who_listens_is_recognised_by_its_status(response: bytes, use: PortUse) -> None:
    async with answering(response) as server:
        settings = Settings(command="endpoint", port=server.port)
        assert await find_port_uses(settings) == {"endpoint": use}


@pytest.mark.usefixtures("short")
async def test_a_program_that_does_not_answer_is_another_one(occupied: int) -> None:
    settings = Settings(command="endpoint", port=occupied)
    assert await find_port_uses(settings) == {"endpoint": PortUse.OTHER}


@pytest.mark.usefixtures("short")
async def test_a_port_that_cannot_be_asked_is_ours_when_another_one_is(occupied: int) -> None:
    silent = {"proxied": PortUse.OTHER, "endpoint": PortUse.FREE}
    settings = Settings(command="endpoint", port=unused_port(), proxy_protocol_port=occupied)
    assert await find_port_uses(settings) == silent
    async with answering(OURS) as server:
        settings = Settings(command="endpoint", port=server.port, proxy_protocol_port=occupied)
        assert set((await find_port_uses(settings)).values()) == {PortUse.OURS}


async def test_an_address_of_another_machine_and_a_forbidden_port_are_recognised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for host in ("192.0.2.1", "no-such-host.invalid", "a" * 64 + ".example"):
        settings = Settings(command="endpoint", host=host, port=unused_port())
        assert await find_port_uses(settings) == {"endpoint": PortUse.NO_ADDRESS}

    class Refusing(socket.socket):
        def bind(self, _: object, /) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket, "socket", Refusing)
    settings = Settings(command="endpoint", port=80)
    assert await find_port_uses(settings) == {"endpoint": PortUse.FORBIDDEN}


@pytest.mark.parametrize(
    ("use", "level", "advice"),
    [
        (PortUse.OURS, "OK", ""),
        (PortUse.OTHER_VERSION, "WARN", f"Restart the service: {VERSION} is installed"),
        (PortUse.OTHER, "FAIL", "choose another port with --router-port"),
        (PortUse.FORBIDDEN, "FAIL", "CAP_NET_BIND_SERVICE"),
        (PortUse.NO_ADDRESS, "FAIL", "Set host to an address of this machine"),
    ],
)
async def test_what_keeps_the_service_from_a_port_says_what_to_do(
    use: PortUse, level: str, advice: str
) -> None:
    uses = {"endpoint": PortUse.OURS, "router": use}
    _, (found, text) = await findings(check_ports, subject(Settings(), ports=uses))
    assert (found, advice in text) == (level, True)


async def test_an_internal_port_of_a_further_worker_that_is_taken_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        settings = Settings(workers=2, worker_router_port=port)
        free = dict.fromkeys(settings.listeners, PortUse.FREE)
        [(level, text)] = (await findings(check_ports, subject(settings, ports=free)))[2:]
        assert level == "FAIL"
        assert text.startswith(f"worker_router_port {port}: {PortUse.OTHER}")
        ours = free | {"router": PortUse.OURS}
        found = await findings(check_ports, subject(settings, ports=ours))
        assert {level for level, _ in found} == {"OK"}


async def test_a_router_port_that_is_to_be_on_every_interface_is_a_warning() -> None:
    node = Settings(command="connection", hostname="192.0.2.7", router_host="0.0.0.0")
    free = {"websocket": PortUse.FREE, "router": PortUse.FREE}
    (level, text) = (await findings(check_ports, subject(node, ports=free)))[-1]
    assert (level, "router_port 8081 listens on every interface" in text) == ("WARN", True)


@cases(
    ("body", "version"),
    [
        (b'{"status": "OK", "version": "1.33"}', "1.33"),
        (b'{"status": "NOT OK", "version": "1"}', ""),
        *((b'{"status": "OK"}', ""), (b'{"status": "OK", "version": 1}', "")),
        *((b"[]", ""), (b"<html>", ""), (b"\xff", ""), (b"", "")),
    ],
)
def test_only_the_answer_of_this_service_has_a_version(body: bytes, version: str) -> None:
    assert service_version(body) == version


# ── URLs ──────────────────────────────────────────────────────────────────────────────────────────

OURS = json_response({"status": "OK", "version": VERSION})
RUNNING = {"endpoint": PortUse.OURS}


@pytest.fixture(autouse=True)
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback addresses count as those of another machine."""
    monkeypatch.setattr("autopush.commands.network_checks.is_loopback", lambda _: False)


@pytest.mark.parametrize(
    ("response", "level", "found"),
    [
        (OURS, "OK", "is this service"),
        (json_response({"status": "OK", "version": "1.33"}), "WARN", "is version 1.33, and"),
        (json_response({"status": "OK", "version": VERSION}, status=404), "FAIL", "answered 404"),
        (json_response({}), "FAIL", "is answered 200, and not by this service"),
        (b"", "FAIL", "the peer closed the connection"),
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
    check: Callable[[Subject], Findings],
) -> None:
    port = unused_port()
    settings = Settings(
        endpoint_url=f"https://127.0.0.1:{port}", websocket_url=f"wss://127.0.0.1:{port}"
    )
    for uses, level in ((RUNNING, "FAIL"), ({"endpoint": PortUse.FREE}, "WARN"), ({}, "WARN")):
        [(found, text)] = await findings(check, subject(settings, ports=uses))
        assert (found, "the connection was refused" in text) == (level, True)


async def test_a_certificate_that_clients_refuse_is_a_failure_and_one_that_ends_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_tls, client_tls = tls_pair(tmp_path)  # for one day
    async with answering(OURS, tls=server_tls) as server:
        settings = Settings(endpoint_url=f"https://127.0.0.1:{server.port}")
        examined = subject(settings, now=time.time())
        [(level, text)] = await findings(check_endpoint_url, examined)
        assert (level, "the certificate is not trusted" in text) == ("FAIL", True)
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
        monkeypatch.setattr("autopush.commands.network_checks.is_loopback", lambda _: True)
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


@pytest.mark.parametrize(("status", "is_set"), [(401, True), (403, True), (401, False)])
async def test_a_websocket_port_that_asks_for_a_token_is_well_where_accounts_are_required(
    status: int, is_set: bool
) -> None:
    refusal = {"code": status, "errno": 123, "message": "for users with a token"}
    async with answering(json_response(refusal, status=status)) as server:
        url = f"ws://127.0.0.1:{server.port}/"
        settings = Settings(websocket_url=url, accounts_required=is_set)
        *_, (level, text) = await findings(check_websocket_url, settings)
        assert level == ("OK" if is_set else "WARN")
        assert "admits users with a token only" in text


@pytest.mark.parametrize("body", [{"code": 401, "errno": 109}, {"code": 401}, []])
async def test_any_other_401_is_a_failure(body: object) -> None:
    async with answering(json_response(body, status=401)) as server:
        settings = Settings(websocket_url=f"ws://127.0.0.1:{server.port}/", accounts_required=True)
        *_, (level, text) = await findings(check_websocket_url, settings)
        assert (level, "answers 401: no WebSocket is opened" in text) == ("FAIL", True)


async def test_an_endpoint_node_checks_the_websocket_url_only_when_it_is_given() -> None:
    [(level, text)] = await findings(check_websocket_url, Settings(command="endpoint"))
    assert (level, text.startswith("not checked")) == ("OK", True)
    url = f"wss://127.0.0.1:{unused_port()}"
    settings = Settings(command="endpoint", websocket_url=url)
    [(level, _)] = await findings(check_websocket_url, settings)
    assert level == "WARN"


# ── Clock ─────────────────────────────────────────────────────────────────────────────────────────


@cases("ahead", [0, 4.9, 6, 29, 31, 86_400])
@cases("sign", [1, -1])
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


# ── Providers ─────────────────────────────────────────────────────────────────────────────────────


class Tried(Router):
    """Its provider gives tokens for these accounts, or none; `closed` counts how often it was."""

    closed = 0

    def __init__(self, accounts: Sequence[str] | None) -> None:
        self.accounts = accounts

    async def route_notification(self, *_: object) -> RouterResponse:
        raise AssertionError("nothing is to be sent")

    async def try_credentials(self) -> Sequence[str]:
        if self.accounts is None:
            raise RouterError(Errno.BRIDGE_REFUSED, "The bridge does not accept the credentials")
        return self.accounts

    async def close(self) -> None:
        Tried.closed += 1


async def test_providers_are_asked_for_tokens_where_that_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    routers = {"adm": Tried(None), "fcm": Tried(("one", "two")), "gcm": Tried(())}
    monkeypatch.setattr(network_checks, "load_routers", lambda *_: routers)
    [(level, text)] = await findings(check_credentials, Settings())
    assert (level, "--live" in text) == ("OK", True)
    assert Tried.closed == 0
    assert await findings(check_credentials, replace(subject(Settings()), is_live=True)) == [
        ("FAIL", "adm: The bridge does not accept the credentials. See the page of bridges"),
        ("OK", "fcm: gave access tokens for one, two"),
        ("OK", "gcm: can only be tried by sending a message"),
    ]
    assert Tried.closed == 3


async def failure(url: str, *, verify: bool = True) -> ProbeFailed:
    with pytest.raises(ProbeFailed) as caught:
        await fetch(url, verify=verify)
    return caught.value


async def test_an_answer_has_status_headers_and_body() -> None:
    async with answering(json_response({"a": 1}, "X-Two: b", status=404)) as server:
        answer = await fetch(f"http://127.0.0.1:{server.port}/status", {"X-Asked": "1"})
    assert (answer.status, answer.body, answer.headers["x-two"]) == (404, b'{"a": 1}', "b")
    (head,) = server.heads
    assert head.startswith(b"GET /status HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nX-Asked: 1\r\n" in head


async def test_a_websocket_that_opens_is_closed_as_clients_do() -> None:
    lines = (b"HTTP/1.1 101 X", b"Upgrade: websocket", b"Connection: Upgrade", b"X-Y: z", b"", b"")
    async with answering(b"\r\n".join(lines)) as server:
        answer = await fetch(f"ws://127.0.0.1:{server.port}", {"Upgrade": "websocket"})
        assert (answer.status, answer.headers["x-y"]) == (101, "z")
    assert server.frames == [WEBSOCKET_CLOSE]


async def test_whatever_keeps_an_answer_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_checks, "TIMEOUT", 0.1)
    refused = await failure(f"http://127.0.0.1:{unused_port()}/")
    assert (str(refused), refused.refused) == ("the connection was refused", True)
    with silent_port() as silent, full_port() as full:
        for port in (silent, full):
            slow = await failure(f"http://127.0.0.1:{port}/")
            assert (str(slow), slow.refused) == ("no answer within 0.1 s", False)
    monkeypatch.setattr(network_checks, "TIMEOUT", 4)
    assert str(await failure("http://no-such-host.invalid/"))
    async with answering(b"220 mail.example ESMTP\r\n\r\n") as server:
        assert "not HTTP" in str(await failure(f"http://127.0.0.1:{server.port}/"))
    async with answering(b"") as server:
        plain = await failure(f"http://127.0.0.1:{server.port}/")
        assert str(plain) == "the peer closed the connection"
        assert "cannot connect" in str(await failure(f"https://127.0.0.1:{server.port}/"))
    async with answering(json_response({})) as server:
        assert "no TLS connection" in str(await failure(f"https://127.0.0.1:{server.port}/"))
    assert str(await failure(f"http://{'a' * 64}.example/")) == "the URL is invalid"


async def test_a_certificate_is_checked_unless_that_is_not_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_tls, client_tls = tls_pair(tmp_path)
    async with answering(json_response({}), tls=server_tls) as server:
        url = f"https://127.0.0.1:{server.port}/"
        assert "the certificate is not trusted: self-signed" in str(await failure(url))
        assert certificate_expiry(await fetch(url, verify=False)) is None
        monkeypatch.setattr(ssl, "create_default_context", lambda: client_tls)
        expires = certificate_expiry(await fetch(url))
        assert expires is not None
        assert expires > 1_700_000_000
        other = url.replace("127.0.0.1", "localhost")
        assert "the certificate is not trusted: Hostname mismatch" in str(await failure(other))
