"""The pages of one person and of one channel."""

import pytest

from channelstats.pages.loading import DashboardData, Members
from channelstats.pages.model import PROFILES, Choice, ChoiceError
from channelstats.pages.views import view_of
from channelstats.tables.columns import IS_REPLY
from support.channelstats.pages import (
    Looked,
    channels_of,
    data_of,
    everything,
    look,
    people_of,
    random_workspace,
)
from support.channelstats.said import WEEK
from support.channelstats.workspace import Raw

DAY = 24 * 60


def at(minute: int) -> str:
    return f"{WEEK.begin + 60 * minute}.000000"


def said(minute: int, user: str, **more: object) -> Raw:
    return {"type": "message", "user": user, "ts": at(minute), "text": "a b c", **more}


def reply(minute: int, user: str, head: int, of: str) -> Raw:
    return said(minute, user, thread_ts=at(head), parent_user_id=of)


def workspace(**messages: list[Raw]) -> DashboardData:
    return data_of(messages)


def steps(data: DashboardData, person: str) -> dict[str, tuple[str, str]]:
    """When and where each step of a person was."""
    rows = look("person", data, person=person).rows("seen")
    return {row["step"]: (row["date"], row["channel"]) for row in rows}


def test_a_person_is_told_from_joining_to_writing_regularly() -> None:
    data = workspace(
        C1=[
            said(-22 * DAY, "UA", subtype="channel_join"),
            said(-21 * DAY, "UA", thread_ts=at(-21 * DAY)),
            reply(-20 * DAY, "UA", -21 * DAY, "UA"),
            reply(-19 * DAY, "UB", -21 * DAY, "UA"),
            reply(-18 * DAY, "UB", -21 * DAY, "UA"),
        ],
        C2=[said(-8 * DAY, "UA"), said(2 * DAY, "UA"), said(3 * DAY, "UA"), said(8 * DAY, "UA")],
    )
    assert steps(data, "UA") == {
        "Joined": ("2024-02-17", "C1"),
        "First message": ("2024-02-18", "C1"),
        "First reply by others": ("2024-02-20", "C1"),
        "Writes regularly": ("2024-03-12", "C2"),
        "Last message": ("2024-03-13", "C2"),  # what came after the period is not there yet
    }
    (last,) = (r for r in look("person", data, person="UA").rows("seen") if r["step"][:4] == "Last")
    assert last["message"] == f"C2/{at(3 * DAY)}/"


def test_a_step_that_was_not_reached_is_not_told() -> None:
    data = workspace(C1=[said(1, "UA"), said(2, "UB", subtype="channel_join")])
    assert set(steps(data, "UA")) == {"First message", "Last message"}
    assert set(steps(data, "UB")) == {"Joined"}
    assert steps(data, "UNOBODY") == {}


def test_joining_another_channel_later_is_not_joining() -> None:
    data = workspace(C1=[said(1, "UA"), said(2, "UA", subtype="channel_join")])
    assert "Joined" not in steps(data, "UA")


def test_what_a_person_gives_is_what_the_others_get(data: DashboardData) -> None:
    people = [look("person", data, person=uid) for uid in people_of(data)]
    given = sum(of.number("answers_given") or 0 for of in people)
    received = sum(of.number("answers") or 0 for of in people)
    assert given == received == data.whole.now.table("replies").height


def test_a_persons_page_agrees_with_the_views_of_that_person(data: DashboardData) -> None:
    for uid in people_of(data)[:4]:
        page, overview = look("person", data, person=uid), look("overview", data, person=uid)
        shared = set(page.tiles) & set(overview.tiles)
        assert {"messages", "words", "reactions", "answers"} <= shared
        for name in shared - {"unanswered"}:  # a share there
            assert page.tiles[name] == overview.tiles[name]
        assert page.number("people") == look("network", data, person=uid).number("people")
        assert page.rows("channels") == look("channels", data, person=uid).rows("channels")


def test_who_carries_a_channel_is_ranked_and_adds_up(data: DashboardData) -> None:
    for cid in channels_of(data):
        found = look("channel", data, cid)
        rows = found.rows("carriers")
        assert len(rows) == found.number("posters")
        assert sum(row["messages"] for row in rows) == found.number("messages")
        sizes = [row["messages"] for row in rows]
        assert sizes == sorted(sizes, reverse=True)
        if rows:
            assert rows[-1]["cumulative"] == pytest.approx(100)
            half = rows[int(found.number("half") or 0) - 1]
            assert half["cumulative"] >= 50 - 1e-9
        replies = data.scope(everything(data, cid)).now.messages.filter(IS_REPLY).height
        assert sum(row["answers_given"] for row in rows) <= replies


def compared(data: DashboardData, channel: str, *others: str) -> Looked:
    choice = Choice(data.period.start, data.period.last, channel, compare=others)
    return Looked(view_of("channel", data, choice))


def test_a_channel_is_compared_with_others_in_one_chart() -> None:
    data = random_workspace(100, 60)
    first, *others = channels_of(data)[:3]
    assert others
    found = compared(data, first, *others)
    series = found.series("messages")
    assert list(series) == [first, *others]
    rows = found.rows("messages")
    for cid in (first, *others):
        alone = look("channel", data, cid)
        assert series[cid] == alone.series("messages")["now"]
        assert tuple(row["messages"] for row in rows if row["channel"] == cid) == series[cid]
        row = found.by("compared", "channel")[cid]
        for name in ("posters", "messages", "unanswered", "first_reply", "unanswered_share"):
            assert row[name] == alone.number(name)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_of_somebody_or_something(name: str, data: DashboardData) -> None:
    with pytest.raises(ChoiceError, match=f"{name}: expected a name or an ID"):
        look(name, data)


def test_a_channel_too_small_to_be_shown_is_not_compared_either() -> None:
    data = workspace(C1=[said(n, f"U{name}") for n, name in enumerate("ABC")], C2=[said(9, "UA")])
    choice = Choice(WEEK.start, WEEK.last, "C1", compare=("C2",))
    with pytest.raises(ChoiceError, match="fewer than 3 people posted in this channel"):
        view_of("channel", data, choice, smallest_group=3)
    assert look("channel", data, "C1", smallest_group=3).number("posters") == 3


def test_who_only_got_replies_is_no_row_of_the_people_who_posted() -> None:
    head, answer = said(-DAY, "UOLD"), reply(5, "UA", -DAY, "UOLD")
    shown = look("people", workspace(C1=[head, answer]))
    assert [row["person"] for row in shown.rows("people")] == ["UA"]
    assert shown.rows("only_answered") == [{"person": "UOLD", "answers": 1, "reactions_given": 0}]
    assert "only_answered" not in look("people", workspace(C1=[said(5, "UA")])).tables


def test_members_of_a_channel_are_compared_with_the_beginning() -> None:
    data = random_workspace(100, 60)
    channel, period = channels_of(data)[0], data.period
    samples = ((period.begin - 1, 8), (period.begin + 60, 9), (period.end - 1, 10))
    tile = look("channel", data, channel, members=Members((), samples)).tiles["members"]
    assert tile.change is not None
    assert tile.change["cur"] == 10
    later = Members((), ((period.end, 10),))
    assert "members" not in look("channel", data, channel, members=later).tiles
