"""The Slack blocks of the worked example under the profile compat; test_digest has the others."""

import json
from fractions import Fraction
from typing import Any

import pytest

from channelstats.render.names import Directory
from channelstats.render.slack import slack_text, split_text
from channelstats.stats.quantities import Quantity, change
from support.channelstats.weeks import Week

A, CGEN, CDEV = "UALICE", "CGEN", "CDEV"
UP, DOWN = ":green_arrow_up:", ":red_arrow_down:"


def blocks(week: Week, kind: str, subject: str = "") -> list[dict[str, Any]]:
    messages = json.loads(week.text(kind, "slack", subject))["messages"]
    return [block for message in messages for block in message["blocks"]]


def texts(week: Week, kind: str, subject: str = "") -> list[str]:
    """The texts of blocks, `---` for a divider, fields joined by ` | `."""
    found = []
    for block in blocks(week, kind, subject):
        if block["type"] == "divider":
            found.append("---")
        elif "text" in block:
            found.append(block["text"]["text"])
        else:
            found.append(" | ".join(field["text"] for field in block["fields"]))
    return found


def test_the_global_report_has_38_blocks_and_the_brief_one_26(w2: Week) -> None:
    assert len(blocks(w2, "global")) == 38
    assert len(blocks(w2, "brief")) == 26


def test_the_lead_compares_with_the_week_before(w2: Week) -> None:
    title, who, what, rule = texts(w2, "global")[:4]
    assert title == "*Workspace report*\nSunday 10 March 2024 to Saturday 16 March 2024"
    assert who.split("\n") == [
        "People who posted: *3* of *3*",
        "Members who posted: *100.0%*",
        "Median messages per person: *3*",
        "Top 10's share of messages: *100.0%*",
        f"People who wrote half of all words: *1* (-50%){DOWN}",
        "First-time posters: not known",
    ]
    assert what.split("\n") == [
        f"Words: *40* (+54%){UP}",
        f"Messages: *8* (+60%){UP}",
        "Pages: *0*",
        f"Words per message: *5* (-4%){DOWN}",
        f"Words per person: *13.3* (+54%){UP}",
        f"Messages per person: *2.7* (+60%){UP}",
    ]
    assert rule == "---"


def test_the_lines_of_channels(w2: Week) -> None:
    lines = texts(w2, "global")
    assert lines[4] == "*Top 20 channels* (2 of 2 channels with messages)"
    assert lines[5:7] == [
        (
            f"1. <#CGEN|general> *3*/*3* posters, *24* (+50%){UP}w, *5* (+67%){UP}m, "
            f"*8* (+50%){UP} words/poster, *60.0%* (-2%){DOWN} of traffic, "
            f"*60.0%* (-2%){DOWN} cumulative"
        ),
        (
            f"2. <#CDEV|dev> *3* (+50%){UP}/*3* posters, *16* (+60%){UP}w, *3* (+50%){UP}m, "
            f"*5.3* (+7%){UP} words/poster, *40.0%* (+4%){UP} of traffic, *100.0%* cumulative"
        ),
    ]


def test_the_brief_report_has_no_detail_tails_no_zones_and_no_hours(w2: Week) -> None:
    lines = texts(w2, "brief")
    assert lines[5] == f"1. <#CGEN|general> *3*/*3* posters, *24* (+50%){UP}w, *5* (+67%){UP}m"
    whole = "\n".join(lines)
    assert "cumulative" not in whole
    assert "Time zones" not in whole
    assert "0900-0959" not in whole


def test_the_lines_of_people_are_those_who_make_half(w2: Week) -> None:
    lines = texts(w2, "global")
    assert lines[8] == "*Top 20 people* (2 of 2 people who wrote half of all words)"
    assert lines[9] == (
        f"1. <@UALICE> *20* (+150%){UP}w, *3* (+200%){UP}m, *10* (-73%){DOWN} reactions/100 words, "
        f"*3* (+50%){UP} replies to their threads, *50.0%* (+62%){UP} of traffic, "
        f"*50.0%* (-32%){DOWN} cumulative"
    )
    assert lines[10].startswith(f"2. <@UBOB> *10* (-9%){DOWN}w, *3* (+50%){UP}m, ")
    assert lines[11] == "---"


def test_the_days_are_seven_lines_in_one_text(w2: Week) -> None:
    days = next(text for text in texts(w2, "global") if text.startswith("Monday "))
    assert days.split("\n") == [
        f"Monday *12* (-37%){DOWN} words in *2* (-33%){DOWN} messages",
        "Tuesday *5* words in *1* message",
        "Wednesday *9* :infinity: words in *1* :infinity: message",
        "Thursday *2* words in *1* message",
        "Friday *0* words in *0* messages",
        "Saturday *0* words in *0* messages",
        "Sunday *12* :infinity: words in *3* :infinity: messages",
    ]


def test_global_hours_have_24_rows_with_the_mean_share_and_what_was_said(w2: Week) -> None:
    rows = [
        (label["text"], value["text"])
        for block in blocks(w2, "global")
        if "fields" in block
        for label, value in zip(block["fields"][::2], block["fields"][1::2], strict=True)
    ]
    assert rows[0] == ("*Hour*", "*Share*")
    assert len(rows) == 25
    assert dict(rows)["0900-0959"] == f"`{'*' * 44}` 44.4% (2 msgs, 14 words)"
    assert dict(rows)["1700-1759"] == f"`{'*' * 33}` 33.3% (1 msgs, 3 words)"
    assert dict(rows)["2300-2359"] == "0.0% (0 msgs, 0 words)"


def test_emoji_and_message_lists_end_the_global_report(w2: Week) -> None:
    assert texts(w2, "global")[-11:] == [
        "*Top emoji*",
        (
            "*2* :eyes: — 50.00/1000\n*2* :tada: — 50.00/1000\n*1* :+1: — 25.00/1000\n"
            "*1* :rocket: — 25.00/1000"
        ),
        "---",
        "*Messages with the most reactions*",
        (
            "<https://example.slack.com/archives/CDEV/p1710630900001500|3 reactions> in "
            "<#CDEV|dev> by <@UBOB>, 2024-03-16 23:15"
        ),
        (
            "<https://example.slack.com/archives/CGEN/p1710172800000900"
            "?thread_ts=1710172800.000900&cid=CGEN|2 reactions> in <#CGEN|general> by <@UALICE>, "
            "2024-03-11 16:00"
        ),
        (
            "<https://example.slack.com/archives/CGEN/p1710174000001000"
            "?thread_ts=1710172800.000900&cid=CGEN|1 reaction> in <#CGEN|general> by <@UBOB>, "
            "2024-03-11 16:20"
        ),
        "---",
        "*Messages with the most replies*",
        (
            "<https://example.slack.com/archives/CGEN/p1710172800000900"
            "?thread_ts=1710172800.000900&cid=CGEN|3 replies> in <#CGEN|general> by <@UALICE>, "
            "2024-03-11 16:00"
        ),
        "---",
    ]


def test_the_channel_report(w2: Week) -> None:
    assert texts(w2, "channel", CDEV) == [
        "*Report on <#CDEV|dev>*\nSunday 10 March 2024 to Saturday 16 March 2024",
        "---",
        "Members: *3*",
        (
            f"Messages: *3* (+50%){UP}\nWords: *16* (+60%){UP}\nPeople who posted: *3* (+50%){UP}\n"
            f"Share of all words: *40.0%* (+4%){UP}"
        ),
        "---",
        (
            "*Rank / Person* | *Messages / Words* | 1. <@UALICE> | *1*:new:m, *9*:new:w | "
            f"2. <@UCARA> | *1*m, *5*w | 3. <@UBOB> | *1*m, *2* (-60%){DOWN}w"
        ),
        "---",
        "*3* reactions sent",
        "*2* :tada: — 125.00/1000\n*1* :rocket: — 62.50/1000",
        "*Messages with the most reactions*",
        (
            "<https://example.slack.com/archives/CDEV/p1710630900001500|3 reactions> by <@UBOB>, "
            "2024-03-16 23:15"
        ),
        "---",
        "*Hours, Monday to Friday, local time*",
        f"*Hour* | *Share* | 1500-1559 | `{'*' * 100}` 100.0% (1 msgs)",
        "*Days, local time*",
        (
            f"*Day* | *Share* | Wednesday | `{'*' * 33}` 33.3% (1 msgs) | "
            f"Sunday | `{'*' * 66}` 66.7% (2 msgs)"
        ),
    ]


def test_a_silent_channel_is_a_title_and_one_note(weeks: dict[str, Week]) -> None:
    found = texts(weeks["silent"], "channel", CDEV)
    [note] = found[1:]
    assert note.startswith("Nothing was posted here in this period. The newest message")


def test_the_first_week_is_compared_with_nothing_and_it_is_said(weeks: dict[str, Week]) -> None:
    found = texts(weeks["W1"], "channel", CDEV)
    since = "Messages are known since 2024-03-03: nothing is compared with the period before."
    assert found[1] == since
    assert found[3].startswith("Messages: *2*\nWords: *10*\n")  # no word of members
    assert found[-1].startswith("*Day* | *Share*")


def test_the_user_report_in_its_order(w2: Week) -> None:
    found = texts(w2, "user", A)
    assert found[:6] == [
        "*Report for <@UALICE>*",
        "Account created: not known",
        (
            "First message: <https://example.slack.com/archives/CGEN/p1709573400000300|2024-03-04, "
            "17 days ago> in <#CGEN|general>"
        ),
        "---",
        "Sunday 10 March 2024 to Saturday 16 March 2024",
        (
            f"Words: *20* (+150%){UP}\nMessages: *3* (+200%){UP}\nRank by words: 1st of 3\n"
            f"Share of all words: *50.0%* (+62%){UP}\nReplies to your threads: *3* (+50%){UP}"
        ),
    ]
    bar = f"`{'*' * 33}` 33.3% (1 msgs)"
    assert f"*Hour* | *Share* | 0800-0859 | {bar} | 0900-0959 | {bar} | 1500-1559 | {bar}" in found
    group = found.index("*Who reacts to you*")
    assert found[group + 1 : group + 3] == [
        f"Times: *2* (-33%){DOWN}\nDifferent people: *2*",
        "*Person* | *Times* | <@UBOB> | *1* | <@UCARA> | *1*",
    ]
    titles = [text for text in found if text.startswith(("*Who", "*Rea", "*Thr", "*Men"))]
    assert titles == [
        "*Who reacts to you*",
        "*Who you react to*",
        "*Reactions, both ways*",
        "*Who replies in your threads*",
        "*Threads, both ways*",
        "*Who you mention*",
        "*Mentions, both ways*",
    ]
    assert found[-1].startswith("You get this because")


def test_a_user_who_did_nothing_gets_a_report(w2: Week) -> None:
    found = texts(w2, "user", "UDAVE")
    assert "Words: *0*\nMessages: *0*" in found
    assert "People who posted: *3* of *3*" in texts(w2, "global")[1]


@pytest.mark.parametrize("kind", ["global", "brief"])
def test_a_silent_week_is_a_report_of_zeros(weeks: dict[str, Week], kind: str) -> None:
    found = texts(weeks["silent"], kind)
    assert "Messages: *0*" in found[2]
    assert "*Messages with the most reactions*" not in found


@pytest.mark.parametrize(("kind", "subject"), [("global", ""), ("brief", ""), ("user", A)])
def test_a_week_that_is_not_over_is_not_compared_and_it_is_said(
    weeks: dict[str, Week], kind: str, subject: str
) -> None:
    found = texts(weeks["after"], kind, subject)
    assert "Messages are known up to 2024-03-16: nothing is compared" in "\n".join(found)
    assert not [text for text in found if "%)" in text or ":new:" in text or ":infinity:" in text]


def test_a_missing_name_shows_the_id(w2: Week) -> None:
    bare = w2.named(Directory(slack_name="example"))
    assert texts(bare, "global")[5].startswith("1. <#CGEN|CGEN> *3*")


def test_a_name_is_never_markup(w2: Week) -> None:
    directory = Directory(channels={CGEN: "<!channel> & co|x"})
    found = texts(w2.named(directory), "global")[5]
    assert found.startswith("1. <#CGEN|&lt;!channel&gt; &amp; co¦x> *3*")


def test_without_the_name_of_the_workspace_nothing_is_linked(w2: Week) -> None:
    found = texts(w2.named(Directory()), "global")
    assert any(text.startswith("3 reactions in ") for text in found)


@pytest.mark.parametrize("limit", [10, 50, 3000])
def test_a_long_text_is_split_and_nothing_lost(limit: int) -> None:
    text = "\n".join(f"line {number} " + "w" * number for number in range(60))
    parts = split_text(text, limit)
    assert all(0 < len(part) <= limit for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_where_history_begins_in_the_period_it_is_said(weeks: dict[str, Week]) -> None:
    known = "First-time posters: not known\nHistory known since: 2024-03-03"
    assert texts(weeks["W1"], "global")[1].endswith(known)
    assert "History" not in "".join(texts(weeks["W2"], "global"))


@pytest.mark.parametrize(
    ("cur", "prev", "label", "percentage", "text"),
    [
        (5, 0, "", False, "*5* :infinity:"),
        (0, 3, "", False, "*0* (-100%):red_arrow_down:"),
        (1, 1, "word", False, "*1* word"),
        (1000, 1004, "", False, "*1,000*"),
        (1000, Fraction(10051, 10), "", False, "*1,000* (-1%):red_arrow_down:"),
        (12345, 10000, "word", False, "*12,345* (+23%):green_arrow_up: words"),
        (Fraction(5, 2), 2, "", False, "*2.5* (+25%):green_arrow_up:"),
        (Fraction(333333, 10000), 30, "", True, "*33.3%* (+11%):green_arrow_up:"),
        (Fraction(200999, 1000), 200, "", False, "*201.0*"),
        (0, 0, "", False, "*0*"),
        (9, None, "", False, "*9*:new:"),
        (2, 0, "message", False, "*2* :infinity: messages"),
        (0, 0, "message", False, "*0* messages"),
        (Fraction(60, 1), Fraction(1600, 26), "", True, "*60.0%* (-2%):red_arrow_down:"),
    ],
)
def test_a_number_against_the_one_before(
    cur: Quantity, prev: Quantity | None, label: str, percentage: bool, text: str
) -> None:
    assert slack_text(change(cur, prev), label, percentage=percentage) == text
