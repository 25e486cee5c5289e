"""A workspace taken in from the Web API is the same as from its export.

What differs, and why: `fetched_at` and `source` of messages (a run is as recent as its clock, an
export as its newest message); `insert_timestamp` and UserCreated (an export does not say when a
user was first seen); the day of the counts' history, the time of the samples of members and of
what Configuration is as of (again: the clock).
"""

import random
from pathlib import Path
from typing import Any

import pytest

from channelstats.counting import Counting
from keytables import Item
from support.channelstats.house import EXAMPLE, House, house
from support.channelstats.random_workspace import Maker, settings
from support.channelstats.slack_house import Slack, consistent
from support.channelstats.workspace import Workspace, read_folder, write_zip
from support.soak import slow_after

NOW = 1_800_000_000.0

_OF_THE_SOURCE = {
    "Message": {"fetched_at", "source"},
    "User": {"insert_timestamp"},
}


async def what_is_said(of: House) -> dict[str, Any]:
    """Every table without what is of the source."""
    tables: dict[str, Any] = await of.everything()
    del tables["UserCreated"]
    for name, attributes in _OF_THE_SOURCE.items():
        tables[name] = {
            key: {column: value for column, value in item.items() if column not in attributes}
            for key, item in tables[name].items()
        }
    configuration: dict[str, Item] = tables["Configuration"]
    del configuration["as_of"], configuration["last_run"]
    history = configuration.pop("counts_history", {})
    tables["counts"] = [value for value in history.values() if isinstance(value, dict)]
    log = tables["ChannelMembersLog"]
    tables["ChannelMembersLog"] = {
        cid: [value for name, value in item.items() if name.startswith("ts_")]
        for cid, item in log.items()
    }
    return tables


async def both(of: Workspace, slack: Slack, tmp_path: Path, counting: Counting) -> list[Any]:
    found = []
    async with house(tmp_path / "export") as opened:
        path = write_zip(of.files(), tmp_path / "x.zip")
        await opened.take_in(path, counting=counting, now=NOW)
        found.append(await what_is_said(opened))
    slack.serve(of, most=7)
    async with house(tmp_path / "api") as opened:
        finished = await slack.sync(opened, now=NOW, counting=counting)
        assert (finished.ok, finished.problems) == (True, 0)
        found.append(await what_is_said(opened))
    return found


async def test_the_worked_example_is_the_same_from_both(slack: Slack, tmp_path: Path) -> None:
    exported, synced = await both(consistent(read_folder(EXAMPLE)), slack, tmp_path, Counting())
    assert len(exported["Message"]) == 15
    assert exported == synced


@pytest.mark.parametrize("seed", slow_after(1, range(4)))
async def test_any_workspace_is_the_same_from_both(slack: Slack, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    of = consistent(Maker(rng, settings(rng)).workspace(60))
    exported, synced = await both(of, slack, tmp_path, Counting(include_bots=rng.random() < 0.5))
    assert exported == synced


async def test_a_sync_goes_on_where_an_export_ended(
    slack: Slack, empty: House, tmp_path: Path
) -> None:
    """What both hold is in the tables once; what came later is added."""
    whole = consistent(read_folder(EXAMPLE))
    await empty.take_in(write_zip(whole.files(), tmp_path / "x.zip"))
    slack.serve(whole)
    finished = await slack.sync(empty, now=NOW)
    assert (finished.messages, finished.changed) == (15, 0)
    assert len(await empty.items("Message")) == 15
