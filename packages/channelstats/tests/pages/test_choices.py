"""A choice of a channel or a person is a choice of messages, made before anything is counted."""

from dataclasses import replace

import msgspec
import polars as pl
import pytest

from channelstats.pages.loading import DashboardData
from channelstats.pages.model import VIEWS, Page, Tiles
from channelstats.pages.views import view_of
from channelstats.tables.first_posts import posts_of
from support.channelstats.pages import (
    channels_of,
    comparable,
    everything,
    look,
    people_of,
    random_workspace,
)

SHARED = {"messages", "words", "files", "joins", "leaves"}
"""Tiles of the view Channels that it has of one and of all."""

SEEDS = (100,)


@pytest.fixture(scope="module", params=SEEDS)
def data(request: pytest.FixtureRequest) -> DashboardData:
    return random_workspace(request.param, 30)


def only_of(data: DashboardData, channel: str) -> DashboardData:
    """What there is of one channel and of nothing else, first posts but for those elsewhere."""
    first = data.facts.first_posts.select("slack_uid", "ts", "slack_cid")
    of_channel = pl.col("slack_cid") == channel
    inputs = replace(
        data.inputs,
        messages=data.inputs.messages.filter(of_channel),
        first_posts=posts_of(first.filter(of_channel)),
    )
    return DashboardData(inputs, data.period, data.options)


def with_shared_tiles(view: Page) -> Page:
    tiles = tuple(tile for tile in view.tiles if tile.name in SHARED)
    return msgspec.structs.replace(view, lead=(Tiles(tiles),))


@pytest.mark.parametrize("name", [name for name in VIEWS if name != "newcomers"])
def test_a_channel_is_as_if_there_were_no_other(name: str, data: DashboardData) -> None:
    for cid in channels_of(data):
        alone = view_of(name, only_of(data, cid), everything(data))
        chosen = view_of(name, data, everything(data, cid))
        notes = tuple(note.replace(" in this channel", "") for note in chosen.notes)
        chosen = msgspec.structs.replace(chosen, choice=alone.choice, notes=notes)
        if name == "channels":  # of one channel nothing is said of several
            alone, chosen = map(with_shared_tiles, (alone, chosen))
        assert comparable(chosen) == comparable(alone)


@pytest.mark.parametrize("name", [name for name in VIEWS if name != "newcomers"])
def test_all_channels_as_a_group_are_everything(name: str, data: DashboardData) -> None:
    choice = everything(data)
    group = msgspec.structs.replace(choice, group=tuple(channels_of(data)))
    chosen = msgspec.structs.replace(view_of(name, data, group), choice=choice)
    assert comparable(chosen) == comparable(view_of(name, data, choice))


def test_a_channel_that_was_chosen_is_not_counted(data: DashboardData) -> None:
    for cid in channels_of(data):
        view = view_of("channels", data, everything(data, cid))
        names = {tile.name for tile in view.tiles}
        assert not names & {"channels", "largest", "private"}
        assert {"posters", *SHARED} <= names
    assert "channels" in {of.name for of in view_of("channels", data, everything(data)).tiles}


def test_nobody_is_new_in_a_channel_who_posted_elsewhere_before(data: DashboardData) -> None:
    first = dict(data.facts.first_posts.select("slack_uid", "ts").iter_rows())
    for cid in channels_of(data):
        newcomers = look("newcomers", data, channel=cid)
        here = data.facts.messages.filter(pl.col("slack_cid") == cid)
        week = data.period.ending_with(7)
        posters = set(here.filter(week.covers())["slack_uid"])
        begin = week.begin * 1_000_000
        last = newcomers.rows("weeks")[-1]
        assert last["new"] == sum(first[uid] >= begin for uid in posters)
        assert last["weekly"] == len(posters) == last["both"] + last["new"] + last["returning"]


SUMMED = {
    "overview": (
        "messages",
        "words",
        "threads_started",
        "reactions",
        "reactions_given",
        "answers",
    ),
    "threads": ("threads_started", "unanswered"),
    "network": ("done", "received"),
}


@pytest.mark.slow
def test_what_all_persons_did_adds_up_to_the_whole(data: DashboardData) -> None:
    people = people_of(data)
    for channel in ("", *channels_of(data)):
        overview, people_view = look("overview", data, channel), look("people", data, channel)
        interactions = look("network", data, channel).number("interactions")
        whole = {
            "messages": overview.number("messages"),
            **{tile: people_view.number(tile) for tile in ("words", "reactions", "answers")},
            "reactions_given": data.scope(everything(data, channel)).now.table("reactions").height,
            **{tile: look("threads", data, channel).number(tile) for tile in SUMMED["threads"]},
            **dict.fromkeys(SUMMED["network"], interactions),
        }
        for name, tiles in SUMMED.items():
            views = [look(name, data, channel, uid) for uid in people]
            for tile in tiles:
                assert sum(view.number(tile) or 0 for view in views) == whole[tile], (name, tile)


def test_the_mean_per_poster_is_the_whole_over_those_who_posted(data: DashboardData) -> None:
    everyone = look("overview", data)
    posters = everyone.number("posters")
    totals = {"words": "volume", "threads_started": "threads", "reactions": "reactions"}
    for uid in people_of(data):
        one = look("overview", data, person=uid)
        for name in ("messages", "words", "threads_started", "reactions"):
            total = look(totals.get(name, "overview"), data).number(name) or 0
            assert one.tiles[name].everyone == (total / posters if posters else 0)
        assert one.tiles["first_reply"].everyone == everyone.number("first_reply")
        faint = one.series("messages")["everyone"]
        expected = [(n or 0) / max(posters or 1, 1) for n in everyone.series("messages")["now"]]
        assert list(faint) == expected


def test_charts_of_all_persons_add_up_to_those_of_all(data: DashboardData) -> None:
    people = people_of(data)
    for name, chart in (("volume", "words"), ("hours", "hours"), ("threads", "first_replies")):
        for series in ("now", "before"):
            each = [look(name, data, person=uid).series(chart)[series] for uid in people]
            whole = look(name, data).series(chart)[series]
            if series == "before":  # there may be others who only were there before
                assert all(sum(map(int, filter(None, n))) <= m for *n, m in _columns(each, whole))
            else:
                assert [sum(filter(None, n)) for *n, _ in _columns(each, whole)] == list(whole)


def _columns(
    each: list[tuple[float | None, ...]], whole: tuple[float | None, ...]
) -> list[tuple[float, ...]]:
    return [tuple(n or 0 for n in row) for row in zip(*each, whole, strict=True)]


def test_the_network_of_a_person_is_the_person_and_whom_they_deal_with(data: DashboardData) -> None:
    edges = {(row["from"], row["to"]) for row in look("network", data).rows("edges")}
    for uid in people_of(data):
        partners = {one if other == uid else other for one, other in edges if uid in (one, other)}
        around = look("network", data, person=uid)
        assert around.number("people") == len(partners)
        assert {(row["from"], row["to"]) for row in around.rows("edges")} == {
            edge for edge in edges if partners and set(edge) <= {uid, *partners}
        }
