"""The document as a whole."""

import json
from datetime import date
from typing import Any

import orjson
import polars as pl
import pytest

from channelstats.counting import Counting
from channelstats.facts import Inputs, Options, Period
from channelstats.facts.reading import load_inputs
from channelstats.pages.document import report
from channelstats.tables.columns import MESSAGES, frame_of
from channelstats.tables.directory import FirstPost, User
from support.channelstats.house import UTC, House, decoded

W1, W2 = (Period(start, 7, UTC) for start in (date(2024, 3, 3), date(2024, 3, 10)))


async def test_it_is_the_same_after_it_was_written_and_read(example: House) -> None:
    document = decoded(await example.report(W2, Options()))
    assert orjson.loads(orjson.dumps(document)) == document
    assert json.dumps(orjson.loads(orjson.dumps(document))) == json.dumps(document)


KEYS = """
start_date end_date days statistics users user_stats enriched_user channels channel_stats
channel_user enriched_channel weekday hour user_weekday user_weekday_hour
weekday_activity_percentage weekday_actity_percentage_periods timezone posters_per_timezone
reaction reaction_count reply_count

schema_version profile report_timezone generated_at input_fingerprint
weekday_activity_percentage_periods emoji_rate new_statistics compared
"""


async def test_its_keys_are_those_of_the_specification(example: House) -> None:
    document = decoded(await example.report(W2, Options()))
    assert set(document) == set(KEYS.split())
    assert document["report_timezone"] == "UTC"
    assert (document["start_date"], document["end_date"]) == ("2024-03-10", "2024-03-16")


@pytest.mark.slow
async def test_the_fingerprint_is_of_the_messages_of_both_periods(example: House) -> None:
    messages = (await load_inputs(example.tables, W2, Options())).messages

    def fingerprint(keep: pl.Expr, at: int = 1) -> object:
        inputs = Inputs(messages.filter(keep))
        return decoded(report(inputs, W2, Options(), generated_at=at))["input_fingerprint"]

    whole = fingerprint(pl.lit(value=True))
    assert fingerprint(pl.lit(value=True), at=2) == whole
    for ts in (1710630900001500, 1709508600000200):  # the last one, and the first one counted
        assert fingerprint(pl.col("ts") != ts) != whole


@pytest.mark.parametrize(
    ("counting", "first"),
    [(Counting(), 1), (Counting(include_bots=True), 2)],
)
def test_who_turned_out_to_be_a_bot_is_no_first_time_poster(counting: Counting, first: int) -> None:
    post = FirstPost(f"{W1.begin}.000000", "C1")
    inputs = Inputs(
        MESSAGES.to_frame(),
        users={"UBOT": User("UBOT", is_bot=True)},
        first_posts={"UBOT": post, "UALICE": post},
    )
    found: Any = decoded(report(inputs, W1, Options(counting), generated_at=0))
    assert found["statistics"]["first-time posters"] == first


def test_authors_of_a_zone_that_does_not_exist_are_in_no_zone() -> None:
    messages = frame_of([{"ts": f"{W1.begin}.000000", "slack_cid": "C1", "slack_uid": "UA"}])
    inputs = Inputs(messages, users={"UA": User("UA", tz="Mars/Olympus")})
    found = decoded(report(inputs, W1, Options(), generated_at=0))
    assert found["statistics"]["posters"] == 1
    assert found["posters_per_timezone"] == found["user_weekday"] == {}
