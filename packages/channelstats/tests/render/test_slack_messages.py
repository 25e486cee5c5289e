"""One message, within the limits of Slack."""

from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from channelstats.metrics.table import Kind
from channelstats.pages.model import Choice, Page, Span, Text
from channelstats.render.names import Directory
from channelstats.render.slack import (
    LONGEST_TEXT,
    MOST_BLOCKS,
    MOST_CHARACTERS,
    as_content,
    blocks_of,
    split_text,
)

PARAGRAPHS = st.integers(1, 4000).map(lambda length: "x " * (length // 2) + "y\nz")


def texts(paragraphs: list[str], last: str = "") -> list[str]:
    return [str(block["text"]["text"]) for block in blocks_of(paragraphs, last)]  # type: ignore[index]


@given(st.lists(PARAGRAPHS, max_size=70))
def test_a_message_is_within_the_limits_and_says_what_is_left_out(paragraphs: list[str]) -> None:
    found = texts(paragraphs, "last")
    assert len(found) <= MOST_BLOCKS
    assert sum(map(len, found)) <= MOST_CHARACTERS
    assert max(map(len, found)) <= LONGEST_TEXT
    assert found[-1] == "last"
    every = [part for paragraph in paragraphs for part in split_text(paragraph)]
    shown = len(found) - 1
    if found[:shown] != every:
        assert found[: shown - 1] == every[: shown - 1]
        left = sum(part.count("\n") + 1 for part in every[shown - 1 :])
        assert found[-2] == f"… and {left:,} more line{'s' * (left != 1)}"


def test_a_long_text_is_cut_at_line_ends_and_a_long_line_at_spaces() -> None:
    assert split_text("a\nb\nc", 3) == ["a\nb", "c"]
    assert split_text("one two three", 8) == ["one two", "three"]
    assert split_text("x" * 10, 4) == ["xxxx", "xxxx", "xx"]
    assert split_text("") == [""]


def report_for(name: str) -> tuple[Page, Directory]:
    title = ("Report for ", Span("UBOB", Kind.PERSON))
    day, lead = date(2024, 3, 10), (Text((("You wrote.",),)),)
    made = Page("user", title, Choice(day, day), (day, day), period="Sunday", lead=lead)
    return made, Directory(people={"UBOB": name})


def test_a_name_alerts_nobody_in_what_notifications_show() -> None:
    content = as_content(*report_for("<!channel> & co"))
    assert content.text == "Report for @&lt;!channel&gt; &amp; co: Sunday"


def test_a_message_is_posted_as_it_is() -> None:
    message = as_content(*report_for("bob")).message
    assert message["text"] == "Report for @bob: Sunday"
    assert (message["unfurl_links"], message["unfurl_media"]) == (False, False)
    assert "parse" not in message
