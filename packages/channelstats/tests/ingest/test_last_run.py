"""Up to when everything was read, as a run that came to its end says."""

import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from channelstats.ingest.runs import SyncOptions
from channelstats.ingest.sync import ALL, Part
from support.channelstats.fake_slack import Fault
from support.channelstats.house import House
from support.channelstats.slack_house import EVERYTHING, Slack
from support.channelstats.small_workspace import at, said, workspace
from support.channelstats.workspace import write_zip

HISTORY = "conversations.history"


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


# ── by the Web API ───────────────────────────────────────────────────────────────────────────────


def failing(do: str, value: str = "", channel: str = "", **more: object) -> Fault:
    return Fault(do, value, method=HISTORY, channel=channel, times=-1, more=dict(more))


@pytest.mark.parametrize(
    ("faults", "choice"),
    [
        ((), EVERYTHING),
        ((failing("error", "not_in_channel", "CB"),), EVERYTHING),
        ((failing("error", "channel_not_found", "CMESSAGES"),), EVERYTHING),
        ((failing("status", "500", "CB"),), replace(EVERYTHING, exclude=frozenset({"b"}))),
    ],
    ids=["all", "outside", "refused, and called as a step", "left out"],
)
async def test_a_sync_that_read_what_it_may_and_was_to_has_read_up_to_its_beginning(
    empty: House, slack: Slack, faults: tuple[Fault, ...], choice: SyncOptions
) -> None:
    slack.serve(workspace(a=[said(1)], b=[said(1)], messages=[said(1)]), *faults)
    await slack.sync(empty, now=at(3), options=choice)
    assert await empty.tables.configuration.last_run() == int(at(3))


LISTED = "conversations.list"


@pytest.mark.parametrize(
    ("faults", "choice", "parts"),
    [
        ((Fault("error", "missing_scope", method=LISTED, times=-1),), EVERYTHING, ALL),
        ((Fault("error", "token_revoked", method=LISTED, times=-1),), EVERYTHING, ALL),
        ((), EVERYTHING, frozenset({Part.USERS, Part.CHANNELS})),
        ((), replace(EVERYTHING, only=frozenset({"a"})), ALL),
        ((), replace(EVERYTHING, exclude=frozenset({"a", "b"})), ALL),
    ],
    ids=["no scope", "no token", "people alone", "one channel", "no channel"],
)
async def test_a_sync_that_read_no_messages_or_some_has_read_up_to_nowhere(
    empty: House,
    slack: Slack,
    faults: tuple[Fault, ...],
    choice: SyncOptions,
    parts: frozenset[Part],
) -> None:
    slack.serve(workspace(a=[said(1)], b=[said(1)]), *faults)
    await slack.sync(empty, now=at(3), options=choice, parts=parts)
    assert await empty.tables.configuration.last_run() == 0


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


async def test_a_run_that_goes_on_has_read_up_to_the_beginning_of_the_first(
    empty: House, slack: Slack
) -> None:
    of = workspace(a=[said(1)], b=[said(1)])
    slack.serve(of, failing("error", "token_revoked", channel="CB"))
    choice = replace(EVERYTHING, concurrency=1)
    await slack.sync(empty, now=at(3), options=choice)
    slack.serve(of)
    await slack.sync(empty, now=at(3) + 3600, options=choice)
    assert [asked["channel"] for asked in slack.calls(HISTORY)] == ["CB"]
    assert await empty.tables.configuration.last_run() == int(at(3))
