"""Up to when everything was read, as a run that came to its end says."""

import zipfile
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

import msgspec
import pytest

from channelstats.ingest.export_import import ImportOptions
from channelstats.ingest.sync import Part
from support.channelstats.fake_slack import Fault
from support.channelstats.house import EXAMPLE, House
from support.channelstats.slack_house import EVERYTHING, Slack
from support.channelstats.small_workspace import at, said, workspace
from support.channelstats.workspace import write_zip

HISTORY = "conversations.history"


async def test_a_folder_has_been_read_up_to_the_end_of_the_day_of_its_newest_message(
    empty: House,
) -> None:
    await empty.take_in(EXAMPLE)
    assert await empty.tables.configuration.last_run() == 1_710_633_600


async def test_a_zip_has_been_read_up_to_when_its_files_were_written(
    empty: House, tmp_path: Path
) -> None:
    written = datetime(2023, 11, 18, 9, tzinfo=UTC)
    path = write_zip(workspace(a=[said(0)]).files(), tmp_path / "a.zip", written=written)
    await empty.take_in(path)
    assert await empty.tables.configuration.last_run() == 1_700_298_000


async def test_the_day_that_is_given_counts(empty: House, tmp_path: Path) -> None:
    path = write_zip(workspace(a=[said(0)]).files(), tmp_path / "a.zip")
    await empty.take_in(path, options=ImportOptions(until=date(2023, 11, 18)))
    assert await empty.tables.configuration.last_run() == 1_700_352_000


async def test_an_older_import_takes_no_week_back(empty: House, tmp_path: Path) -> None:
    found = []
    for number, day in enumerate((9, 2)):
        await empty.take_in(write_zip(workspace(a=[said(day)]).files(), tmp_path / f"{number}.zip"))
        found.append(await empty.tables.configuration.last_run())
    assert found[0] == found[1] >= int(at(9))


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


# ── channels that were not read ──────────────────────────────────────────────────────────────────


def failing(do: str, value: str = "", channel: str = "", **more: object) -> Fault:
    return Fault(do, value, method=HISTORY, channel=channel, times=-1, more=dict(more))


@pytest.mark.parametrize(
    ("fault", "unread"),
    [
        pytest.param(
            failing("error", "missing_scope", needed="channels:history"),
            f"every public channel: {HISTORY}: the token lacks the scope channels:history",
            id="of all: a scope that is missing",
        ),
        pytest.param(
            failing("rate", "7200", channel="CB"),
            f"b: {HISTORY}: rate limited for 7200 seconds",
            id="of one: too long a wait",
        ),
        pytest.param(
            failing("cut", channel="CB"), f"b: {HISTORY}: the answer was cut, 6 times", id="cuts"
        ),
        pytest.param(
            failing("error", "token_revoked", channel="CB"),
            f"{HISTORY}: token_revoked: the token was revoked",
            id="a token that was revoked",
        ),
        pytest.param(
            failing("error", "channel_not_found"),
            f"a: {HISTORY}: channel_not_found: there is no such channel, or the token may not see "
            "it and 1 more",
            id="of all: refused",
        ),
    ],
)
async def test_while_something_could_not_be_read_the_time_stays_until_a_run_has_read_it(
    empty: House, slack: Slack, fault: Fault, unread: str
) -> None:
    of, configuration = workspace(a=[said(1)], b=[said(1)]), empty.tables.configuration
    slack.serve(of)
    await slack.sync(empty, now=at(2))
    slack.serve(of, fault)
    await slack.sync(empty, now=at(3))
    assert await configuration.last_run() == int(at(2))
    assert await configuration.unread() == unread
    slack.serve(of)
    await slack.sync(empty, now=at(3) + 7 * 3600)
    assert await configuration.last_run() == int(at(3)) + 7 * 3600
    assert await configuration.unread() == ""


@pytest.mark.parametrize("code", ["channel_not_found", "not_in_channel", "no_permission"])
async def test_what_the_token_may_not_read_does_not_keep_the_rest_from_being_read(
    empty: House, slack: Slack, code: str
) -> None:
    slack.serve(workspace(a=[said(1)], b=[said(1)]), failing("error", code, channel="CB"))
    await slack.sync(empty, now=at(3))
    assert await empty.tables.configuration.last_run() == int(at(3))


async def test_a_channel_that_is_called_as_a_step_is_a_channel(empty: House, slack: Slack) -> None:
    refused = failing("error", "channel_not_found", channel="CMESSAGES")
    slack.serve(workspace(a=[said(1)], messages=[said(1)]), refused)
    await slack.sync(empty, now=at(3))
    assert await empty.tables.configuration.last_run() == int(at(3))


async def test_channels_that_are_left_out_do_not_count(empty: House, slack: Slack) -> None:
    slack.serve(workspace(a=[said(1)], b=[said(1)]), failing("status", "500", channel="CB"))
    choice = msgspec.structs.replace(EVERYTHING, exclude=frozenset({"b"}))
    await slack.sync(empty, now=at(3), options=choice)
    assert await empty.tables.configuration.last_run() == int(at(3))


@pytest.mark.parametrize("more", [{"only": frozenset({"a"})}, {"exclude": frozenset({"a", "b"})}])
async def test_a_sync_of_some_channels_or_none_has_read_up_to_nowhere(
    empty: House, slack: Slack, more: Mapping[str, frozenset[str]]
) -> None:
    slack.serve(workspace(a=[said(1)], b=[said(1)]))
    await slack.sync(empty, now=at(3), options=msgspec.structs.replace(EVERYTHING, **more))
    assert await empty.tables.configuration.last_run() == 0


async def test_a_run_that_goes_on_has_read_up_to_the_beginning_of_the_first(
    empty: House, slack: Slack
) -> None:
    of = workspace(a=[said(1)], b=[said(1)])
    slack.serve(of, failing("error", "token_revoked", channel="CB"))
    choice = msgspec.structs.replace(EVERYTHING, concurrency=1)
    await slack.sync(empty, now=at(3), options=choice)
    slack.serve(of)
    await slack.sync(empty, now=at(3) + 3600, options=choice)
    assert [asked["channel"] for asked in slack.calls(HISTORY)] == ["CB"]
    assert await empty.tables.configuration.last_run() == int(at(3))
