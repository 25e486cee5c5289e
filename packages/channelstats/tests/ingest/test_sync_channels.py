"""Channels from the Web API: names of today and of before, members, and samples of their number."""

from typing import Any

import pytest

from channelstats.ingest.runs import SyncOptions, SyncResult
from channelstats.ingest.sync import Part
from support.channelstats.fake_slack import Fault
from support.channelstats.house import House
from support.channelstats.slack_house import Slack
from support.channelstats.small_workspace import START, A, B, C, at, said, workspace
from support.channelstats.workspace import Raw, Workspace

CHANNELS = frozenset({Part.CHANNELS})


def channel(cid: str, name: str, **fields: Any) -> Raw:
    return {"id": cid, "name": name, "created": START, "members": [A, B], **fields}


async def take(
    slack: Slack, into: House, *channels: Raw, day: float = 0, choice: SyncOptions | None = None
) -> SyncResult:
    slack.serve(Workspace(channels=list(channels)))
    options = choice or SyncOptions()
    result = await slack.sync(into, now=at(day), parts=CHANNELS, options=options)
    assert (result.ok, result.problems, result.channels) == (True, 0, 0)
    return result


async def test_an_archived_channel_is_stored_and_its_membership_stays(
    slack: Slack, empty: House
) -> None:
    await take(slack, empty, channel("C1", "one"))
    archived = channel("C1", "one", is_archived=True, members=[])
    result = await take(slack, empty, archived, day=1)
    assert (result.listed, result.memberships) == (1, 0)
    row = (await empty.tables.channels.all())["C1"]
    assert (row.is_archived, row.members) == (True, 0)
    assert await empty.tables.bulk.get("C1") == f"{A},{B}"
    assert slack.calls("conversations.members") == []
    assert await empty.tables.members_log.samples("C1") == [(START, 2)]
    names = await empty.tables.configuration.get("channel_names")
    assert names["names"] == "one"
    assert "names" not in await empty.tables.configuration.get("active_channel_names")


async def test_a_membership_is_not_overwritten_by_an_empty_one(slack: Slack, empty: House) -> None:
    await take(slack, empty, channel("C1", "one"))
    await take(slack, empty, channel("C1", "one", members=[]), day=1)
    assert await empty.tables.bulk.get("C1") == f"{A},{B}"
    await take(slack, empty, channel("C1", "one", members=[C]), day=2)
    assert await empty.tables.bulk.get("C1") == C


async def test_each_run_adds_a_sample_of_the_number_slack_gives(slack: Slack, empty: House) -> None:
    for day, number in ((0, 5), (1, None), (2, 0)):
        await take(slack, empty, channel("C1", "one", num_members=number), day=day)
    samples = await empty.tables.members_log.samples("C1")
    assert samples == [(START, 5), (int(at(2)), 0)]


async def test_without_a_number_the_members_are_counted(slack: Slack, empty: House) -> None:
    await take(slack, empty, channel("C1", "one", num_members=None))
    assert (await empty.tables.channels.all())["C1"].members == 2
    assert (await empty.items("Channel"))["one"]["members"] == 2


# ── names ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_renamed_channel_is_found_under_both_names(slack: Slack, empty: House) -> None:
    await take(slack, empty, channel("C1", "old"))
    await take(slack, empty, channel("C1", "new", previous_names=["older", "old"]), day=1)
    for name in ("new", "old", "older", "C1"):
        found = await empty.tables.channels.named(name)
        assert found is not None
        assert (found.slack_cid, found.friendly_name) == ("C1", "new")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(channel("C1", "new", previous_names=["name"]), id="renamed"),
        pytest.param(channel("C1", "name", is_archived=True), id="archived"),
    ],
)
async def test_a_name_goes_to_the_channel_that_is_in_use_under_it(
    slack: Slack, empty: House, other: Raw
) -> None:
    bearer = channel("C2", "name")
    for order in ((other, bearer), (bearer, other)):
        await take(slack, empty, *order)
        found = await empty.tables.channels.named("name")
        assert found is not None
        assert found.slack_cid == "C2"


async def test_a_previous_name_that_looks_like_an_id_takes_no_row(
    slack: Slack, empty: House
) -> None:
    await take(slack, empty, channel("C1", "one"), channel("C2", "two", previous_names=["C1", ""]))
    assert sorted(await empty.items("Channel")) == ["C1", "C2", "one", "two"]


async def test_a_second_run_changes_nothing_but_the_samples(slack: Slack, empty: House) -> None:
    of = [
        channel("C1", "one", previous_names=["uno", "two"]),
        channel("C2", "two", previous_names=["uno"]),
        channel("C3", "three", is_archived=True, previous_names=["uno", "drei"], members=[]),
    ]
    await take(slack, empty, *of)
    before = await empty.everything()
    await take(slack, empty, *of, day=1)
    after = await empty.everything()
    for name in ("Channel", "BulkStore"):
        assert after[name] == before[name]


# ── what is chosen ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (SyncOptions(), {"C1", "C2"}),
        (SyncOptions(include_private=True), {"C1", "C2", "C3"}),
        (SyncOptions(only=frozenset({"one"})), {"C1"}),
        (SyncOptions(only=frozenset({"C1", "two"})), {"C1", "C2"}),
        (SyncOptions(exclude=frozenset({"one"})), {"C2"}),
        (SyncOptions(only=frozenset({"two"}), exclude=frozenset({"one"})), {"C2"}),
    ],
)
async def test_channels_are_chosen_by_kind_and_name(
    slack: Slack, empty: House, choice: SyncOptions, expected: set[str]
) -> None:
    private = channel("C3", "three", is_private=True)
    of = [channel("C1", "one"), channel("C2", "two"), private]
    await take(slack, empty, *of, choice=choice)
    channels = await empty.tables.channels.all()
    assert set(channels) == expected
    if "C3" in channels:
        assert (channels["C3"].is_group, channels["C3"].is_channel) == (True, False)


async def test_a_channel_that_is_asked_for_and_not_there_is_told(
    slack: Slack, empty: House
) -> None:
    private = channel("C3", "three", is_private=True)
    slack.serve(Workspace(channels=[channel("C1", "one"), private]))
    choice = SyncOptions(only=frozenset({"one", "three", "none"}))
    finished = await slack.sync(empty, now=at(1), parts=CHANNELS, options=choice)
    assert [failed.place for failed in finished.failed] == ["none", "three"]
    assert set(await empty.tables.channels.all()) == {"C1"}


# ── an interruption ──────────────────────────────────────────────────────────────────────────────


async def test_a_run_that_broke_off_goes_on_with_the_next_membership(
    slack: Slack, empty: House
) -> None:
    of = workspace(one=[said(1)], two=[], zoo=[])
    slack.serve(of, Fault("error", "token_revoked", method="conversations.members", after=2))
    finished = await slack.sync(empty, now=at(2))
    assert "token_revoked" in finished.stopped
    assert await empty.items("Message") == {}
    slack.serve(of)
    await slack.sync(empty, now=at(2) + 60)
    assert [asked["channel"] for asked in slack.calls("conversations.members")] == ["CZOO"]
    assert len(await empty.items("Message")) == 1
