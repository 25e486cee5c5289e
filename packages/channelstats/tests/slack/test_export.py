"""An export is read wherever it lies; what cannot be read is reported and the rest goes on."""

import json
import unicodedata
from pathlib import Path

import pytest

from channelstats.ingest.rows import channel_of
from channelstats.lookup import channel_called
from channelstats.slack.archive import ArchiveRefused
from channelstats.slack.export import Export, Problem, unlisted_problems
from channelstats.slack.export_layout import ChannelKind
from support.channelstats.house import EXAMPLE
from support.channelstats.workspace import (
    EXPORT_FORMS,
    files_with_slack_names,
    write_folder,
    write_form,
    write_zip,
)

MESSAGE = {"type": "message", "ts": "1700000000.000000", "user": "U1"}
LATEST = "9999999999.000000"


def dumped(files: dict[str, object]) -> dict[str, bytes]:
    return {name: json.dumps(content).encode() for name, content in files.items()}


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def told(export: Export) -> object:
    """Everything an export has to say."""
    users = export.users()
    channels = export.channels()
    unlisted = unlisted_problems(channels, "--all")
    messages = [list(export.messages(channel)) for channel in channels]
    about = [(channel.kind, channel.about) for channel in channels]
    return users, about, messages, unlisted, export.problems()


def opened(tmp_path: Path, files: dict[str, object]) -> Export:
    return Export.open(write_zip(dumped(files), tmp_path / "export.zip"))


@pytest.mark.parametrize("root", ["", "workspace export Mar 3 2024/"])
@pytest.mark.parametrize("form", ["folder", "zip"])
def test_a_zip_a_folder_and_one_folder_more_say_the_same(
    tmp_path: Path, form: str, root: str
) -> None:
    files = files_of(EXAMPLE)
    if form == "zip":
        path = write_zip(files, tmp_path / "export.zip", root)
    else:
        path = write_folder({root + name: data for name, data in files.items()}, tmp_path / "x")
    assert told(Export.open(path)) == told(Export.open(EXAMPLE))


@pytest.mark.parametrize(("form", "root"), EXPORT_FORMS)
def test_names_as_slack_writes_them_are_read(tmp_path: Path, form: str, root: str) -> None:
    export = Export.open(write_form(files_with_slack_names(), tmp_path, form, root))
    (channel,) = export.channels()
    read = [(place, len(messages)) for place, messages in export.messages(channel)]
    assert (channel.about.name, read) == ("café", [("café/2024-01-01.json", 2)])
    assert export.problems() == []


def test_folders_of_no_channel_are_one_problem_with_their_number(tmp_path: Path) -> None:
    files: dict[str, object] = {"users.json": [], "channels.json": [{"id": "C1", "name": "one"}]}
    files |= {f"lost{number:04}/2024-01-01.json": [MESSAGE] for number in range(3000)}
    export = opened(tmp_path, files)
    (problem,) = unlisted_problems(export.channels(), "--all")
    assert problem.place == "lost0000, lost0001, lost0002 and 2,997 more"
    assert problem.reason == (
        "3,000 folders in no list of channels; 3,000 files left out, which --all imports"
    )
    assert export.problems() == []


LISTS: dict[str, object] = {"users.json": [], "channels.json": [{"id": "C1", "name": "one"}]}


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"one/2024-01-01.txt": [], **LISTS}, r"as plain text.*JSON: one/2024-01-01\.txt"),
        ({"acme/one/2024-01-01.txt": []}, r"as plain text.*JSON: acme/one/2024-01-01\.txt"),
        ({"acme.zip": [], "read me.txt": []}, r"it contains acme\.zip; give that"),
        ({"exports/Acme Jan 1.ZIP": []}, r"it contains exports/Acme Jan 1\.ZIP; give that"),
    ],
)
def test_what_is_another_kind_of_export_or_holds_one_is_named(
    tmp_path: Path, files: dict[str, object], reason: str
) -> None:
    with pytest.raises(ArchiveRefused, match=reason):
        Export.open(write_zip(dumped(files), tmp_path / "x.zip"))
    with pytest.raises(ArchiveRefused, match=reason):
        Export.open(write_folder(dumped(files), tmp_path / "x"))


def test_what_computers_and_tools_add_does_not_matter_and_comments_on_canvases_are_counted(
    tmp_path: Path,
) -> None:
    added = """
    __MACOSX/export/._users.json export/.DS_Store export/dev/.2024-03-03.json
    export/dev/attachments/a.json export/dev/canvas_in_the_conversation.json
    export/integration_logs.json export/canvases.json export/dev/notes.txt export/__uploads/F1.json
    export/__uploads/F2/2024-01-01.json export/FC:F1:title/2024-01-01.json
    export/FC:F1:title/2024-01-02.json export/FC:F2:title/2024-01-01.json
    """
    files = {f"export/{name}": data for name, data in files_of(EXAMPLE).items()}
    files |= dict.fromkeys(added.split(), b"x")
    export = Export.open(write_zip(files, tmp_path / "export.zip"))
    assert told(export) == told(Export.open(EXAMPLE))
    assert export.comments == 2


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_names_are_the_same_in_every_form_of_unicode(tmp_path: Path, form: str) -> None:
    one, other = unicodedata.normalize("NFC", "café"), unicodedata.normalize("NFD", "café")
    listed, folder = (one, other) if form == "NFC" else (other, one)
    files: dict[str, object] = {
        "users.json": [],
        "channels.json": [{"id": "C1", "name": listed}],
    }
    files[f"{folder}/2024-01-01.json"] = [MESSAGE]
    (channel,) = opened(tmp_path, files).channels()
    assert (channel.about.id, len(channel.days)) == ("C1", 1)
    assert channel_called({"C1": channel_of(channel)}, f"#{other}") == "C1"


def test_what_has_no_list_is_no_export(tmp_path: Path) -> None:
    path = write_zip({"general/2024-03-03.json": b"[]"}, tmp_path / "x.zip")
    with pytest.raises(
        ArchiveRefused, match=r"x\.zip: not an export: there is none of channels\.json"
    ):
        Export.open(path)


def test_the_list_says_the_kind_of_a_channel(tmp_path: Path) -> None:
    export = opened(
        tmp_path,
        {
            "channels.json": [{"id": "C1", "name": "one"}],
            "groups.json": [{"id": "G1", "name": "secret"}],
            "dms.json": [{"id": "D1", "members": ["U1", "U2"]}],
            "mpims.json": [{"id": "G2", "name": "mpdm-a--b-1"}],
            "one/2024-01-01.json": [MESSAGE],
            "secret/2024-01-01.json": [MESSAGE],
            "D1/2024-01-01.json": [MESSAGE],
            "mpdm-a--b-1/2024-01-01.json": [MESSAGE],
        },
    )
    kinds = {channel.about.id: channel.kind for channel in export.channels()}
    assert kinds == {
        "C1": ChannelKind.PUBLIC,
        "D1": ChannelKind.DIRECT,
        "G1": ChannelKind.PRIVATE,
        "G2": ChannelKind.GROUP_DIRECT,
    }
    assert all(channel.days for channel in export.channels())


def test_a_folder_is_matched_by_name_then_by_id(tmp_path: Path) -> None:
    export = opened(
        tmp_path,
        {
            "users.json": [],
            "channels.json": [{"id": "C1", "name": "one"}, {"id": "C2", "name": "two"}],
            "C1/2024-01-02.json": [],
            "two/2024-01-01.json": [],
            "three/2024-01-01.json": [],
        },
    )
    one, two, _ = export.channels()
    assert (one.days, two.days) == (("C1/2024-01-02.json",), ("two/2024-01-01.json",))
    assert export.problems() == []
    assert unlisted_problems(export.channels(), "--all") == [
        Problem("three", "in no list of channels; 1 file left out, which --all imports")
    ]


def test_missing_lists_are_reported(tmp_path: Path) -> None:
    export = opened(tmp_path, {"groups.json": [{"id": "G1", "name": "g"}], "one/a.json": [MESSAGE]})
    assert export.users() is None
    assert [channel.kind for channel in export.channels()] == [
        ChannelKind.UNLISTED,
        ChannelKind.PRIVATE,
    ]
    assert [problem.place for problem in export.problems()] == ["users.json", "channels.json"]
    assert [problem.place for problem in unlisted_problems(export.channels(), "")] == ["one"]


def test_every_broken_file_has_a_line_and_the_rest_is_read(tmp_path: Path) -> None:
    files = dumped(
        {
            "channels.json": [
                {"id": "C1", "name": "one"},
                {"name": "no id"},
                {"id": "c?", "name": "x"},
            ],
            "users.json": [{"id": "U1"}, {"id": 5}, {"id": "nobody"}],
            "one/2024-01-03.json": [MESSAGE, {"ts": 1}, {"ts": 2}],
            "one/2024-01-04.json": [MESSAGE],
        }
    )
    files["one/2024-01-01.json"] = b'[{"type":'
    files["one/2024-01-02.json"] = b"\xff"
    export = Export.open(write_zip(files, tmp_path / "x.zip"))
    users = export.users() or []
    (channel,) = export.channels()
    found = [(place, len(messages)) for place, messages in export.messages(channel)]
    assert [user.id for user in users] == ["U1"]
    assert found == [
        ("one/2024-01-01.json", 0),
        ("one/2024-01-02.json", 0),
        ("one/2024-01-03.json", 1),
        ("one/2024-01-04.json", 1),
    ]
    assert [str(problem) for problem in export.problems()] == [
        "users.json: 1 left out: id is a number, expected a text",
        "users.json: 'nobody' is not the ID of a user",
        "channels.json: 1 left out: Object missing required field `id`",
        "channels.json: 'c?' is not the ID of a channel",
        "one/2024-01-01.json: left out: not JSON, line 1 column 10: Expecting value",
        "one/2024-01-02.json: left out: not UTF-8, byte 0",
        "one/2024-01-03.json: 2 left out: ts is a number, expected a text",
    ]
    assert export.problems() == []


def test_members_of_the_whole_organization_are_users(tmp_path: Path) -> None:
    export = opened(
        tmp_path,
        {
            "channels.json": [],
            "users.json": [{"id": "U1", "name": "one"}],
            "org_users.json": [{"id": "U1", "name": "other"}, {"id": "W2"}],
        },
    )
    assert [(user.id, user.name) for user in export.users() or []] == [("U1", "one"), ("W2", None)]


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        pytest.param("2023-11-14", "1700000005.000000", id="its own date"),
        pytest.param("2024-01-02", "1700000009.000000", id="another date, so no file is trusted"),
    ],
)
def test_how_recent_an_export_is_stands_in_the_last_file_of_its_own_date(
    tmp_path: Path, day: str, expected: str
) -> None:
    def at(ts: str) -> dict[str, str]:
        return {**MESSAGE, "ts": ts}

    export = opened(
        tmp_path,
        {
            "channels.json": [{"id": "C1", "name": "one"}, {"id": "C2", "name": "two"}],
            "one/2023-11-01.json": [at("1700000009.000000")],
            f"one/{day}.json": [at("1700000005.000000"), at("absurd"), at(LATEST)],
            "one/2024-01-03.json": {},
            "one/2024-01-04.json": [],
            "one/stray.json": [at("1600000000.000000")],
            "two/2024-01-01.json": [at("1700000004.000000")],
        },
    )
    channels = export.channels()
    assert export.newest(channels, "1800000000.000000") == expected
    assert export.newest([], LATEST) == ""
