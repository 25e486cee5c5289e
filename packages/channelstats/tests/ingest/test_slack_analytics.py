"""Files of Slack's own analytics: what is read of them, and what is stored."""

import gzip
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import orjson
import pytest

from channelstats.ingest.slack_analytics import (
    AnalyticsFile,
    MalformedAnalytics,
    StoredAnalytics,
    read_analytics,
    store_analytics,
)
from channelstats.tables.exclusion import Exclusions, forget_person, remove_before
from channelstats.tables.slack_analytics import DateSpan, Subject
from support.channelstats.house import House, house

MEMBERS, CHANNELS = Subject.MEMBERS, Subject.CHANNELS
DAY = date(2024, 3, 10)
WEEK = DateSpan(DAY, date(2024, 3, 16))
MEMBERS_CSV = (
    'Name,What I Do,User ID,Email,"Days active","Messages posted",Messages posted in channels\n'
    'Alice,"Sales, mostly",UALICE,alice@example.org,5,"1,200",40\n'
    "Bob,,UBOB,bob@example.org,3,0,0\n"
    "Cara,,UCARA,cara@example.org,0,0,0\n"
)
CHANNELS_CSV = (
    "Name,Created,Total membership,Messages posted,Members who viewed,Members who posted\n"
    "general,2024-01-01,12,30,11,4\n#dev,2024-01-01,5,8,5,2\nsecret,2024-01-01,3,9,3,1\n"
)


def member(uid: str, **more: Any) -> dict[str, Any]:
    return {
        "enterprise_id": "E1",
        "date": "2024-03-10",
        "user_id": uid,
        "email_address": f"{uid}@example.org",
        "is_active": True,
        "messages_posted_count": 7,
        "channel_messages_posted_count": 4,
        **more,
    }


def channel(cid: str, **more: Any) -> dict[str, Any]:
    return {
        "date": "2024-03-10",
        "channel_id": cid,
        "members_who_viewed_count": 20,
        "members_who_posted_count": 3,
        "messages_posted_count": 9,
        **more,
    }


def lines(*rows: Mapping[str, Any]) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


def read(
    folder: Path, data: bytes | str, name: str = "file", span: DateSpan | None = None
) -> AnalyticsFile:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_analytics(path, span)


async def stored(opened: House) -> dict[str, str]:
    """The texts of Slack's analytics in BulkStore."""
    rows = await opened.items("BulkStore")
    return {name: str(row.get("value", "")) for name, row in rows.items() if name[0] == "s"}


# ── what is read ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_daily_file_is_read_packed_or_not(tmp_path: Path, pack: Any) -> None:
    rows = lines(member("U1"), member("U2", is_active=False, date="2024-03-11"), channel("C1"))
    next_day = date(2024, 3, 11)
    found = read(tmp_path, pack(rows))
    assert found == AnalyticsFile(
        {
            (MEMBERS, DateSpan(DAY, DAY)): {"U1": (1, 7, 4)},
            (MEMBERS, DateSpan(next_day, next_day)): {"U2": (0, 7, 4)},
            (CHANNELS, DateSpan(DAY, DAY)): {"C1": (20, 9)},
        },
        [],
    )


@pytest.mark.parametrize(
    "data",
    [
        MEMBERS_CSV.encode(),
        b"\xef\xbb\xbf" + MEMBERS_CSV.encode(),
        MEMBERS_CSV.encode("utf-16"),
        b"sep=,\n" + MEMBERS_CSV.replace("\n", "\r\n").encode(),
    ],
)
def test_a_list_of_members_is_read_by_the_names_of_its_columns(tmp_path: Path, data: bytes) -> None:
    counts = {"UALICE": (5, 1200, 40), "UBOB": (3, 0, 0), "UCARA": (0, 0, 0)}
    assert read(tmp_path, data, span=WEEK) == AnalyticsFile({(MEMBERS, WEEK): counts}, [])


def test_a_list_of_channels_has_names(tmp_path: Path) -> None:
    counts = {"general": (11, 30), "dev": (5, 8), "secret": (3, 9)}
    found = read(tmp_path, CHANNELS_CSV, span=WEEK)
    assert found == AnalyticsFile({(CHANNELS, WEEK): counts}, [])


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("Acme Member Analytics Prior 30 Days - Mar 30, 2024.csv", "2024-03-01", "2024-03-30"),
        ("Acme Member Analytics Mar 10, 2024 - Mar 16, 2024 (1).csv", "2024-03-10", "2024-03-16"),
        ("Acme_Member_Analytics_Prior_7_Days_-_March_16__2024.csv", "2024-03-10", "2024-03-16"),
    ],
)
def test_the_name_of_an_export_says_its_days(
    tmp_path: Path, name: str, first: str, last: str
) -> None:
    [(_, span)] = read(tmp_path, MEMBERS_CSV, name).counts
    assert str(span) == f"{first}/{last}"


@pytest.mark.parametrize(
    "name",
    [
        "members.csv",
        "Acme Member Analytics All time - Aug 16, 2023.csv",
        "Acme Member Analytics Mar 16, 2024 - Mar 10, 2024.csv",
        "Acme Member Analytics Mar 10, 2020 - Mar 10, 2024.csv",
        "Acme Member Analytics Prior 30 Days - Mar 32, 2024.csv",
    ],
)
def test_days_that_a_name_does_not_say_have_to_be_given(tmp_path: Path, name: str) -> None:
    with pytest.raises(MalformedAnalytics, match="give them by --from and --to"):
        read(tmp_path, MEMBERS_CSV, name)
    assert read(tmp_path, MEMBERS_CSV, name, WEEK).counts.keys() == {(MEMBERS, WEEK)}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("Name,Email\nAnn,a@b\n", "expected the column 'Days active' (members) or 'Members who"),
        ("Name,Days active\nAnn,3\n", "the column 'User ID' is missing"),
        ("Members who viewed\n3\n", "the column 'Channel ID' or 'Name' is missing"),
        ("User ID,Days active\n", "no line can be used: there is nothing in it"),
        ("User ID,Days active\nann,3\n", "no line can be used: User ID: expected an ID"),
        ("", "not a file of Slack's analytics"),
        (b"PK\x03\x04\x00\xff\x00", "not a file of Slack's analytics"),
        (gzip.compress(b"{}" * 999)[:-9], "the file is not whole"),
        (lines({"channel_id": "C1", "name": "dev", "date": "2024-03-10"}), "members_who_viewed"),
        (lines({"ok": False, "error": "not_an_admin"}), "expected the field user_id or channel_id"),
    ],
)
def test_a_wrong_file_gets_one_clear_line(tmp_path: Path, data: bytes | str, said: str) -> None:
    with pytest.raises(MalformedAnalytics) as caught:
        read(tmp_path, data, "a.csv", WEEK)
    assert str(caught.value).startswith("a.csv: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_line_that_is_not_understood_is_named_and_costs_itself(tmp_path: Path) -> None:
    rows = lines(
        member("U1"),
        member("ann@example.org"),
        member("U2", date="soon"),
        member("U3", is_active="yes"),
        {"team_id": "T1"},
    )
    found = read(tmp_path, rows + b"[1]\n{\n")
    assert found.counts == {(MEMBERS, DateSpan(DAY, DAY)): {"U1": (1, 7, 4)}}
    assert [str(problem) for problem in found.problems] == [
        "file line 2: user_id: expected an ID",
        "file line 3: date: expected a date like 2024-03-10",
        "file line 4: is_active: expected a count",
        "file line 5: expected the field user_id or channel_id",
        "file lines 6, 7: expected a JSON object",
    ]
    table = "User ID,Days active\nU1,3\nU2,many\n\nann,1\n"
    assert [str(problem) for problem in read(tmp_path, table, "a", WEEK).problems] == [
        "a line 3: Days active: expected a count",
        "a line 5: User ID: expected an ID like U012ABCDEF",
    ]


# ── what is stored ───────────────────────────────────────────────────────────────────────────────


async def test_ids_and_counts_are_stored_and_no_names(example: House, tmp_path: Path) -> None:
    for data in (MEMBERS_CSV, CHANNELS_CSV):
        await store_analytics(example.tables, read(tmp_path, data, span=WEEK), Exclusions())
    assert await stored(example) == {
        "slack members 20240310/20240316": "UALICE,5,1200,40\nUBOB,3,0,0\n",
        "slack channels 20240310/20240316": "CDEV,5,8\nCGEN,11,30\n",
    }
    everything = str(await example.everything())
    assert "alice@example.org" not in everything
    assert "Sales" not in everything


async def test_the_same_file_again_changes_nothing(example: House, tmp_path: Path) -> None:
    found = read(tmp_path, lines(member("U1"), channel("CDEV")))
    out = Exclusions()
    assert await store_analytics(example.tables, found, out) == StoredAnalytics(1, 1, 2)
    before = await example.everything()
    version = await example.tables.slack_analytics.version()
    assert await store_analytics(example.tables, found, out) == StoredAnalytics(1, 1, 0)
    assert await example.everything() == before
    assert await example.tables.slack_analytics.version() == version
    later = read(tmp_path, lines(member("U1", messages_posted_count=8)))
    assert await store_analytics(example.tables, later, out) == StoredAnalytics(1, 0, 1)
    assert await example.tables.slack_analytics.version() != version


async def test_those_left_out_reach_no_table(example: House, tmp_path: Path) -> None:
    found = read(tmp_path, lines(member("U1"), member("U2"), channel("CDEV"), channel("C9")))
    done = await store_analytics(example.tables, found, Exclusions({"U1"}), {"#dev"})
    assert done == StoredAnalytics(1, 1, 2)
    assert sorted((await stored(example)).values()) == ["C9,20,9\n", "U2,1,7,4\n"]


async def test_channels_of_unknown_names_are_counted_and_left_out(tmp_path: Path) -> None:
    async with house(tmp_path) as opened:
        found = read(tmp_path, CHANNELS_CSV, span=WEEK)
        done = await store_analytics(opened.tables, found, Exclusions())
        assert done.unknown == 3
        assert done.channels == 0


async def test_who_is_forgotten_leaves_the_counts(tmp_path: Path) -> None:
    async with house(tmp_path) as opened:
        found = read(tmp_path, lines(member("U1"), member("U12")))
        await store_analytics(opened.tables, found, Exclusions())
        version = await opened.tables.slack_analytics.version()
        async for _ in forget_person(opened.tables, "U1"):
            pass
        assert set((await stored(opened)).values()) == {"U12,1,7,4\n"}
        assert await opened.tables.slack_analytics.version() != version


async def test_counts_go_when_messages_of_their_days_do(tmp_path: Path) -> None:
    async with house(tmp_path) as opened:
        for span in (WEEK, DateSpan(DAY, DAY)):
            await opened.tables.slack_analytics.put(MEMBERS, span, {"U1": (1, 2, 3)})
        async for _ in remove_before(opened.tables, date(2024, 3, 12)):
            pass
        assert await opened.tables.slack_analytics.spans(MEMBERS) == [WEEK]
        assert list(await stored(opened)) == ["slack members 20240310/20240316"]
