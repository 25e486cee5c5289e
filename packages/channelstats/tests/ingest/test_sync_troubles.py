"""What goes wrong on the way from the Web API: how far it reaches, what is said, what is kept."""

from copy import copy

import pytest

from channelstats.ingest.runs import Event, StepProgress, SyncOptions
from channelstats.ingest.sync import Part
from channelstats.slack.export import Problem
from keytables import Item
from support.channelstats.fake_slack import Fault
from support.channelstats.house import House
from support.channelstats.slack_house import Slack
from support.channelstats.small_workspace import A, B, at, said, three, ts, workspace

NOW = at(5)
HISTORY = "conversations.history"
LISTINGS = (
    "users.list",
    "conversations.list",
    "conversations.members",
    HISTORY,
    "conversations.replies",
)
ONE_BY_ONE = SyncOptions(concurrency=1)


def synced(events: list[Event]) -> list[str]:
    """The channels whose messages were read."""
    return [
        event.channel
        for event in events
        if isinstance(event, StepProgress) and event.step == "messages" and event.channel
    ]


async def rows(of: House) -> list[str]:
    return sorted(await of.items("Message"))


async def but_for_the_reason(of: House, beginning: str) -> dict[str, dict[str, Item]]:
    """Every table, without the note on why not everything was read."""
    found = await of.everything()
    assert str(found["Configuration"]["last_run"].pop("unread")).startswith(beginning)
    return found


# ── troubles that pass ───────────────────────────────────────────────────────────────────────────

PASSING = [
    [Fault("expire", method=method, times=2) for method in LISTINGS],
    [
        Fault(do, value, after=n)
        for n in range(2)
        for do, value in (("rate", "7"), ("rate", ""), ("status", "503"), ("cut", ""), ("html", ""))
    ],
]
"""What a client does about each is proved of it."""


@pytest.mark.parametrize("faults", PASSING, ids=["expired cursors", "all at once"])
async def test_troubles_that_pass_leave_no_trace(
    slack: Slack, empty: House, faults: list[Fault]
) -> None:
    slack.serve(three(), *map(copy, faults), most=1)
    result = await slack.sync(empty, now=NOW)
    assert (result.ok, result.problems) == (True, 0)
    assert (result.channels, result.messages, result.changed) == (3, 11, 11)
    assert len(await rows(empty)) == 11
    assert await empty.tables.bulk.get("CONE") == f"{A},{B}"
    assert (await empty.tables.configuration.counts()).all_users == 2


# ── one channel ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("code", ["not_in_channel", "channel_not_found", "some_new_code"])
async def test_what_one_channel_refuses_does_not_keep_the_others(
    slack: Slack, empty: House, code: str
) -> None:
    slack.serve(three(), Fault("error", code, method=HISTORY, channel="CTWO", times=-1))
    events: list[Event] = []
    result = await slack.sync(empty, now=NOW, on_event=events.append)
    [failed] = result.failed
    assert str(failed).startswith(f"two: {HISTORY}: {code}")
    assert sorted(synced(events)) == ["one", "zoo"]
    assert (failed in events) == (code != "not_in_channel")  # which is said of all in one line
    assert (result.outside == ["two"]) == (code == "not_in_channel")
    assert not result.ok


async def test_a_channel_cut_in_mid_page_is_stored_by_the_next_run(
    slack: Slack, empty: House
) -> None:
    cut = Fault("cut", method=HISTORY, channel="CTWO", after=2, times=-1)
    slack.serve(three(), cut, most=3)
    result = await slack.sync(empty, now=NOW)
    assert not result.ok
    assert not any(key.startswith("CTWO") for key in await rows(empty))
    assert await empty.tables.watermarks.get("CTWO") == 0

    slack.serve(three(), most=3)
    assert (await slack.sync(empty, now=NOW)).ok
    assert len(await rows(empty)) == 11


async def test_members_that_cannot_be_read_cost_that_membership_alone(
    slack: Slack, empty: House
) -> None:
    refused = Fault("error", "channel_not_found", method="conversations.members", channel="CTWO")
    slack.serve(three(), refused)
    result = await slack.sync(empty, now=NOW)
    assert [event.place for event in result.failed] == ["members of two"]
    assert await empty.tables.bulk.get("CTWO") is None
    assert await empty.tables.bulk.get("CZOO") == f"{A},{B}"
    assert len(await rows(empty)) == 11


async def test_members_without_an_answer_are_skipped_until_it_is_too_many(
    slack: Slack, empty: House
) -> None:
    of = workspace(**{f"c{n}": [] for n in range(9)})
    for channels in ("CC1", ""):
        down = Fault("status", "500", method="conversations.members", channel=channels, times=-1)
        slack.serve(of, down)
        result = await slack.sync(empty, now=NOW, parts=frozenset({Part.CHANNELS}))
        failed = [event.place for event in result.failed]
        if channels:
            assert failed == ["members of c1"]
            assert len(slack.calls("conversations.members")) == 8 + 6
        else:
            assert failed == [*(f"members of c{n}" for n in range(4)), "conversations.members"]
            assert len(slack.calls("conversations.members")) == 5 * 6


async def test_without_a_list_of_channels_nothing_of_them_changes(
    slack: Slack, empty: House
) -> None:
    slack.serve(three())
    await slack.sync(empty, now=NOW)
    before = await empty.everything()
    slack.serve(three(), Fault("status", "500", method="conversations.list", times=-1))
    parts = frozenset({Part.CHANNELS, Part.MESSAGES})
    result = await slack.sync(empty, now=NOW + 60, parts=parts)
    assert [event.place for event in result.failed] == ["conversations.list"]
    assert await but_for_the_reason(empty, "conversations.list: ") == before


# ── the token ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("method", LISTINGS)
async def test_a_missing_scope_is_one_failure_and_stops_nothing(
    slack: Slack, empty: House, method: str
) -> None:
    more = {"needed": "it", "provided": "identify"}
    slack.serve(three(), Fault("error", "missing_scope", method=method, times=-1, more=more))
    result = await slack.sync(empty, now=NOW)
    [failed] = result.failed
    assert str(failed).endswith(f"{method}: the token lacks the scope it; it has identify")
    assert result.stopped == ""


async def test_without_the_scope_for_private_channels_the_public_ones_are_read(
    slack: Slack, empty: House
) -> None:
    of = three()
    for cid in ("CA", "CB", "CX"):
        of.channels.append({"id": cid, "name": cid.lower(), "is_private": True, "members": [A]})
        of.messages[cid] = [said(1)]
    more = {"needed": "groups:history"}
    lacking = [
        Fault("error", "missing_scope", method=HISTORY, channel=cid, times=-1, more=more)
        for cid in ("CA", "CB", "CX")
    ]
    slack.serve(of, *lacking)
    events: list[Event] = []
    options = SyncOptions(include_private=True, concurrency=1)
    result = await slack.sync(empty, now=NOW, options=options, on_event=events.append)
    [failed] = result.failed
    assert failed.place == "every private channel"
    assert "groups:history" in failed.reason
    assert sorted(synced(events)) == ["one", "two", "zoo"]
    assert sum(asked["channel"] in ("CA", "CB", "CX") for asked in slack.calls(HISTORY)) == 1


async def test_a_token_revoked_on_the_way_stops_the_run_and_loses_nothing(
    slack: Slack, empty: House
) -> None:
    revoked = Fault("error", "token_revoked", method=HISTORY, after=2, times=-1)
    slack.serve(three(), revoked)
    events: list[Event] = []
    result = await slack.sync(empty, now=NOW, options=ONE_BY_ONE, on_event=events.append)
    [stopped] = [event for event in events if isinstance(event, Problem)]
    assert str(stopped) == f"stopped: {HISTORY}: token_revoked: the token was revoked"
    assert result.stopped == stopped.reason
    assert not result.ok
    assert synced(events) == ["one", "two"]
    assert len(await rows(empty)) == 10
    assert (await empty.tables.first_posts.all())[B].message_id == ts(2)

    slack.serve(three())
    events.clear()
    again = await slack.sync(empty, now=NOW + 60, options=ONE_BY_ONE, on_event=events.append)
    assert synced(events) == ["zoo"]
    assert again.ok
    assert len(await rows(empty)) == 11


async def test_a_token_that_is_refused_at_once_leaves_the_tables_alone(
    slack: Slack, empty: House
) -> None:
    slack.serve(three())
    await slack.sync(empty, now=NOW)
    before = await empty.everything()
    result = await slack.sync(empty, now=NOW + 60, token="xoxp-a-wrong-one")
    assert result.stopped.startswith("users.list: invalid_auth")
    assert slack.methods().count("users.list") == 2
    assert await but_for_the_reason(empty, "users.list: invalid_auth") == before


# ── out of reach ─────────────────────────────────────────────────────────────────────────────────


async def test_when_slack_is_out_of_reach_the_run_stops_after_a_few_channels(
    slack: Slack, empty: House
) -> None:
    of = workspace(**{f"c{n}": [said(1)] for n in range(9)})
    slack.serve(of, Fault("status", "500", method=HISTORY, times=-1))
    result = await slack.sync(empty, now=NOW, options=ONE_BY_ONE)
    assert len(result.failed) == 5
    assert result.stopped == "no answer for 5 channels in a row"
    assert len(slack.calls(HISTORY)) == 30


# ── an interruption ──────────────────────────────────────────────────────────────────────────────


class Interrupted(Exception):
    """Ends a run from its report."""


async def interrupted(slack: Slack, into: House) -> None:
    """A run that ends after a channel."""

    def interrupt(event: Event) -> None:
        if synced([event]):
            raise Interrupted

    parts = frozenset({Part.MESSAGES})
    with pytest.raises(Interrupted):
        await slack.sync(into, now=NOW, options=ONE_BY_ONE, parts=parts, on_event=interrupt)


async def test_an_interrupted_run_goes_on_with_the_next_channel(slack: Slack, empty: House) -> None:
    slack.serve(three())
    await interrupted(slack, empty)
    slack.serve(three())
    events: list[Event] = []
    parts = frozenset({Part.MESSAGES})
    result = await slack.sync(
        empty, now=NOW + 3600, options=ONE_BY_ONE, parts=parts, on_event=events.append
    )
    assert events[0] == StepProgress("messages", 1, 3)
    assert sorted(synced(events)) == ["two", "zoo"]
    assert result.channels == 2
    assert len(await rows(empty)) == 11
    assert (await empty.tables.first_posts.all())[B].message_id == ts(2)


async def test_a_run_interrupted_long_ago_begins_from_the_start(slack: Slack, empty: House) -> None:
    slack.serve(three())
    await interrupted(slack, empty)
    assert (await slack.sync(empty, now=NOW + 7 * 3600)).channels == 3
