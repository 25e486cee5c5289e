"""One request with a time limit."""

import ssl
from pathlib import Path

import pytest

from autopush.commands import probe
from autopush.commands.probe import ProbeFailed, certificate_expiry, fetch
from autopush.net.http1_connection import WEBSOCKET_CLOSE
from support.certificates import tls_pair
from support.checks import answering, json_response
from support.sockets import full_port, silent_port, unused_port


async def failure(url: str, *, verify: bool = True) -> ProbeFailed:
    with pytest.raises(ProbeFailed) as caught:
        await fetch(url, verify=verify)
    return caught.value


async def test_an_answer_has_status_headers_and_body() -> None:
    async with answering(json_response({"a": 1}, "X-Two: b", status=404)) as server:
        answer = await fetch(f"http://127.0.0.1:{server.port}/status", {"X-Asked": "1"})
    assert (answer.status, answer.body, answer.headers["x-two"]) == (404, b'{"a": 1}', "b")
    (head,) = server.heads
    assert head.startswith(b"GET /status HTTP/1.1\r\nhost: 127.0.0.1:")
    assert b"\r\nX-Asked: 1\r\n" in head


async def test_a_websocket_that_opens_is_closed_as_clients_do() -> None:
    response = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nX-Y: z\r\n\r\n"
    async with answering(response) as server:
        answer = await fetch(f"ws://127.0.0.1:{server.port}", {"Upgrade": "websocket"})
        assert (answer.status, answer.headers["x-y"]) == (101, "z")
    assert server.frames == [WEBSOCKET_CLOSE]


async def test_whatever_keeps_an_answer_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "TIMEOUT", 0.1)
    refused = await failure(f"http://127.0.0.1:{unused_port()}/")
    assert (str(refused), refused.refused) == ("the connection was refused", True)
    with silent_port() as silent, full_port() as full:
        for port in (silent, full):
            slow = await failure(f"http://127.0.0.1:{port}/")
            assert (str(slow), slow.refused) == ("no answer within 0.1 s", False)
    monkeypatch.setattr(probe, "TIMEOUT", 4)
    assert str(await failure("http://no-such-host.invalid/"))
    async with answering(b"220 mail.example ESMTP\r\n\r\n") as server:
        assert "not HTTP" in str(await failure(f"http://127.0.0.1:{server.port}/"))
    async with answering(b"") as server:
        plain = await failure(f"http://127.0.0.1:{server.port}/")
        assert str(plain) == "the peer closed the connection"
        assert "cannot connect" in str(await failure(f"https://127.0.0.1:{server.port}/"))
    async with answering(json_response({})) as server:
        assert "no TLS connection" in str(await failure(f"https://127.0.0.1:{server.port}/"))
    assert str(await failure(f"http://{'a' * 64}.example/")) == "the host name is invalid"


async def test_an_endless_answer_is_not_read() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n"
    async with answering(head + b"x" * 10_000_000) as server:
        assert "too large" in str(await failure(f"http://127.0.0.1:{server.port}/"))


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
