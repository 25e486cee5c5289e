"""The checks of `autopush doctor` that look at a PostgreSQL server."""

from collections.abc import Sequence
from typing import Any

import pytest

from autopush.commands.checks import Finding, Level
from autopush.commands.store_checks import check_server, check_store, server_findings
from autopush.settings import Settings
from keytables.postgresql.inspection import ServerState, Standby, TableState, UnusedSlot
from keytables.stores import PostgresUrl, open_engine, parse_store
from support.cases import cases
from support.checks import findings
from support.clocks import ManualClock
from support.postgres_servers import postgres

GB = 1_000_000_000


def state(**changes: Any) -> ServerState:
    """Of a server with which all is well."""
    fields: dict[str, Any] = {
        "version": 15,
        "release": "15.6",
        "ahead": 0.1,
        "max_connections": 97,
        "used_connections": 12,
        "fsync": True,
        "full_page_writes": True,
        "autovacuum": True,
        "waits_for_standby": False,
        "transaction_age": 250_000_000,
        "freeze_age": 200_000_000,
        "standbys": (),
        "unused_slots": (),
        "tables": (TableState("message", 90_000, 80_000, 70_000_000, 60.0),),
    }
    return ServerState(**fields | changes)


def found(**changes: Any) -> Sequence[Finding]:
    """The findings after the first one."""
    first, *others = server_findings(state(**changes), needed=40)
    assert first.level is Level.OK
    return others


def test_a_server_with_which_all_is_well_is_one_line() -> None:
    [finding] = server_findings(state(), needed=40)
    assert finding == (Level.OK, "PostgreSQL 15.6, 12 of 97 connections in use", "")


STANDBY = Standby("db2", "streaming", True, 1000)
WELL = [
    {"standbys": (STANDBY,), "waits_for_standby": True},
    {"unused_slots": (UnusedSlot("db3", 1000),)},
]


@pytest.mark.parametrize("changes", WELL, ids=["standby", "slot"])
def test_what_is_no_trouble_is_no_warning(changes: dict[str, Any]) -> None:
    assert {finding.level for finding in found(**changes)} <= {Level.OK}


@cases(
    ("changes", "level", "text"),
    [
        ({"version": 19}, Level.WARN, "PostgreSQL 19 is newer than this service"),
        (
            {"max_connections": 30},
            Level.WARN,
            "this node may need 40 connections, and the server has 30",
        ),
        ({"ahead": -90.0}, Level.WARN, "the clock of the server is 90 s behind ours"),
        ({"fsync": False}, Level.FAIL, "fsync is off: messages that were accepted are lost"),
        ({"full_page_writes": False}, Level.FAIL, "full_page_writes is off"),
        ({"autovacuum": False}, Level.FAIL, "autovacuum is off"),
        ({"waits_for_standby": True}, Level.FAIL, "no standby is synchronous"),
        (
            {"standbys": (Standby("db2", "catchup", False, 3 * GB),)},
            Level.WARN,
            "standby db2 is in state catchup",
        ),
        (
            {"standbys": (Standby("db2", "streaming", False, 3 * GB),)},
            Level.WARN,
            "standby db2 is 3.0 GB of the log behind",
        ),
        (
            {"unused_slots": (UnusedSlot("db3", 5 * GB),)},
            Level.WARN,
            "5.0 GB of the log are kept for slot db3",
        ),
        (
            {"tables": (TableState("message", 1_000, 900_000, 70_000_000, None),)},
            Level.WARN,
            "table message has 900,000 dead rows and 1,000 others, in 70 MB; last vacuumed: never",
        ),
        (
            {"transaction_age": 900_000_000},
            Level.WARN,
            "the oldest transaction ID has 42% of the age at which writes stop",
        ),
        (
            {"transaction_age": 1_900_000_000},
            Level.FAIL,
            "the oldest transaction ID has 88% of the age at which writes stop",
        ),
    ],
)
def test_what_will_end_in_trouble_is_named_with_advice(
    changes: dict[str, Any], level: Level, text: str
) -> None:
    troubles = [finding for finding in found(**changes) if finding.level is not Level.OK]
    assert any(each.level is level and each.found.startswith(text) for each in troubles)
    assert all(each.advice for each in troubles)


async def test_the_state_is_that_of_the_server() -> None:
    """That of the tests may lose what it has committed when the machine fails, and says so."""
    url = f"{postgres().url()}&schema=doctor&connections=3"
    engine = await open_engine(url)
    await engine.close()
    checked = await findings(check_store, Settings(store=url))
    (level, first), *others = checked
    assert level == "OK"
    assert first.startswith("PostgreSQL ")
    assert any(text.startswith("fsync is off") for _, text in others)
    assert any(text.startswith("missing: router, storage, message") for _, text in others)
    place = parse_store(url)
    assert isinstance(place, PostgresUrl)
    late = await check_server(Settings(store=url), place, ManualClock(0.0))
    assert any(finding.found.endswith("s ahead of ours") for finding in late)
