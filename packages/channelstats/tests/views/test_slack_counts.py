"""Slack's own counts in the views, beside those of the worked example.

W2 is 2024-03-10 to 16; in it three people post eight messages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta

from channelstats.privacy import Pseudonyms
from channelstats.stats import Options
from channelstats.tables.slack_analytics import DateSpan, Subject
from channelstats.views.loading import DashboardData, load
from channelstats.views.model import Choice, Kind
from support.channelstats.house import COMPAT, House
from support.channelstats.views import look

MEMBERS, CHANNELS = Subject.MEMBERS, Subject.CHANNELS
FIRST = date(2024, 3, 10)
W2 = Choice(FIRST, date(2024, 3, 16))
OPTIONS = Options(COMPAT)

NEW = {"slack_members", "viewers"}

Counts = Mapping[str, Sequence[int | None]]


def days(first: int, last: int) -> DateSpan:
    return DateSpan(FIRST + timedelta(first), FIRST + timedelta(last))


async def loaded(
    example: House,
    *stored: tuple[Subject, DateSpan, Counts],
    options: Options = OPTIONS,
    names: Pseudonyms | None = None,
) -> DashboardData:
    for subject, span, counts in stored:
        await example.tables.slack_analytics.put(subject, span, counts)
    return await load(example.tables, W2, options, names=names)


WEEK: Counts = {"UALICE": (5, 30, 20), "UBOB": (2, 0, 0), "U9": (0, 4, 4)}


async def test_people_have_the_active_members_and_what_slack_counts(example: House) -> None:
    before = days(-7, -1), {"UALICE": (1, 1, 1)}
    people = look("people", await loaded(example, (MEMBERS, days(0, 6), WEEK), (MEMBERS, *before)))
    tile = people.tiles["slack_active"]
    assert tile.title == "Active members (Slack)"
    assert tile.change == {"cur": 2, "prev": 1, "diff_pct": 100.0, "state": "up"}
    assert people.tables["slack_members"].rows.rows() == [
        ("Active members, reading included", 2, None),
        ("Members who posted", 2, 3),
        ("Messages", 34, 8),
        ("Messages in channels", 24, None),
    ]
    assert any("UTC" in note for note in people.view.notes)


async def test_a_member_of_several_spans_is_one_member(example: House) -> None:
    daily = [(MEMBERS, days(n, n), {"UALICE": (1, 2, 1), f"U{n % 2}": (1, 0, 0)}) for n in range(7)]
    people = look("people", await loaded(example, *daily))
    assert people.number("slack_active") == 3
    assert people.by("slack_members", "figure")["Messages"]["slack"] == 14
    assert people.by("slack_members", "figure")["Members who posted"]["slack"] == 1


async def test_counts_that_no_file_had_are_not_shown_as_zero(example: House) -> None:
    week: Counts = {"UALICE": (3, None, None)}
    people = look("people", await loaded(example, (MEMBERS, days(0, 6), week)))
    assert people.tables["slack_members"].rows["slack"].to_list() == [1, None, None, None]


async def test_a_period_that_is_not_covered_whole_has_no_counts_and_says_which_has(
    example: House,
) -> None:
    found = await loaded(
        example,
        (MEMBERS, days(1, 3), WEEK),
        (MEMBERS, days(4, 6), WEEK),
        (CHANNELS, days(-9, 20), {"CDEV": (3, 1)}),
        (CHANNELS, days(30, 36), {"CDEV": (3, 1)}),
    )
    people, channels = look("people", found), look("channels", found)
    assert "slack_active" not in people.tiles
    assert "slack_members" not in people.tables
    assert people.view.notes == (
        (
            "Slack's own analytics of members are stored from 2024-03-11 to 2024-03-16: "
            "choose these days to see them."
        ),
    )
    assert "viewers" not in channels.tables
    assert "from 2024-03-01 to 2024-03-30" in channels.view.notes[0]


async def test_without_any_counts_nothing_is_said_of_them(example: House) -> None:
    found = await loaded(example, (MEMBERS, days(10, 16), WEEK))
    for name in ("people", "channels"):
        view = look(name, found).view
        assert not view.notes
        assert not [table for table in view.tables if "slack" in table.name]


async def test_channels_have_their_viewers_the_most_first(example: House) -> None:
    week: Counts = {"CDEV": (4, 9), "CGEN": (11, 30), "CUNKNOWN": (50, 1)}
    found = await loaded(example, (CHANNELS, days(0, 6), week))
    table = look("channels", found).tables["viewers"]
    assert table.columns[1].title == "Members who viewed"
    frame = found.whole.now.channel_frame
    here = {
        cid: (posters, m)
        for cid, posters, m in frame.select("slack_cid", "posters", "m").iter_rows()
    }
    assert table.rows.rows() == [
        ("CGEN", 11, here["CGEN"][0], 30, here["CGEN"][1]),
        ("CDEV", 4, here["CDEV"][0], 9, here["CDEV"][1]),
    ]


async def test_viewers_of_several_spans_are_at_least_the_most_of_one(example: House) -> None:
    spans = [(CHANNELS, days(n, n), {"CDEV": (n + 1, 2)}) for n in range(7)]
    table = look("channels", await loaded(example, *spans)).tables["viewers"]
    assert table.columns[1].title == "Members who viewed (at least)"
    assert table.rows.select("viewers", "slack_messages").rows() == [(7, 14)]


async def test_those_excluded_and_small_channels_are_in_no_count(example: House) -> None:
    week: Counts = {"CDEV": (4, 9), "CGEN": (11, 30)}
    hidden = replace(
        OPTIONS,
        excluded_users=frozenset({"UALICE"}),
        excluded_channels=frozenset({"dev"}),
    )
    found = await loaded(
        example, (MEMBERS, days(0, 6), WEEK), (CHANNELS, days(0, 6), week), options=hidden
    )
    assert look("people", found).number("slack_active") == 1
    assert look("channels", found).by("viewers", "channel").keys() == {"CGEN"}
    assert not look("channels", found, smallest_group=9).rows("viewers")


async def test_with_a_channel_or_a_person_chosen_there_are_no_counts_of_all(
    example: House,
) -> None:
    found = await loaded(example, (MEMBERS, days(0, 6), WEEK))
    for chosen in (look("people", found, person="UBOB"), look("people", found, channel="CDEV")):
        assert "slack_active" not in chosen.tiles
        assert not chosen.view.notes


async def test_under_pseudonyms_channels_have_theirs(example: House) -> None:
    names = Pseudonyms(b"0123456789abcdef")
    week = (CHANNELS, days(0, 6), {"CDEV": (4, 9)})
    found = await loaded(example, week, names=names)
    [row] = look("channels", found).rows("viewers")
    assert row["channel"] == names.identifier("CDEV")


async def test_titles_are_explained(example: House) -> None:
    channels = [(CHANNELS, days(n, n), {"CDEV": (4, 9)}) for n in range(7)]
    daily = await loaded(example, (MEMBERS, days(0, 6), WEEK), *channels)
    weekly = await loaded(example, (CHANNELS, days(0, 6), {"CDEV": (4, 9)}))
    for view in (look("people", daily), look("channels", daily), look("channels", weekly)):
        slack = [table for name, table in view.tables.items() if name in NEW]
        assert slack
        numbers = [of for table in slack for of in table.columns if of.kind is Kind.COUNT]
        assert all(of.about for of in numbers)
        assert all(tile.about for tile in view.tiles.values())
