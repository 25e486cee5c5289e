"""Excluded people and channels are in no figure: the report is that of a workspace without them."""

import json
from datetime import date
from typing import Any

import pytest

from channelstats.facts import Options, Period
from channelstats.pages.stored_document import document_of
from support.channelstats.house import NOW, UTC, House, decoded
from support.clocks import ManualClock

W1, W2 = (Period(date(2024, 3, day), 7, UTC) for day in (3, 10))
WITHOUT_BOB = [Options(excluded_users=frozenset({name})) for name in ("UBOB", "bob")]
WITHOUT_DEV = [Options(excluded_channels=frozenset({name})) for name in ("CDEV", "dev")]


@pytest.mark.parametrize("options", WITHOUT_BOB)
async def test_an_excluded_person_is_nowhere(example: House, options: Options) -> None:
    for week in (W1, W2):
        document: Any = decoded(await example.report(week, options))
        assert "UBOB" not in str(document)
    assert document["users"] == {"UALICE": [3, 20], "UCARA": [2, 10]}
    assert document["new_statistics"]["edges"] == {"UALICE": {"UCARA": 2}, "UCARA": {"UALICE": 2}}
    assert document["reaction_count"][0][0] == 1  # of the two eyes one was theirs
    assert document["reply_count"] == [
        [2, "1710172800.000900", "CGEN", "UALICE", "1710172800.000900"]
    ]


@pytest.mark.parametrize("options", WITHOUT_DEV)
async def test_an_excluded_channel_is_nowhere(example: House, options: Options) -> None:
    document: Any = decoded(await example.report(W1, options))
    assert "CDEV" not in str(document)
    assert document["statistics"]["messages"] == 3
    # Their first posts there are not known, those elsewhere are.
    assert document["statistics"]["first-time posters"] == 3


async def test_a_stored_report_is_that_of_who_was_excluded_then(example: House) -> None:
    clock, posters = ManualClock(NOW), []
    for options in (Options(), WITHOUT_BOB[0], Options()):
        document: Any = json.loads(await document_of(example.tables, W2, options, clock=clock))
        posters.append(document["statistics"]["posters"])
    assert posters == [3, 2, 3]
