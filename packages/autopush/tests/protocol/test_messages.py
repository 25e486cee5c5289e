"""What a text frame may hold: whatever it is, it is read, or refused in a few words."""

import json
from typing import Final

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autopush.protocol.effects import Close, Identified, Identify
from autopush.protocol.messages import (
    EVENTS,
    ClientMessage,
    NotAMessageError,
    ack_codes,
    code_of,
    decode,
    event_of,
    is_empty,
    nacked,
)
from autopush.protocol.session import Session
from autopush.protocol.states import Event
from support.cases import cases
from support.session_frames import new_session
from support.soak import examples

UAID: Final = "0" * 32
NOW: Final = 1_800_000_000.0
HELLO: Final = b'{"messageType":"hello","use_webpush":true}'

MEMBERS: Final = [field.encode_name for field in msgspec.structs.fields(ClientMessage)]
TYPES: Final = [*EVENTS]
NUMBERS: Final = ["1e999", "-1e999", "1e-999", "9" * 5000, "-0", "0.1", "18446744073709551616"]
"""As they are written, since Python writes none of them so."""

WRITTEN: Final = st.recursive(
    st.sampled_from([*NUMBERS, "null", "true", "NaN", '"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"'])
    | st.integers().map(str)
    | st.floats().map(json.dumps)
    | st.text().map(json.dumps)
    | st.sampled_from([*TYPES, UAID]).map(json.dumps),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda each: f"[{','.join(each)}]")
        | st.dictionaries(st.sampled_from(["version", "channelID", "data", "x"]), inner).map(
            lambda each: "{" + ",".join(f'"{name}":{value}' for name, value in each.items()) + "}"
        )
    ),
    max_leaves=8,
)
"""JSON as text, and some that is none."""
FRAMES: Final = st.lists(
    st.tuples(st.sampled_from([*MEMBERS, "messageType", "x"]), WRITTEN), max_size=5
).map(lambda pairs: ("{" + ",".join(f'"{name}":{text}' for name, text in pairs) + "}").encode())
PAYLOADS: Final = FRAMES | WRITTEN.map(str.encode) | st.binary(max_size=60)


@cases("number", ["1e999", "-1e999", "9" * 5000])
@cases(
    "frame",
    [
        '{"version":%s}',
        '{"code":%s}',
        '{"messageType":%s}',
        '{"messageType":"ack","updates":[{"version":%s}]}',
        ' {"broadcasts":{"name":%s}}',
    ],
)
def test_a_number_that_cannot_be_held_is_named_as_the_reason(number: str, frame: str) -> None:
    with pytest.raises(NotAMessageError, match=r"^a number out of range$"):
        decode((frame % number).encode())


@cases("frame", ["[1]", " null", '"{}"', "1", "true", "1e999", "9" * 5000])
def test_json_that_is_no_object_is_said_to_be_none(frame: str) -> None:
    with pytest.raises(NotAMessageError, match=r"^not a JSON object$"):
        decode(frame.encode())


@cases(
    "frame",
    [
        b"",
        b"{",
        b'{"uaid":NaN}',
        b'{"uaid":"\\ud800"}',
        b'{"x":"\\udc00"}',
        b'{"uaid":"\xff"}',
        b'{"updates":' + b"[" * 3_000,
        b'{"x":' + b'{"x":' * 3_000,
    ],
)
def test_what_is_no_json_is_said_to_be_none(frame: bytes) -> None:
    with pytest.raises(NotAMessageError, match=r"^not JSON$"):
        decode(frame)


@pytest.mark.parametrize("frame", [b"{}", b" {} ", b"{ \t\r\n}", b"\n{\n}\n"])
def test_an_empty_object_is_a_ping(frame: bytes) -> None:
    assert event_of(decode(frame), frame) is Event.PING


@cases("frame", ["1e999", "9" * 5000, "[]", "{}", '"\xff"', "null"])
def test_an_object_of_an_unknown_member_is_invalid_whatever_its_value(frame: str) -> None:
    payload = f'{{"x":{frame}}}'.encode("latin-1")
    assert event_of(ClientMessage(), payload) is Event.INVALID


@settings(max_examples=examples(300, 1_000_000))
@given(PAYLOADS)
@example(b'{"x":1e999}')
@example(b'{"x":"\xff"}')
def test_whatever_comes_is_read_or_refused_as_no_message(payload: bytes) -> None:
    try:
        message = decode(payload)
    except NotAMessageError:
        return
    event = event_of(message, payload)
    if is_empty(message, payload):
        assert (event, json.loads(payload)) == (Event.PING, {})
    code = code_of(message)
    assert code is None or 0 <= code <= 999
    version = nacked(message)
    assert version is None or isinstance(version, str)
    assert list(ack_codes(message.updates, ())) == []


def _active_session() -> Session:
    session = new_session()
    session.receive(HELLO, NOW)
    session.on_result(Identify(None), Identified(UAID, 1, new=True, old_table=False), NOW)
    return session


@settings(max_examples=examples(300, 1_000_000))
@given(PAYLOADS, st.booleans())
@example(b'{"x":1e999}', True)
@example(b'{"x":1e999}', False)
def test_a_session_answers_any_frame_or_closes_in_words(payload: bytes, identified: bool) -> None:
    session = _active_session() if identified else new_session()
    for effect in session.receive(payload, NOW):
        if isinstance(effect, Close):
            assert effect.reason


def test_an_unknown_member_with_a_number_out_of_range_ends_with_a_close_frame() -> None:
    effects = _active_session().receive(b'{"x":1e999}', NOW)
    assert [effect.code for effect in effects if isinstance(effect, Close)] == [1008]
