"""Up to when everything was read, as a run that came to its end says."""

import zipfile
from pathlib import Path

import pytest

from channelstats.ingest.sync import Part
from support.channelstats.fake_slack import Fault
from support.channelstats.house import EXAMPLE, House
from support.channelstats.slack_house import Slack
from support.channelstats.small_workspace import at, said, workspace
from support.channelstats.workspace import write_zip


async def test_an_import_has_read_up_to_its_newest_message(empty: House) -> None:
    await empty.take_in(EXAMPLE)
    assert await empty.tables.configuration.last_run() == 1_710_630_900


async def test_an_older_import_takes_no_week_back(empty: House, tmp_path: Path) -> None:
    for number, day in enumerate((9, 2)):
        await empty.take_in(write_zip(workspace(a=[said(day)]).files(), tmp_path / f"{number}.zip"))
        assert await empty.tables.configuration.last_run() == int(at(9))


async def test_an_import_without_messages_reads_up_to_nowhere(empty: House, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file:
        file.writestr("users.json", "[]")
        file.writestr("channels.json", "[]")
    await empty.take_in(tmp_path / "x.zip")
    assert await empty.tables.configuration.last_run() == 0


async def test_a_sync_that_ends_has_read_up_to_its_beginning(empty: House, slack: Slack) -> None:
    slack.serve(workspace(a=[said(1)]))
    await slack.sync(empty, now=at(3))
    assert await empty.tables.configuration.last_run() == int(at(3))


@pytest.mark.parametrize("error", ["missing_scope", "token_revoked"])
async def test_a_sync_that_could_not_read_messages_has_read_up_to_nowhere(
    empty: House, slack: Slack, error: str
) -> None:
    fault = Fault("error", error, method="conversations.list", times=-1)
    slack.serve(workspace(a=[said(1)]), fault)
    await slack.sync(empty, now=at(3))
    assert await empty.tables.configuration.last_run() == 0


async def test_a_sync_of_people_alone_has_read_up_to_nowhere(empty: House, slack: Slack) -> None:
    slack.serve(workspace(a=[said(1)]))
    await slack.sync(empty, now=at(3), parts=frozenset({Part.USERS, Part.CHANNELS}))
    assert await empty.tables.configuration.last_run() == 0
