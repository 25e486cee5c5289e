"""Who does not want to be in the store is not brought there by the Web API either."""

import msgspec
import pytest

from channelstats.ingest.runs import Event, SyncOptions
from channelstats.ingest.sync import ALL, Part
from channelstats.slack.export import Problem
from channelstats.tables.exclusion import digest
from support.channelstats.fake_slack import Fault
from support.channelstats.house import House
from support.channelstats.slack_house import Slack
from support.channelstats.small_workspace import A, B, C, at, said, ts, workspace
from support.channelstats.workspace import Workspace

NOW = at(5)
MESSAGES = frozenset({Part.MESSAGES})


def talk() -> Workspace:
    """B answers, reacts, is mentioned, begins a thread, and is a member."""
    of = workspace(
        one=[
            said(1, reactions=[{"name": "wave", "users": [A, B], "count": 2}]),
            said(1.1, B, thread=1),
            said(1.2, C, thread=1),
            said(2, B),
            said(2.1, C, thread=2, text=f"well <@{B}> well"),
        ]
    )
    of.users.append({"id": C, "name": "cara", "profile": {"display_name": "ca"}})
    return of


def without(*people: str) -> SyncOptions:
    return SyncOptions(exclude_people=frozenset(people))


async def left(of: House) -> str:
    return repr(await of.everything())


async def test_the_forgotten_do_not_come_back(slack: Slack, empty: House) -> None:
    slack.serve(talk())
    await empty.tables.configuration.add_forgotten(frozenset([digest(B)]))
    result = await slack.sync(empty, now=NOW, options=without())
    assert (result.users, result.new_users) == (3, 2)
    found = await empty.items("Message")
    assert sorted(found) == [f"CONE_{ts(day)}" for day in (1, 1.2, 2.1)]
    assert found[f"CONE_{ts(1)}"]["reactions"] == f"wave:{A}"
    assert found[f"CONE_{ts(1)}"]["reply_count"] == 1
    assert await empty.tables.bulk.get("CONE") == A
    assert B not in await left(empty)
    before = await empty.items("Message")
    await slack.sync(empty, now=NOW + 60, options=without())
    assert await empty.items("Message") == before


@pytest.mark.parametrize("name", [B, "ubob"])
@pytest.mark.parametrize("parts", [ALL, MESSAGES])
async def test_the_excluded_are_left_out_by_id_and_name(
    slack: Slack, empty: House, name: str, parts: frozenset[Part]
) -> None:
    slack.serve(talk())
    await slack.sync(empty, now=NOW, options=without(name), parts=parts)
    assert len(await empty.items("Message")) == 3
    assert B not in await left(empty)


async def test_users_are_asked_for_only_where_a_name_is_not_known(
    slack: Slack, empty: House
) -> None:
    slack.serve(talk())
    await slack.sync(empty, now=NOW, options=without(B), parts=MESSAGES)
    assert "users.list" not in slack.methods()
    await slack.sync(empty, now=NOW, options=without("ca"), parts=MESSAGES)
    assert slack.methods().count("users.list") == 1
    await slack.sync(empty, now=NOW, options=without(B, "ca"))
    assert slack.methods().count("users.list") == 2


async def test_while_it_is_not_known_who_is_meant_nothing_is_read(
    slack: Slack, empty: House
) -> None:
    slack.serve(talk(), Fault("status", "500", method="users.list", times=-1))
    finished = await slack.sync(empty, now=NOW, options=without("ubob"))
    assert [failed.place for failed in finished.failed] == ["users.list", "exclude_users"]
    assert await empty.items("Message") == {}
    assert await empty.items("BulkStore") == {}
    finished = await slack.sync(empty, now=NOW, options=without(B))
    assert [failed.place for failed in finished.failed] == ["users.list"]
    assert len(await empty.items("Message")) == 3


@pytest.mark.parametrize("parts", [ALL, MESSAGES])
async def test_a_name_that_leaves_nobody_out_is_told(
    slack: Slack, empty: House, parts: frozenset[Part]
) -> None:
    slack.serve(talk())
    events: list[Event] = []
    options = without("ubobb", B)
    await slack.sync(empty, now=NOW, options=options, parts=parts, on_event=events.append)
    problem = Problem("exclude_users", "nobody is called 'ubobb', so nobody is left out by it")
    assert events.count(problem) == 1
    assert B not in await left(empty)


async def test_a_name_that_leaves_no_channel_out_is_told(slack: Slack, empty: House) -> None:
    slack.serve(talk())
    known = {channel["name"] for channel in talk().channels}
    hidden = SyncOptions(exclude=frozenset({"nowhere", "CNONE", *sorted(known)[:1]}))
    private = msgspec.structs.replace(hidden, include_private=True)
    for what, kind in ((hidden, "public "), (private, "")):
        events: list[Event] = []
        await slack.sync(empty, now=NOW, options=what, parts=MESSAGES, on_event=events.append)
        assert [event for event in events if isinstance(event, Problem)] == [
            Problem(
                "exclude_channels",
                f"no {kind}channel is called 'nowhere', so none is left out by it",
            )
        ]
