"""A report in a few sentences, as Slack shows it."""

import json
import re
from dataclasses import replace

import polars as pl
import pytest

from channelstats.metrics.quantities import Quantity, change, not_compared
from channelstats.metrics.table import Kind
from channelstats.pages.reports import ReportKind, ReportRequest
from channelstats.render.names import Directory, emoji_sign
from channelstats.render.slack import content_of
from channelstats.render.words import change_words
from support.channelstats.weeks import Week

A, CGEN, CDEV = "UALICE", "CGEN", "CDEV"
DASHBOARD = "https://stats.example.org/team/"


def lines(week: Week, kind: str, subject: str = "", *, smallest: int = 1) -> list[str]:
    """The post, line by line."""
    wanted = ReportRequest(ReportKind(kind), subject, "stats-optin", "general", DASHBOARD)
    data = replace(week.data, smallest_group=smallest)
    blocks = content_of(wanted, data, week.directory).blocks
    texts = [json.loads(json.dumps(block))["text"]["text"] for block in blocks]
    return "\n".join(texts).split("\n")


def test_the_workspace_is_told_in_about_eight_lines_and_what_to_do(w2: Week) -> None:
    found = lines(w2, "global")
    assert found[:2] == [
        "*Workspace report*",
        "Sunday 10 March 2024 to Saturday 16 March 2024",
    ]
    assert found[2:4] == [
        "*3* people wrote *8* messages (60% more).",
        "Half of the first answers came within *20 min* (43% less).",
    ]
    assert (
        "Most messages are in <#CGEN|general> (*5* messages), <#CDEV|dev> (*3* messages)." in found
    )
    assert found[-2:] == [
        "Questions about this report? Ask in <#CGEN|general>.",
        f"<{DASHBOARD}?from=2024-03-10&amp;to=2024-03-16|More in the dashboard>",
    ]
    assert len(found) <= 15


def test_it_is_told_what_to_do_first(w2: Week) -> None:
    inputs = w2.data.data.inputs
    messages = inputs.messages.with_columns(question=pl.lit(value=True))
    asking = replace(w2.data.data, inputs=replace(inputs, messages=messages))
    found = lines(replace(w2, data=replace(w2.data, data=asking)), "global")
    to_do = found[found.index("To do:") + 1 : -2]
    assert 1 <= len(to_do) <= 3
    assert all("https://example.slack.com/archives/" in line for line in to_do)
    assert to_do[0].startswith(":eyes: Answer ")
    assert to_do[0].endswith("|the question>): Nobody answered this question.")
    # Nobody is notified that others are to welcome or contact them.
    assert not any("@" in line for line in to_do)
    assert any(
        f" {w2.directory.person(of)} in " in line
        for line in to_do
        for of in ("UALICE", "UBOB", "UCARA")
    )


@pytest.mark.parametrize(
    ("kind", "subject"), [("global", ""), ("brief", ""), ("channel", CDEV), ("user", A)]
)
def test_a_post_has_only_emoji_that_every_workspace_has(
    weeks: dict[str, Week], kind: str, subject: str
) -> None:
    for week in weeks.values():
        for line in lines(week, kind, subject):
            named = re.findall(r"(?<![\w/]):([a-z_+-][a-z0-9_+-]*):", line)
            assert all(map(emoji_sign, named)), line
            assert len(named) <= 1


def test_a_channel_is_told_about_itself_and_what_to_do_in_it(w2: Week) -> None:
    found = lines(w2, "channel", CDEV)
    assert found[2] == "*3* people (50% more) wrote *3* messages (50% more)."
    each = (f"<@{uid}> (*1* message)" for uid in ("UALICE", "UCARA", "UBOB"))
    assert f"Most messages are by {', '.join(each)}." in found
    assert "<#CGEN" not in "".join(found[:-2])
    assert found[-1].endswith("&amp;channel=CDEV|More in the dashboard>")


def test_a_silent_channel_is_one_sentence_and_to_be_revived(weeks: dict[str, Week]) -> None:
    note, to_do, revive, *_, uncompared, newest = lines(weeks["silent"], "channel", CDEV)[2:-2]
    assert note == "Nobody wrote anything."
    assert to_do == "To do:"
    assert revive.startswith(":hourglass: Revive <#CDEV|dev> (")
    assert uncompared.startswith("Messages are known up to 2024-03-16: nothing is compared")
    assert newest.startswith("The newest message of the workspace is of ")


def test_a_person_is_told_what_they_did_and_got_and_nothing_to_do(w2: Week) -> None:
    found = lines(w2, "user", A)
    assert (
        found[2]
        == "You wrote *3* messages (200% more), *37.5%* (17.5 points more) of all messages."
    )
    assert (
        "Most messages are in <#CGEN|general> (*2* messages), <#CDEV|dev> (*1* message)." in found
    )
    assert "To do:" not in found
    assert any(line.startswith("You get this because you are in #stats-optin.") for line in found)
    assert found[-1].endswith("&amp;person=UALICE|More in the dashboard>")


def test_who_wrote_nothing_is_told_so(w2: Week) -> None:
    assert lines(w2, "user", "UDAVE")[2] == "You wrote nothing."


def test_where_nothing_can_be_compared_it_is_said_and_nothing_is(weeks: dict[str, Week]) -> None:
    found = "\n".join(lines(weeks["after"], "global"))
    assert "Messages are known up to 2024-03-16: nothing is compared" in found
    assert not re.search(r"% (more|fewer|less)", found)


def test_nobody_is_named_where_too_few_posted(w2: Week) -> None:
    found = "\n".join(lines(w2, "global", smallest=5))
    assert "<@" not in found
    assert "<#CDEV" not in found


def test_without_its_address_the_dashboard_is_not_linked(w2: Week) -> None:
    content = content_of(ReportRequest(ReportKind.GLOBAL), w2.data, Directory())
    assert "dashboard" not in json.dumps(content.blocks)


@pytest.mark.parametrize(
    ("cur", "prev", "kind", "words"),
    [
        (160, 100, Kind.COUNT, "60% more"),
        (96, 100, Kind.COUNT, "4% fewer"),
        (30, 40, Kind.SECONDS, "25% less"),
        (52, 50, Kind.PERCENT, "2.0 points more"),
        (49, 50, Kind.PERCENT, "1.0 point less"),
        (5, 0, Kind.COUNT, "none before"),
        (5, None, Kind.COUNT, "new"),
        (100, 100, Kind.COUNT, ""),
    ],
)
def test_a_change_in_words(cur: Quantity, prev: Quantity | None, kind: Kind, words: str) -> None:
    assert change_words(change(cur, prev), kind) == words
    assert change_words(not_compared(cur), kind) == ""
