"""Sound objects are read, broken ones are told apart, and only what is no array costs a file."""

import pytest

from channelstats.slack.objects import (
    CHANNELS,
    MESSAGES,
    USERS,
    Edited,
    MalformedJson,
    SlackFile,
    SlackMessage,
    workspace_of,
)


def test_only_what_is_measured_is_read() -> None:
    (message,), broken = MESSAGES.decode(
        b'[{"type":"message","ts":"1700000000.000000","text":"hi","blocks":[{"x":1}],'
        b'"user_profile":{"email":"a@b.example","display_name":"ann"}}]'
    )
    assert not broken
    assert "example" not in repr(message)
    assert message.user_profile is not None
    assert message.user_profile.display_name == "ann"


def test_a_broken_object_costs_itself() -> None:
    found, broken = MESSAGES.decode(b'[{"ts":"1.2"},{"ts":7},null,"x",{"ts":"3.4"}]')
    assert [message.ts for message in found] == ["1.2", "3.4"]
    assert len(broken) == 3
    assert broken[0] == "ts is a number, expected a text"


@pytest.mark.parametrize(
    "odd",
    [
        '"reactions":"many"',
        '"reactions":[{"name":"a","users":["U1",7]},{"name":"b"}]',
        '"files":7,"room":[]',
    ],
)
def test_odd_members_of_a_message_cost_themselves(odd: str) -> None:
    (message,), (reason,) = MESSAGES.decode(
        f'[{{"ts":"1.2","text":"a b","edited":{{"ts":"1.1"}},{odd}}}]'.encode()
    )
    assert message == SlackMessage(ts="1.2", text="a b", edited=Edited("1.1"))
    assert reason.endswith("; the rest of the message was taken")


def test_numbers_may_be_text_as_in_old_exports() -> None:
    (channel,), broken = CHANNELS.decode(b'[{"id":"C1","name":"a","created":"1704067200"}]')
    assert not broken
    assert channel.created in ("1704067200", 1704067200)


def test_oddities_beside_the_point_cost_nothing() -> None:
    found, broken = MESSAGES.decode(
        b'[{"ts":"1.2","files":[null,{"size":"","created":1e99}],"replies":[null],'
        b'"reactions":[null,{"name":"a","users":[null,"U1"],"count":"x"},'
        b'{"name":null,"users":null}]}]'
    )
    assert (len(found), broken) == (1, [])


def test_a_byte_order_mark_is_passed_over() -> None:
    assert USERS.decode(b'\xef\xbb\xbf[{"id":"U1"}]')[0][0].id == "U1"


def test_half_a_surrogate_pair_costs_nothing() -> None:
    found, broken = MESSAGES.decode(b'[{"ts":"1.2","text":"\\ud83d"},{"ts":"3.4"}]')
    assert ([message.ts for message in found], broken) == (["1.2", "3.4"], [])


def test_half_a_pair_in_the_name_of_a_field_costs_its_object() -> None:
    found, broken = MESSAGES.decode(b'[{"ts":"1.2","\\ud800":1},{"ts":"3.4","file":{"\\ud800":1}}]')
    assert [message.ts for message in found] == []
    assert broken == ["half of a surrogate pair in the name of a field"] * 2


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON, line 1 column 1: Expecting value"),
        (b'[{"ts":"1.2"},\n {"ts":', "not JSON, line 2 column 8: Expecting value"),
        (b'{"ok":false}', "expected an array, found dict"),
        (b'[{"text":"\xff"}]', "not UTF-8, byte 10"),
        (b"[" * 200_000, "nested too deeply"),
        (b"[" + b"9" * 5000 + b"]", "a number with too many digits"),
    ],
)
def test_what_is_no_array_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedJson) as caught:
        MESSAGES.decode(data)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("permalink", "workspace"),
    [
        ("https://acme.slack.com/files/U1/F1/a.png", "acme"),
        ("https://acme.enterprise.slack.com/files/U1/F1/a.png", "acme.enterprise"),
        *(
            (address, "")
            for address in (
                "https://evil.example/",
                "https://acme.slack.com.evil.example/files/a",
                "https://acme.slack.com@evil.example/files/a",
                "https://a.b.slack.com/files/a",
                "https://-a.slack.com/b",
                "https://slack.com/c",
                "http://acme.slack.com/files/a",
                "javascript:alert(1)//https://acme.slack.com/files/a",
                "https://acme.slack.com",
                None,
            )
        ),
    ],
)
def test_a_link_leads_to_a_workspace_or_nowhere(permalink: str | None, workspace: str) -> None:
    assert workspace_of(SlackFile(permalink=permalink)) == workspace
