"""A workspace as an export has it, in memory: what the slow calculator reads and what is written
to disk for the real one.
"""

import json
import zipfile
from dataclasses import dataclass, field
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


def write_zip(files: dict[str, bytes], path: Path, root: str = "") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(root + name, data)
    return path


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
