"""Users from the Web API: counts and their history, and when each was first seen."""

from pathlib import Path

import pytest

from channelstats.ingest.home import OtherWorkspace
from channelstats.ingest.runs import Event, SyncResult
from channelstats.ingest.sync import Part
from channelstats.tables.configuration import Counts
from support.channelstats.fake_slack import Fault
from support.channelstats.house import House
from support.channelstats.slack_house import Slack
from support.channelstats.small_workspace import START, A, B, C, at, said, workspace
from support.channelstats.workspace import Raw, Workspace, write_zip

USERS = frozenset({Part.USERS})


def people(*more: Raw) -> Workspace:
    of = workspace()
    of.users += more
    return of


async def test_deactivated_users_and_bots_are_stored_and_counted_apart(
    slack: Slack, empty: House
) -> None:
    slack.serve(
        people({"id": C, "deleted": True}, {"id": "UBOT", "is_bot": True}, {"id": "USLACKBOT"})
    )
    result = await slack.sync(empty, now=at(0), parts=USERS)
    assert result == SyncResult(users=5, new_users=5)
    assert slack.methods() == ["users.list"]
    counts = Counts(active_users=4, all_users=5, active_humans=2)
    assert await empty.tables.configuration.counts() == counts
    users = await empty.tables.users.all()
    assert (users[C].deleted, users[C].tz, users["UBOT"].is_bot) == (True, "", True)


async def test_a_token_of_another_workspace_is_refused(slack: Slack, empty: House) -> None:
    slack.serve(people())
    await slack.sync(empty, now=at(0))
    other = Workspace([{"id": "UOTHER", "team_id": "T2"}], [], {})
    slack.serve(other)
    with pytest.raises(OtherWorkspace, match=r"workspace of the token \(T2\)"):
        await slack.sync(empty, now=at(1))
    assert "UOTHER" not in await empty.tables.users.all()


async def test_people_of_a_grid_and_from_outside_are_told_as_in_exports(
    slack: Slack, empty: House
) -> None:
    grid = {"id": C, "enterprise_user": {"id": "W9"}}
    slack.serve(people(grid, {"id": "U9", "is_stranger": True}))
    await slack.sync(empty, now=at(0))
    users = await empty.tables.users.all()
    assert users[C].other_ids == "W9"
    assert {uid for uid, of in users.items() if of.is_member} == {A, B, C}


async def test_when_a_user_was_first_seen_never_changes(slack: Slack, empty: House) -> None:
    for day in range(3):
        slack.serve(people({"id": C, "name": f"cara{day}"}) if day else people())
        await slack.sync(empty, now=at(day), parts=USERS)
    assert await empty.tables.users_created.all() == {A: START, B: START, C: int(at(1))}
    users = await empty.tables.users.all()
    assert (users[C].user_name, users[C].insert_timestamp) == ("cara2", int(at(1)))


async def test_a_date_of_creation_known_from_elsewhere_stays(slack: Slack, empty: House) -> None:
    await empty.tables.users_created.add([(A, 1_500_000_000)])
    slack.serve(people())
    await slack.sync(empty, now=at(0), parts=USERS)
    assert (await empty.tables.users_created.all())[A] == 1_500_000_000
    assert (await empty.tables.users.all())[A].insert_timestamp == 1_500_000_000


@pytest.mark.parametrize(
    ("then", "faults"),
    [
        pytest.param(people({"id": C}), [Fault("cut", after=1, times=-1)], id="broken off"),
        pytest.param(Workspace(), [], id="empty"),
    ],
)
async def test_a_list_that_breaks_off_or_is_empty_changes_nothing(
    slack: Slack, empty: House, then: Workspace, faults: list[Fault]
) -> None:
    slack.serve(people())
    await slack.sync(empty, now=at(0), parts=USERS)
    before = await empty.everything()
    slack.serve(then, *faults, most=1)
    result = await slack.sync(empty, now=at(1), parts=USERS)
    assert [failed.place for failed in result.failed] == ["users.list"]
    assert result.users == 0
    assert await empty.everything() == before


async def test_what_is_no_user_is_left_out_and_told(slack: Slack, empty: House) -> None:
    slack.serve(people({"id": "x y"}, {"id": C, "name": 7}))
    events: list[Event] = []
    result = await slack.sync(empty, now=at(0), parts=USERS, on_event=events.append)
    assert result.problems == len(events) == 2
    assert sorted(await empty.tables.users.all()) == [A, B]


async def test_an_export_older_than_the_users_does_not_replace_them(
    slack: Slack, empty: House, tmp_path: Path
) -> None:
    slack.serve(people())
    await slack.sync(empty, now=at(9), parts=USERS)
    older = workspace(one=[said(1)])
    older.users[0]["name"] = "old name"
    await empty.take_in(write_zip(older.files(), tmp_path / "x.zip"))
    assert (await empty.tables.users.all())[A].user_name == "ualice"
