"""A connection from open to closed: messages, pauses, the closing handshake, protocol errors."""

import gc
import itertools
import sys

import pytest

from autopush.net.client_limits import BufferedBytes
from autopush.net.timers import MAX_SECONDS, MAX_STEPS, TimerWheel
from autopush.net.websocket import WebSocketProtocol
from support import wire
from support.cases import cases
from support.recorder import Connection, Event, Recorder

frame, text = wire.frame, wire.text


@pytest.fixture
def connection() -> Connection:
    return Connection()


# --- messages in, messages out ------------------------------------------------------------------

STREAMS: dict[str, tuple[bytes, list[Event]]] = {
    "one text": (text(b"a"), [("text", b"a")]),
    "empty text": (text(), [("text", b"")]),
    "many in one read": (
        b"".join(text(bytes((65 + i,)) * i * 40) for i in range(9)),
        [("text", bytes((65 + i,)) * i * 40) for i in range(9)],
    ),
    "beyond ASCII": (text("ü".encode() * 300), [("text", "ü".encode() * 300)]),
    "short after fragments": (
        text(b"a", fin=False) + frame(wire.CONTINUATION, b"b") + text(b"c"),
        [("text", b"ab"), ("text", b"c")],
    ),
    "pong": (frame(wire.PONG, b"x") + text(b"a"), [("pong", b"x"), ("text", b"a")]),
    "the largest message": (text(b"x" * 65_536), [("text", b"x" * 65_536)]),
}


@cases("name", STREAMS)
def test_messages_are_the_same_wherever_the_stream_is_cut(name: str) -> None:
    data, events = STREAMS[name]
    for cut in range(min(len(data), 1500)):
        connection = Connection()
        connection.receive(data[:cut], data[cut:])
        assert connection.events == events
        assert connection.protocol.is_open
    connection = Connection()
    connection.receive(*(data[i : i + 1] for i in range(len(data))))
    assert connection.events == events
    assert connection.sent() == b""


class FrameCounter(Recorder):
    """Counts the frames that complete no message."""

    def __init__(self, wheel: TimerWheel) -> None:
        super().__init__(wheel)
        self.frames = 0

    def frame_received(self) -> None:
        self.frames += 1


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (text(b"a"), 0),
        (frame(wire.PING) + frame(wire.PONG), 2),
        (text(fin=False) + frame(wire.CONTINUATION, fin=False) + frame(wire.CONTINUATION), 2),
        (frame(wire.BINARY), 0),
        (wire.close(1000), 0),
    ],
)
def test_frames_that_complete_no_message_are_reported(data: bytes, number: int) -> None:
    connection = Connection(FrameCounter)
    protocol = connection.protocol
    assert isinstance(protocol, FrameCounter)
    connection.receive(data)
    assert protocol.frames == number


def test_messages_that_are_dropped_as_we_close_are_reported_as_frames() -> None:
    connection = Connection(FrameCounter)
    protocol = connection.protocol
    assert isinstance(protocol, FrameCounter)
    protocol.close(1008)
    connection.receive(3 * text(b"a") + frame(wire.PING), wire.close(1008))
    assert protocol.frames == 4
    assert ("text", b"a") not in connection.events


def test_sent_messages_are_frames_written_at_once(connection: Connection) -> None:
    connection.protocol.send_text(b"a")
    assert connection.sent() == b"\x81\x01a"
    connection.protocol.send_text(b"x" * 300)
    assert connection.sent() == b"\x81\x7e\x01\x2c" + b"x" * 300
    assert connection.transport.writes == 2


def test_several_messages_can_be_sent_in_one_write(connection: Connection) -> None:
    connection.protocol.send_texts([b"a", b"", b"bc"])
    assert connection.sent() == b"\x81\x01a\x81\x00\x81\x02bc"
    assert connection.transport.writes == 1


def test_a_ping_is_answered_with_its_payload(connection: Connection) -> None:
    connection.receive(frame(wire.PING, b"are you there"))
    assert connection.sent() == wire.server(wire.PONG, b"are you there")
    assert connection.events == []


def test_our_ping_and_its_answer(connection: Connection) -> None:
    connection.protocol.ping(b"1")
    assert connection.sent() == wire.server(wire.PING, b"1")
    connection.receive(frame(wire.PONG, b"1"))
    assert connection.events == [("pong", b"1")]
    with pytest.raises(ValueError, match="at most 125"):
        connection.protocol.ping(b"x" * 126)


# --- protocol errors ----------------------------------------------------------------------------

PROTOCOL_ERRORS: dict[str, tuple[bytes, int]] = {
    "unmasked": (frame(wire.TEXT, b"x", key=None), 1002),
    "unmasked and empty": (frame(wire.TEXT, key=None) + b"padding", 1002),
    "reserved bits": (frame(wire.TEXT, b"x", rsv=4), 1002),
    "reserved opcode": (frame(3), 1002),
    "long control frame": (frame(wire.PING, b"x" * 126), 1002),
    "fragmented control frame": (frame(wire.PING, fin=False), 1002),
    "continuation of nothing": (frame(wire.CONTINUATION), 1002),
    "message inside another": (text(b"a", fin=False) + text(b"b"), 1002),
    "length not in its shortest form": (frame(wire.TEXT, b"x", length_bytes=2), 1002),
    "half a close code": (frame(wire.CLOSE, b"\x03"), 1002),
    "a close code never sent": (wire.close(1005), 1002),
    "text not UTF-8": (text(b"\xff"), 1007),
    "long text not UTF-8": (text(b"x" * 300 + b"\xff"), 1007),
    "fragment not UTF-8": (text(b"\xff", fin=False), 1007),
    "close reason not UTF-8": (wire.close(1000, b"\xff"), 1007),
    "too long": (frame(wire.TEXT, length=65_537), 1009),
    "far too long, though not by the first bytes of the length": (
        frame(wire.TEXT, length=200 << 48, length_bytes=8, key=b"ABCD") + bytes(300),
        1009,
    ),
    "fragments too long": (
        text(b"x" * 65_536, fin=False) + frame(wire.CONTINUATION, length=1),
        1009,
    ),
}


@cases("name", PROTOCOL_ERRORS)
@cases("before", [[], [text(b"a")], [text(b"a")[:3], text(b"a")[3:]]])
def test_a_protocol_error_closes_with_its_code_and_is_reported_once(
    name: str, before: list[bytes]
) -> None:
    data, code = PROTOCOL_ERRORS[name]
    connection = Connection()
    connection.receive(*before[:-1], b"".join(before[-1:]) + data)
    texts: list[Event] = [("text", b"a")] if before else []
    assert connection.events[:-1] == texts
    assert connection.events[-1][:2] == ("closed", code)
    sent = connection.sent()
    assert sent[0] == 0x88
    assert int.from_bytes(sent[2:4]) == code
    assert len(sent) == sent[1] + 2
    assert not connection.protocol.is_open
    assert connection.state() == "ended"
    connection.receive(text(b"more"), frame(wire.PING), b"\xff" * 1000, wire.close(1000))
    assert connection.sent() == b""
    connection.transport.eof()
    connection.run_due()
    assert connection.state() == "lost"
    assert len(connection.events) == len(texts) + 1
    assert len(connection.wheel) == 0


def test_after_a_protocol_error_a_peer_that_stays_is_dropped(connection: Connection) -> None:
    connection.receive(frame(3))
    connection.run_due(9.9)
    assert connection.state() != "lost"
    connection.run_due(0.5)
    assert connection.state() == "lost"
    assert len(connection.events) == 1


def test_input_after_a_protocol_error_is_dropped(connection: Connection) -> None:
    connection.receive(frame(wire.TEXT, length=1 << 30))
    before = sys.getallocatedblocks()
    for _ in range(100):
        connection.receive(b"x" * 100_000)
    assert sys.getallocatedblocks() - before < 50
    assert connection.reader() is None


def test_a_binary_message_is_reported_at_its_header_and_closed_with_1003(
    connection: Connection,
) -> None:
    connection.receive(frame(wire.BINARY, length=60_000)[:2])
    assert connection.events == [("binary",), ("closed", 1003, "only text messages are accepted")]
    assert connection.sent() == wire.server_close(1003, b"only text messages are accepted")
    assert connection.state() == "ended"


def test_the_binary_hook_may_choose_the_code(connection: Connection) -> None:
    connection.protocol.on_binary = lambda: connection.protocol.close(4001, "no")
    connection.receive(frame(wire.BINARY, b"x"))
    assert connection.events == [("binary",), ("closed", 4001, "no")]
    assert connection.sent() == wire.server_close(4001, b"no")


# --- closing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "reason", "reported"), [(1000, b"bye", 1000), (1001, b"", 1001), (None, b"", 1005)]
)
def test_the_peer_s_close_is_answered_and_the_server_closes_first(
    connection: Connection, code: int | None, reason: bytes, reported: int
) -> None:
    connection.receive(wire.close(code, reason) + text(b"after"))
    assert connection.sent() == wire.server_close(code)
    assert connection.state() == "closing"
    assert connection.events == [("closed", reported, reason.decode())]
    connection.run_due()
    assert connection.state() == "lost"
    assert len(connection.events) == 1
    assert len(connection.wheel) == 0


def test_our_close_waits_for_the_peer_s_and_ignores_data(connection: Connection) -> None:
    connection.protocol.close(1001, "going away")
    assert connection.sent() == wire.server_close(1001, b"going away")
    assert not connection.protocol.is_open
    assert not connection.writable()
    connection.receive(text(b"late"), frame(wire.PONG, b"late"))
    assert connection.events == []
    assert connection.state() == "open"
    connection.receive(wire.close(1001))
    assert connection.state() == "closing"
    assert connection.events == [("closed", 1001, "going away")]
    connection.run_due()
    assert connection.events == [("closed", 1001, "going away")]
    assert connection.sent() == b""
    assert len(connection.wheel) == 0


def test_our_close_without_an_answer_ends_by_the_timer(connection: Connection) -> None:
    connection.protocol.close(4774)
    connection.run_due(9.9)
    assert connection.events == []
    connection.run_due(0.5)
    assert connection.events == [("closed", 4774, "")]
    assert connection.state() == "lost"
    assert connection.clock.scheduled == []


def test_a_ping_is_answered_until_the_peer_s_close(connection: Connection) -> None:
    connection.protocol.close()
    connection.sent()
    connection.receive(frame(wire.PING, b"1"))
    assert connection.sent() == wire.server(wire.PONG, b"1")


@pytest.mark.parametrize("data", [frame(3), frame(wire.BINARY), frame(wire.TEXT, length=1 << 20)])
def test_a_protocol_error_while_closing_sends_no_second_close(
    connection: Connection, data: bytes
) -> None:
    connection.protocol.close(1001)
    connection.sent()
    connection.receive(data)
    assert connection.sent() == b""
    assert connection.state() == "ended"
    assert connection.events == [("closed", 1001, "")]


def test_close_inside_a_message_drops_the_rest(connection: Connection) -> None:
    connection.protocol.on_text = lambda _: connection.protocol.close(1008)
    connection.receive(text(b"a") + text(b"b") + wire.close(1008))
    assert connection.events == [("text", b"a"), ("closed", 1008, "")]


def test_a_closed_connection_takes_every_call_and_does_nothing(connection: Connection) -> None:
    protocol = connection.protocol
    connection.receive(wire.close(1000))
    connection.run_due()
    connection.sent()
    protocol.send_text(b"x")
    protocol.send_texts([b"x"])
    protocol.ping()
    protocol.close()
    protocol.close(1001, "again")
    protocol.pause_reading()
    protocol.resume_reading()
    protocol.abort()
    connection.run_due(60)
    assert connection.sent() == b""
    assert connection.events == [("closed", 1000, "")]


@pytest.mark.parametrize("code", [999, 1006, 5000])
def test_close_refuses_a_code_that_must_not_be_sent(connection: Connection, code: int) -> None:
    with pytest.raises(ValueError, match=str(code)):
        connection.protocol.close(code)
    assert connection.protocol.is_open
    assert connection.sent() == b""


def test_abort_ends_without_a_close_frame_and_is_reported_later(connection: Connection) -> None:
    connection.protocol.abort()
    assert connection.events == []
    connection.receive(text(b"x"))
    connection.run_due()
    assert connection.events == [("closed", None, "")]
    assert connection.sent() == b""


@pytest.mark.parametrize("before", [b"", text(b"x" * 50)[:20], text(b"x", fin=False)])
@pytest.mark.parametrize("how", ["eof", "reset"])
def test_a_lost_connection_is_reported_once_with_no_code(
    connection: Connection, before: bytes, how: str
) -> None:
    connection.receive(before)
    getattr(connection.transport, how)()
    connection.run_due()
    assert connection.events == [("closed", None, "")]
    assert connection.state() == "lost"
    assert connection.sent() == b""
    assert len(connection.wheel) == 0


def test_from_the_end_of_the_stream_on_nothing_is_sent(connection: Connection) -> None:
    connection.transport.stuck = True
    connection.protocol.send_text(b"x" * 10_000)
    connection.sent()
    connection.transport.eof()
    assert not connection.protocol.is_open
    connection.protocol.send_text(b"x" * 20_000)
    connection.transport.unstick()
    assert connection.events == []
    connection.run_due()
    assert connection.sent() == b""
    assert connection.events == [("closed", None, "")]


def test_a_connection_lost_while_we_close_has_our_code(connection: Connection) -> None:
    connection.protocol.close(1001)
    connection.transport.reset()
    connection.run_due()
    assert connection.events == [("closed", 1001, "")]


@pytest.mark.parametrize("how", ["eof", "close", "fault"])
def test_a_peer_that_does_not_read_is_dropped_by_the_timer(
    connection: Connection, how: str
) -> None:
    connection.transport.stuck = True
    connection.protocol.send_text(b"never read")
    if how == "eof":
        connection.transport.eof()
    else:
        connection.receive(wire.close(1000) if how == "close" else frame(3))
    connection.run_due(9.9)
    assert connection.state() != "lost"
    connection.run_due(0.5)
    assert connection.state() == "lost"
    assert [event[0] for event in connection.events] == ["closed"]


# --- output pressure ----------------------------------------------------------------------------


def test_output_pauses_beyond_the_mark_and_resumes(connection: Connection) -> None:
    assert connection.writable()
    connection.transport.stuck = True
    connection.protocol.send_text(b"x" * 16_000)
    assert connection.writable()
    connection.protocol.send_text(b"x" * 1000)
    assert not connection.writable()
    assert connection.protocol.is_open
    assert connection.events == [("paused",)]
    connection.transport.unstick()
    assert connection.writable()
    assert connection.events == [("paused",), ("resumed",)]


def stuck(connection: Connection) -> None:
    """The peer stops reading, and what we send is more than the kernel takes."""
    connection.transport.stuck = True
    connection.protocol.send_text(b"x" * 20_000)
    connection.sent()


def test_while_output_is_paused_nothing_is_read_and_afterwards_all_is_delivered(
    connection: Connection,
) -> None:
    connection.receive(text(b"a", fin=False))
    stuck(connection)
    assert not connection.reading()
    connection.protocol.data_received(  # as libuv may after all
        frame(wire.CONTINUATION, b"b") + frame(wire.PING, b"1") + text(b"c") + frame(wire.PING)
    )
    connection.run_due(10)
    assert connection.events == [("paused",)]
    assert connection.sent() == b""
    assert not connection.reading()
    connection.transport.unstick()
    assert connection.events == [("paused",), ("resumed",)]  # the rest not from within
    connection.run_due()
    assert connection.events[2:] == [("text", b"ab"), ("text", b"c")]
    assert connection.sent() == wire.server(wire.PONG, b"1") + wire.server(wire.PONG)
    assert connection.reading()
    assert connection.reader() is None
    assert len(connection.wheel) == 0


@pytest.mark.parametrize("kind", [frame(wire.PING, b"x" * 125), text(b"x" * 125)])
def test_answers_do_not_accumulate_for_a_peer_that_does_not_read(
    connection: Connection, kind: bytes
) -> None:
    connection.protocol.on_text = connection.protocol.send_text
    connection.transport.stuck = True
    for _ in range(10):
        connection.receive(kind * 1000)
    assert len(connection.transport.written) < 16_384 + 200
    assert not connection.reading()


@pytest.mark.parametrize("first", ["output", "owner"])
def test_input_resumes_when_neither_peer_nor_owner_block_it(
    connection: Connection, first: str
) -> None:
    stuck(connection)
    connection.protocol.pause_reading()
    connection.protocol.data_received(text(b"a"))
    resume = [connection.transport.unstick, connection.protocol.resume_reading]
    for step in resume if first == "output" else reversed(resume):
        connection.run_due()
        assert ("text", b"a") not in connection.events
        assert not connection.reading()
        step()
    connection.run_due()
    assert connection.events[-1] == ("text", b"a")
    assert connection.reading()


def test_a_peer_that_neither_reads_nor_closes_is_dropped(connection: Connection) -> None:
    stuck(connection)
    connection.run_due(59.9)
    assert connection.state() == "open"
    connection.run_due(0.5)
    assert connection.state() == "lost"
    assert connection.events == [("paused",), ("closed", None, "")]
    assert len(connection.wheel) == 0


def test_each_pause_of_output_has_its_own_deadline(connection: Connection) -> None:
    for _ in range(3):
        stuck(connection)
        connection.run_due(50)
        connection.transport.unstick()
        connection.transport.stuck = False
    connection.run_due(100)
    assert connection.state() == "open"
    assert len(connection.wheel) == 0


def test_close_while_output_is_paused_awaits_the_peer_s_answer(connection: Connection) -> None:
    stuck(connection)
    connection.protocol.data_received(text(b"late"))
    connection.protocol.close(1001)
    connection.run_due()
    assert connection.reading()
    connection.receive(frame(wire.PING, b"x" * 125) * 1000, wire.close(1001))
    assert connection.events == [("paused",), ("closed", 1001, "")]
    assert connection.sent() == wire.server_close(1001)
    connection.transport.unstick()
    connection.run_due()
    assert connection.state() == "lost"
    assert connection.sent() == b""


# --- incomplete messages ------------------------------------------------------------------------

INCOMPLETE = {
    "a frame's first byte": text(b"x" * 100)[:1],
    "half a frame": text(b"x" * 100)[:50],
    "half a message": text(b"x" * 100, fin=False),
    "half a ping": frame(wire.PING, b"x" * 100)[:50],
    "half a message after a whole one": text(b"a") + text(b"x", fin=False),
}


@pytest.mark.parametrize("name", INCOMPLETE)
def test_an_incomplete_message_has_a_deadline(connection: Connection, name: str) -> None:
    connection.receive(INCOMPLETE[name])
    connection.run_due(29.9)
    assert connection.state() == "open"
    connection.run_due(0.5)
    assert connection.events[-1] == ("closed", 1008, "the message took too long")
    assert connection.sent() == wire.server_close(1008, b"the message took too long")
    assert connection.reader() is None
    connection.run_due(10.5)
    assert connection.state() == "lost"
    assert len(connection.wheel) == 0


@pytest.mark.parametrize(
    "trickle",
    [frame(wire.CONTINUATION, b"x", fin=False), frame(wire.PING), b""],
    ids=["fragments", "pings", "bytes"],
)
def test_an_incomplete_message_in_many_pieces_has_the_same_deadline(
    connection: Connection, trickle: bytes
) -> None:
    connection.receive(text(b"x", fin=False) if trickle else text(b"x" * 1000)[:20])
    for _ in range(29):
        connection.run_due(1)
        connection.receive(trickle or b"x")
        assert connection.state() == "open"
    connection.run_due(1.3)
    assert connection.events == [("closed", 1008, "the message took too long")]


def test_each_message_has_its_own_deadline(connection: Connection) -> None:
    """A busy peer's reads may always end inside the next message."""
    stream = text(b"x" * 100) * 100
    for at in range(0, len(stream), 70):
        connection.receive(stream[at : at + 70])
        connection.run_due(10)
    assert connection.events == [("text", b"x" * 100)] * 100
    assert len(connection.wheel) == 0


def test_a_message_that_is_not_read_is_not_late(connection: Connection) -> None:
    connection.receive(text(b"abc")[:4])
    connection.protocol.pause_reading()
    connection.receive(text(b"abc")[4:])
    connection.run_due(100)
    connection.protocol.resume_reading()
    connection.run_due()
    assert connection.events == [("text", b"abc")]
    assert len(connection.wheel) == 0


# --- time slices --------------------------------------------------------------------------------


def turns(connection: Connection, data: bytes) -> list[int]:
    """What one read and the turns after it delivered and sent each, until the socket is read."""
    seen = []
    connection.protocol.data_received(data)
    while True:
        seen.append(len(connection.events) + connection.transport.writes)
        if connection.reading():
            return seen
        connection.clock.turn()


@pytest.mark.parametrize(
    "kind",
    [text(b"x"), text(b"x" * 200), frame(wire.PING), frame(wire.PONG)],
    ids=["texts", "long texts", "pings", "pongs"],
)
@pytest.mark.parametrize("before", [b"", text(b"x")[:3]], ids=["at once", "behind half a frame"])
def test_a_read_of_many_frames_takes_one_time_slice_of_each_turn(
    connection: Connection, kind: bytes, before: bytes
) -> None:
    connection.receive(before)
    counts = turns(connection, (text(b"x")[3:] if before else b"") + kind * 300)
    steps = [after - done for done, after in itertools.pairwise([0, *counts])]
    assert max(steps) <= MAX_STEPS + 1
    assert len(steps) > 300 // (MAX_STEPS + 1)
    assert counts[-1] == 300 + bool(before)
    assert connection.reader() is None
    assert connection.clock.scheduled == [] or before


def test_fragments_are_counted_too(connection: Connection) -> None:
    data = text(fin=False) + frame(wire.CONTINUATION, fin=False) * 300 + frame(wire.PING)
    counts = turns(connection, data)
    assert len(counts) > 300 // (MAX_STEPS + 1)
    assert counts[-2:] == [0, 1]


def test_a_time_slice_is_limited_in_seconds_too(connection: Connection) -> None:
    def slow(_: bytes) -> None:
        connection.clock.busy += MAX_SECONDS * 0.6

    connection.protocol.on_text = slow
    counts = turns(connection, text(b"x") * 20)
    assert counts[-1] == 20
    steps = [after - done for done, after in itertools.pairwise([0, *counts])]
    assert max(steps) <= 3


def test_a_large_read_waits_for_the_next_turn(connection: Connection) -> None:
    """libuv would read the next as soon as this one returned."""
    data = text(b"x" * 60_000) * 3
    assert turns(connection, data) == [0, 3]


# --- input pauses -------------------------------------------------------------------------------


def test_nothing_is_delivered_while_reading_is_paused(connection: Connection) -> None:
    connection.protocol.on_text = lambda _: connection.protocol.pause_reading()
    connection.receive(text(b"a") + text(b"b") + text(b"c"))
    assert connection.events == [("text", b"a")]
    assert not connection.reading()
    connection.protocol.resume_reading()
    assert connection.events == [("text", b"a")]  # not from within
    connection.run_due()
    assert connection.events == [("text", b"a"), ("text", b"b")]
    connection.protocol.on_text = None
    connection.protocol.resume_reading()
    connection.run_due()
    assert connection.events == [("text", b"a"), ("text", b"b"), ("text", b"c")]
    assert connection.reading()
    assert connection.reader() is None


def test_a_pause_without_input_does_not_touch_the_transport(connection: Connection) -> None:
    connection.protocol.pause_reading()
    assert connection.reading()
    connection.protocol.resume_reading()
    connection.receive(text(b"a"))
    assert connection.events == [("text", b"a")]
    assert connection.clock.scheduled == []


def test_input_during_a_pause_stops_the_socket_and_is_kept(connection: Connection) -> None:
    connection.protocol.pause_reading()
    connection.receive(text(b"a"), text(b"never read"))
    assert not connection.reading()
    assert connection.events == []
    connection.protocol.resume_reading()
    connection.protocol.data_received(text(b"b"))  # read before the kept one was delivered
    connection.run_due()
    assert connection.events == [("text", b"a"), ("text", b"b")]


def test_close_ends_a_pause_so_that_the_answer_is_seen(connection: Connection) -> None:
    connection.protocol.pause_reading()
    connection.receive(text(b"dropped") + wire.close(1000))
    assert not connection.reading()
    connection.protocol.close(1001)
    connection.run_due()
    assert connection.events == [("closed", 1001, "")]
    assert connection.state() == "lost"


def test_a_hook_that_raises_in_a_later_turn_loses_the_connection(connection: Connection) -> None:
    def fail(payload: bytes) -> None:
        raise LookupError(payload)

    connection.protocol.pause_reading()
    connection.receive(text(b"a") + text(b"b"))
    connection.protocol.on_text = fail
    connection.protocol.resume_reading()
    with pytest.raises(LookupError):
        connection.run_due()
    connection.run_due()
    assert connection.events == [("text", b"a"), ("closed", None, "")]


# --- memory -------------------------------------------------------------------------------------


class Bare(WebSocketProtocol):
    __slots__ = ()


def test_an_idle_connection_owns_only_its_slots(connection: Connection) -> None:
    assert not hasattr(Bare(connection.wheel), "__dict__")
    assert sys.getsizeof(Bare(connection.wheel)) <= 112
    connection.receive(text(b"a" * 50)[:20], text(b"a" * 50)[20:])
    connection.receive(text(b"a", fin=False), frame(wire.CONTINUATION, b"b"), frame(wire.PING))
    idle = Connection()
    assert [type(each) for each in gc.get_referents(connection.protocol)] == [
        type(each) for each in gc.get_referents(idle.protocol)
    ]
    assert connection.reader() is None
    assert len(connection.wheel) == 0


def test_a_closed_connection_is_freed_without_the_collector(connection: Connection) -> None:
    freed: list[str] = []

    class Watched(Recorder):
        def __del__(self) -> None:
            freed.append("it")

    gc.disable()
    try:
        other = Connection(Watched)
        other.protocol.close()
        other.receive(wire.close(1000))
        other.run_due(1)
        other.transport.__dict__.clear()  # a transport drops its protocol when it is lost
        del other
        assert freed == ["it"]
    finally:
        gc.enable()


# --- what is buffered -----------------------------------------------------------------------------


class Counted(Recorder):
    counter = BufferedBytes()

    @property
    def buffered(self) -> BufferedBytes:
        return self.counter


@pytest.mark.parametrize(
    ("chunks", "held"),
    [
        ([text(b"x" * 300)[:-1]], 307),
        ([text(b"x" * 300, fin=False)], 300),
        ([text(b"x" * 300, fin=False), frame(wire.CONTINUATION, b"y" * 50, fin=False)], 350),
        ([text(b"x" * 300, fin=False), text(b"y")[:1]], 301),
    ],
)
def test_an_incomplete_message_counts_until_it_is_complete_or_the_connection_ends(
    monkeypatch: pytest.MonkeyPatch, chunks: list[bytes], held: int
) -> None:
    monkeypatch.setattr(Counted, "counter", BufferedBytes(10_000))
    for end in ("reset", "abort", "eof", "close"):
        connection = Connection(Counted)
        connection.receive(*chunks)
        assert Counted.counter.total == held
        if end == "reset":
            connection.transport.reset()
        elif end == "abort":
            connection.protocol.abort()
        elif end == "eof":
            connection.transport.eof()
        else:
            connection.receive(b"\x83\x80zzzz")  # a reserved opcode
            connection.transport.reset()
        connection.run_due()
        assert Counted.counter.total == 0
    connection = Connection(Counted)
    connection.receive(text(b"x" * 300, fin=False))
    connection.receive(frame(wire.CONTINUATION, b"y"))
    assert connection.events == [("text", b"x" * 300 + b"y")]
    assert Counted.counter.total == 0


def test_messages_that_wait_for_the_owner_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "counter", BufferedBytes(10_000))
    connection = Connection(Counted)
    connection.protocol.pause_reading()
    connection.receive(text(b"x" * 300))
    assert Counted.counter.total > 300
    connection.protocol.resume_reading()
    connection.run_due()
    assert connection.events == [("text", b"x" * 300)]
    assert Counted.counter.total == 0


def test_a_message_beyond_the_limit_of_all_closes_with_1013(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Counted, "counter", BufferedBytes(500))
    first, second = Connection(Counted), Connection(Counted)
    first.receive(text(b"x" * 300, fin=False))
    second.receive(text(b"y" * 300, fin=False))
    assert [event[:2] for event in first.events] == [("closed", 1013)]
    assert second.events == []
    first.receive(frame(wire.CONTINUATION, b"x" * 300))
    second.receive(frame(wire.CONTINUATION, b"y"))
    assert second.events == [("text", b"y" * 300 + b"y")]
    assert Counted.counter.total == 0


def test_the_binary_hook_may_abort(connection: Connection) -> None:
    connection.protocol.on_binary = connection.protocol.abort
    connection.receive(frame(wire.BINARY, b"x"))
    connection.run_due()
    assert connection.events == [("binary",), ("closed", None, "")]
    assert connection.sent() == b""


def test_close_while_output_is_paused_ends_by_the_close_timeout(connection: Connection) -> None:
    stuck(connection)
    connection.run_due(5)
    connection.protocol.close(1001)
    connection.run_due(9.9)
    assert connection.state() == "open"
    connection.run_due(0.5)
    assert connection.state() == "lost"


def test_an_exhausted_time_slice_and_a_pause_go_together(connection: Connection) -> None:
    connection.protocol.data_received(b"".join(text(b"%d" % i) for i in range(200)))
    connection.protocol.pause_reading()
    done = len(connection.events)
    assert 0 < done <= MAX_STEPS + 1
    connection.run_due()
    assert len(connection.events) == done
    connection.protocol.resume_reading()
    connection.protocol.resume_reading()
    connection.clock.turn()
    assert done < len(connection.events) <= done + MAX_STEPS + 1
    connection.run_due()
    assert connection.events == [("text", b"%d" % i) for i in range(200)]
    assert connection.reading()


def test_close_and_protocol_error_after_an_exhausted_time_slice(connection: Connection) -> None:
    connection.protocol.data_received(text(b"x") * 100 + frame(3))
    connection.protocol.close(1001)
    connection.run_due()
    assert connection.events[-1] == ("closed", 1001, "")
    assert len(connection.events) <= MAX_STEPS + 2
    assert connection.reading()  # so that the end of the stream is seen
    assert connection.state() == "ended"
