"""Reports say what the document of the same period says, in every workspace."""

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.render.names import Directory
from channelstats.render.reports import frames_of
from channelstats.views.loading import DashboardData
from channelstats.views.model import Page, Text
from channelstats.views.report_data import Partition, ReportData
from channelstats.views.reports import GROUPS, ReportKind, ReportRequest, report_on


@pytest.fixture(scope="module")
def of(data: DashboardData) -> ReportData:
    return ReportData(data, made_at=0)


def tiles(made: Page) -> dict[str, Any]:
    """The changes of all tiles, by name."""
    return {tile.name: tile.change for tile in made.tiles}


def rows(made: Page, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table; none where it is not there."""
    tables = [table for table in made.tables if table.name == name]
    return tables[0].rows.rows() if tables else []


def test_the_workspace(of: ReportData, document: Any) -> None:
    made = report_on(ReportRequest(ReportKind.GLOBAL), of)
    compared, found = document["compared"], tiles(made)
    for name, change in compared["statistics"].items():
        key = name.replace(" ", "_")
        if key in found and key != "posters":
            assert found[key] == change
    assert found["posters"] == compared["statistics"]["posters"]
    first = "rank", "slack_cid"
    channels = rows(made, "channels")
    assert [row[len(first) - 1] for row in channels] == list(document["channels"])[:20]
    for row in channels:
        figures = compared["channels"][row[1]]
        names = ("posters", "words", "messages", "words_per_poster", "percent", "cpercent")
        changes = [cell for cell in row if isinstance(cell, dict)]
        assert changes == [figures[name] for name in names]
    ranks = {uid: of["rank"] for uid, of in document["user_stats"].items() if of["count"][0]}
    everybody = sorted(ranks, key=ranks.__getitem__)
    assert [row[1] for row in rows(made, "people")] == everybody[:20]
    for row in rows(made, "people"):
        assert row[2] == compared["users"][row[1]]["words"]
        assert row[-1] == compared["users"][row[1]]["cum_percent_of_words"]
    zones = [(row[1], row[4], row[3], row[2]) for row in rows(made, "time_zones")]
    posters = document["posters_per_timezone"]
    assert zones == [(tz, *size, len(posters[tz])) for tz, size in document["timezone"].items()]


def test_every_channel(of: ReportData, document: Any) -> None:
    for cid, figures in document["compared"]["channels"].items():
        made = report_on(ReportRequest(ReportKind.CHANNEL, cid), of)
        found, enriched = tiles(made), document["enriched_channel"][cid]
        names = {
            "messages": "messages",
            "words": "words",
            "posters": "posters",
            "share": "share_rounded",
        }
        assert {name: found[name] for name in names} == {
            name: figures[key] for name, key in names.items()
        }
        people = {uid: {"messages": m, "words": w} for _, uid, m, w in rows(made, "people")}
        assert list(people.items()) == list(figures["users"].items())
        emoji = {name: times for times, name, _ in rows(made, "emoji")}
        assert list(emoji.items()) == list(enriched["reactions"].items())[:10]
        hours = [row[-1] for row in rows(made, "hour")]
        assert hours == [messages for messages, _ in enriched["posting_hours"].values()]


def test_everybody(of: ReportData, document: Any) -> None:
    for uid, own in document["enriched_user"].items():
        made = report_on(ReportRequest(ReportKind.USER, uid), of)
        compared = document["compared"]["users"].get(uid)
        for name in GROUPS:
            assert rows(made, name) == list(own[name].items())[:10]
        if compared is not None:
            assert tiles(made)["share"] == compared["percent_of_words"]
            shown = [name for name in GROUPS if own[name]]
            if shown:  # the tiles of the last group have the names
                assert tiles(made)["total"] == compared["people"][shown[-1]]["total"]
                assert tiles(made)["people"] == compared["people"][shown[-1]]["people"]
        homes = own["enriched_channels"].values()
        names = ("slack_cid", "rank", "messages", "words")
        expected = [tuple(home[name] for name in names) for home in homes]
        assert rows(made, "channels") == expected
        assert [(name, n) for n, name, _ in rows(made, "emoji")] == list(
            own["reaction_popularity"].items()
        )[:10]


def test_the_tables_for_programs(of: ReportData, document: Any) -> None:
    frames = frames_of(ReportRequest(ReportKind.GLOBAL), of, Directory())
    channels = frames["channels"].select("channel_id", "messages", "words").rows()
    assert channels == [(cid, *size) for cid, size in document["channels"].items()]
    people = frames["people"].select("person_id", "percent_of_words").rows()
    assert people == [
        (uid, stats["percent_of_words"]) for uid, stats in document["user_stats"].items()
    ]
    edges = document["new_statistics"]["edges"]
    assert frames["edges"].select("from_id", "to_id", "times").rows() == [
        (one, other, n) for one, others in edges.items() for other, n in others.items()
    ]
    assert frames["with_whom"].height == sum(
        len(own[name]) for own in document["enriched_user"].values() for name in GROUPS
    )


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9))))
def test_a_partition_has_the_rows_of_each_in_their_order(pairs: list[tuple[str, int]]) -> None:
    frame = pl.DataFrame(pairs, {"key": pl.String, "n": pl.Int64}, orient="row")
    found = Partition(frame, "key")
    for name in "abcdx":
        assert found.of(name).rows() == [pair for pair in pairs if pair[0] == name]


def test_a_channel_of_a_small_group_is_not_said_to_be_silent(
    data: DashboardData, of: ReportData
) -> None:
    for cid, posters in of.groups.posters.items():
        small = ReportData(data, smallest_group=posters + 1, made_at=0)
        made = report_on(ReportRequest(ReportKind.CHANNEL, cid), small)
        expected = f"Fewer than {posters + 1} people posted here, so no figures are shown."
        assert (made.lead, made.sections) == ((Text(((expected,),)),), ())
