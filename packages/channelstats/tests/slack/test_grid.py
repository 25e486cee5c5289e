"""Exports of an Enterprise Grid: workspaces beside one another, and what they share at the top."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.slack.archive import ArchiveRefused
from channelstats.slack.export import Export
from channelstats.slack.export_layout import ChannelKind, NotAnExport, layout_of
from support.channelstats.workspace import write_zip

MESSAGE = {"type": "message", "ts": "1700000000.000000", "user": "U1"}
DAY = "2024-01-01.json"


def opened(folder: Path, files: dict[str, object], root: str = "") -> Export:
    dumped = {name: json.dumps(content).encode() for name, content in files.items()}
    return Export.open(write_zip(dumped, folder / "grid.zip", root))


def listed(*names: str) -> list[object]:
    """Channels whose ID is C and their name in capitals; of `CA=general` it is CA."""
    pairs = [name.rpartition("=") for name in names]
    return [{"id": cid or f"C{name.upper()}", "name": name} for cid, _, name in pairs]


GRID: dict[str, object] = {
    "org_users.json": [{"id": "U1"}, {"id": "U2"}],
    "channels.json": listed("lobby"),
    f"lobby/{DAY}": [MESSAGE],
    "teams/alpha/channels.json": listed("CA=general", "only"),
    "teams/alpha/users.json": [{"id": "U1"}],
    f"teams/alpha/general/{DAY}": [MESSAGE],
    f"teams/alpha/only/{DAY}": [MESSAGE],
    "teams/beta/channels.json": listed("CB=general"),
    f"teams/beta/general/{DAY}": [MESSAGE],
}


def days_of(export: Export) -> dict[str, tuple[str, ...]]:
    return {channel.name: channel.days for channel in export.channels()}


@pytest.mark.parametrize("root", ["", "Acme Slack export Jan 1 2024 - Nov 4 2024/"])
def test_every_workspace_is_read_and_channels_of_one_name_are_told_apart(
    tmp_path: Path, root: str
) -> None:
    export = opened(tmp_path, GRID, root)
    assert export.workspaces == ("alpha", "beta")
    assert days_of(export) == {
        "general (alpha)": (f"teams/alpha/general/{DAY}",),
        "general (beta)": (f"teams/beta/general/{DAY}",),
        "lobby": (f"lobby/{DAY}",),
        "only": (f"teams/alpha/only/{DAY}",),
    }
    assert export.problems() == []


def test_users_are_those_of_the_organization_or_of_one_workspace(tmp_path: Path) -> None:
    def of(workspace: str) -> list[str]:
        return [user.id for user in opened(tmp_path, GRID).users(workspace) or []]

    assert of("") == ["U1", "U2"]
    assert of("alpha") == ["U1"]
    assert of("beta") == ["U1", "U2"]  # it has no list of its own


def test_a_channel_that_workspaces_share_is_one_with_the_days_of_all(tmp_path: Path) -> None:
    files = {
        "channels.json": listed("shared"),
        "shared/2024-01-03.json": [MESSAGE],
        "teams/alpha/channels.json": listed("shared"),
        "teams/alpha/shared/2024-01-02.json": [MESSAGE],
        "teams/beta/channels.json": listed("shared"),
        "teams/beta/shared/2024-01-01.json": [MESSAGE],
    }
    (channel,) = opened(tmp_path, files).channels()
    assert (channel.name, channel.workspaces) == ("shared", ("", "alpha", "beta"))
    assert [path[-15:] for path in channel.days] == [f"2024-01-0{n}.json" for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("files", "expected", "problems"),
    [
        pytest.param(
            {
                "channels.json": listed("one"),
                f"teams/alpha/one/{DAY}": [MESSAGE],
                "teams/beta/channels.json": listed("two"),
                f"two/{DAY}": [MESSAGE],
            },
            {"one": (f"teams/alpha/one/{DAY}",), "two": (f"two/{DAY}",)},
            [],
            id="of a channel that another list knows",
        ),
        pytest.param(
            {
                "teams/alpha/channels.json": listed("CA=general"),
                "teams/beta/channels.json": listed("CB=general"),
                f"general/{DAY}": [MESSAGE],
            },
            {"general (alpha)": (), "general (beta)": (), "general": (f"general/{DAY}",)},
            [],
            id="of none of several channels that it may be of",
        ),
        pytest.param(
            {"channels.json": listed("C1=one", "C2=one"), f"one/{DAY}": [MESSAGE]},
            {"one (C1)": (f"one/{DAY}",), "one (C2)": ()},
            ["one: taken to be of C1, but C2 has the same name"],
            id="of one of two channels of one name, not in silence",
        ),
        pytest.param(
            {"channels.json": listed("C1=one", "C2=C1", "C3=C1"), f"C1/{DAY}": [MESSAGE]},
            {"one": (f"C1/{DAY}",), "C1 (C2)": (), "C1 (C3)": ()},
            [],
            id="of the channel of that ID, not of those of that name",
        ),
        pytest.param(
            {
                "channels.json": listed("teams"),
                f"teams/{DAY}": [MESSAGE],
                "teams/attachments/a.json": [1],
            },
            {"teams": (f"teams/{DAY}",)},
            [],
            id="of a channel that is called teams",
        ),
    ],
)
def test_a_folder_is(
    tmp_path: Path,
    files: dict[str, object],
    expected: dict[str, tuple[str, ...]],
    problems: list[str],
) -> None:
    export = opened(tmp_path, files)
    assert days_of(export) == expected
    assert list(map(str, export.problems())) == problems


# ── folders that no list knows ───────────────────────────────────────────────────────────────────


def test_a_folder_in_no_list_is_a_channel_of_its_own(tmp_path: Path) -> None:
    files = {
        "channels.json": listed("one"),
        f"lost/{DAY}": [MESSAGE],
        f"C012345678/{DAY}": [MESSAGE],
        f"D012345678/{DAY}": [MESSAGE],
        f"mpdm-a--b-1/{DAY}": [MESSAGE],
        f"Design/{DAY}": [MESSAGE],
    }
    kinds = {of.name: (of.kind, of.about.id) for of in opened(tmp_path, files).channels()}
    assert kinds["C012345678"] == (ChannelKind.UNLISTED, "C012345678")
    assert kinds["D012345678"] == (ChannelKind.DIRECT, "D012345678")
    assert kinds["mpdm-a--b-1"][0] is ChannelKind.GROUP_DIRECT
    assert kinds["Design"][0] is ChannelKind.UNLISTED
    kind, cid = kinds["lost"]
    assert kind is ChannelKind.UNLISTED
    assert cid.startswith("CUNLISTED")
    # The next export has the same.
    again = {of.name: of.about.id for of in opened(tmp_path, files).channels()}
    assert again["lost"] == cid


# ── nothing is lost in silence ───────────────────────────────────────────────────────────────────


def test_files_of_days_where_no_channel_is_are_a_problem(tmp_path: Path) -> None:
    files = {
        "channels.json": listed("one"),
        f"one/{DAY}": [MESSAGE],
        f"a/b/{DAY}": [MESSAGE],
        DAY: [MESSAGE],
        f"FC:F1:A canvas/{DAY}": [MESSAGE],
    }
    export = opened(tmp_path, files)
    export.channels()
    (problem,) = export.problems()
    assert str(problem) == f"{DAY}, a/b/{DAY}: 2 left out: not in the folder of a channel"


def test_an_export_without_files_of_days_says_so(tmp_path: Path) -> None:
    export = opened(tmp_path, {"channels.json": listed("one"), "users.json": []})
    assert [channel.days for channel in export.channels()] == [()]
    (problem,) = export.problems()
    assert str(problem) == (
        "grid.zip: no file of a day is in it, so there are no messages: it has the lists alone"
    )


def test_several_exports_in_one_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(ArchiveRefused, match="holds 2 exports: alpha, beta; give one of them"):
        opened(tmp_path, {"alpha/channels.json": [], "beta/channels.json": []})


PARTS = st.sampled_from(["teams", "alpha", "channels.json", DAY, "x", "users.json", "FC:F1:x"])


@given(st.sets(st.lists(PARTS, min_size=1, max_size=5).map("/".join)))
def test_every_file_of_a_day_is_in_one_place_alone(names: set[str]) -> None:
    try:
        layout = layout_of(names)
    except NotAnExport:
        return
    placed = [path for days in layout.folders.values() for path in days] + list(layout.strays)
    assert len(placed) == len(set(placed))
    days = {path for path in layout.files if path.endswith(DAY) and "FC:" not in path}
    assert days <= set(placed)
