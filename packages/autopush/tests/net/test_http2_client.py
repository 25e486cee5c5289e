"""The HTTP/2 client against a real server: connections and their pool."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import RequestReceived
from h2.exceptions import FrameTooLargeError
from hyperframe.frame import GoAwayFrame, PingFrame
from hypothesis import given
from hypothesis import strategies as st

from autopush.net import http2_client, http2_connection
from autopush.net.http2_client import Http2Client
from autopush.net.http2_connection import FrameSplitter, Http2Connection
from autopush.net.http_client import ClientLimits, HttpBusyError, HttpError, HttpResponse
from autopush.net.timers import Budget
from support.apns_server import ApnsServer
from support.certificates import self_signed
from support.event_loops import until
from support.fake_loop import FakeLoop
from support.fake_transport import FakeTransport
from support.sockets import silent_port, unused_port

BOTH_LOOPS = True


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApnsServer]:
    certificate = self_signed(tmp_path_factory.mktemp("server") / "server.pem")
    with ApnsServer(certificate, checks=False) as server:
        yield server


@pytest.fixture
def server(shared: ApnsServer) -> ApnsServer:
    """As it is at its start."""
    shared.reset()
    return shared


@pytest.fixture
def certificate(shared: ApnsServer) -> Path:
    return shared.certificate


@pytest.fixture
async def pools(server: ApnsServer) -> AsyncIterator["Pools"]:
    made = Pools(server)
    yield made
    for pool in made.all:
        await pool.close()


class Pools:
    """Clients with short waits for the server of a test."""

    def __init__(self, server: ApnsServer) -> None:
        self.server = server
        self.context = ssl.create_default_context(cafile=str(server.certificate))
        self.context.set_alpn_protocols(["h2"])
        self.all: list[Http2Client] = []

    def __call__(
        self,
        max_connections: int = 1,
        max_retry: int = 2,
        port: int = 0,
        connect: float = 10,
        busy: float = 0.05,
    ) -> Http2Client:
        limits = ClientLimits(
            max_connections=max_connections,
            max_retry=max_retry,
            busy_timeout=busy,
            connect_timeout=connect,
        )
        url = f"https://127.0.0.1:{port or self.server.port}"
        self.all.append(Http2Client(url, self.context, limits))
        return self.all[-1]

    async def held(self, pool: Http2Client, number: int = 1) -> "list[asyncio.Task[HttpResponse]]":
        """So many requests that the server has, and answers at its `release`."""
        self.server.script("held", *[{"do": "hold"}] * number)
        tasks = [asyncio.create_task(send(pool, "held")) for _ in range(number)]
        await self.server.wait_for(number)
        return tasks


async def send(
    pool: Http2Client, name: str = "any", body: bytes = b"{}", *, idempotent: bool = False
) -> HttpResponse:
    return await pool.request("POST", f"{pool._origin}/{name}", (), body, idempotent=idempotent)


async def test_a_response_has_status_headers_and_body(pools: Pools) -> None:
    pools.server.script("a", {"status": 418, "text": "tea", "headers": {"retry-after": "7"}})
    response = await send(pools(), "a", b'{"x":1}')
    assert (response.status, response.body) == (418, b"tea")
    assert response.headers["retry-after"] == "7"
    assert pools.server.requests()[0]["payload"] == {"x": 1}


async def test_a_body_larger_than_the_flow_control_window_arrives_whole(pools: Pools) -> None:
    text = "x" * 400_000
    await send(pools(), "large", f'"{text}"'.encode())
    assert pools.server.requests()[0]["payload"] == text


async def test_responses_beyond_the_first_window_arrive(pools: Pools) -> None:
    pool = pools()
    pools.server.script("large", *[{"status": 200, "text": "y" * 60_000}] * 10)
    for _ in range(10):
        assert len((await send(pool, "large")).body) == 60_000
    assert pools.server.connections == 1


async def test_a_response_that_is_too_large_fails_alone(pools: Pools) -> None:
    pool = pools()
    pools.server.script("large", {"status": 200, "text": "y" * 200_000})
    with pytest.raises(HttpError, match="too large"):
        await send(pool, "large")
    assert (await send(pool)).status == 200
    assert pools.server.connections == 1


async def test_another_connection_is_opened_only_at_the_limit_of_streams(pools: Pools) -> None:
    pools.server.set_max_streams(2)
    pool = pools(max_connections=3)
    held = await pools.held(pool, 3)
    assert pools.server.connections == 2
    pools.server.release()
    assert [response.status for response in await asyncio.gather(*held)] == [200] * 3


async def test_the_pool_is_busy_when_all_connections_are_at_their_limit(pools: Pools) -> None:
    pools.server.set_max_streams(1)
    pool = pools(max_connections=2)
    held = await pools.held(pool, 2)
    with pytest.raises(HttpBusyError):
        await send(pool)
    assert len(pools.server.requests()) == 2
    pools.server.release()
    await asyncio.gather(*held)
    assert (await send(pool)).status == 200


async def test_waiting_requests_are_sent_when_the_server_raises_its_limit(pools: Pools) -> None:
    pools.server.set_max_streams(1)
    pool = pools(busy=30)
    (held,) = await pools.held(pool)
    pools.server.script("waiting", *[{"do": "hold"}] * 5)
    waiting = [asyncio.create_task(send(pool, "waiting")) for _ in range(5)]
    await asyncio.sleep(0)
    pools.server.set_max_streams(100)
    async with asyncio.timeout(30):
        await pools.server.wait_for(6)  # all at the same time
    pools.server.release()
    assert [response.status for response in await asyncio.gather(held, *waiting)] == [200] * 6


async def test_a_request_cancelled_while_it_waits_gives_its_turn_to_the_next(pools: Pools) -> None:
    pools.server.set_max_streams(1)
    pool = pools(busy=30)
    (held,) = await pools.held(pool)
    first, second = (asyncio.create_task(send(pool)) for _ in range(2))
    await asyncio.sleep(0)
    held.cancel()
    await asyncio.sleep(0)  # the first may go on, and has not run yet
    first.cancel()
    async with asyncio.timeout(30):
        assert (await second).status == 200
    assert first.cancelled()
    with pytest.raises(asyncio.CancelledError):
        await held


async def test_a_refused_stream_is_sent_again(pools: Pools) -> None:
    pools.server.script("a", {"do": "reset", "code": ErrorCodes.REFUSED_STREAM})
    assert (await send(pools(), "a")).status == 200
    assert len(pools.server.requests()) == 2


@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_stream_reset_otherwise_is_not_sent_again(pools: Pools, idempotent: bool) -> None:
    pool = pools()
    pools.server.script("a", {"do": "reset", "code": ErrorCodes.INTERNAL_ERROR})
    with pytest.raises(HttpError) as failure:
        await send(pool, "a", idempotent=idempotent)
    assert failure.value.processed
    assert len(pools.server.requests()) == 1
    assert (await send(pool)).status == 200
    assert pools.server.connections == 1


async def test_a_stream_above_the_last_of_a_goaway_is_sent_on_another_connection(
    pools: Pools,
) -> None:
    pools.server.script("a", {"do": "goaway", "handled": False})
    assert (await send(pools(), "a")).status == 200
    assert [request["connection"] for request in pools.server.requests()] == [0, 1]


async def test_streams_up_to_the_last_of_a_goaway_are_finished_and_no_new_ones_begun(
    pools: Pools,
) -> None:
    pool = pools()
    (held,) = await pools.held(pool)
    pools.server.script("a", {"do": "goaway", "handled": True})
    assert (await send(pool, "a")).status == 200
    assert (await send(pool)).status == 200
    assert [request["connection"] for request in pools.server.requests()] == [0, 0, 1]
    pools.server.release()
    assert (await held).status == 200


async def test_a_connection_that_was_told_to_go_is_closed_when_it_is_done(pools: Pools) -> None:
    pool = pools()
    await send(pool)
    (connection,) = pool._open
    pools.server.go_away()
    async with asyncio.timeout(30):
        await connection.lost
    assert not pool._open
    assert (await send(pool)).status == 200


@pytest.mark.parametrize("answer", [{"do": "abort"}, {"do": "partly"}, {"do": "garbage"}])
async def test_a_request_whose_connection_is_lost_is_repeated_only_if_twice_is_harmless(
    pools: Pools, answer: dict[str, object]
) -> None:
    pool = pools()
    pools.server.script("a", answer)
    with pytest.raises(HttpError) as failure:
        await send(pool, "a")
    assert failure.value.is_connection
    assert failure.value.processed
    assert len(pools.server.requests()) == 1
    pools.server.script("b", answer)
    assert (await send(pool, "b", idempotent=True)).status == 200
    assert len(pools.server.requests()) == 3


async def test_a_request_is_repeated_at_most_max_retry_times(pools: Pools) -> None:
    pools.server.script("a", *[{"do": "abort"}] * 10)
    with pytest.raises(HttpError):
        await send(pools(max_retry=2), "a", idempotent=True)
    assert [request["connection"] for request in pools.server.requests()] == [0, 1, 2]


async def test_a_repeated_request_goes_on_a_fresh_connection(pools: Pools) -> None:
    pools.server.set_max_streams(1)
    pool = pools(max_connections=5)
    held = await pools.held(pool, 3)
    pools.server.release()
    await asyncio.gather(*held)  # three connections, all idle
    pools.server.script("a", {"do": "abort"})
    assert (await send(pool, "a", idempotent=True)).status == 200
    assert [request["connection"] for request in pools.server.requests()][3:] == [0, 3]


async def test_a_request_after_the_server_dropped_idle_connections_is_sent_on_a_new_one(
    pools: Pools,
) -> None:
    pool = pools()
    await send(pool)
    (connection,) = pool._open
    pools.server.drop()
    async with asyncio.timeout(30):
        await connection.lost
    assert (await send(pool)).status == 200
    assert pools.server.connections == 2


async def test_a_cancelled_request_leaves_the_connection_to_the_others(pools: Pools) -> None:
    pools.server.set_max_streams(1)
    pool = pools()
    pools.server.script("a", {"do": "wait"})
    stuck = asyncio.create_task(send(pool, "a"))
    await pools.server.wait_for(1)
    stuck.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stuck
    assert (await send(pool)).status == 200
    assert pools.server.connections == 1


async def test_a_server_that_does_not_answer_pings_is_dropped(
    pools: Pools, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = pools()
    await send(pool)
    (connection,) = pool._open
    connection._ping_timeout = 0.05
    pools.server.is_silent = True
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await send(pool, "never")  # cancelled unanswered: a PING asks whether anybody is there
    async with asyncio.timeout(30):
        await connection.lost
    pools.server.is_silent = False
    assert (await send(pool)).status == 200


async def test_an_idle_connection_is_pinged_and_stays(
    server: ApnsServer, certificate: Path
) -> None:
    async with open_connection(server.port, certificate, ping_interval=0.02) as connection:
        await until(lambda: server.pings >= 2)
        assert connection.usable


async def test_a_connection_without_requests_is_closed_after_a_while(
    server: ApnsServer, certificate: Path
) -> None:
    async with (
        open_connection(server.port, certificate, idle_timeout=0.5) as connection,
        asyncio.timeout(30),
    ):
        await connection.lost


async def test_a_server_that_pings_is_answered_and_an_idle_connection_has_no_task(
    pools: Pools,
) -> None:
    await send(pools())
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_no_listener_is_an_error_and_pauses_between_attempts_grow(pools: Pools) -> None:
    pool = pools(port=unused_port(), max_retry=0)
    time = asyncio.get_running_loop().time
    for failures in range(1, 12):
        with pytest.raises(HttpError, match="the connection was refused") as failure:
            await send(pool)
        assert not failure.value.processed
        longest = min(
            http2_client.BACKOFF.longest, http2_client.BACKOFF.first * 2 ** (failures - 1)
        )
        assert longest / 2 - 1 < pool._next_attempt - time() <= longest
        pool._next_attempt = 0
    pool._next_attempt = time() + 5
    with pytest.raises(HttpError, match="could not be reached"):
        await send(pool)  # at once: the pause is longer than a request waits


async def test_an_invalid_request_fails_and_costs_only_its_connection(pools: Pools) -> None:
    pool = pools()
    with pytest.raises(HttpError, match="not valid"):
        await pool.request("POST", f"{pool._origin}/", [("x", "y\r\nz: 1")])
    with pytest.raises(HttpError, match="not one of this server"):
        await pool.request("POST", "https://other.example/")
    assert (await send(pool)).status == 200
    assert len(pools.server.requests()) == 1


async def test_requests_that_wait_for_one_connection_all_learn_that_it_failed(pools: Pools) -> None:
    pool = pools(port=unused_port(), max_retry=0)
    results = await asyncio.gather(*(send(pool) for _ in range(20)), return_exceptions=True)
    assert [type(result) for result in results] == [HttpError] * 20


async def test_a_server_that_accepts_and_says_nothing_fails_in_time(pools: Pools) -> None:
    with silent_port() as port:
        pool = pools(port=port, max_retry=0, connect=0.05)
        with pytest.raises(HttpError, match="took too long"):
            await send(pool)


async def test_a_certificate_of_another_host_is_refused(tmp_path: Path, pools: Pools) -> None:
    other = self_signed(tmp_path / "other.pem", "push.example")
    pools.context.load_verify_locations(other)
    with ApnsServer(other, checks=False) as wrong:
        pool = pools(port=wrong.port, max_retry=0)
        with pytest.raises(HttpError, match="not trusted"):
            await send(pool)


async def test_a_server_that_does_not_choose_http2_is_an_error(pools: Pools) -> None:
    pools.context.set_alpn_protocols(["http/1.1"])
    with pytest.raises(HttpError, match="does not speak HTTP/2") as failure:
        await send(pools(max_retry=0))
    assert not failure.value.processed


async def test_a_closed_pool_fails_what_is_under_way_and_what_comes(pools: Pools) -> None:
    pool = pools()
    pools.server.script("a", {"do": "wait"})
    stuck = asyncio.create_task(send(pool, "a"))
    await pools.server.wait_for(1)
    await pool.close()
    with pytest.raises(HttpError):
        await stuck
    with pytest.raises(HttpError, match="closed"):
        await send(pool)
    assert not pool._open


class InMemory:
    """A connection without sockets, and the server's side of it."""

    def __init__(self) -> None:
        self.connection = Http2Connection(lambda _: None)
        self.transport = FakeTransport(FakeLoop(), self.connection)
        self.server = H2Connection(H2Configuration(client_side=False))
        self.server.initiate_connection()
        self.exchange()

    def exchange(self) -> list[int]:
        """Let both sides read what the other has written; the streams of new requests."""
        events = self.server.receive_data(bytes(self.transport.written))
        self.transport.written.clear()
        if data := self.server.data_to_send():
            self.connection.data_received(data)
        return [event.stream_id for event in events if isinstance(event, RequestReceived)]

    def request(self, body: bytes = b"{}", **headers: str) -> asyncio.Task[HttpResponse]:
        sent = self.connection.request("POST", "x", "/", [*headers.items()], body)
        return asyncio.create_task(sent)

    def respond(self, streams: list[int]) -> bytes:
        for stream in streams:
            self.server.send_headers(stream, [(":status", "200")], end_stream=True)
        return self.server.data_to_send()


async def test_an_access_token_is_encoded_once_for_a_connection() -> None:
    pair = InMemory()
    sizes = []
    for _ in range(2):
        request = pair.request(authorization="Bearer " + "aB3_-xYz" * 125)
        await asyncio.sleep(0)
        sizes.append(len(pair.transport.written))
        pair.connection.data_received(pair.respond(pair.exchange()))
        assert (await request).status == 200
    assert sizes[0] > 800
    assert sizes[1] < 100


async def test_many_responses_in_one_read_are_processed_in_slices_and_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = InMemory()
    requests = [pair.request() for _ in range(10)]
    await asyncio.sleep(0)
    data = pair.respond(pair.exchange())
    monkeypatch.setattr(Budget, "spend", lambda _: True)  # one frame in each slice
    pair.connection.data_received(data)
    was_reading = pair.transport.reading
    await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
    done = [request.done() for request in requests]
    assert done[0]
    assert not done[-1]
    assert done == sorted(done, reverse=True)
    await asyncio.gather(*requests)
    await asyncio.sleep(0)
    assert (was_reading, pair.transport.reading) == (False, True)
    pair.connection.connection_lost(None)


async def test_responses_that_came_before_the_connection_was_lost_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = InMemory()
    requests = [pair.request() for _ in range(3)]
    await asyncio.sleep(0)
    data = pair.respond(pair.exchange()[:2])
    monkeypatch.setattr(Budget, "spend", lambda _: True)
    pair.connection.data_received(data)
    pair.connection.connection_lost(ConnectionResetError())
    first, second, third = await asyncio.gather(*requests, return_exceptions=True)
    assert isinstance(first, HttpResponse)
    assert isinstance(second, HttpResponse)
    assert isinstance(third, HttpError)


async def test_a_server_that_does_not_read_gets_no_further_requests() -> None:
    pair = InMemory()
    rooms = [pair.connection.has_room]
    pair.transport.stuck = True
    pair.transport._high = 1000
    request = pair.request(b"x" * 5000)
    await asyncio.sleep(0)
    rooms.append(pair.connection.has_room)
    pair.transport.unstick()
    rooms.append(pair.connection.has_room)
    assert rooms == [True, False, True]
    (stream,) = pair.exchange()
    pair.connection.data_received(pair.respond([stream]))
    assert (await request).status == 200
    pair.connection.connection_lost(None)


def frame(last: int) -> bytes:
    return GoAwayFrame(0, last_stream_id=last, additional_data=b"why").serialize()


@given(st.lists(st.integers(0, 2**31 - 1) | st.none(), max_size=6), st.data())
def test_goaway_frames_are_found_however_the_bytes_are_cut(
    frames: list[int | None], data: st.DataObject
) -> None:
    ping = PingFrame(0, opaque_data=b"12345678").serialize()
    stream = b"".join(ping if last is None else frame(last) for last in frames)
    splitter, left, found = FrameSplitter(), stream, list[int]()
    others = b""
    while left:
        size = data.draw(st.integers(1, len(left)))
        splitter.feed(left[:size])
        while (part := splitter.next()) is not None:
            if isinstance(part, bytes):
                others += part
            else:
                found.append(part)
        left = left[size:]
    assert found == [last for last in frames if last is not None]
    assert others == ping * frames.count(None)


def test_a_frame_that_is_too_long_is_refused_before_it_is_kept() -> None:
    splitter = FrameSplitter()
    splitter.feed(b"\x00\x40\x01" + bytes(6))
    with pytest.raises(FrameTooLargeError):
        splitter.next()


@contextlib.asynccontextmanager
async def open_connection(
    port: int,
    certificate: Path,
    *,
    ping_interval: float = http2_connection.PING_INTERVAL,
    idle_timeout: float = http2_connection.IDLE_TIMEOUT,
) -> AsyncIterator[Http2Connection]:
    """A connection on its own."""
    context = ssl.create_default_context(cafile=str(certificate))
    context.set_alpn_protocols(["h2"])
    _, connection = await asyncio.get_running_loop().create_connection(
        lambda: Http2Connection(
            lambda _: None, ping_interval=ping_interval, ping_timeout=2, idle_timeout=idle_timeout
        ),
        "127.0.0.1",
        port,
        ssl=context,
    )
    await connection.ready
    yield connection
    connection.abort()
    await connection.lost
