"""Polling the source of broadcasts: what is taken over, and what each failure is called."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from autopush.delivery.megaphone import BroadcastPoller, Megaphone, PollError
from autopush.protocol.broadcasts import Broadcasts
from autopush.telemetry.metric_table import MEGAPHONE_ERROR, MEGAPHONE_OK, POLL_ERRORS
from autopush.telemetry.metrics import Metrics
from support.cases import cases
from support.certificates import tls_pair
from support.megaphone_server import MegaphoneServer, megaphone_server
from support.recorded import new_metrics, recorded
from support.sockets import unused_port
from support.stream_server import stream_server

BOTH_LOOPS = True
TOKEN = "Bearer a-secret-of-the-source"
TIMEOUT = 30.0


@pytest.fixture
async def server() -> AsyncIterator[MegaphoneServer]:
    async with megaphone_server(a="1", b="1") as server:
        yield server


async def failure(url: str, seconds: float = TIMEOUT) -> tuple[str, str]:
    """Why there is no answer: the reason, and the text."""
    with pytest.raises(PollError) as caught:
        await Megaphone(url, TOKEN).fetch(seconds)
    assert TOKEN not in str(caught.value)
    return caught.value.reason, str(caught.value)


async def test_the_answer_is_a_version_for_each_id(server: MegaphoneServer) -> None:
    assert await Megaphone(server.url).fetch() == {"a": "1", "b": "1"}
    (request,) = server.requests
    assert "Authorization" not in request.headers
    assert request.headers["Host"] == server.url.split("/")[2]


async def test_the_token_is_sent_as_it_is(server: MegaphoneServer) -> None:
    await Megaphone(server.url, TOKEN).fetch()
    assert server.requests[0].headers["Authorization"] == TOKEN


async def test_a_certificate_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tls, _ = tls_pair(tmp_path)
    async with megaphone_server(tls=tls, a="1") as server:
        reason, text = await failure(server.url)
        assert reason == "connect"
        assert "certificate" in text.lower()
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
        assert await Megaphone(server.url, TOKEN).fetch() == {"a": "1"}


async def test_a_source_that_is_not_there_is_a_failure_to_connect() -> None:
    assert (await failure(f"http://127.0.0.1:{unused_port()}/"))[0] == "connect"


async def test_a_source_that_does_not_answer_is_a_timeout(server: MegaphoneServer) -> None:
    server.answers.clear()
    assert await failure(server.url, 0.05) == ("timeout", "no answer in time")


@cases("status", [301, 304, 401, 404, 500, 503])
async def test_another_status_than_2xx_is_unknown(server: MegaphoneServer, status: int) -> None:
    server.status = status
    assert await failure(server.url) == ("unknown", f"the answer is {status}")


@cases(
    "document",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 20_000,
        b'{"broadcasts":[]}',
        b'{"broadcasts":{"a":1}}',
        b'{"broadcasts":{"":"1"}}',
        b'{"broadcasts":{"\\ud800":"1"}}',
        json.dumps({"broadcasts": {"a" * 257: "1"}}).encode(),
        json.dumps({"broadcasts": {"a": "1" * 1025}}).encode(),
    ],
)
async def test_an_answer_that_is_no_list_of_broadcasts_is_unknown(
    server: MegaphoneServer, document: bytes
) -> None:
    server.body = document
    reason, text = await failure(server.url)
    assert reason == "unknown"
    assert text.startswith("the answer is no list of broadcasts: ")


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def close_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    await writer.drain()


async def no_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
    await writer.drain()


async def too_large(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b" " * 200_000)
    await writer.drain()
    await reader.read()


@cases("talk", [close_early, no_http, too_large])
async def test_an_answer_that_breaks_off_is_no_http_or_is_too_large_is_io(talk: Talk) -> None:
    async with stream_server(talk) as (_, port):
        assert (await failure(f"http://127.0.0.1:{port}/"))[0] == "io"


# ── the poller ────────────────────────────────────────────────────────────────────────────────────


class Polling:
    """A poller, and what it changes."""

    def __init__(self, server: MegaphoneServer, interval: float = 30) -> None:
        self.broadcasts = Broadcasts({"a": "0"})
        self.metrics: Metrics = new_metrics()
        source = Megaphone(server.url)
        self.poller = BroadcastPoller(source, self.broadcasts, self.metrics, interval)

    def version(self, name: str) -> str | None:
        found = self.broadcasts.find(name)
        return found and found[1]

    @property
    def counted(self) -> dict[str, float]:
        """How many requests ended in which way."""
        counted = {
            reason: recorded(self.metrics, MEGAPHONE_ERROR, reason=reason) for reason in POLL_ERRORS
        }
        counted["ok"] = recorded(self.metrics, MEGAPHONE_OK)
        return {name: number for name, number in counted.items() if number}


async def test_it_polls_at_once_and_then_each_interval(server: MegaphoneServer) -> None:
    polling = Polling(server, interval=0.01)
    running = asyncio.ensure_future(polling.poller.run())
    await server.polled(1)
    server.versions["a"] = "5"
    await server.polled(3)
    assert (polling.version("a"), polling.version("b")) == ("5", "1")
    running.cancel()
    assert polling.counted.keys() == {"ok"}


async def test_a_failure_keeps_the_versions_and_is_logged_once_until_it_works_again(
    server: MegaphoneServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "aiohttp")
    caplog.set_level("INFO", "autopush")
    polling = Polling(server)
    await polling.poller.poll()
    server.status = 500
    for _ in range(3):
        await polling.poller.poll()
    assert polling.version("a") == "1"
    (warning,) = caplog.records
    assert (warning.levelname, vars(warning)["fields"]) == (
        "WARNING",
        {"cause": "unknown", "reason": "the answer is 500"},
    )
    server.status, server.versions = 200, {"a": "2"}
    await polling.poller.poll()
    assert polling.version("a") == "2"
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert polling.counted == {"ok": 2, "unknown": 3}


async def test_an_unexpected_error_is_counted(
    server: MegaphoneServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    polling = Polling(server)
    with monkeypatch.context() as patched:
        patched.setattr(Broadcasts, "update", None)
        with pytest.raises(TypeError):
            await polling.poller.poll()
    await polling.poller.poll()
    assert polling.counted == {"unknown": 1, "ok": 1}
