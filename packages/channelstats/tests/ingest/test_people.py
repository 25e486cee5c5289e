"""Who is one person, and who is from outside: in lists, in messages, in everything stored."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from channelstats.facts import Options, Period
from channelstats.ingest.export_import import ImportOptions
from channelstats.ingest.people import home_teams, most_are_of, one_id_each, people_of
from channelstats.metrics import registry
from channelstats.metrics.query import measured
from channelstats.metrics.volume import volume
from channelstats.pages.loading import load
from channelstats.pages.model import Choice
from channelstats.render.names import Directory
from channelstats.slack.objects import GridUser, SlackUser
from channelstats.tables.directory import User
from channelstats.tables.exclusion import forget_person
from support.channelstats.house import UTC, House
from support.channelstats.workspace import Raw, write_zip


def user(uid: str, grid: str = "", **more: Any) -> SlackUser:
    return SlackUser(uid, enterprise_user=GridUser(grid) if grid else None, **more)


@pytest.mark.parametrize(
    ("users", "known", "expected"),
    [
        ([user("U1")], {}, {}),
        ([user("U1", "W1")], {}, {"W1": "U1"}),
        ([user("U1", "U1"), user("U2", "nobody")], {}, {}),
        ([user("U1", "W1"), user("U2", "W1"), user("W1")], {}, {"W1": "U1", "U2": "U1"}),
        ([user("U0", "W1")], {"W1": "U1"}, {"W1": "U1", "U0": "U1"}),
        ([user("U5", "W2"), user("U6", "W1")], {"W1": "U1"}, {"W2": "U5", "W1": "U1", "U6": "U1"}),
    ],
)
def test_one_id_stands_for_each_person_and_goes_on_to_do_so(
    users: list[SlackUser], known: dict[str, str], expected: dict[str, str]
) -> None:
    assert one_id_each(users, known) == expected


def test_two_entries_of_a_list_are_one_person() -> None:
    listed = [
        user("U1", "W1", name="ann", deleted=True),
        user("W1", real_name="Ann", tz="Europe/Berlin"),
    ]
    assert people_of(listed, {}, frozenset()) == [
        User("U1", user_name="ann", real_name="Ann", tz="Europe/Berlin", other_ids="W1")
    ]


def of_grid(uid: str, team: str, grid: str, *teams: str) -> SlackUser:
    return SlackUser(uid, team_id=team, enterprise_user=GridUser(uid, grid, list(teams)))


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        ([], set()),
        ([user("U1", team_id="T1"), user("U2", team_id="T1"), user("U3", team_id="T2")], {"T1"}),
        ([user("U1", team_id="T1"), user("U2", team_id="T2")], set()),
        ([user("U1", team_id="T1"), user("U2", team_id="T2", is_stranger=True)], {"T1"}),
        (
            [of_grid("U1", "T1", "E1", "T1", "T3"), of_grid("U2", "T2", "E1")],
            {"E1", "T1", "T2", "T3"},
        ),
    ],
)
def test_the_workspaces_of_a_list_are_those_that_most_are_of(
    users: list[SlackUser], expected: set[str]
) -> None:
    assert home_teams(users) == expected
    if len(users) > 1:
        assert home_teams(users, is_grid=True) >= {"T1"}


def test_without_a_list_most_messages_say_where_home_is() -> None:
    assert most_are_of({"T1": 3, "T2": 1}) == {"T1"}
    assert most_are_of({"T1": 1, "T2": 1}) == most_are_of({}) == frozenset()


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (User("U1"), True),
        (User("U1", deleted=True), False),
        (User("U1", is_bot=True), False),
        (User("USLACKBOT"), False),
        (User("U1", is_stranger=True), False),
        (User("U1", unlisted=True), False),
    ],
)
def test_members_are_people_of_the_workspace(of: User, expected: bool) -> None:
    assert of.is_member is expected


# ── in what is stored ────────────────────────────────────────────────────────────────────────────


def message(n: int, uid: str, text: str = "a b", **more: Any) -> Raw:
    return {"type": "message", "user": uid, "ts": f"17000000{n:02d}.000000", "text": text, **more}


def export(folder: Path, users: list[Raw], *messages: Raw, name: str = "x.zip") -> Path:
    channels = [{"id": "C1", "name": "one", "members": ["U1", "W1", "U2"]}]
    files = {"users.json": users, "channels.json": channels, "one/2023-11-14.json": messages}
    return write_zip({name: json.dumps(of).encode() for name, of in files.items()}, folder / name)


ANN: Raw = {"id": "U1", "name": "ann", "enterprise_user": {"id": "W1"}}
BEN: Raw = {"id": "U2", "name": "ben"}
OF_ANN = (
    message(1, "U1", "hey <@W1> <@U2>", reactions=[{"name": "a", "users": ["U1", "W1"]}]),
    message(2, "W1", thread_ts="1700000001.000000", parent_user_id="U1"),
    message(
        3,
        "U2",
        "hey <@W1>",
        replies=[{"user": "W1", "ts": "1700000004.000000"}],
        files=[{"id": "F1", "user": "W1"}],
        room={"participant_history": ["U1", "W1"]},
    ),
    message(4, "W1", thread_ts="1700000003.000000", parent_user_id="U2"),
)


async def test_a_person_with_two_ids_is_one_in_every_table(empty: House, tmp_path: Path) -> None:
    """Whether an earlier export knew of the two, or not."""
    await empty.take_in(export(tmp_path, [ANN, BEN], *OF_ANN))
    at_once = await empty.everything()
    assert "W1" not in repr({**at_once, "User": ""})
    assert at_once["User"]["U1"]["other_ids"] == "W1"
    assert at_once["Message"]["C1_1700000001.000000"]["mentions"] == "U2"
    assert at_once["Message"]["C1_1700000001.000000"]["reactions"] == "a:U1"
    assert set(at_once["FirstPost"]) == {"U1", "U2"}
    assert at_once["Channel"]["C1"]["members"] == 2
    assert (await empty.tables.configuration.counts()).all_users == 2


async def test_what_was_stored_of_two_is_joined_once_they_are_known_to_be_one(
    empty: House, tmp_path: Path
) -> None:
    apart = [{"id": uid, "name": f"of {uid}"} for uid in ("U1", "W1", "U2")]
    await empty.take_in(export(tmp_path, apart, *OF_ANN))
    assert "W1" in await empty.tables.users.all()
    later = export(tmp_path, [ANN, BEN], message(9, "W1"), name="later.zip")
    await empty.take_in(later)
    everything = await empty.everything()
    assert "W1" not in repr({**everything, "User": ""})
    assert set(everything["User"]) == {"U1", "U2"}
    assert set(everything["FirstPost"]) == {"U1", "U2"}
    assert everything["Message"]["C1_1700000003.000000"]["replies"] == "U1:1700000004.000000"


@pytest.mark.parametrize("name", ["U1", "W1", "ann"])
async def test_whoever_is_left_out_or_forgotten_is_so_under_every_id(
    empty: House, tmp_path: Path, name: str
) -> None:
    path = export(tmp_path, [ANN, BEN], *OF_ANN)
    options = ImportOptions(exclude_people=frozenset({name}))
    await empty.take_in(path, options)
    left_out = await empty.everything()
    assert sorted(left_out["Message"]) == ["C1_1700000003.000000"]
    assert "U1" not in repr({**left_out, "Configuration": ""})

    await empty.take_in(path)
    async for _ in forget_person(empty.tables, "U1"):
        pass
    for _ in range(2):
        everything = {**await empty.everything(), "Configuration": ""}
        assert "U1" not in repr(everything)
        assert "W1" not in repr(everything)
        apart = [{"id": uid, "name": "ann"} for uid in ("U1", "W1")]
        await empty.take_in(export(tmp_path, apart, *OF_ANN, name="again.zip"))


LISTED: list[Raw] = [
    {"id": uid, "name": uid.lower(), "team_id": "T1"} for uid in ("U1", "U2", "U3")
]


@pytest.mark.parametrize(
    ("user", "fields"),
    [
        pytest.param({"id": "U9", "team_id": "T2"}, {}, id="of another team in the list"),
        pytest.param({"id": "U9", "is_stranger": True}, {}, id="a stranger in the list"),
        pytest.param({"id": "U9"}, {"user_team": "T2"}, id="of another team in a message"),
        pytest.param({"id": "U9"}, {"source_team": "T2"}, id="from another team"),
        pytest.param({"id": "U9"}, {"user_profile": {"team": "T2"}}, id="by a profile"),
        pytest.param(None, {"user_profile": {"name": "nine"}}, id="in no list"),
    ],
)
async def test_people_from_outside_are_no_members(
    empty: House, tmp_path: Path, user: Raw | None, fields: Raw
) -> None:
    listed = [*LISTED, {**user, "name": "nine"}] if user else LISTED
    messages = message(1, "U1", user_team="T1"), message(2, "U9", **fields)
    await empty.take_in(export(tmp_path, listed, *messages))
    users = await empty.tables.users.all()
    assert users["U9"].user_name == "nine"
    assert {uid for uid, of in users.items() if of.is_stranger} == {"U9"}
    assert {uid for uid, of in users.items() if of.is_member} == {"U1", "U2", "U3"}


# ── on pages and in reports ──────────────────────────────────────────────────────────────────────


async def test_members_who_posted_are_a_share_of_the_members(empty: House, tmp_path: Path) -> None:
    """Four people posted, one from outside; of four members one is silent, and a bot is none."""
    listed: list[Raw] = [
        *LISTED,
        {"id": "U4", "name": "silent"},
        {"id": "U5", "name": "app", "is_bot": True},
    ]
    messages = [message(n, f"U{n}") for n in (1, 2, 3)]
    messages.append(message(9, "U9", user_team="T2", user_profile={"name": "nina"}))
    await empty.take_in(export(tmp_path, listed, *messages))
    period = Period(date(2023, 11, 12), 7, UTC)
    data = await load(empty.tables, Choice(period.start, period.last), Options())
    now = data.whole.now
    assert measured(now, registry.POSTERS, registry.POSTING) == [4, 75]
    assert volume(now).share_of_accounts == 60  # 3 of the 5 accounts that the list has
    names = Directory.of_rows(data.inputs.users, data.channels)
    assert (names.person("U9"), names.person("U1")) == ("nina (external)", "u1")


@pytest.mark.parametrize("days_before", [0, 60])
async def test_who_is_new_is_known_by_a_long_history_or_by_a_join_to_the_general_channel(
    empty: House, tmp_path: Path, days_before: int
) -> None:
    at = 1700000000  # 2023-11-14
    channels = [
        {"id": "C1", "name": "all", "is_general": True},
        {"id": "C2", "name": "general"},
    ]

    def said(cid: str, uid: str, second: int, **more: Any) -> Raw:
        return {"cid": cid, **message(0, uid, **more), "ts": f"{at + second}.000000"}

    join = {"subtype": "channel_join"}
    every = [
        said("C1", "U1", -86_400 * max(days_before, 1)),
        said("C2", "U2", 1, **join),
        said("C2", "U2", 2),
        said("C1", "U3", 3, **join),
        said("C1", "U3", 4),
        said("C1", "U9", 5, user_profile={"name": "nina"}),
    ]
    files: dict[str, Any] = {"users.json": LISTED, "channels.json": channels}
    for cid, name in (("C1", "all"), ("C2", "general")):
        files[f"{name}/2023-11-14.json"] = [of for of in every if of["cid"] == cid]
    dumped = {name: json.dumps(of).encode() for name, of in files.items()}
    await empty.take_in(write_zip(dumped, tmp_path / "x.zip"))
    choice = Choice(date(2023, 11, 12), date(2023, 11, 18))
    data = await load(empty.tables, choice, Options())
    found = set(data.whole.now.newcomers["slack_uid"])
    assert found == ({"U3"} if not days_before else {"U2", "U3"})
    assert measured(data.whole.now, registry.FIRST_TIME) == [len(found)]
    before = data.whole.before
    assert measured(before, registry.FIRST_TIME) == [0 if days_before else None]
