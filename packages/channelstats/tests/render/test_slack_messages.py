"""The limits of a Slack message."""

from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from channelstats.render.names import Directory
from channelstats.render.slack import (
    MOST_BLOCKS,
    MOST_CHARACTERS,
    SlackBlock,
    as_content,
    characters_of,
    first_part,
    messages_of,
    split_blocks,
)
from channelstats.views.model import Choice, Kind, Page, Span


def text_of(length: int) -> SlackBlock:
    return {"type": "section", "text": {"type": "mrkdwn", "text": "x" * length}}


SOME = st.builds(text_of, st.integers(1, 3000))


@given(st.lists(SOME, max_size=150))
def test_every_message_is_within_the_limits_and_no_block_is_lost(blocks: list[SlackBlock]) -> None:
    parts = split_blocks(blocks)
    assert [block for part in parts for block in part] == blocks
    for part in parts:
        assert len(part) <= MOST_BLOCKS
        assert sum(map(characters_of, part)) <= MOST_CHARACTERS


def test_a_message_is_filled_before_the_next_one_begins() -> None:
    assert [len(part) for part in split_blocks([text_of(1)] * 120)] == [50, 50, 20]
    assert [len(part) for part in split_blocks([text_of(3000)] * 7)] == [3, 3, 1]


@given(st.lists(SOME, min_size=1, max_size=60), st.integers(1, MOST_BLOCKS))
def test_a_part_has_a_block_and_no_more_than_asked_for(blocks: list[SlackBlock], most: int) -> None:
    part = first_part(blocks, most)
    assert part == blocks[: len(part)]
    assert 1 <= len(part) <= most


def report_for(name: str) -> tuple[Page, Directory]:
    title = ("Report for ", Span("UBOB", Kind.PERSON))
    day = date(2024, 3, 10)
    made = Page("user", title, Choice(day, day), (day, day), period="Sunday")
    return made, Directory(people={"UBOB": name})


def test_a_name_alerts_nobody_in_what_notifications_show() -> None:
    content = as_content(*report_for("<!channel> & co"))
    assert content.text == "Report for @&lt;!channel&gt; &amp; co: Sunday"


def test_a_message_is_posted_as_it_is() -> None:
    [message] = messages_of(as_content(*report_for("bob")))
    assert message["text"] == "Report for @bob: Sunday"
    assert (message["unfurl_links"], message["unfurl_media"]) == (False, False)
    assert "parse" not in message
