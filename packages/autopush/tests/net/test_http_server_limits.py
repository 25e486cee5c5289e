"""What the HTTP server does when there are too many connections, or too much is incomplete."""

import asyncio
import gc
import tracemalloc

import pytest

from autopush.net.client_limits import BufferedBytes, ConnectionLimits, TrustedProxies
from autopush.net.http_messages import Answer, Request, Response, Upgrade
from autopush.net.http_server import MIN_IDLE
from support.http_shell import Shared, Shell, Transport, echo, read_answers, receive

CLIENT, OTHER, PROXY = "203.0.113.7", "203.0.113.8", "127.0.0.1"
GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
CHAT = b"GET /chat HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n"
BODY = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 900\r\n\r\n"
PROXIES = TrustedProxies(["127.0.0.0/8"])


def statuses(transport: Transport) -> list[int]:
    return [answer.status for answer in read_answers(bytes(transport.written))]


class Chat(asyncio.Protocol):
    """Releases its connection as the protocol of an upgrade has to."""

    def __init__(self, limits: ConnectionLimits, key: str) -> None:
        self.limits = limits
        self.key = key

    def connection_lost(self, exc: Exception | None) -> None:
        self.limits.release(self.key)


def chatting(connections: int = 0, per_address: int = 0) -> tuple[Shell, ConnectionLimits]:
    """A server that upgrades requests of /chat."""
    limits = ConnectionLimits(PROXIES, max_connections=connections, max_per_address=per_address)

    def handle(request: Request) -> Answer:
        if request.path == "/chat":
            return Upgrade((("upgrade", "x"),), lambda key: Chat(limits, key))
        return Response(200)

    return Shell(handle, Shared(limits, proxies=PROXIES)), limits


# ── connections ──────────────────────────────────────────────────────────────────────────────────


def test_a_connection_beyond_the_limit_is_answered_503_and_closed() -> None:
    limits = ConnectionLimits(max_connections=3)
    shell = Shell(echo, Shared(connection_limits=limits))
    kept = [shell.connect() for _ in range(3)]
    refused = shell.connect()
    assert statuses(refused) == [503]
    assert refused.closing
    shell.clock.advance()
    assert not any(transport.closing for transport in kept)
    assert (limits.open, shell.server.connections) == (3, 3)
    kept[0].reset()
    shell.clock.advance()
    assert not shell.connect().closing


def test_what_a_refused_client_sends_is_not_read() -> None:
    shell = Shell(echo, Shared(connection_limits=ConnectionLimits(max_connections=1)))
    shell.connect()
    refused = shell.connect()
    refused.protocol.data_received(GET)
    assert (statuses(refused), shell.requests) == ([503], [])


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n", BODY, GET])
def test_the_client_that_was_waited_for_longest_gives_way(sent: bytes) -> None:
    limits = ConnectionLimits(max_connections=2)
    shell = Shell(echo, Shared(connection_limits=limits))
    old = shell.connect()
    receive(old, sent)
    shell.clock.advance(MIN_IDLE / 2)
    young = shell.connect()
    shell.clock.advance(MIN_IDLE / 2)
    new = shell.connect()
    assert (old.closing, young.closing, new.closing) == (True, False, False)
    shell.clock.advance()
    assert limits.open == 2


def test_a_client_that_has_just_sent_a_request_does_not_give_way() -> None:
    shell = Shell(echo, Shared(connection_limits=ConnectionLimits(max_connections=2)))
    active, silent = shell.connect(), shell.connect()
    shell.clock.advance(MIN_IDLE)
    receive(active, GET)
    shell.connect()
    assert (active.closing, silent.closing) == (False, True)


async def test_a_connection_whose_request_is_being_handled_does_not_give_way() -> None:
    done = asyncio.Event()

    async def handle(request: Request) -> Response:
        await done.wait()
        return Response(200)

    shell = Shell(handle, Shared(ConnectionLimits(max_connections=1)))
    busy = shell.connect()
    receive(busy, GET)
    shell.clock.advance(MIN_IDLE * 5)
    assert statuses(shell.connect()) == [503]
    done.set()
    while not busy.written:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert statuses(busy) == [200]


def test_servers_of_one_worker_share_a_limit() -> None:
    limits = ConnectionLimits(max_connections=2)
    one, two = Shell(echo, Shared(limits)), Shell(echo, Shared(limits))
    first = one.connect()
    two.connect()
    assert statuses(two.connect()) == [503]
    one.clock.advance(MIN_IDLE)
    assert not two.connect().closing
    assert first.closing


def test_a_server_may_have_a_limit_of_its_own() -> None:
    limits = ConnectionLimits()
    shell = Shell(echo, Shared(connection_limits=limits, max_connections=lambda: 2))
    shell.connect()
    shell.connect()
    assert statuses(shell.connect()) == [503]
    shell.clock.advance()
    assert (limits.open, shell.server.connections) == (2, 2)


def test_connections_of_one_address_beyond_the_limit_are_answered_429() -> None:
    limits = ConnectionLimits(PROXIES, max_per_address=2)
    shell = Shell(echo, Shared(connection_limits=limits))
    first, _, refused = [shell.connect(CLIENT) for _ in range(3)]
    assert statuses(refused) == [429]
    assert not shell.connect(OTHER).closing
    first.reset()
    shell.clock.advance()
    assert not shell.connect(CLIENT).closing


def test_an_upgraded_connection_counts_until_it_ends() -> None:
    shell, limits = chatting(connections=1)
    transport = shell.connect(CLIENT)
    receive(transport, CHAT + b"\r\n")
    shell.clock.advance(MIN_IDLE * 100)
    assert statuses(shell.connect()) == [503]
    transport.reset()
    shell.clock.advance()
    assert limits.open == 0


def test_behind_a_proxy_an_upgraded_connection_counts_by_its_client() -> None:
    shell, limits = chatting(per_address=1)
    forwarded = CHAT + f"X-Forwarded-For: {CLIENT}\r\n\r\n".encode()
    first, second = shell.connect(PROXY), shell.connect(PROXY)
    receive(first, forwarded)
    receive(second, forwarded)
    assert (statuses(first), statuses(second)) == ([101], [429])
    receive(second, forwarded.replace(CLIENT.encode(), OTHER.encode()))
    assert statuses(second) == [429, 101]
    first.reset()
    shell.clock.advance()
    third = shell.connect(PROXY)
    receive(third, forwarded)
    assert statuses(third) == [101]
    for transport in (second, third):
        transport.reset()
    shell.clock.advance()
    assert (limits.open, limits.addresses) == (0, 0)


def test_a_protocol_that_cannot_be_made_leaves_nothing_counted() -> None:
    limits = ConnectionLimits(PROXIES, max_per_address=1)

    def fails(_: str) -> asyncio.Protocol:
        raise RuntimeError

    shell = Shell(lambda _: Upgrade((), fails), Shared(limits, proxies=PROXIES))
    transport = shell.connect(PROXY)
    receive(transport, CHAT + f"X-Forwarded-For: {CLIENT}\r\n\r\n".encode())
    assert statuses(transport) == [500]
    transport.reset()
    shell.clock.advance()
    assert (limits.open, limits.addresses) == (0, 0)


# ── incomplete requests ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "chunks",
    [
        [b"GET / HTTP/1.1\r\nX: ", b"x" * 300, b"x" * 300],
        [b"GET /", b"x" * 300, b"x" * 300],
        [BODY, b"x" * 300, b"x" * 300],
        [CHAT + b"Content-Length: 900\r\nX: " + b"x" * 600, b"\r\n\r\nx"],
    ],
)
def test_what_an_incomplete_request_holds_is_counted_and_released(chunks: list[bytes]) -> None:
    buffered = BufferedBytes(100_000)
    shell = Shell(echo, Shared(buffered=buffered))
    transport = shell.connect()
    receive(transport, *chunks)
    assert 600 <= buffered.total <= 800
    transport.reset()
    shell.clock.advance()
    assert buffered.total == 0


def test_a_completed_request_holds_nothing_more() -> None:
    buffered = BufferedBytes(100_000)
    shell = Shell(echo, Shared(buffered=buffered))
    transport = shell.connect()
    receive(transport, BODY + b"x" * 500)
    assert buffered.total > 500
    receive(transport, b"x" * 400)
    assert (statuses(transport), buffered.total) == ([200], 0)
    receive(transport, GET[:-2])
    assert buffered.total == len(GET) - 2
    receive(transport, GET[-2:] + GET)
    assert (statuses(transport), buffered.total) == ([200] * 3, 0)


def test_whole_requests_are_not_counted() -> None:
    class Uncounted(BufferedBytes):
        def hold(self, connection: object, size: int) -> None:
            raise AssertionError

    shell = Shell(echo, Shared(buffered=Uncounted()))
    answers, _ = shell.exchange(GET, GET + GET, BODY + b"x" * 900)
    assert [answer.status for answer in answers] == [200] * 4


def test_beyond_the_limit_the_oldest_incomplete_request_is_answered_503() -> None:
    buffered = BufferedBytes(1000)
    shell = Shell(echo, Shared(buffered=buffered))
    old, young = shell.connect(), shell.connect()
    receive(old, BODY, b"x" * 400)
    receive(young, BODY, b"x" * 600)
    assert (statuses(old), old.ended) == ([503], True)
    assert not young.closing
    receive(young, b"x" * 300)
    assert statuses(young) == [200]
    assert buffered.total == 0


@pytest.mark.parametrize(
    ("begin", "chunk"),
    [
        (GET[:-2], b"X: " + b"x" * 995 + b"\r\n"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 20001\r\n\r\n", b"x" * 1000),
    ],
)
def test_what_was_given_up_takes_no_memory_while_the_client_reads_the_answer(
    begin: bytes, chunk: bytes
) -> None:
    clients, size = 40, 20_000
    shell = Shell(echo, Shared(buffered=BufferedBytes(size + 1000)), max_body=size + 1)
    transports = [shell.connect() for _ in range(clients)]
    gc.collect()
    tracemalloc.start()
    try:
        for transport in transports:
            receive(transport, begin, *[bytes(bytearray(chunk)) for _ in range(size // 1000)])
        gc.collect()
        allocated, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not any(transport.closing for transport in transports)
    assert sum(statuses(transport) == [503] for transport in transports) == clients - 1
    assert allocated < 4 * size


async def test_what_is_read_while_a_request_is_handled_is_counted_too() -> None:
    done = asyncio.Event()

    async def handle(request: Request) -> Response:
        await done.wait()
        return Response(200)

    buffered = BufferedBytes(1000)
    shell = Shell(handle, Shared(buffered=buffered))
    busy = shell.connect()
    busy.protocol.data_received(GET)
    busy.protocol.data_received(BODY + b"x" * 500)
    assert buffered.total > 500
    other = shell.connect()
    receive(other, BODY, b"x" * 600)
    assert busy.closing
    assert not other.closing
    done.set()
    other.reset()
    shell.clock.advance()
    assert buffered.total == 0


def test_a_direct_connection_counts_once_for_its_address() -> None:
    shell, limits = chatting(per_address=1)
    transport = shell.connect(CLIENT)
    receive(transport, CHAT + b"\r\n")
    assert (statuses(transport), limits.open, limits.addresses) == ([101], 1, 1)
