"""RFC 6455 as a server reads and writes it, frame by frame and split at every byte."""

import os
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.net.frames import (
    BINARY,
    CLOSE,
    CONTINUATION,
    MAX_REASON,
    PING,
    PONG,
    TEXT,
    CloseCode,
    FrameError,
    FrameReader,
    close_frame,
    control_frame,
    is_utf8,
    may_be_sent,
    parse_close,
    text_frame,
    unmask,
)
from support import wire
from support.cases import cases

MAX = 70_000  # so that a message may need a 64-bit length

Event = tuple[int, bytes] | int


def read(chunks: list[bytes], max_message: int = MAX) -> list[Event]:
    """The events of a stream; a broken rule ends it with its close code."""
    reader = FrameReader(max_message)
    events: list[Event] = []
    for chunk in chunks:
        reader.feed(chunk)
        try:
            while (event := reader.next()) is not None:
                if event == (CONTINUATION, b""):  # a fragment was taken
                    continue
                events.append(event)
                if event[0] in (BINARY, CLOSE):
                    return events
        except FrameError as error:
            return [*events, error.code]
    return events


def splits(data: bytes) -> list[list[bytes]]:
    """The data whole, cut at each byte boundary, and byte by byte."""
    cuts = range(1, len(data)) if len(data) < 400 else (*range(1, 20), len(data) - 1)
    return [
        [data],
        *([data[:cut], data[cut:]] for cut in cuts),
        [data[i : i + 1] for i in range(len(data))],
    ]


frame, text = wire.frame, wire.text

CASES: dict[str, tuple[bytes, list[Event]]] = {
    "empty text": (text(), [(TEXT, b"")]),
    "text": (text(b"Hello"), [(TEXT, b"Hello")]),
    "text beyond ASCII": (text("Grüße 🦊".encode()), [(TEXT, "Grüße 🦊".encode())]),
    "125 bytes": (text(b"x" * 125), [(TEXT, b"x" * 125)]),
    "126 bytes, 16-bit length": (text(b"x" * 126), [(TEXT, b"x" * 126)]),
    "65535 bytes": (text(b"x" * 65535), [(TEXT, b"x" * 65535)]),
    "65536 bytes, 64-bit length": (text(b"x" * 65536), [(TEXT, b"x" * 65536)]),
    "a mask of zeros": (frame(wire.TEXT, b"plain", key=bytes(4)), [(TEXT, b"plain")]),
    "several in a row": (
        text(b"a") + text(b"b" * 200) + text(b"c"),
        [(TEXT, b"a"), (TEXT, b"b" * 200), (TEXT, b"c")],
    ),
    # 5.4 fragmentation
    "two fragments": (
        text(b"Hel", fin=False) + frame(wire.CONTINUATION, b"lo"),
        [(TEXT, b"Hello")],
    ),
    "empty fragments": (
        text(fin=False)
        + frame(wire.CONTINUATION, fin=False)
        + frame(wire.CONTINUATION, b"x", fin=False)
        + frame(wire.CONTINUATION),
        [(TEXT, b"x")],
    ),
    "a character cut in two": (
        text("ü".encode()[:1], fin=False) + frame(wire.CONTINUATION, "ü".encode()[1:]),
        [(TEXT, "ü".encode())],
    ),
    "control frames between fragments": (
        text(b"a", fin=False)
        + frame(wire.PING, b"?")
        + frame(wire.CONTINUATION, b"b", fin=False)
        + frame(wire.PONG)
        + frame(wire.CONTINUATION, b"c")
        + text(b"next"),
        [(PING, b"?"), (PONG, b""), (TEXT, b"abc"), (TEXT, b"next")],
    ),
    "close between fragments": (text(b"a", fin=False) + wire.close(1000), [(CLOSE, b"\x03\xe8")]),
    "continuation of nothing": (frame(wire.CONTINUATION, b"x"), [1002]),
    "continuation of a finished message": (
        text(b"a") + frame(wire.CONTINUATION, b"x"),
        [(TEXT, b"a"), 1002],
    ),
    "text inside a message": (text(b"a", fin=False) + text(b"b"), [1002]),
    "binary inside a message": (text(b"a", fin=False) + frame(wire.BINARY, b"b"), [1002]),
    # 5.5 control frames
    "ping": (frame(wire.PING, b"x" * 125), [(PING, b"x" * 125)]),
    "pong": (frame(wire.PONG, b"x"), [(PONG, b"x")]),
    "ping of 126 bytes": (frame(wire.PING, b"x" * 126), [1002]),
    "pong of 126 bytes": (frame(wire.PONG, b"x" * 126), [1002]),
    "close of 126 bytes": (wire.close(1000, b"x" * 124), [1002]),
    "ping with a 64-bit length": (frame(wire.PING, b"x" * 70_000), [1002]),
    "fragmented ping": (frame(wire.PING, fin=False), [1002]),
    "fragmented pong": (frame(wire.PONG, fin=False), [1002]),
    "fragmented close": (frame(wire.CLOSE, fin=False), [1002]),
    # 5.2 headers
    "RSV1, compression not agreed to": (frame(wire.TEXT, b"x", rsv=4), [1002]),
    "RSV2": (frame(wire.TEXT, b"x", rsv=2), [1002]),
    "RSV3": (frame(wire.TEXT, b"x", rsv=1), [1002]),
    "RSV on a control frame": (frame(wire.PING, rsv=4), [1002]),
    **{f"opcode {code}": (frame(code), [1002]) for code in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)},
    "unmasked text": (frame(wire.TEXT, b"x", key=None), [1002]),
    "unmasked ping": (frame(wire.PING, key=None), [1002]),
    "16-bit length where 7 bits do": (frame(wire.TEXT, b"x" * 125, length_bytes=2), [1002]),
    "64-bit length where 7 bits do": (frame(wire.TEXT, b"x", length_bytes=8), [1002]),
    "64-bit length where 16 bits do": (frame(wire.TEXT, b"x" * 65535, length_bytes=8), [1002]),
    "64-bit length with its top bit": (frame(wire.TEXT, length=1 << 63, length_bytes=8), [1002]),
    # 8.1 UTF-8
    "text not UTF-8": (text(b"\xff"), [1007]),
    "a surrogate": (text(b"\xed\xa0\x80"), [1007]),
    "an overlong form": (text(b"\xc0\xaf"), [1007]),
    "beyond U+10FFFF": (text(b"\xf4\x90\x80\x80"), [1007]),
    "text ends inside a character": (text("ü".encode()[:1]), [1007]),
    "message ends inside a character": (
        text("ü".encode()[:1], fin=False) + frame(wire.CONTINUATION),
        [1007],
    ),
    "a fragment not UTF-8, checked before the last": (text(b"ok\xff", fin=False), [1007]),
    "a character cut in two and wrong": (
        text(b"\xc3", fin=False) + frame(wire.CONTINUATION, b"(", fin=False),
        [1007],
    ),
    # 5.6 binary
    "binary": (frame(wire.BINARY, b"\x00\xff"), [(BINARY, b"")]),
    "binary, announced only": (frame(wire.BINARY, length=60_000), [(BINARY, b"")]),
    "fragmented binary": (frame(wire.BINARY, b"x", fin=False), [(BINARY, b"")]),
    # what came before a fault is delivered
    "good, then bad": (
        text(b"a") + frame(wire.PING) + frame(wire.TEXT, rsv=1),
        [(TEXT, b"a"), (PING, b""), 1002],
    ),
}


@cases("name", CASES)
def test_a_stream_gives_the_same_events_wherever_it_is_cut(name: str) -> None:
    data, events = CASES[name]
    for chunks in splits(data):
        assert read(chunks) == events, [len(chunk) for chunk in chunks]


# --- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [101, 126, 65_535, 65_536, 1 << 40])
def test_a_message_too_long_is_refused_from_its_announced_length(size: int) -> None:
    header = frame(wire.TEXT, length=size)[:-4]  # without even the masking key
    assert read([header], max_message=100) == [1009]


def test_fragments_count_together_and_the_last_is_refused_unread() -> None:
    begun = text(b"x" * 60, fin=False) + frame(wire.CONTINUATION, b"x" * 40, fin=False)
    assert read([begun + frame(wire.CONTINUATION)], 100) == [(TEXT, b"x" * 100)]
    assert read([begun + frame(wire.CONTINUATION, length=1)[:2]], 100) == [1009]


def test_the_limit_is_per_message_and_control_frames_do_not_count() -> None:
    data = (
        text(b"x" * 100)
        + text(b"x" * 60, fin=False)
        + frame(wire.PING, b"x" * 125)
        + frame(wire.CONTINUATION, b"x" * 40)
    )
    assert read([data], 100) == [(TEXT, b"x" * 100), (PING, b"x" * 125), (TEXT, b"x" * 100)]


def test_a_reader_is_idle_exactly_when_nothing_is_buffered() -> None:
    reader = FrameReader(MAX)
    whole = text(b"abc")
    for byte in whole[:-1]:
        reader.feed(bytes((byte,)))
        assert reader.next() is None
        assert not reader.idle
    reader.feed(whole[-1:])
    assert not reader.idle
    assert reader.next() == (TEXT, b"abc")
    assert reader.idle


def test_no_call_reads_more_than_one_frame() -> None:
    reader = FrameReader(MAX)
    reader.feed(text(fin=False) + frame(wire.CONTINUATION, fin=False) * 50)
    for _ in range(51):
        assert reader.next() == (CONTINUATION, b"")
    assert reader.next() is None


# --- unmasking ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_unmask_is_xor_with_the_key_at_every_length(kind: type[bytes] | type[bytearray]) -> None:
    for length in (*range(300), *range(630, 650), 4096, 65_536):
        data = os.urandom(length + 12)
        key, masked = data[5:9], data[9 : 9 + length]
        plain = bytes(a ^ b for a, b in zip(masked, cycle(key), strict=False))
        assert unmask(kind(data), 5, length) == plain


@pytest.mark.parametrize("key", [bytes(4), b"\0\0\0\1", b"\1\0\0\0", b"\xff" * 4])
def test_unmask_keeps_leading_zeros(key: bytes) -> None:
    for length in range(20):
        assert unmask(key + bytes(length), 0, length) == (key * 5)[:length]


# --- close codes --------------------------------------------------------------------------------

SENDABLE = [*range(1000, 1004), *range(1007, 1015), 3000, 3999, 4000, 4774, 4999]
NOT_SENDABLE = [0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535]


@cases("code", SENDABLE)
def test_close_codes_that_may_be_sent(code: int) -> None:
    assert may_be_sent(code)
    assert parse_close(code.to_bytes(2) + b"why") == (code, "why")
    assert close_frame(code, "why") == wire.server_close(code, b"why")


@cases("code", NOT_SENDABLE)
def test_close_codes_that_must_not_be_sent(code: int) -> None:
    assert not may_be_sent(code)
    with pytest.raises(FrameError) as caught:
        parse_close(code.to_bytes(2) + b"why")
    assert caught.value.code == 1002
    if code != CloseCode.NO_STATUS:
        with pytest.raises(ValueError, match=f"must not have the code {code}"):
            close_frame(code)


def test_a_close_frame_may_be_empty_but_not_of_one_byte() -> None:
    assert parse_close(b"") == (1005, "")
    assert close_frame(CloseCode.NO_STATUS) == b"\x88\x00"
    with pytest.raises(FrameError) as caught:
        parse_close(b"\x03")
    assert caught.value.code == 1002


def test_a_close_reason_must_be_utf8() -> None:
    with pytest.raises(FrameError) as caught:
        parse_close(b"\x03\xe8\xff")
    assert caught.value.code == 1007


@given(st.text(max_size=200))
def test_a_close_reason_is_cut_at_a_character_and_always_valid(reason: str) -> None:
    frame_out = close_frame(1000, reason)
    assert len(frame_out) == 2 + frame_out[1] <= 2 + 125
    code, kept = parse_close(frame_out[2:])
    assert code == 1000
    assert reason.startswith(kept)
    if kept != reason:
        assert len(kept.encode()) > MAX_REASON - 4


def test_a_close_reason_with_a_lone_surrogate_is_still_sent() -> None:
    assert close_frame(1000, "a\ud800b") == wire.server_close(1000, b"a?b")


# --- out ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "header"),
    [
        (0, b"\x81\x00"),
        (125, b"\x81\x7d"),
        (126, b"\x81\x7e\x00\x7e"),
        (65_535, b"\x81\x7e\xff\xff"),
        (65_536, b"\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00"),
    ],
)
def test_a_text_frame_has_the_shortest_length_and_no_mask(size: int, header: bytes) -> None:
    assert text_frame(b"x" * size) == header + b"x" * size


def test_a_control_frame_is_final_and_carries_at_most_125_bytes() -> None:
    assert control_frame(PONG, b"x" * 125) == b"\x8a\x7d" + b"x" * 125
    with pytest.raises(ValueError, match="at most 125 bytes, not 126"):
        control_frame(PING, b"x" * 126)


@given(st.binary(max_size=12) | st.text(max_size=12).map(str.encode))
def test_is_utf8_agrees_with_the_codec(data: bytes) -> None:
    try:
        data.decode()
        valid = True
    except UnicodeDecodeError:
        valid = False
    assert is_utf8(data) == valid


@given(st.text(max_size=300), st.data())
def test_fragments_of_valid_text_are_taken_wherever_they_are_cut(
    content: str, data: st.DataObject
) -> None:
    payload = content.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(payload)), max_size=6)))
    parts = [payload[a:b] for a, b in zip([0, *cuts], [*cuts, len(payload)], strict=True)]
    stream = b"".join(
        frame(wire.TEXT if number == 0 else wire.CONTINUATION, part, fin=number == len(parts) - 1)
        for number, part in enumerate(parts)
    )
    assert read([stream]) == [(TEXT, payload)]
