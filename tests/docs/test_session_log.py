"""The lines about sessions that the page on operations describes are those that are logged."""

import re
from pathlib import Path

import pytest

from autopush.protocol.effects import DropReason
from support.connection_harness import CHANNEL, Harness
from support.log_lines import LogFile
from support.paths import ROOT

PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
SECTION = PAGE.partition("\n### Sessions\n")[2].partition("\n## ")[0]
EVENTS, FIELDS, REASONS = (
    [re.split(r"(?<!\\) ?\| ?", line)[1:-1] for line in table.splitlines()[2:]]
    for table in re.findall(r"(?:^\|.*\n)+", SECTION, re.MULTILINE)
)


def named(cell: str) -> set[str]:
    """What stands as code in the cell of a table."""
    return set(re.findall(r"`(\w+)`", cell))


@pytest.fixture
async def log(tmp_path: Path) -> LogFile:
    """Of a session in which everything happened that has a line."""
    log = LogFile(tmp_path)
    harness = await Harness.open()
    agent = await harness.subscribed()
    message = harness.message(agent.uaid)
    assert agent.connection.deliver(message, None)
    agent.send_json(messageType="nack", version=message.version, code=301)
    agent.send_json(messageType="unregister", channelID=CHANNEL, code=200)
    await harness.run_until_idle()
    harness.node.log.dropped(agent.uaid, DropReason.NO_MESSAGE_TABLE)
    agent.disconnect()
    await harness.run_until_idle()
    return log


def test_the_fields_of_a_session_are_those_of_its_table(log: LogFile) -> None:
    (fields,) = log.fields("Session")
    documented = [name for row in FIELDS for name in re.findall(r"`(\w+)`", row[0])]
    assert list(fields) == documented


def test_every_other_event_has_a_row_with_its_fields(log: LogFile) -> None:
    events = {row[0].strip("`"): row[2] for row in EVENTS}
    assert list(events) == ["Register", "Unregister", "Nack", "Dropping User", "Session"]
    for event in set(events) - {"Session"}:
        (fields,) = log.fields(event)
        cell = re.sub(r"`reason`: .*?;", "`reason`;", events[event])
        assert fields.keys() == {"uaid_hash"} | named(cell), event
