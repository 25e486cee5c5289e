"""Bad requests: the status of each, the closed connection, and the answer that arrives."""

import asyncio

import pytest

from autopush.net.http_messages import Limits, Request, Response, Upgrade
from autopush.net.http_parser import RequestParser
from support.cases import cases
from support.http_shell import MAX_BODY, Shell, echo, read_answers, receive, serving
from support.referents import held_by

BOTH_LOOPS = True
HOST = "Host: h\r\n"
GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


def request(*lines: str, first: str = "POST / HTTP/1.1", host: str = HOST, body: str = "") -> bytes:
    head = "".join(f"{line}\r\n" for line in lines)
    return f"{first}\r\n{host}{head}\r\n{body}".encode("latin-1")


CHUNKED = "Transfer-Encoding: chunked"
REFUSED: dict[str, tuple[int, bytes]] = {
    "nothing of HTTP": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    "an unknown method": (400, request(first="FOO / HTTP/1.1")),
    "a method in lower case": (400, request(first="get / HTTP/1.1")),
    "a method that is not implemented": (501, request(first="PROPFIND / HTTP/1.1")),
    "CONNECT": (501, request(first="CONNECT h:80 HTTP/1.1")),
    "HTTP/0.9": (400, b"GET /\r\n\r\n"),
    "HTTP/0.9 by name": (400, request(first="GET / HTTP/0.9")),
    "HTTP/1.9 by name": (400, request(first="GET / HTTP/1.9")),
    "HTTP/2 by name": (400, request(first="GET / HTTP/2.0")),
    "HTTP/2 with keep-alive": (400, request("Connection: keep-alive", first="GET / HTTP/2.0")),
    "the preface of HTTP/2": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "another protocol's version": (400, request(first="GET / ICE/1.0")),
    "words behind the version": (400, request(first="GET / HTTP/1.1 more")),
    "no host": (400, request(host="")),
    "two hosts": (400, request("Host: other")),
    "the same host twice": (400, request("Host: h")),
    "a target without a slash": (400, request(first="GET path HTTP/1.1")),
    "a target of another scheme": (400, request(first="GET ftp://h/ HTTP/1.1")),
    "a target without a host": (400, request(first="GET http:///x HTTP/1.1")),
    "a control character in the target": (400, request(first="GET /\x01 HTTP/1.1")),
    "a byte beyond ASCII in the target": (400, request(first="GET /\xff HTTP/1.1")),
    "a NUL in a header": (400, request("X: a\0b")),
    "a CR in a header": (400, request("X: a\rb")),
    "an LF in a header": (400, request("X: a\nY: b")),
    "line ends without CR": (400, b"GET / HTTP/1.1\nHost: h\n\n"),
    "a folded line": (400, request("X: a", " b")),
    "a space before the first header": (400, request(" X: a", host="")),
    "a space before the colon": (400, request("X : a")),
    "a header without a name": (400, request(": a")),
    "a header without a colon": (400, request("X")),
    "two lengths": (400, request("Content-Length: 1", "Content-Length: 2", body="ab")),
    "the same length twice": (400, request("Content-Length: 1", "Content-Length: 1", body="a")),
    "a list of lengths": (400, request("Content-Length: 1, 1", body="a")),
    "a signed length": (400, request("Content-Length: +1", body="a")),
    "a negative length": (400, request("Content-Length: -1")),
    "a hexadecimal length": (400, request("Content-Length: 0x1", body="a")),
    "an empty length": (400, request("Content-Length:")),
    "a length beyond 64 bits": (400, request("Content-Length: 99999999999999999999")),
    "a length of thousands of digits": (400, request(f"Content-Length: {'0' * 5000}1", body="a")),
    "length and coding": (400, request("Content-Length: 1", CHUNKED, body="0\r\n\r\n")),
    "coding and length": (400, request(CHUNKED, "Content-Length: 1", body="0\r\n\r\n")),
    "an unknown coding": (501, request("Transfer-Encoding: gzip")),
    "an unknown coding before chunked": (501, request("Transfer-Encoding: gzip, chunked")),
    "identity": (501, request("Transfer-Encoding: identity")),
    "nearly chunked": (501, request("Transfer-Encoding: xchunked")),
    "chunked twice": (400, request("Transfer-Encoding: chunked, chunked")),
    "chunked in HTTP/1.0": (400, request(CHUNKED, first="POST / HTTP/1.0", body="0\r\n\r\n")),
    "no chunk size": (400, request(CHUNKED, body="\r\n\r\n")),
    "a negative chunk size": (400, request(CHUNKED, body="-1\r\na\r\n0\r\n\r\n")),
    "a prefixed chunk size": (400, request(CHUNKED, body="0x1\r\na\r\n0\r\n\r\n")),
    "a chunk size beyond 64 bits": (400, request(CHUNKED, body=f"{'f' * 17}\r\n")),
    "a space in a chunk size": (400, request(CHUNKED, body="1 \r\na\r\n0\r\n\r\n")),
    "a chunk longer than its size": (400, request(CHUNKED, body="1\r\nab\r\n0\r\n\r\n")),
    "an LF after a chunk size": (400, request(CHUNKED, body="1\na\r\n0\r\n\r\n")),
    "another expectation": (417, request("Expect: a-miracle")),
    "a body announced too large": (413, request(f"Content-Length: {MAX_BODY + 1}")),
    "a chunk too large": (
        413,
        request(CHUNKED, body=f"{MAX_BODY + 1:x}\r\n{'a' * (MAX_BODY + 1)}"),
    ),
    "chunks too large together": (
        413,
        request(CHUNKED, body="64\r\n" + ("a" * 100 + "\r\n64\r\n") * 11),
    ),
    "too many header lines": (431, request(*(f"X-{i}: a" for i in range(100)))),
    "too many lines of one name": (431, request(*["X: a"] * 100)),
    "a long header line": (431, request(f"X: {'a' * 16384}")),
    "a large head": (431, request(*(f"X-{i}: {'a' * 900}" for i in range(80)))),
    "a large head of one name": (431, request(*[f"X: {'a' * 900}"] * 80)),
    "a long target": (414, request(first=f"GET /{'a' * 16384} HTTP/1.1")),
    "a target without an end": (414, b"GET /" + b"a" * 100_000),
    "a header without an end": (431, b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000),
    "a header name without an end": (431, b"GET / HTTP/1.1\r\n" + b"a" * 100_000),
    "spaces without an end": (431, b"GET / HTTP/1.1\r\nX:" + b" " * 100_000),
    "trailers without an end": (431, request(CHUNKED, body="0\r\n" + "X: a\r\n" * 30_000)),
    "a chunk extension without an end": (413, request(CHUNKED, body="1;" + "a" * 200_000)),
}


@cases(
    ("what", "size"),
    [
        (what, size)
        for what, (_, data) in REFUSED.items()
        for size in (len(data), 1000, 1)
        if len(data) < 20_000 or size > 1
    ],
)
def test_is_refused_and_the_connection_closed(what: str, size: int) -> None:
    status, data = REFUSED[what]
    shell = Shell()
    transport = shell.connect()
    receive(transport, GET, *(data[i : i + size] for i in range(0, len(data), size)), GET)
    first, answer = read_answers(bytes(transport.written))
    assert first.status == 200
    assert (answer.status, answer.headers["connection"]) == (status, "close")
    assert len(shell.requests) == 1
    assert shell.crashes == []
    assert transport.ended
    transport.eof()
    shell.clock.advance()
    assert transport.lost
    assert shell.server.connections == 0
    assert len(shell.server.wheel) == 0


@cases(
    ("sent", "said"),
    [
        (b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + bytes(190), "this is TLS"),
        (b"\x80\x2e\x01\x03\x01", "this is TLS"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), "this is HTTP/2"),
        (b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n", "the PROXY protocol"),
        (b"\r\n\r\n\0\r\nQUIT\n!", "the PROXY protocol"),
        (b"FETCH / HTTP/1.1\r\nHost: a\r\n\r\n", '"FETCH"'),
        (b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", '"TRACE"'),
        (b"GET / HTTP/3.0\r\nHost: a\r\n\r\n", '"3.0"'),
        (b"GET /\r\n\r\n", "0.9"),
        (b"GET ftp://a/b HTTP/1.1\r\nHost: a\r\n\r\n", '"ftp://a/b"'),
        (b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n", '"200-ok"'),
        (b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", '"gzip"'),
        (b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\n", "1000 bytes, got 9999"),
    ],
)
@cases("size", [24, 10_000])
def test_what_is_no_request_of_this_port_is_named(sent: bytes, said: str, size: int) -> None:
    parser = RequestParser(Limits(max_body=MAX_BODY), "")
    for start in range(0, len(sent), size):
        if not parser.stopped:
            parser.feed(sent[start : start + size])
    assert parser.error is not None
    assert said in parser.error[1]


def test_the_limits_themselves_are_allowed() -> None:
    lines = [f"X-{i}: a" for i in range(98)]
    host = "Host: h\r\n"
    for data in (
        request(*lines, "Content-Length: 0", host=host),
        request(f"X: {'a' * (16384 - 3)}"),
        request(first=f"GET /{'a' * 16383} HTTP/1.1"),
        request(*(f"X-{i:03}: {'a' * (1000 - 9)}" for i in range(65))),
        request(f"Content-Length: {MAX_BODY}", body="a" * MAX_BODY),
        request(CHUNKED, body=f"{MAX_BODY:x}\r\n{'a' * MAX_BODY}\r\n0\r\n\r\n"),
        request(CHUNKED, body="1\r\na\r\n" * MAX_BODY + "0\r\n\r\n"),
    ):
        answers, _ = Shell().exchange(data)
        assert [answer.status for answer in answers] == [200]


def test_small_limits_apply_too() -> None:
    limits = {"max_header_lines": 3, "max_header_line": 40, "max_head": 60}
    for status, data in (
        (200, request("A: b", "C: d")),
        (431, request("A: b", "C: d", "E: f")),
        (431, request(f"A: {'b' * 40}")),
        (431, request(f"A: {'b' * 30}", f"C: {'d' * 30}")),
        (414, request(first=f"GET /{'a' * 40} HTTP/1.1")),
    ):
        answers, _ = Shell(echo, **limits).exchange(data)
        assert [answer.status for answer in answers] == [status]


@pytest.mark.parametrize(
    "lines",
    [b"a:\r\n" * 102, b"".join(b"a%d:\r\n" % i for i in range(102)), b"ttl: 1\r\n" * 102],
    ids=["one name", "many names", "a usual name"],
)
def test_header_lines_are_counted_as_they_come(lines: bytes) -> None:
    parser = RequestParser(Limits(max_body=MAX_BODY), "")
    parser.feed(b"GET / HTTP/1.1\r\n" + lines)
    assert parser.error == (431, "more than 100 header lines")
    (headers,) = held_by(parser, dict)
    assert len(headers) <= 100


def trailers(count: int) -> bytes:
    return request(CHUNKED, body="1\r\na\r\n0\r\n" + "Host: a\r\n" * count + "\r\n")


def test_trailers_are_counted_but_not_kept() -> None:
    parser = RequestParser(Limits(max_body=MAX_BODY), "")
    parser.feed(trailers(90)[:-2])
    assert held_by(parser, dict) == []
    assert not parser.stopped
    parser.feed(b"X: a\r\n" * 12)
    assert parser.error == (431, "more than 100 header lines")
    assert parser.ready == []


def test_trailers_do_not_count_for_the_head_nor_for_the_next_request() -> None:
    lines = [f"X-{i}: a" for i in range(98)]
    answers, _ = Shell().exchange(trailers(100) * 3 + request(*lines))
    assert [answer.status for answer in answers] == [200] * 4


def test_a_rejected_client_may_go_on_sending_for_a_limited_time() -> None:
    states = []
    shell = Shell()
    transport = shell.connect()
    receive(transport, request("Content-Length: 99999999"))
    for _ in range(21):
        receive(transport, b"a" * 50_000)
        states.append(transport.closing)
    assert states == [False] * 20 + [True]

    transport = shell.connect()
    receive(transport, request("Content-Length: 99999999"))
    for seconds in (1.5, 1):
        shell.clock.advance(seconds)
        states.append(transport.lost)
    assert states[-2:] == [False, True]


@pytest.mark.parametrize("size", [MAX_BODY + 1, 900_000])
async def test_a_client_that_sends_a_large_body_can_read_its_413(size: int) -> None:
    async with serving() as here:
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
        writer.write(request(f"Content-Length: {size}") + b"a" * size)
        await writer.drain()
        data = await asyncio.wait_for(reader.read(), 30)
        assert read_answers(data)[0].status == 413
        writer.close()
        await writer.wait_closed()


async def test_the_answers_before_a_bad_request_come_first() -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def waits(request: Request) -> Response | Upgrade:
        started.set()
        await go.wait()
        return echo(request)

    async with serving(waits) as here:
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
        writer.write(GET + GET + b"nonsense\r\n\r\n" + GET)
        await started.wait()
        go.set()
        data = await asyncio.wait_for(reader.read(), 30)
        assert [answer.status for answer in read_answers(data)] == [200, 200, 400]
        writer.close()
        await writer.wait_closed()


def test_a_path_may_have_a_larger_body_and_its_connection_has_the_usual_limit_again() -> None:
    limits = Limits(max_body=MAX_BODY, larger_bodies={"/large": 2 * MAX_BODY})
    announced = f"Content-Length: {2 * MAX_BODY}"
    body = "a" * 2 * MAX_BODY
    parser = RequestParser(limits, "")
    parser.feed(request(announced, first="POST /large HTTP/1.1", body=body))
    assert [len(each.body) for each in parser.ready] == [2 * MAX_BODY]
    parser.feed(request(announced, first="POST /large/ HTTP/1.1"))
    assert parser.error == (413, f"body too large: at most {MAX_BODY} bytes, got {2 * MAX_BODY}")
    parser = RequestParser(limits, "")
    parser.feed(request(f"Content-Length: {2 * MAX_BODY + 1}", first="POST /large HTTP/1.1"))
    said = f"body too large: at most {2 * MAX_BODY} bytes, got {2 * MAX_BODY + 1}"
    assert parser.error == (413, said)
