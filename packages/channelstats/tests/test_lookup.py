"""What people and channels are called, and whom a name means."""

import pytest

from channelstats.lookup import MOST_FOUND, Names, NotFound, user_id
from channelstats.tables.directory import Channel, User
from support.channelstats.house import House

USERS = {
    "U1": User("U1", user_name="ada", display_name="Ada"),
    "U2": User("U2", user_name="bob", real_name="Bob Berg"),
    "U3": User("U3", user_name="bobby", display_name="Ada"),
    "U4": User("U4", user_name="robot", is_bot=True),
}
CHANNELS = {
    "C1": Channel("C1", friendly_name="general"),
    "C2": Channel("C2", friendly_name="attic", is_archived=True),
    "C3": Channel("C3", friendly_name="dev"),
}


@pytest.fixture
def real() -> Names:
    return Names(USERS, CHANNELS, slack_name="example")


def test_channels_are_listed_by_name_and_archived_ones_last(real: Names) -> None:
    assert real.listed_channels() == [("C3", "dev"), ("C1", "general"), ("C2", "attic")]


def test_a_name_finds_its_bearer_and_an_id_one_of_several(real: Names) -> None:
    assert real.find_person("@ada") == "U1"
    assert real.find_person("Bob Berg") == "U2"
    assert real.find_person("u3") == "U3"
    with pytest.raises(NotFound, match="may be any of U1, U3"):
        real.find_person("Ada")
    assert real.finder("U1", "Ada") == ("U1", "Ada")
    assert real.finder("U2", "Bob Berg") == ("Bob Berg", "Bob Berg")


def test_a_name_is_found_in_any_case_but_that_of_its_own_comes_first(real: Names) -> None:
    assert real.find_person("bob berg") == real.find_person("BOB BERG") == "U2"
    assert real.find_person("ada") == "U1"
    with pytest.raises(NotFound, match="may be any of U1, U3"):
        real.find_person("aDA")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Berg", "did you mean 'Bob Berg'?"),
        ("@ber", "did you mean 'Bob Berg'?"),
        ("bo", "did you mean 'Bob Berg', 'bob', 'bobby'?"),
        ("BOBBI", "did you mean 'bobby'?"),
        ("zoe", "there is no user 'zoe'"),
    ],
)
def test_whoever_has_a_name_like_it_is_suggested(real: Names, name: str, meant: str) -> None:
    with pytest.raises(NotFound) as refused:
        real.find_person(name)
    assert str(refused.value).endswith(meant)


def test_a_channel_is_found_by_name_and_id(real: Names) -> None:
    assert [real.find_channel(of) for of in ("#dev", "dev", "c3", "none")] == [
        "C3",
        "C3",
        "C3",
        None,
    ]


@pytest.mark.parametrize(
    ("group", "found"),
    [
        ("help-*", "C1 C2"),
        ("#Help-*", "C1 C2"),
        ("*", "C1 C2 C3 C4"),
        ("*-de", "C2"),
        ("h*p-*, talk ,", "C1 C2 C4"),
        ("C3,help-en", "C1 C3"),
        ("*[a-z]", ""),
        ("help-*,none", ""),
        ("*?*", ""),
        (f"{'*a' * 90}*", ""),
        (",", ""),
    ],
)
def test_a_group_of_channels_is_a_pattern_or_a_list(group: str, found: str) -> None:
    called = {"C1": "help-en", "C2": "help-de", "C3": "helpers", "C4": "talk" + "a" * 80}
    names = Names({}, {cid: Channel(cid, name) for cid, name in called.items()})
    group = group.replace("talk", called["C4"])
    if found:
        assert names.find_channels(group) == tuple(found.split())
        return
    with pytest.raises(NotFound, match="there are help-de, help-en, helpers, talk"):
        names.find_channels(group)


def test_what_begins_like_it_comes_first_and_bots_never(real: Names) -> None:
    assert [name for _, name in real.like("b")] == ["Bob Berg"]
    assert [name for _, name in real.like("@A")] == ["Ada", "Ada"]
    assert real.like("robot") == []


def test_no_more_are_offered_than_can_be_looked_over() -> None:
    many = {f"U{number}": User(f"U{number}", user_name=f"x{number}") for number in range(99)}
    assert len(Names(many, {}).like("x")) == MOST_FOUND


def test_whoever_is_out_is_neither_named_nor_found() -> None:
    names = Names(USERS, CHANNELS, out={"U2", "C3"})
    with pytest.raises(NotFound):
        names.find_person("bob")
    assert names.find_channel("dev") is None
    assert names.like("Bob") == []
    assert names.directory.person("U2") == "U2"


async def test_whoever_posted_is_found_by_the_id_though_no_list_has_them(example: House) -> None:
    await example.tables.users.delete("UBOB")
    assert await user_id(example.tables, "ubob") == "UBOB"
    with pytest.raises(NotFound):
        await user_id(example.tables, "UNOBODY")
