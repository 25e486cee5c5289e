"""A workspace as an export has it, in memory: what the slow calculator reads and what is written
to disk for the real one.
"""

import json
import zipfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Raw = dict[str, Any]
"""An object as Slack writes it."""


@dataclass
class Workspace:
    """``messages`` are by channel ID, in the order of the files; ``deleted`` are (channel ID, ts)
    of messages that turned out to be gone.
    """

    users: list[Raw] = field(default_factory=list)
    channels: list[Raw] = field(default_factory=list)
    messages: dict[str, list[Raw]] = field(default_factory=dict)
    deleted: set[tuple[str, str]] = field(default_factory=set)

    def files(self) -> dict[str, bytes]:
        """The files of its export."""
        found = {
            "users.json": json.dumps(self.users),
            "channels.json": json.dumps(self.channels),
        }
        names = {channel["id"]: channel["name"] for channel in self.channels}
        for cid, messages in self.messages.items():
            # What day a file is of is not to be trusted; their order is that of the messages.
            for number in range(0, len(messages), 7):
                day = f"{names[cid]}/2024-01-{number // 7 + 1:02d}.json"
                found[day] = json.dumps(messages[number : number + 7])
        return {name: text.encode() for name, text in found.items()}


def write_folder(files: dict[str, bytes], folder: Path) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def write_zip(
    files: dict[str, bytes], path: Path, root: str = "", written: datetime | None = None
) -> Path:
    """A zip whose files were ``written`` at a time, which is now if none is given."""
    at = written or datetime.now(UTC)
    date_time = (at.year, at.month, at.day, at.hour, at.minute, at.second)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(root + name, date_time), data, zipfile.ZIP_DEFLATED)
    return path


def write_backslash_zip(files: dict[str, bytes], path: Path, root: str = "") -> Path:
    """A zip as old programs for Windows write it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo("-")
            entry.filename = (root + name).replace("/", "\\")
            archive.writestr(entry, data)
    return path


def clear_utf8_flags(path: Path, *indexes: int) -> Path:
    """Change a zip to what programs write that do not set the flag for names in UTF-8, Slack's
    among them: all of its entries, or those with these indexes.
    """
    with zipfile.ZipFile(path) as archive:
        entries, directory = archive.infolist(), archive.start_dir
    data = bytearray(path.read_bytes())
    for index, entry in enumerate(entries):
        if not indexes or index in indexes:
            data[entry.header_offset + 7] &= ~8
            data[directory + 9] &= ~8
        lengths = (data[directory + at : directory + at + 2] for at in (28, 30, 32))
        directory += 46 + sum(int.from_bytes(length, "little") for length in lengths)
    path.write_bytes(data)
    return path


def files_with_slack_names() -> dict[str, bytes]:
    """An export with a channel `café` of two messages, comments on a canvas, and lists of files
    and apps, at the top and in the folder of the channel.
    """
    messages = [
        {"type": "message", "ts": f"170000000{n}.000000", "user": "U1", "text": "a"} for n in (1, 2)
    ]
    files: dict[str, Any] = {
        "users.json": [{"id": "U1", "name": "one"}],
        "channels.json": [{"id": "C1", "name": "café", "created": 1, "members": ["U1"]}],
        "café/2024-01-01.json": messages,
        "FC:F05MTU6925R:Important links/2023-01-01.json": messages[:1],
    }
    for name in ("file_conversations", "canvases", "lists", "huddle_transcripts"):
        files |= {f"{name}.json": [{"id": "F1"}], f"café/{name}.json": [{"id": "F1"}]}
    files["integration_logs.json"] = [{"user_id": "U1", "app_id": "A1"}]
    return {name: json.dumps(content).encode() for name, content in files.items()}


EXPORT_FORMS = [
    (form, root)
    for form in ("folder", "zip", "zip without UTF-8 flags", "zip with backslashes")
    for root in ("", "Büro export Mar 3 2024/")
]


def write_form(files: dict[str, bytes], folder: Path, form: str, root: str) -> Path:
    """An export in one of `EXPORT_FORMS`."""
    if form == "folder":
        return write_folder({root + name: data for name, data in files.items()}, folder / "export")
    if form == "zip with backslashes":
        return write_backslash_zip(files, folder / "export.zip", root)
    path = write_zip(files, folder / "export.zip", root)
    return path if form == "zip" else clear_utf8_flags(path)


def write_linked(example: Path, folder: Path, *permalinks: str) -> Path:
    """An export like the ``example``, in which a message has files with these links."""
    workspace = read_folder(example)
    message = next(iter(workspace.messages.values()))[0]
    message["files"] = [{"id": "F1", "permalink": link} for link in permalinks]
    return write_folder(workspace.files(), folder)


def read_folder(folder: Path) -> Workspace:
    """The workspace of an export of public channels that is a folder."""
    channels = json.loads((folder / "channels.json").read_bytes())
    return Workspace(
        users=json.loads((folder / "users.json").read_bytes()),
        channels=channels,
        messages={
            channel["id"]: [
                message
                for day in sorted((folder / channel["name"]).glob("*.json"))
                for message in json.loads(day.read_bytes())
            ]
            for channel in channels
        },
    )
