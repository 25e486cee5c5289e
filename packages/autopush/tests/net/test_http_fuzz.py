"""Whatever a client sends, in whatever pieces: valid answers or a close, never an exception."""

import asyncio
import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from autopush.net.http_messages import Request, Response, Upgrade
from support.http_shell import MAX_BODY, Shell, describe, read_answers, receive
from support.soak import times

EXAMPLES = times(150, 5000)
fuzz = settings(max_examples=EXAMPLES, deadline=None)

METHODS = st.sampled_from(["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
TARGETS = st.sampled_from(["/", "/a?b", "/upgrade", "/%20/\\", "http://h/x", "/" + "t" * 300])
NAMES = st.sampled_from(["X", "TTL", "Topic", "crypto-key", "Cookie", "Accept", "X" * 50])
VALUES = st.text(
    st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=40
)
BODIES = st.binary(max_size=300)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A good request; some of them with a body or an offer to upgrade."""
    version = draw(st.sampled_from(["1.1", "1.1", "1.1", "1.0"]))
    lines = [f"{draw(METHODS)} {draw(TARGETS)} HTTP/{version}", "Host: h"]
    lines += [f"{draw(NAMES)}: {draw(VALUES)}" for _ in range(draw(st.integers(0, 4)))]
    extra = draw(
        st.sampled_from(
            [
                "",
                "",
                "Connection: close",
                "Connection: keep-alive",
                "Expect: 100-continue",
                "Connection: upgrade\r\nUpgrade: x",
            ]
        )
    )
    if extra:
        lines.append(extra)
    body = b""
    kind = draw(st.integers(0, 2))
    if kind == 1:
        body = draw(BODIES)
        lines.append(f"Content-Length: {len(body)}")
    elif kind == 2 and version == "1.1":
        lines.append("Transfer-Encoding: chunked")
        for chunk in draw(st.lists(BODIES, max_size=3)):
            if chunk:
                body += b"%x\r\n%b\r\n" % (len(chunk), chunk)
        body += b"0\r\n\r\n"
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


STREAMS = st.lists(requests(), min_size=1, max_size=4).map(b"".join)

TOKENS = st.sampled_from(
    [
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b" ",
        b":",
        b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n",
        b"Host: h\r\n",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"5\r\nabcde\r\n",
        b"0\r\n\r\n",
        b"Upgrade: x\r\nConnection: upgrade\r\n",
        b"Expect: 100-continue\r\n",
        b"HTTP/2.0",
        b"\xff",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"Connection: close\r\n",
        b"a" * 400,
        b"POST",
        b"-1",
        b"X: " + b"y" * 2000 + b"\r\n",
    ]
)


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """A good stream with a few bytes taken out, put in or doubled."""
    data = draw(STREAMS)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 30)))
        what = draw(st.one_of(TOKENS, st.binary(max_size=8), st.just(data[start:end] * 2)))
        data = data[:start] + what + data[end:]
    return data


ANYTHING = st.one_of(mutations(), st.lists(TOKENS, max_size=40).map(b"".join), st.binary())


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges) if a < b]


CUTS: st.SearchStrategy[list[int]] = st.one_of(
    st.lists(st.integers(0, 10_000), max_size=12), st.just(list(range(5000))), st.just([])
)


class UpgradedProtocol(asyncio.Protocol):
    """The protocol after an upgrade: it keeps what it receives."""

    def __init__(self, shell: "Recording") -> None:
        self.shell = shell

    def data_received(self, data: bytes) -> None:
        self.shell.raw += data


class Recording(Shell):
    def __init__(self) -> None:
        super().__init__(self.answer, max_header_line=1500, max_head=3000)
        self.raw = b""

    def answer(self, request: Request) -> Response | Upgrade:
        if request.path == "/upgrade" and request.upgrade:
            return Upgrade((("upgrade", "x"),), lambda _: UpgradedProtocol(self))
        return Response(200, describe(request))

    def run(self, chunks: list[bytes]) -> tuple[list[tuple[int, bytes]], bytes, bool]:
        """Final answers, bytes for the new protocol, whether our side is closed."""
        transport = self.connect()
        receive(transport, *chunks)
        answers = [
            (each.status, b"" if each.status >= 400 else each.body)
            for each in read_answers(bytes(transport.written))
            if each.status != 100
        ]
        closed = transport.ended or transport.closing
        assert self.crashes == []
        assert self.clock.errors == []
        if not transport.closing and not self.raw and self.server.connections:
            # It is not forgotten either: there is a deadline.
            assert len(self.server.wheel) == 1
            self.clock.advance(200)
            assert transport.lost
        assert len(self.requests) <= len(answers)
        return answers, self.raw, closed


@fuzz
@given(ANYTHING, CUTS)
def test_any_bytes_in_any_pieces_are_answered_or_closed(data: bytes, cuts: list[int]) -> None:
    answers, _, closed = Recording().run(pieces(data, cuts))
    for status, _ in answers:
        assert status in {101, 200, 400, 413, 414, 417, 431, 501}
    if any(status >= 400 for status, _ in answers):
        assert closed
        assert answers[-1][0] >= 400


@fuzz
@given(ANYTHING, CUTS)
def test_the_pieces_do_not_matter(data: bytes, cuts: list[int]) -> None:
    whole, cut = Recording(), Recording()
    answers, raw, closed = whole.run([data])
    others, *rest = cut.run(pieces(data, cuts))
    assert rest == [raw, closed]
    # Of a head with several errors the one that is met first is told: a malformed line or a size.
    assert [(min(status, 400), body) for status, body in answers] == [
        (min(status, 400), body) for status, body in others
    ]
    assert [(r.method, r.path, r.headers, r.body, r.keep_alive) for r in whole.requests] == [
        (r.method, r.path, r.headers, r.body, r.keep_alive) for r in cut.requests
    ]


@fuzz
@given(st.lists(requests(), min_size=1, max_size=5), CUTS)
def test_good_requests_are_answered_up_to_the_first_that_ends_it(
    stream: list[bytes], cuts: list[int]
) -> None:
    shell = Recording()
    answers, raw, _ = shell.run(pieces(b"".join(stream), cuts))
    assert all(status in {101, 200} for status, _ in answers)
    if not raw and all(each.keep_alive for each in shell.requests) and (101, b"") not in answers:
        assert len(answers) == len(stream)


@fuzz
@given(st.lists(BODIES, min_size=1, max_size=6), CUTS)
def test_a_body_survives_any_chunks(chunks: list[bytes], cuts: list[int]) -> None:
    shell = Recording()
    body = b"".join(chunks)
    data = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    data += b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks if chunk)
    (answer,), _, _ = shell.run(pieces(data + b"0\r\n\r\n", cuts))
    if len(body) <= MAX_BODY:
        assert shell.requests[0].body == body
    else:
        assert answer == (413, b"")
