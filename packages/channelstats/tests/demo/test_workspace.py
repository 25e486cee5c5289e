"""A made-up workspace: as large as asked for, the same each time, lifelike, in Slack's form."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any
from zipfile import ZipFile

import pytest

from channelstats.demo.workspace import Size, last_day_before, write_export
from channelstats.ingest.export_import import ImportOptions
from support.channelstats.house import NOW, House
from support.soak import slow_after

LAST = date(2024, 3, 20)
SIZE = Size(people=80, channels=24, messages=6_000, days=56)
SMALL = Size(people=20, channels=6, messages=500, days=30)

Raw = dict[str, Any]


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "export.zip"
    write_export(path, SIZE, last_day=LAST, seed=7)
    return path


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Callable[[date, int], Path]:
    """Writes an export of the usual size with a last day and a seed, each of them once."""
    folder = tmp_path_factory.mktemp("usual")

    @cache
    def write(last_day: date, seed: int) -> Path:
        path = folder / f"{last_day} {seed}.zip"
        write_export(path, Size(), last_day=last_day, seed=seed)
        return path

    return write


@pytest.fixture(scope="module")
def users(export: Path) -> dict[str, Raw]:
    with ZipFile(export) as archive:
        return {user["id"]: user for user in json.loads(archive.read("users.json"))}


@pytest.fixture(scope="module")
def messages(export: Path) -> list[Raw]:
    return [message for _, found in _days(export) for message in found]


def _days(export: Path) -> Iterator[tuple[str, list[Raw]]]:
    """The files that a date is the name of."""
    with ZipFile(export) as archive:
        for name in archive.namelist():
            if name.partition("/")[2][:2] == "20":
                yield name, json.loads(archive.read(name))


def _channels(export: Path) -> list[Raw]:
    """The public and the private ones."""
    with ZipFile(export) as archive:
        lists = [json.loads(archive.read(name)) for name in ("channels.json", "groups.json")]
    return [channel for listed in lists for channel in listed]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ── as asked ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "size",
    [
        Size(people=1, channels=1, messages=3, days=1),
        Size(people=3, channels=40, messages=50, days=2),
        Size(people=5, channels=2, messages=0, days=1),
        Size(people=30, channels=700, messages=900, days=400),
        Size(people=3_000, channels=2, messages=10, days=60),
        Size(people=900, channels=60, messages=6_000, days=60),  # few messages, many who come
    ],
)
def test_there_are_exactly_as_many_of_each_as_asked_for(tmp_path: Path, size: Size) -> None:
    path = tmp_path / "x.zip"
    write_export(path, size, last_day=LAST, seed=1)
    with ZipFile(path) as archive:
        users = json.loads(archive.read("users.json"))
    channels = _channels(path)
    assert len({user["id"] for user in users}) == len({user["name"] for user in users})
    assert len({user["id"] for user in users}) == size.people
    assert len({channel["name"] for channel in channels}) == len(channels) == size.channels
    assert len({channel["id"] for channel in channels}) == size.channels
    assert sum(len(found) for _, found in _days(path)) == size.messages


@pytest.mark.parametrize("wrong", [(0, 1, 1, 1), (1, 0, 1, 1), (1, 1, -1, 1), (1, 1, 1, 0)])
def test_a_size_that_cannot_be_is_refused(wrong: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        Size(*wrong)


def test_the_same_seed_makes_the_same_bytes_and_another_one_others(tmp_path: Path) -> None:
    for name, seed in (("one", 7), ("same", 7), ("other", 8)):
        write_export(tmp_path / f"{name}.zip", SMALL, last_day=LAST, seed=seed)
    assert _digest(tmp_path / "same.zip") == _digest(tmp_path / "one.zip")
    assert _digest(tmp_path / "other.zip") != _digest(tmp_path / "one.zip")


def test_a_folder_holds_what_a_zip_holds(tmp_path: Path) -> None:
    for name in ("folder", "export.zip"):
        write_export(tmp_path / name, SMALL, last_day=LAST, seed=7)
    with ZipFile(tmp_path / "export.zip") as archive:
        for name in archive.namelist():
            assert (tmp_path / "folder" / name).read_bytes() == archive.read(name)


def test_progress_ends_with_all_messages(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    size = Size(people=9, channels=3, messages=200, days=5)
    write_export(
        tmp_path / "x.zip", size, last_day=LAST, seed=1, progress=lambda *so: told.append(so)
    )
    assert told == sorted(told)
    assert told[-1] == (200, 200)


def test_a_message_is_in_the_file_of_its_day_and_channel_and_in_the_period(export: Path) -> None:
    seen = set()
    for name, found in _days(export):
        channel, _, file = name.partition("/")
        for message in found:
            at = datetime.fromtimestamp(float(message["ts"]), UTC).date()
            assert f"{at}.json" == file
            assert 0 <= (LAST - at).days < SIZE.days
            seen.add((channel, message["ts"]))
        assert [message["ts"] for message in found] == sorted(message["ts"] for message in found)
    assert len(seen) == SIZE.messages


# ── it imports ───────────────────────────────────────────────────────────────────────────────────


async def test_it_is_imported_without_a_problem(empty: House, export: Path) -> None:
    result = await empty.take_in(export, ImportOptions(include_private=True))
    assert result.problems == 0
    assert datetime(LAST.year, LAST.month, LAST.day, tzinfo=UTC).timestamp() < NOW
    assert (result.channels, result.messages, result.changed) == (24, 6_000, 6_000)
    stored = await empty.items("Message")
    counts = {
        (item["slack_cid"], item["ts"]): item["reply_count"]
        for item in stored.values()
        if item["reply_count"]
    }
    told = {
        message["ts"]: message["reply_count"]
        for _, found in _days(export)
        for message in found
        if "reply_count" in message
    }
    assert {ts: counts[cid, ts] for cid, ts in counts} == told


# ── it is lifelike ───────────────────────────────────────────────────────────────────────────────


def test_people_write_by_day_on_weekdays_a_few_much_and_more_later(
    users: dict[str, Raw], messages: list[Raw]
) -> None:
    written = [
        (user["id"], datetime.fromtimestamp(float(message["ts"]) + user["tz_offset"], UTC))
        for message in messages
        if not message.get("subtype") and (user := users.get(message["user"]))
    ]
    hours, weekdays = (
        Counter(part) for part in zip(*((at.hour, at.weekday()) for _, at in written), strict=True)
    )
    assert sum(hours[hour] for hour in range(1, 6)) * 15 < sum(hours[hour] for hour in range(9, 18))
    assert (weekdays[5] + weekdays[6]) * 2 < sum(weekdays[day] for day in range(5))
    ranked = [number for _, number in Counter(uid for uid, _ in written).most_common()]
    assert sum(ranked[:8]) > sum(ranked) * 0.35
    assert len(ranked) < len(users)
    middle = datetime(LAST.year, LAST.month, LAST.day, tzinfo=UTC) - timedelta(SIZE.days // 2)
    assert sum(at > middle for _, at in written) > len(written) * 0.52


def test_heads_know_their_replies_and_some_questions_have_none(messages: list[Raw]) -> None:
    heads = [message for message in messages if message.get("replies")]
    waits = [float(head["replies"][0]["ts"]) - float(head["ts"]) for head in heads]
    assert 5 * 60 < median(waits) < 90 * 60
    replies = [m for m in messages if m.get("thread_ts", m["ts"]) != m["ts"]]
    assert all(head["reply_count"] == len(head["replies"]) for head in heads)
    assert sum(head["reply_count"] for head in heads) == len(replies)
    assert any(m.get("text", "").endswith("?") and "thread_ts" not in m for m in messages)


def test_whoever_writes_in_a_channel_is_a_member_of_it_and_who_left_is_none(export: Path) -> None:
    channels = {channel["name"]: channel for channel in _channels(export)}
    for name, found in _days(export):
        channel = channels[name.partition("/")[0]]
        if not channel["is_archived"]:
            gone = {m["user"] for m in found if m.get("subtype") == "channel_leave"}
            authors = {m["user"] for m in found if m.get("client_msg_id")}
            assert authors <= set(channel["members"])
            assert gone.isdisjoint(channel["members"])


def test_everything_an_export_may_hold_is_there(
    users: dict[str, Raw], messages: list[Raw], export: Path
) -> None:
    subtypes = {message.get("subtype") for message in messages}
    assert subtypes >= {None, "channel_join", "channel_leave", "bot_message", "thread_broadcast"}
    assert "huddle_thread" in subtypes
    emoji = {reaction["name"] for message in messages for reaction in message.get("reactions", ())}
    assert any("::skin-tone-" in name for name in emoji)
    assert any("<@U" in message.get("text", "") for message in messages)
    assert any("edited" in message for message in messages)
    assert any("files" in message for message in messages)
    assert any(user["is_bot"] for user in users.values())
    assert any(user["deleted"] for user in users.values())
    assert any(user["is_stranger"] for user in users.values())
    assert len({user["tz"] for user in users.values()}) > 12
    channels = _channels(export)
    assert any(channel["is_archived"] for channel in channels)
    names = [*(user["real_name"] for user in users.values()), *(one["name"] for one in channels)]
    assert any(not name.isascii() for name in names)


def test_beside_the_messages_there_is_what_slack_puts_there(export: Path) -> None:
    with ZipFile(export) as archive:
        beside = {name for name in archive.namelist() if "/20" not in name}
        private = json.loads(archive.read("groups.json"))
    lists = {"users", "channels", "groups", "dms", "mpims", "integration_logs"}
    assert beside == {f"{name}.json" for name in lists} | {
        "general/canvas_in_the_conversation.json"
    }
    assert private
    messages = {key for _, found in _days(export) for message in found for key in message}
    assert "permalink" not in messages  # an export has none


# ── there is something to act on ─────────────────────────────────────────────────────────────────


# A Sunday is left out: the last day before it is that of the Saturday.
@pytest.mark.parametrize("weekday", slow_after(1, (3, 0, 2, 4)))
def test_the_last_whole_week_has_newcomers_lapsed_people_silent_channels_and_open_questions(
    weekday: int, usual: Callable[[date, int], Path]
) -> None:
    last_day = last_day_before(date(2024, 3, 18) + timedelta(weekday))
    said = [
        (name.partition("/")[0], message, str(date.fromisoformat(name[-15:-5])))
        for name, found in _days(usual(last_day, 1))
        for message in found
        if not message.get("subtype")
    ]

    def people(rows: list[tuple[str, Raw, str]]) -> set[str]:
        return {message["user"] for _, message, _ in rows}

    for week_start in (0, 6):
        start = last_day - timedelta(7 + (last_day.weekday() - week_start) % 7)
        end = start + timedelta(7)
        assert end <= last_day < end + timedelta(6)  # the week that has begun is not whole
        earlier = [one for one in said if one[2] < str(start)]
        before = [one for one in earlier if one[2] >= str(start - timedelta(7))]
        week = [one for one in said if str(start) <= one[2] < str(end)]
        assert people(week) - people(earlier)
        assert people(before) - people(week)
        assert {name for name, _, _ in before} - {name for name, _, _ in week}
        questions = [message for _, message, _ in week if message["text"].endswith("?")]
        assert any("thread_ts" not in question for question in questions)


def test_it_ends_on_the_last_working_day_before_today() -> None:
    monday = date(2024, 3, 18)
    found = [last_day_before(monday + timedelta(day)).day for day in range(7)]
    assert found == [15, 18, 19, 20, 21, 22, 22]
