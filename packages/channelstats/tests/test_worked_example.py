"""The worked example of the specification: what is stored, what is counted, what is compared.

In short, A, B and C are UALICE, UBOB and UCARA; W1 begins on 2024-03-03, W2 on 2024-03-10.
"""

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from channelstats.facts import Options, Period
from channelstats.pages.loading import Members
from channelstats.render.words import number_text
from keytables import Item
from support.channelstats.house import EXAMPLE, NOW, UTC, House, decoded, house

A, B, C = "UALICE", "UBOB", "UCARA"
CGEN, CDEV = "CGEN", "CDEV"
WEEKS = {"W1": date(2024, 3, 3), "W2": date(2024, 3, 10)}

Document = Any
"""A report document, looked into freely."""


async def _documents(folder: Path) -> dict[str, Document]:
    async with house(folder) as opened:
        await opened.take_in(EXAMPLE)
        return {
            week: decoded(await opened.report(Period(start, 7, UTC), Options()))
            for week, start in WEEKS.items()
        }


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Document]:
    return asyncio.run(_documents(tmp_path_factory.mktemp("example")))


@pytest.fixture
def w1(documents: dict[str, Document]) -> Document:
    return documents["W1"]


@pytest.fixture
def w2(documents: dict[str, Document]) -> Document:
    return documents["W2"]


def near(value: object) -> Any:
    return pytest.approx(value, abs=5e-5)


def slack_text(change: Any, label: str = "", *, percentage: bool = False) -> str:
    """A comparison as the specification writes it, and the original posted it."""
    cur, diff = change["cur"], abs(change["diff_pct"] or 0)
    note = {
        "new": ":new:",
        "from_zero": " :infinity:",
        "up": f" (+{diff:.0f}%):green_arrow_up:",  # half to even
        "down": f" (-{diff:.0f}%):red_arrow_down:",
    }.get(change["state"], "")
    labelled = label and f" {label}" + "s" * (cur != 1)
    return f"*{number_text(cur, percentage=percentage)}*{note}{labelled}"


def hours(shorthand: dict[int, list[int]]) -> dict[str, list[int]]:
    return {str(key): pair for key, pair in shorthand.items()}


def by_case(
    cases: Iterable[tuple[str, str]], **rows: Sequence[Any]
) -> dict[tuple[str, str], dict[str, Any]]:
    """What is expected of each case, from a table with a column for each."""
    columns = zip(*rows.values(), strict=True)
    return {
        case: dict(zip(rows, column, strict=True))
        for case, column in zip(cases, columns, strict=True)
    }


# ── 8.2 tables ───────────────────────────────────────────────────────────────────────────────────


async def test_a_channel_has_two_rows(example: House) -> None:
    channels = await example.items("Channel")
    assert sorted(channels) == [CDEV, CGEN, "dev", "general"]
    dev: Item = {
        "channel_key": CDEV,
        "friendly_name": "dev",
        "slack_cid": CDEV,
        "members": 3,
        "created": 1709508000,
        "is_channel": True,
        "is_group": False,
        "is_im": False,
        "is_mpim": False,
        "is_private": False,
        "is_archived": False,
    }
    assert channels[CDEV] == dev
    assert channels["dev"] == {**dev, "channel_key": "dev"}
    assert channels["general"]["members"] == 3


async def test_messages_are_stored_as_the_data_model_says(example: House) -> None:
    messages = await example.items("Message")
    assert len(messages) == 15
    expected: list[Item] = [
        {
            "cid_ts": "CGEN_1709573400.000300",
            "date": "2024-03-04",
            "ts": "1709573400.000300",
            "slack_cid": CGEN,
            "slack_uid": A,
            "word_count": 8,
            "reaction_count": 3,
            "reactions": "wave:UBOB:UCARA,+1::skin-tone-2:UBOB",
            "thread_ts": "1709573400.000300",
            "parent_user_id": A,
            "replies": "UBOB:1709575500.000400,UCARA:1709755200.000600,UBOB:1710061200.000800",
            "reply_count": 3,
            "is_threadhead": True,
            "is_threaded": True,
        },
        {
            "cid_ts": "CGEN_1710216000.001100",
            "date": "2024-03-12",
            "ts": "1710216000.001100",
            "slack_cid": CGEN,
            "slack_uid": C,
            "word_count": 5,
            "reaction_count": 0,
            "reply_count": 0,
            "mentions": B,
            "thread_ts": "1710172800.000900",
            "parent_user_id": A,
            "is_threadhead": False,
            "is_threaded": True,
        },
    ]
    added = {"fetched_at", "source"}
    for item in expected:
        stored = messages[str(item["cid_ts"])]
        assert {name: stored[name] for name in stored if name not in added} == item
    assert messages["CDEV_1710630900.001500"]["reactions"] == "tada:UALICE:UCARA,rocket:UCARA"
    assert messages["CGEN_1710172800.000900"]["mentions"] == "UBOB:UCARA"
    assert messages["CDEV_1710369900.001300"]["mentions"] == "UCARA"


async def test_membership_is_kept(example: House) -> None:
    assert await example.tables.bulk.get(CGEN) == "UALICE,UBOB,UCARA"
    assert await example.tables.members_log.samples(CDEV) == [(1710630900, 3)]


async def test_users_are_stored(example: House) -> None:
    users = await example.items("User")
    assert sorted(users) == [A, B, C, "UDAVE"]
    assert users[B] == {
        "slack_uid": B,
        "user_name": "bob",
        "real_name": "Bob Berg",
        "tz": "Europe/Berlin",
        "tz_offset": 3600,
        "deleted": False,
        "admin": False,
        "insert_timestamp": int(NOW),
    }
    assert not users["UDAVE"].keys() & {"tz", "tz_offset"}
    assert await example.items("UserCreated") == {}


async def test_configuration_holds_counts_and_names(example: House) -> None:
    configuration = await example.items("Configuration")
    assert (configuration["counts"]["active_users"], configuration["counts"]["all_users"]) == (3, 4)
    assert configuration["channel_names"]["names"] == "dev#general"
    assert configuration["active_channel_names"]["names"] == "dev#general"


async def test_watermarks_are_those_of_the_newest_top_level_messages(example: House) -> None:
    assert await example.items("ChannelConfiguration") == {
        CDEV: {"slack_cid": CDEV, "last_message_timestamp": 1710630900},
        CGEN: {"slack_cid": CGEN, "last_message_timestamp": 1710237600},
    }


async def test_first_posts_leave_out_the_join(example: House) -> None:
    posts = await example.items("FirstPost")
    assert posts[B] == {
        "slack_uid": B,
        "slack_cid": CDEV,
        "message_id": "1709508600.000200",
        "ts": 1709508600,
    }
    found = {uid: (item["slack_cid"], item["message_id"]) for uid, item in posts.items()}
    assert found == {
        A: (CGEN, "1709573400.000300"),
        B: (CDEV, "1709508600.000200"),
        C: (CDEV, "1709608500.000500"),
    }


async def test_the_user_hash_is_by_the_last_character(example: House) -> None:
    rows = await example.items("UserHash")
    assert {key: item["uids"] for key, item in rows.items()} == {
        "E": "UALICE UDAVE",
        "B": "UBOB",
        "A": "UCARA",
    }


# ── 8.3 statistics ───────────────────────────────────────────────────────────────────────────────

STATISTICS = {
    "posters": (3, 3),
    "active_users": (3, 3),
    "all_users": (4, 4),
    "% posting": (100.0, 100.0),
    "messages": (5, 8),
    "words": (26, 40),
    "average messages": (1.666667, 2.666667),
    "average words": (8.666667, 13.333333),
    "messages per poster": (1.666667, 2.666667),
    "words per poster": (8.666667, 13.333333),
    "words per message": (5.2, 5.0),
    "median messages": (2, 3),
    "median words": (8, 10),
    "topten messages": (100, 100),
    "topten words": (100, 100),
    "50percent of messages": (2, 2),
    "50percent of words": (2, 1),
    "50percent users for messages": ([B, C], [A, B]),
    "50percent users for words": ([B, A], [A, B]),
    "pages": (0, 0),
    "first-time posters": (3, 0),
}


def test_statistics(w1: Document, w2: Document) -> None:
    for name, (first, second) in STATISTICS.items():
        assert w1["statistics"][name] == near(first), name
        assert w2["statistics"][name] == near(second), name
    assert w2["statistics"].keys() == STATISTICS.keys()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("posters", "*3*"),
        ("messages", "*8* (+60%):green_arrow_up:"),
        ("words", "*40* (+54%):green_arrow_up:"),
        ("words per message", "*5* (-4%):red_arrow_down:"),
        ("50percent of words", "*1* (-50%):red_arrow_down:"),
        ("pages", "*0*"),
        ("first-time posters", "*0* (-100%):red_arrow_down:"),
    ],
)
def test_statistics_as_compared(w2: Document, name: str, text: str) -> None:
    assert slack_text(w2["compared"]["statistics"][name]) == text


def test_averages_as_compared(w2: Document) -> None:
    compared = w2["compared"]["statistics"]
    assert compared["average messages"]["diff_pct"] == near(60.0)
    assert compared["average words"]["diff_pct"] == near(53.846154)


# ── 8.4 users ────────────────────────────────────────────────────────────────────────────────────

USERS = by_case(
    itertools.product(WEEKS, (A, B, C)),
    count=([1, 8], [2, 11], [2, 7], [3, 20], [3, 10], [2, 10]),
    rank=(2, 1, 3, 1, 2, 3),
    percent_of_words=(30.7692, 42.3077, 26.9231, 50.0, 25.0, 25.0),
    cum_percent_of_words=(73.0769, 42.3077, 100, 50.0, 75.0, 100),
    percent_of_messages=(20.0, 40.0, 40.0, 37.5, 37.5, 25.0),
    cum_percent_of_messages=(100, 40.0, 80.0, 37.5, 75.0, 100),
    reactions=(3, 0, 1, 2, 4, 0),
    reactions_given=(1, 2, 1, 2, 1, 3),
    rphw=(37.5, 0, 14.2857, 10.0, 40.0, 0),
    replies=(3, 0, 0, 3, 0, 0),
    thread_messages=(2, 0, 0, 3, 0, 0),
    posting_days=(
        {"0": [1, 8]},
        {"0": [2, 11]},
        {"1": [1, 5], "3": [1, 2]},
        {"0": [1, 9], "2": [1, 9], "3": [1, 2]},
        {"0": [1, 3], "6": [2, 7]},
        {"1": [1, 5], "6": [1, 5]},
    ),
    posting_hours=(
        {"9": [1, 8]},
        {"0": [1, 5], "19": [1, 6]},
        {"1": [1, 2], "8": [1, 5]},
        {"8": [1, 2], "9": [1, 9], "15": [1, 9]},
        {"17": [1, 3]},
        {"9": [1, 5]},
    ),
)


@pytest.mark.parametrize(("week", "uid"), USERS)
def test_users(documents: dict[str, Document], week: str, uid: str) -> None:
    document, expected = documents[week], USERS[week, uid]
    stats = document["user_stats"][uid]
    assert document["users"][uid] == expected["count"]
    for name, value in expected.items():
        exact = isinstance(value, dict | list)
        assert stats[name] == (value if exact else near(value)), name
    assert stats["replies_in_period"] == stats["thread_messages"]


def test_users_are_in_the_order_of_their_ranks(w1: Document, w2: Document) -> None:
    assert list(w1["users"]) == [B, A, C]
    assert list(w2["users"]) == [A, B, C]
    assert sorted(w2["user_stats"]) == [A, B, C]  # and not UDAVE, who said nothing


@pytest.mark.parametrize(
    ("uid", "name", "percentage", "text"),
    [
        (A, "words", False, "*20* (+150%):green_arrow_up:"),
        (A, "messages", False, "*3* (+200%):green_arrow_up:"),
        (A, "rphw", False, "*10* (-73%):red_arrow_down:"),
        (A, "thread_messages", False, "*3* (+50%):green_arrow_up:"),
        (A, "percent_of_words", True, "*50.0%* (+62%):green_arrow_up:"),
        (A, "cum_percent_of_words", True, "*50.0%* (-32%):red_arrow_down:"),
        (B, "words", False, "*10* (-9%):red_arrow_down:"),
        (B, "messages", False, "*3* (+50%):green_arrow_up:"),
        (B, "percent_of_words", True, "*25.0%* (-41%):red_arrow_down:"),
        (C, "words", False, "*10* (+43%):green_arrow_up:"),
        (C, "messages", False, "*2*"),
        (C, "percent_of_words", True, "*25.0%* (-7%):red_arrow_down:"),
    ],
)
def test_users_as_compared(w2: Document, uid: str, name: str, percentage: bool, text: str) -> None:
    assert slack_text(w2["compared"]["users"][uid][name], percentage=percentage) == text


def test_channels_of_users(w2: Document) -> None:
    expected = {
        A: [("general", 1, 2, 11, 45.8333), ("dev", 1, 1, 9, 56.25)],
        B: [("general", 2, 2, 8, 33.3333), ("dev", 3, 1, 2, 12.5)],
        C: [("dev", 2, 1, 5, 31.25), ("general", 3, 1, 5, 20.8333)],
    }
    for uid, channels in expected.items():
        found = w2["enriched_user"][uid]["enriched_channels"]
        assert [
            (of["name"], of["rank"], of["messages"], of["words"], near(of["percent"]))
            for of in found.values()
        ] == channels
        assert [of["slack_cid"] for of in found.values()] == list(found)


# ── 8.5 channels ─────────────────────────────────────────────────────────────────────────────────

CHANNELS = by_case(
    itertools.product(WEEKS, (CGEN, CDEV)),
    count=([3, 16], [2, 10], [5, 24], [3, 16]),
    percent=(61.5385, 38.4615, 60.0, 40.0),
    cpercent=(61.5385, 100, 60.0, 100),
    posters=(3, 2, 3, 3),
    words_per_poster=(5.3333, 5.0, 8.0, 5.3333),
    new=(False, True, False, False),
    channel_user=(
        {A: [1, 8], B: [1, 6], C: [1, 2]},
        {B: [1, 5], C: [1, 5]},
        {A: [2, 11], B: [2, 8], C: [1, 5]},
        {A: [1, 9], C: [1, 5], B: [1, 2]},
    ),
    reaction_count=(3, 1, 3, 3),
    reactions=(
        {"wave": 2, "+1::skin-tone-2": 1},
        {"tada": 1},
        {"eyes": 2, "+1": 1},
        {"tada": 2, "rocket": 1},
    ),
    emoji_rate=(
        {"wave": 125.0, "+1::skin-tone-2": 62.5},
        {"tada": 100.0},
        {"eyes": 83.3333, "+1": 41.6667},
        {"tada": 125.0, "rocket": 62.5},
    ),
    posting_days=(
        {0: [2, 14], 3: [1, 2]},
        {0: [1, 5], 1: [1, 5]},
        {0: [2, 12], 1: [1, 5], 3: [1, 2], 6: [1, 5]},
        {2: [1, 9], 6: [2, 7]},
    ),
    posting_hours=(
        {1: [1, 2], 9: [1, 8], 19: [1, 6]},
        {0: [1, 5], 8: [1, 5]},
        {8: [1, 2], 9: [2, 14], 17: [1, 3]},
        {15: [1, 9]},
    ),
)


@pytest.mark.parametrize(("week", "cid"), CHANNELS)
def test_channels(documents: dict[str, Document], week: str, cid: str) -> None:
    document, expected = documents[week], CHANNELS[week, cid]
    stats, enriched = document["channel_stats"][cid], document["enriched_channel"][cid]
    assert document["channels"][cid] == expected["count"]
    for name in ("percent", "cpercent", "posters", "words_per_poster"):
        assert stats[name] == near(expected[name]), name
    assert stats["new"] is expected["new"]
    assert stats["members"] == 3
    assert list(document["channel_user"][cid].items()) == list(expected["channel_user"].items())
    assert list(enriched["reactions"].items()) == list(expected["reactions"].items())
    assert enriched["reaction_count"] == expected["reaction_count"]
    assert enriched["emoji_rate"] == near(expected["emoji_rate"])
    assert enriched["posting_days"] == hours(expected["posting_days"])
    assert enriched["posting_hours"] == hours(expected["posting_hours"])


@pytest.mark.parametrize(
    ("cid", "name", "percentage", "text"),
    [
        (CGEN, "words", False, "*24* (+50%):green_arrow_up:"),
        (CGEN, "messages", False, "*5* (+67%):green_arrow_up:"),
        (CGEN, "share_rounded", True, "*60.0%* (-2%):red_arrow_down:"),
        (CGEN, "cpercent", True, "*60.0%* (-2%):red_arrow_down:"),
        (CDEV, "posters", False, "*3* (+50%):green_arrow_up:"),
        (CDEV, "words", False, "*16* (+60%):green_arrow_up:"),
        (CDEV, "messages", False, "*3* (+50%):green_arrow_up:"),
        (CDEV, "words_per_poster", False, "*5.3* (+7%):green_arrow_up:"),
        (CDEV, "share_rounded", True, "*40.0%* (+4%):green_arrow_up:"),
        (CDEV, "cpercent", True, "*100.0%*"),
    ],
)
def test_channels_as_compared(
    w2: Document, cid: str, name: str, percentage: bool, text: str
) -> None:
    assert slack_text(w2["compared"]["channels"][cid][name], percentage=percentage) == text


def test_whoever_was_not_in_the_channel_before_is_new(w2: Document) -> None:
    users = w2["compared"]["channels"][CDEV]["users"]
    assert users[A] == {
        "messages": {"cur": 1, "prev": None, "diff_pct": None, "state": "new"},
        "words": {"cur": 9, "prev": None, "diff_pct": None, "state": "new"},
    }
    assert slack_text(users[A]["words"]) == "*9*:new:"
    assert users[B]["words"]["state"] == "down"


# ── 8.6 time ─────────────────────────────────────────────────────────────────────────────────────

TIME = {
    "W1": {
        "weekday": {0: [2, 14], 1: [1, 5], 2: [1, 2], 6: [1, 5]},
        "hour": {3: [1, 5], 17: [1, 8], 18: [1, 6], 20: [1, 2], 23: [1, 5]},
        "user_weekday": {0: [3, 19], 1: [1, 5], 3: [1, 2]},
        "user_weekday_hour": {0: [1, 5], 1: [1, 2], 8: [1, 5], 9: [1, 8], 19: [1, 6]},
    },
    "W2": {
        "weekday": {0: [2, 12], 1: [1, 5], 2: [1, 9], 3: [1, 2], 5: [1, 2], 6: [2, 10]},
        "hour": {
            0: [1, 5],
            4: [1, 5],
            9: [1, 5],
            15: [1, 2],
            16: [2, 12],
            22: [1, 9],
            23: [1, 2],
        },
        "user_weekday": {0: [2, 12], 1: [1, 5], 2: [1, 9], 3: [1, 2], 6: [3, 12]},
        "user_weekday_hour": {8: [1, 2], 9: [2, 14], 15: [1, 9], 17: [1, 3]},
    },
}
SHARES = {
    "W1": {0: 16.6667, 1: 16.6667, 8: 16.6667, 19: 16.6667, 9: 33.3333},
    "W2": {8: 11.1111, 9: 44.4444, 15: 11.1111, 17: 33.3333},
}
PERIODS = {"W1": (33.3333, 50.0, 16.6667), "W2": (0, 66.6667, 33.3333)}
TIMEZONES = {
    "W1": {
        "Europe/Berlin": ([2, 11], B),
        "America/Los_Angeles": ([1, 8], A),
        "Asia/Kolkata": ([2, 7], C),
    },
    "W2": {
        "America/Los_Angeles": ([3, 20], A),
        "Europe/Berlin": ([3, 10], B),
        "Asia/Kolkata": ([2, 10], C),
    },
}


@pytest.mark.parametrize("week", WEEKS)
def test_time(documents: dict[str, Document], week: str) -> None:
    document = documents[week]
    for name, shorthand in TIME[week].items():
        assert document[name] == hours(shorthand), name
    shares = {str(hour): SHARES[week].get(hour, 0) for hour in range(24)}
    assert document["weekday_activity_percentage"] == near(shares)
    periods = dict(zip("012", PERIODS[week], strict=True))
    assert document["weekday_activity_percentage_periods"] == near(periods)
    assert document["weekday_actity_percentage_periods"] == near(periods)


@pytest.mark.parametrize("week", WEEKS)
def test_timezones(documents: dict[str, Document], week: str) -> None:
    document, expected = documents[week], TIMEZONES[week]
    assert list(document["timezone"].items()) == [(tz, pair) for tz, (pair, _) in expected.items()]
    assert document["posters_per_timezone"] == {tz: {uid: 1} for tz, (_, uid) in expected.items()}


def test_days_as_compared(w2: Document) -> None:
    days = w2["compared"]["user_weekday"]

    def block(day: str) -> str:
        words, messages = days[day]["words"], days[day]["messages"]
        return f"{slack_text(words, 'word')} in {slack_text(messages, 'message')}"

    assert [block(day) for day in "0123456"] == [
        "*12* (-37%):red_arrow_down: words in *2* (-33%):red_arrow_down: messages",
        "*5* words in *1* message",
        "*9* :infinity: words in *1* :infinity: message",
        "*2* words in *1* message",
        "*0* words in *0* messages",
        "*0* words in *0* messages",
        "*12* :infinity: words in *3* :infinity: messages",
    ]


# ── 8.7 reactions, replies ───────────────────────────────────────────────────────────────────────


def test_reactions(w1: Document, w2: Document) -> None:
    assert list(w1["reaction"].items()) == [("wave", 2), ("+1::skin-tone-2", 1), ("tada", 1)]
    assert list(w2["reaction"].items()) == [("eyes", 2), ("tada", 2), ("+1", 1), ("rocket", 1)]
    rounded = {name: round(rate, 2) for name, rate in w1["emoji_rate"].items()}
    assert rounded == {"wave": 76.92, "+1::skin-tone-2": 38.46, "tada": 38.46}
    assert w2["emoji_rate"] == {"eyes": 50.0, "tada": 50.0, "+1": 25.0, "rocket": 25.0}


def test_most_reacted_and_most_replied_messages(w1: Document, w2: Document) -> None:
    head1, head2 = "1709573400.000300", "1710172800.000900"
    assert w1["reaction_count"] == [
        [3, head1, CGEN, A, head1],
        [1, "1709608500.000500", CDEV, C, None],
    ]
    assert w2["reaction_count"] == [
        [3, "1710630900.001500", CDEV, B, None],
        [2, head2, CGEN, A, head2],
        [1, "1710174000.001000", CGEN, B, head2],
    ]
    assert w1["reply_count"] == [[3, head1, CGEN, A, head1]]
    assert w2["reply_count"] == [[3, head2, CGEN, A, head2]]


# ── 8.8 people ───────────────────────────────────────────────────────────────────────────────────

PEOPLE = {
    "reactions_from": ("B2 C1", "", "A1", "B1 C1", "A2 C2", ""),
    "reacted_to": ("C1", "A2", "A1", "B2", "A1", "B2 A1"),
    "reactions_combined": ("B2 C2", "A2", "A2", "B3 C1", "A3 C2", "B2 A1"),
    "you_mentioned": ("", "A1", "", "C2 B1", "", "B1"),
    "mentioned_you": ("B1", "", "", "", "A1 C1", "A2"),
    "mentions_combined": ("B1", "A1", "", "C2 B1", "A1 C1", "A2 B1"),
    "author_thread_responded": ("", "A1", "A1", "", "A2", "A1"),
    "thread_responders": ("B1 C1", "", "", "B2 C1", "", ""),
    "threads_combined": ("B1 C1", "A1", "A1", "B2 C1", "A2", "A1"),
}
POPULARITY: tuple[dict[str, int], ...] = (
    {"wave": 2, "+1::skin-tone-2": 1},
    {},
    {"tada": 1},
    {"eyes": 2},
    {"tada": 2, "+1": 1, "rocket": 1},
    {},
)


def shorthand(counts: dict[str, int]) -> str:
    return " ".join(f"{uid[1]}{number}" for uid, number in counts.items())


@pytest.mark.parametrize("group", PEOPLE)
def test_people(w1: Document, w2: Document, group: str) -> None:
    found = [
        shorthand(document["enriched_user"][uid][group])
        for document, uid in itertools.product((w1, w2), (A, B, C))
    ]
    assert found == list(PEOPLE[group])


def test_received_emoji(w1: Document, w2: Document) -> None:
    found = [
        document["enriched_user"][uid] for document, uid in itertools.product((w1, w2), (A, B, C))
    ]
    assert [list(of["reaction_popularity"].items()) for of in found] == [
        list(popularity.items()) for popularity in POPULARITY
    ]
    assert [of["reaction_count"] for of in found] == [3, 0, 1, 2, 4, 0]


def test_people_as_compared(w2: Document) -> None:
    group = w2["compared"]["users"][A]["people"]["reactions_from"]
    assert slack_text(group["total"]) == "*2* (-33%):red_arrow_down:"
    assert slack_text(group["people"]) == "*2*"


def test_own_most_reacted_and_most_replied_messages(w2: Document) -> None:
    alice, bob = w2["enriched_user"][A], w2["enriched_user"][B]
    head = "1710172800.000900"
    assert alice["reactions"] == [[2, head, CGEN, A, head]]
    assert alice["replies"] == [[3, head, CGEN, A, head]]
    assert [entry[:2] for entry in bob["reactions"]] == [
        [3, "1710630900.001500"],
        [1, "1710174000.001000"],
    ]


# ── 8.9 new statistics ───────────────────────────────────────────────────────────────────────────


def test_threads_and_first_replies(w1: Document, w2: Document) -> None:
    first, second = w1["new_statistics"], w2["new_statistics"]
    assert (first["threads_started"], first["thread_share"]) == (1, 0.4)
    assert (second["threads_started"], second["thread_share"]) == (1, 0.5)
    assert first["first_reply"] == {"count": 1, "median": 2100, "p90": 2100}
    assert second["first_reply"] == {"count": 1, "median": 1200, "p90": 1200}
    assert (first["unanswered"], first["top_level"]) == (1, 3)
    assert (second["unanswered"], second["top_level"]) == (2, 4)


def test_evenness_and_daily_posters(w1: Document, w2: Document) -> None:
    first, second = w1["new_statistics"], w2["new_statistics"]
    assert first["gini_of_words"] == pytest.approx(0.102564, abs=1e-6)
    assert second["gini_of_words"] == pytest.approx(0.166667, abs=1e-6)
    assert list(first["daily_posters"].values()) == [1, 2, 1, 1, 0, 0, 0]
    assert list(second["daily_posters"].values()) == [2, 2, 1, 1, 1, 0, 1]
    assert next(iter(second["daily_posters"])) == "2024-03-10"
    assert first["daily_posters_mean"] == pytest.approx(0.714286, abs=1e-6)
    assert second["daily_posters_mean"] == pytest.approx(1.142857, abs=1e-6)


def test_retention(w1: Document, w2: Document) -> None:
    assert w1["new_statistics"]["retention"]["rate"] is None
    assert w2["new_statistics"]["retention"] == {
        "rate": 100.0,
        "both": 3,
        "new": 0,
        "returning": 0,
        "lapsed": 0,
    }


def test_edges(w1: Document, w2: Document) -> None:
    assert w1["new_statistics"]["edges"] == {B: {A: 4}, C: {A: 2}, A: {C: 1}}
    assert w2["new_statistics"]["edges"] == {A: {B: 3, C: 2}, B: {A: 3}, C: {B: 3, A: 2}}


# ── 8.10 further checks ──────────────────────────────────────────────────────────────────────────


async def test_a_silent_week_is_all_zero(example: House) -> None:
    period = Period(date(2024, 5, 5), 7, UTC)
    document: Document = decoded(await example.report(period, Options()))
    statistics = document["statistics"]
    known = {"active_users", "all_users"}
    assert {
        value
        for name, value in statistics.items()
        if isinstance(value, int | float) and name not in known
    } == {0}
    assert statistics["50percent users for words"] == []
    assert set(document["weekday_activity_percentage"].values()) == {0.0}
    assert document["users"] == document["channels"] == document["reaction"] == {}


def test_member_changes() -> None:
    w1, w2 = (Period(start, 7, UTC) for start in WEEKS.values())
    at = {
        name: int(Period(date.fromisoformat(name), 1, UTC).begin)
        for name in ("2024-03-03", "2024-03-08", "2024-03-09", "2024-03-16")
    }
    assert Members((), ((at["2024-03-09"], 3), (at["2024-03-16"], 3))).at_ends(w2) == (3, 3)
    samples = (
        (at["2024-03-03"] + 3600, 11),
        (at["2024-03-08"] + 23 * 3600, 14),
        (at["2024-03-09"] + 2 * 3600, 15),
    )
    assert Members((), samples).at_ends(w1) == (11, 15)


async def test_the_report_has_a_time_zone_of_its_own(example: House) -> None:
    zone = ZoneInfo("America/Los_Angeles")
    found = []
    for start in WEEKS.values():
        document = decoded(await example.report(Period(start, 7, zone), Options()))
        found.append((document["statistics"]["messages"], document["statistics"]["words"]))
    assert found == [(6, 31), (7, 35)]
