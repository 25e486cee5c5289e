import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.webpush.identifiers import (
    CHANNELS_ROW,
    TIMESTAMPED_ROWS,
    IdFactory,
    MessageKind,
    canonical_uaid,
    canonical_uuid,
    dashed,
    is_channel_id,
    is_uaid,
    new_uaid,
    parse_sort_key,
    sort_key,
    sort_key_after,
    undashed,
)
from autopush.webpush.tokens import KeyRing, MessageId, new_key, new_message_id, parse_message_id
from support.cases import cases

RING = KeyRing([new_key()])
UAID = "deadbeef00000000deadbeef00000001"
CHID = "12345678-aaaa-bbbb-cccc-1234567890ab"
HEX = CHID.replace("-", "")
TIME = 1_700_000_000_123_456

topics = st.text("abcXYZ019-_", min_size=1, max_size=32)
times = st.integers(1, 10**26 - 1)
message_ids = st.builds(
    lambda user, channel, tail: (
        MessageId(MessageKind.TOPIC, user.hex, str(channel), topic=tail)
        if isinstance(tail, str)
        else MessageId(
            MessageKind.LEGACY if tail is None else MessageKind.TIMESTAMPED,
            user.hex,
            str(channel),
            sort_time=tail,
        )
    ),
    st.uuids(),
    st.uuids(),
    topics | times | st.none(),
)


# ── UAIDs and channel ids ────────────────────────────────────────────────────────────────────────


@given(st.uuids())
def test_each_id_has_one_form(value: uuid.UUID) -> None:
    assert is_uaid(value.hex)
    assert is_channel_id(str(value))
    assert dashed(value.hex) == str(value)
    assert undashed(str(value)) == value.hex


@given(st.uuids())
def test_every_spelling_of_a_uuid_leads_to_the_one_form(value: uuid.UUID) -> None:
    for text in (str(value), value.hex, str(value).upper(), f"{{{value}}}", value.urn):
        assert canonical_uaid(text) == value.hex
        assert canonical_uuid(text) == str(value)


@given(st.one_of(st.none(), st.integers(), st.text(), st.lists(st.text()), st.binary()))
def test_any_other_value_is_no_id(value: object) -> None:
    assert not is_uaid(value)
    assert not is_channel_id(value)
    assert canonical_uaid(value) is None
    assert canonical_uuid(value) is None


DIGITS = "deadbeef00000000deadbeef00000000"


def text_of(message_id: MessageId) -> str:
    tail = {
        MessageKind.TOPIC: f":{message_id.topic}",
        MessageKind.TIMESTAMPED: f":{message_id.sort_time}",
    }
    ids = f"{message_id.uaid}:{message_id.channel_id.replace('-', '')}"
    return RING.encrypt(f"{message_id.kind}:{ids}{tail.get(message_id.kind, '')}".encode())


@cases(
    "text",
    [
        DIGITS.upper(),
        DIGITS[:-1],
        DIGITS + "0",
        DIGITS[:-1] + "g",
        dashed(DIGITS),
        " " + DIGITS[1:],
        "٣" * 32,
    ],
)
def test_a_uaid_in_another_form_is_refused(text: str) -> None:
    assert not is_uaid(text)


@cases(
    "text",
    [
        DIGITS,
        dashed(DIGITS).upper(),
        dashed(DIGITS)[:-1],
        dashed(DIGITS)[:-1] + "-",
        "-" * 36,
        "deadbeef0-000-0000-dead-beef00000000",
    ],
)
def test_a_channel_id_in_another_form_is_refused(text: str) -> None:
    assert not is_channel_id(text)


def test_a_new_uaid_is_random_and_of_version_4() -> None:
    made = {new_uaid() for _ in range(50)}
    assert len(made) == 50
    assert all(is_uaid(uaid) and uuid.UUID(uaid).version == 4 for uaid in made)


# ── message ids and sort keys ────────────────────────────────────────────────────────────────────


@given(message_ids)
def test_an_id_survives_its_text_padded_or_not(message_id: MessageId) -> None:
    text = text_of(message_id)
    parsed = parse_message_id(RING, text)
    assert parsed.text == text
    assert parse_message_id(RING, text.rstrip("=")) == parsed
    for member in ("kind", "uaid", "channel_id", "topic", "sort_time"):
        assert getattr(parsed, member) == getattr(message_id, member)


@pytest.mark.parametrize(
    ("topic", "sort_time", "plain"),
    [
        ("news", None, f"01:{UAID}:{HEX}:news"),
        ("news", TIME, f"01:{UAID}:{HEX}:news"),
        (None, TIME, f"02:{UAID}:{HEX}:{TIME}"),
    ],
)
def test_a_new_id_has_the_plaintext_of_its_kind(
    topic: str | None, sort_time: int | None, plain: str
) -> None:
    text = new_message_id(RING, UAID, CHID, topic, sort_time)
    assert len(text) % 4 == 0
    assert RING.decrypt(text).decode() == plain


def test_a_legacy_id_is_read() -> None:
    text = RING.encrypt(f"m:{UAID}:{HEX}".encode())
    assert parse_message_id(RING, text) == MessageId(MessageKind.LEGACY, UAID, CHID, text=text)
    assert parse_message_id(RING, text).sort_key == f"{CHID}:{text}"


@cases(
    "plain",
    [
        "",
        "01",
        f"01:{UAID}:{HEX}",
        f"01:{UAID}:{HEX}:",
        f"01:{UAID}:{HEX}:a:b",
        f"02:{UAID}:{HEX}",
        f"02:{UAID}:{HEX}:",
        f"02:{UAID}:{HEX}:12:3",
        f"02:{UAID}:{HEX}:-5",
        f"02:{UAID}:{HEX}:1e9",
        f"02:{UAID}:{HEX}:012",
        f"02:{UAID}:{HEX}:{'9' * 27}",
        f"02:{UAID}:{HEX}:٣",
        f"m:{UAID}:{HEX}:",
        f"m:{UAID}:{HEX}:x",
        f"m:{UAID}",
        f"03:{UAID}:{HEX}:1",
        f"1:{UAID}:{HEX}:a",
        f"02:{UAID}:{CHID}:1",
        f"02:{UAID.upper()}:{HEX}:1",
        f"02:{UAID[1:]}:{HEX}:1",
        f"{UAID}:{HEX}",
    ],
)
def test_another_plaintext_is_no_id(plain: str) -> None:
    with pytest.raises(ValueError, match=r"expected|not a message id"):
        parse_message_id(RING, RING.encrypt(plain.encode()))


def test_bytes_that_are_no_text_are_no_id() -> None:
    with pytest.raises(ValueError, match="not a message id"):
        parse_message_id(RING, RING.encrypt(b"02:\xff\xfe"))


@given(st.text())
def test_random_text_is_no_message_id(text: str) -> None:
    with pytest.raises(ValueError, match="message id"):
        parse_message_id(RING, text)


def test_an_endpoint_token_is_no_message_id() -> None:
    with pytest.raises(ValueError, match="message id"):
        parse_message_id(RING, RING.encrypt(bytes.fromhex(UAID + HEX)))


def test_sort_keys_are_those_of_the_table() -> None:
    assert sort_key(CHID, "news", None, "v") == f"01:{CHID}:news"
    assert sort_key(CHID, "news", TIME, "v") == f"01:{CHID}:news"
    assert sort_key(CHID, None, TIME, "v") == f"02:{TIME}:{CHID}"
    assert sort_key(CHID, None, None, "v==") == f"{CHID}:v=="


@given(message_ids)
def test_an_id_leads_to_the_row_its_sort_key_names(message_id: MessageId) -> None:
    parsed = parse_message_id(RING, text_of(message_id))
    row = parse_sort_key(parsed.sort_key)
    assert (row.kind, row.channel_id) == (parsed.kind, parsed.channel_id)
    assert (row.topic, row.sort_time) == (parsed.topic, parsed.sort_time)
    assert row.version == (parsed.text if parsed.kind is MessageKind.LEGACY else None)


@cases(
    "text",
    [
        CHANNELS_ROW,
        "",
        "01:",
        f"01:{CHID}",
        f"01:{CHID}:",
        f"01:{HEX}:news",
        f"02:x:{CHID}",
        f"02:{TIME}:",
        f"02:{TIME}",
        f"02::{CHID}",
        f"{CHID}",
        f"{CHID}:",
        f"{HEX}:v",
    ],
)
def test_what_is_no_sort_key_of_a_message_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="sort"):
        parse_sort_key(text)


@given(st.text())
def test_random_text_is_no_sort_key(text: str) -> None:
    with pytest.raises(ValueError):
        parse_sort_key(text)


@given(st.uuids(), topics, st.integers(10**15, 10**16 - 2), st.uuids())
def test_sort_keys_are_in_the_order_of_reading(
    channel: uuid.UUID, topic: str, time: int, other: uuid.UUID
) -> None:
    topic_row = sort_key(str(channel), topic, None, "")
    row = sort_key(str(channel), None, time, "")
    later = sort_key(str(other), None, time + 1, "")
    assert CHANNELS_ROW < topic_row < TIMESTAMPED_ROWS < row < later
    assert row < sort_key_after(time) < later


def test_times_are_unique_and_increase_while_the_clock_stands() -> None:
    ids = IdFactory(lambda: 1000.0, digits=7)
    assert [ids.next() for _ in range(3)] == [
        1_000_000_000_00000007,
        1_000_000_001_00000007,
        1_000_000_002_00000007,
    ]


def test_times_follow_the_clock_and_never_go_back() -> None:
    now = iter([1000.0, 2000.0, 1500.0, 3000.0])
    ids = IdFactory(lambda: next(now), digits=0)
    microseconds = [ids.next() // 10**8 for _ in range(4)]
    assert microseconds == [10**9, 2 * 10**9, 2 * 10**9 + 1, 3 * 10**9]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(1, 2)), max_size=60),
    st.lists(st.integers(0, 10**8 - 1), min_size=4, max_size=4, unique=True),
)
def test_processes_that_drew_other_digits_never_share_a_time(
    calls: list[tuple[int, float]], digits: list[int]
) -> None:
    now = 0.0
    factories = [IdFactory(lambda: now, drawn) for drawn in digits]
    taken: list[list[int]] = [[], [], [], []]
    for process, now in calls:  # noqa: B007 - the clocks read it
        taken[process].append(factories[process].next())
    everything = [time for times in taken for time in times]
    assert len(set(everything)) == len(everything)
    assert all(times == sorted(times) for times in taken)


def test_every_process_draws_digits_of_its_own() -> None:
    # Of 20 draws from 100 million two are equal once in half a million runs.
    drawn = {IdFactory(lambda: 1000.0).next() for _ in range(20)}
    assert len(drawn) == 20


@given(st.integers(10**15 + 1, 10**16 - 2), st.integers(0, 10**8 - 1), st.uuids())
def test_rows_with_and_without_process_digits_sort_by_time(
    time: int, digits: int, channel: uuid.UUID
) -> None:
    before, ours, later = (
        sort_key(str(channel), None, each, "")
        for each in (time - 1, time * 10**8 + digits, time + 1)
    )
    assert before < ours < later
