"""The dashboard shows what the report of the same days says, in every workspace."""

from typing import Any

import pytest

from channelstats.facts.periods import MOST_SINGLE_DAYS
from channelstats.pages.document import report
from channelstats.pages.loading import DashboardData
from support.channelstats.house import decoded
from support.channelstats.pages import look


def test_tiles_and_what_they_are_compared_with(data: DashboardData, document: Any) -> None:
    compared = document["compared"]["statistics"]
    overview, people, threads = look("overview", data), look("people", data), look("threads", data)
    names = {
        "posters": "posters",
        "messages": "messages",
    }
    for tile, name in names.items():
        assert overview.tiles[tile].change == compared[name]
    first_time = look("newcomers", data).tiles["first_time"]
    assert first_time.change == compared["first-time posters"]
    assert people.tiles["top_ten"].change == compared["topten words"]
    new = document["new_statistics"]
    assert threads.number("threads_started") == new["threads_started"]
    assert overview.number("first_reply") == new["first_reply"]["median"]
    share = 100 * new["unanswered"] / new["top_level"] if new["top_level"] else None
    assert threads.number("unanswered_share") == share


def test_what_is_before_is_the_report_of_the_days_before(data: DashboardData) -> None:
    earlier = decoded(report(data.inputs, data.period.previous, data.options, generated_at=0))
    new: Any = earlier["new_statistics"]
    threads = look("threads", data)
    expected = {
        "threads_started": new["threads_started"],
        "first_reply": new["first_reply"]["median"],
        "first_reply_p90": new["first_reply"]["p90"],
        "unanswered": new["unanswered"],
    }
    for name, figure in expected.items():
        change = threads.tiles[name].change
        assert change is None or change["prev"] == figure
    active = look("newcomers", data)
    for name, figure in (("weekly", new["wau"]), ("monthly", new["mau"])):
        change = active.tiles[name].change
        assert change is not None
        assert change["prev"] == figure


def test_volume_over_time(data: DashboardData, document: Any) -> None:
    volume = look("volume", data)
    statistics = document["statistics"]
    assert sum(row["messages"] for row in volume.rows("volume")) == statistics["messages"]
    assert sum(row["words"] for row in volume.rows("volume")) == statistics["words"]
    if data.period.days <= MOST_SINGLE_DAYS:
        daily = {row["day"]: row["posters"] for row in volume.rows("volume")}
        assert daily == document["new_statistics"]["daily_posters"]


def test_hours_and_weekdays(data: DashboardData, document: Any) -> None:
    hours = look("hours", data)
    pairs = {row["weekday"]: [row["messages"], row["words"]] for row in hours.rows("weekdays")}
    weekdays = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    for number, name in enumerate(weekdays):
        assert pairs[name] == document["user_weekday"].get(str(number), [0, 0])
    workdays = [row for row in hours.rows("week") if row["weekday"] in weekdays[:5]]
    for hour in range(24):
        rows = [row for row in workdays if row["hour"] == f"{hour:02d}:00"]
        pair = [sum(row[size] for row in rows) for size in ("messages", "words")]
        assert pair == document["user_weekday_hour"].get(str(hour), [0, 0])
    by_hour = {row["hour"]: row["messages"] for row in hours.rows("hours")}
    assert sum(by_hour.values()) == sum(messages for messages, _ in pairs.values())
    outside = document["statistics"]["messages"] - sum(by_hour.values())
    assert bool(outside) == bool(hours.view.notes and document["statistics"]["messages"])


def test_channels(data: DashboardData, document: Any) -> None:
    rows = look("channels", data).rows("channels")
    sizes, every = document["channels"], document["statistics"]["messages"]
    by_messages = sorted(sizes, key=lambda cid: (-sizes[cid][0], -sizes[cid][1], cid))
    assert [row["channel"] for row in rows] == by_messages
    for row in rows:
        cid = row["channel"]
        stats = document["channel_stats"][cid]
        assert [row["messages"], row["words"]] == document["channels"][cid]
        assert row["share"] == 100 * sizes[cid][0] / every
        assert row["new"] == ("new" if stats["new"] else "")
        for name in ("posters", "words_per_poster", "members"):
            assert row[name] == stats[name]
        assert row["change"] == document["compared"]["channels"][cid]["messages"]


def test_people(data: DashboardData, document: Any) -> None:
    rows = look("people", data).rows("people")
    sizes = {uid: of["count"] for uid, of in document["user_stats"].items() if of["count"][0]}
    by_messages = sorted(sizes, key=lambda uid: (-sizes[uid][0], -sizes[uid][1], uid))
    assert [row["person"] for row in rows] == by_messages
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    for row in rows:
        stats = document["user_stats"][row["person"]]
        assert [row["messages"], row["words"]] == stats["count"]
        assert row["share"] == stats["percent_of_messages"]
        assert row["answers"] == stats["thread_messages"]
        for name in ("reactions", "reactions_given"):
            assert row[name] == stats[name]
        assert row["change"] == document["compared"]["users"][row["person"]]["messages"]


def test_a_persons_partners_are_the_people_groups(data: DashboardData, document: Any) -> None:
    for uid, groups in document["enriched_user"].items():
        partners = look("people", data, person=uid).rows("partners")
        for name in ("reactions_from", "reacted_to", "thread_responders", "you_mentioned"):
            found = {row["person"]: row[name] for row in partners if row[name]}
            assert found == {other: n for other, n in groups[name].items() if other != uid}


def test_a_persons_channels(data: DashboardData, document: Any) -> None:
    for uid, groups in document["enriched_user"].items():
        rows = look("channels", data, person=uid).rows("channels")
        found = {row["channel"]: (row["words"], row["messages"]) for row in rows if row["words"]}
        homes = groups["enriched_channels"].values()
        assert found == {home["slack_cid"]: (home["words"], home["messages"]) for home in homes}
        for row in rows:
            people = document["channel_user"][row["channel"]].items()
            by_messages = sorted(people, key=lambda of: (-of[1][0], -of[1][1], of[0]))
            assert row["rank"] == [of for of, _ in by_messages].index(uid) + 1
            assert row["share"] == 100 * row["messages"] / sum(m for _, (m, _) in people)


def test_threads(data: DashboardData, document: Any) -> None:
    threads = look("threads", data)
    new = document["new_statistics"]
    assert threads.number("replies") == pytest.approx(100 * new["thread_share"])
    assert threads.number("first_reply_p90") == new["first_reply"]["p90"]
    waiting = threads.series("first_replies")["now"]
    assert sum(filter(None, waiting[:-1])) == new["first_reply"]["count"]
    channels = threads.rows("channels")
    assert sum(row["threads_started"] for row in channels) == new["threads_started"]
    assert sum(row["unanswered"] for row in channels) == new["unanswered"]


def test_reactions_and_the_messages_with_the_most(data: DashboardData, document: Any) -> None:
    reactions = look("reactions", data)
    assert {row["emoji"]: row["count"] for row in reactions.rows("emoji")} == document["reaction"]
    assert [row["emoji"] for row in reactions.rows("emoji")] == list(document["reaction"])
    rates = {row["emoji"]: row["per_thousand_words"] for row in reactions.rows("emoji")}
    assert rates == document["emoji_rate"]
    lists = {"reaction_count": reactions.rows("most_reacted")}
    lists["reply_count"] = look("threads", data).rows("most_replied")
    for name, rows in lists.items():
        found = [
            [row["count"], *_parts(row["message"]), row["channel"], row["person"]] for row in rows
        ]
        assert found[:10] == [
            [count, cid, ts, thread or "", cid, uid]
            for count, ts, cid, uid, thread in document[name]
        ]
    given = {row["person"]: row["reactions"] for row in reactions.rows("givers")}
    reacted = {
        uid: sum(groups["reacted_to"].values())
        for uid, groups in document["enriched_user"].items()
        if groups["reacted_to"]
    }
    assert given == reacted


def _parts(message: str) -> list[str]:
    return message.split("/")


def test_network(data: DashboardData, document: Any) -> None:
    rows = look("network", data).rows("edges")
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        found.setdefault(row["from"], {})[row["to"]] = row["total"]
        assert row["total"] == row["mentions"] + row["replies"] + row["reactions"]
    assert found == document["new_statistics"]["edges"]
    order = [(-row["total"], row["from"], row["to"]) for row in rows]
    assert order == sorted(order)


def test_newcomers(data: DashboardData, document: Any) -> None:
    newcomers = look("newcomers", data)
    new = document["new_statistics"]
    assert newcomers.number("weekly") == new["wau"]
    assert newcomers.number("monthly") == new["mau"]
    last = newcomers.rows("weeks")[-1]
    assert (last["weekly"], last["monthly"]) == (new["wau"], new["mau"])
    assert last["rate"] == newcomers.number("stayed")
    if data.period.days == 7:
        assert {name: last[name] for name in new["retention"]} == new["retention"]
    assert last["weekly"] == last["both"] + last["new"] + last["returning"]
