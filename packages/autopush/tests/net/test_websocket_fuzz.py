"""Whatever a client sends and however it is cut: no exception, no growth, one end, one outcome."""

import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import wire
from support.recorder import Connection, Event, Recorder
from support.referents import held_by


class SmallLimitRecorder(Recorder):
    """A limit small enough that random lengths fall on both sides of it."""

    max_message = 300


payloads = st.one_of(
    st.text(max_size=80).map(str.encode),
    st.binary(max_size=80),
    st.sampled_from([b"x" * 124, b"x" * 126, b"x" * 300, b"x" * 301, b"\xc3"]),
)
codes = st.one_of(st.integers(0, 5100), st.sampled_from([1000, 1001, 4774]))
good_frames = st.one_of(
    st.text(max_size=150).map(lambda content: wire.text(content.encode())),
    st.binary(max_size=125).map(lambda payload: wire.frame(wire.PING, payload)),
    st.binary(max_size=125).map(lambda payload: wire.frame(wire.PONG, payload)),
    st.lists(st.text(max_size=30), min_size=2, max_size=4).map(
        lambda parts: b"".join(
            wire.frame(
                wire.CONTINUATION if number else wire.TEXT,
                part.encode(),
                fin=number == len(parts) - 1,
            )
            for number, part in enumerate(parts)
        )
    ),
)
any_frames = st.builds(
    wire.frame,
    st.one_of(st.integers(0, 2), st.integers(0, 15)),
    payloads,
    fin=st.booleans(),
    rsv=st.sampled_from([0, 0, 0, 0, 0, 1, 4]),
    key=st.one_of(st.just(wire.KEY), st.binary(min_size=4, max_size=4)),
    length_bytes=st.sampled_from([None, None, None, 8]),
)
closes = st.builds(wire.close, codes, st.binary(max_size=60))
streams = st.lists(st.one_of(good_frames, good_frames, any_frames, closes), max_size=12).map(
    b"".join
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A right stream with a few bytes changed, dropped or added."""
    data = bytearray(b"".join(draw(st.lists(good_frames, min_size=1, max_size=8))))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        change = draw(st.integers(0, 2))
        if change == 0 and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif change == 1:
            del data[at : at + draw(st.integers(1, 4))]
        else:
            data[at:at] = draw(st.binary(min_size=1, max_size=4))
    return bytes(data)


anything = st.one_of(st.binary(max_size=400), streams, mutated())


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    marks = sorted({place % (len(data) + 1) for place in places})
    return [data[a:b] for a, b in zip([0, *marks], [*marks, len(data)], strict=True) if a < b]


def play(chunks: list[bytes], *, pausing: bool = False) -> tuple[list[Event], bytes]:
    """Events and bytes sent, after the peer has gone. Checks what must always hold."""
    connection = Connection(SmallLimitRecorder)
    if pausing:

        def pause(_: bytes) -> None:
            connection.protocol.pause_reading()

        connection.protocol.on_text = pause
    for chunk in chunks:
        while not connection.reading() and connection.state() == "open":
            connection.protocol.resume_reading()
            connection.run_due()
        connection.receive(chunk)
        reader = connection.reader()
        if reader is not None and not pausing:
            held = sum(map(len, held_by(reader, bytearray)))
            assert held <= SmallLimitRecorder.max_message + 14 + 125
    for _ in range(len(b"".join(chunks))):
        if connection.state() != "open" or connection.reader() is None:
            break
        connection.protocol.resume_reading()
        connection.run_due()
    if connection.state() in ("open", "ended"):
        connection.transport.resume_reading()
        connection.transport.eof()
    connection.run_due(20)
    assert connection.state() == "lost"
    assert [event[0] for event in connection.events].count("closed") == 1
    assert connection.events[-1][0] == "closed"
    assert len(connection.wheel) == 0
    return connection.events, connection.sent()


@given(anything, st.lists(st.integers(0, 2000), max_size=6))
def test_the_outcome_does_not_depend_on_how_the_stream_is_cut(
    data: bytes, places: list[int]
) -> None:
    whole = play([data])
    assert play(cut(data, places)) == whole
    assert play([data[i : i + 1] for i in range(len(data))]) == whole


@given(anything, st.lists(st.integers(0, 2000), max_size=6))
def test_the_outcome_does_not_depend_on_pauses(data: bytes, places: list[int]) -> None:
    assert play(cut(data, places), pausing=True) == play([data])


@given(st.lists(good_frames, max_size=10), st.lists(st.integers(0, 2000), max_size=6))
def test_a_valid_stream_is_never_refused(frames: list[bytes], places: list[int]) -> None:
    events, _ = play(cut(b"".join(frames), places))
    assert events[-1] == ("closed", None, "")


CALLS = st.sampled_from(["close", "abort", "ping", "send", "pause", "resume", "stick", "unstick"])
PEER = st.sampled_from(["eof", "reset"])
STEPS = st.lists(st.one_of(anything, anything, CALLS, PEER, st.floats(0, 6)), max_size=15)


@given(STEPS)
def test_calls_peer_and_time_in_any_order_end_once_and_leave_nothing(
    steps: list[bytes | str | float],
) -> None:
    connection = Connection(SmallLimitRecorder)
    protocol, transport = connection.protocol, connection.transport
    calls = {
        "close": lambda: protocol.close(1001, "going"),
        "abort": protocol.abort,
        "ping": lambda: protocol.ping(b"1"),
        "send": lambda: protocol.send_text(b"x" * 9000),
        "pause": protocol.pause_reading,
        "resume": protocol.resume_reading,
        "stick": lambda: setattr(transport, "stuck", True),
        "unstick": transport.unstick,
        "reset": transport.reset,
    }
    for step in steps:
        if isinstance(step, bytes):
            connection.receive(step)
        elif isinstance(step, float):
            connection.run_due(step)
        elif step == "eof":
            if transport.reading and not transport.closing:
                transport.eof()
        else:
            calls[step]()
        closed = [event for event in connection.events if event[0] == "closed"]
        assert len(closed) <= 1
        assert not closed or connection.events[-1] == closed[0]
        assert not (closed and protocol.is_open)
    if connection.state() != "lost" and protocol.is_open:
        protocol.close()
    connection.run_due(30)
    assert connection.state() == "lost"
    assert [event[0] for event in connection.events].count("closed") == 1
    assert connection.events[-1][0] == "closed"
    assert len(connection.wheel) == 0
    assert connection.reader() is None


@pytest.mark.parametrize(
    "endless",
    [
        wire.frame(wire.CONTINUATION, fin=False),
        wire.frame(wire.PING, b"x" * 125),
        wire.frame(wire.PONG),
        wire.text(b"x"),
    ],
    ids=["empty fragments", "pings", "pongs", "texts"],
)
def test_an_endless_stream_of_small_frames_is_held_in_bounded_memory(endless: bytes) -> None:
    class Deaf(Recorder):
        """Discards the messages."""

        def text_received(self, payload: bytes) -> None: ...

        def pong_received(self, payload: bytes) -> None: ...

    connection = Connection(Deaf)
    connection.receive(wire.text(fin=False) if endless[0] == 0 else b"")
    chunk = endless * 500
    connection.receive(chunk)
    connection.sent()
    before = sys.getallocatedblocks()
    for _ in range(40):
        connection.receive(chunk)
        connection.sent()
    assert sys.getallocatedblocks() - before < 300
    assert connection.protocol.is_open
