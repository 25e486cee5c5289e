"""Exports of made-up workspaces: their files, written to a zip or a folder.

Rule: the same size, last day and seed make the same bytes, with exactly as many people, channels
and messages as asked for. The files are made one at a time, so memory depends on the largest
channel's number of messages alone.
"""

import random
import zipfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import date, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import orjson

from channelstats.demo.directory import (
    Rhythm,
    channel_object,
    make_channels,
    make_people,
    slack_id,
    user_object,
)
from channelstats.demo.messages import MessageWriter

Progress: TypeAlias = Callable[[int, int], None]
"""Given the number of messages that are written, and of all."""

_EPOCH: Final = date(1970, 1, 1)
_FRIDAY: Final = 4
_COMPRESSION: Final = 1
"""Text of this kind hardly gets smaller by more work."""


class Size(msgspec.Struct, frozen=True):
    """How large a workspace is. A few of the people are bots; ``days`` is the time its messages
    are from.
    """

    people: int = 240
    channels: int = 20
    messages: int = 20_000
    days: int = 182

    def __post_init__(self) -> None:
        if min(self.people, self.channels, self.days) < 1 or self.messages < 0:
            raise ValueError("expected at least one of people, of channels, of days")


class ExportFile(NamedTuple):
    """A file of an export, and how many messages are in it."""

    name: str
    data: bytes
    messages: int = 0


def last_day_before(today: date) -> date:
    """Yesterday, or the Friday before it at a weekend: weeks of an export seldom end with it, so
    the last week is a part of one, whether weeks begin on Sundays or on Mondays.
    """
    yesterday = today - timedelta(1)
    return yesterday - timedelta(max(0, yesterday.weekday() - _FRIDAY))


def export_files(size: Size, *, last_day: date, seed: int) -> Iterator[ExportFile]:
    """The files of an export, as Slack makes them of all conversations but direct messages.

    The last message is of ``last_day`` at the latest, in UTC.
    """
    rng = random.Random(seed)  # noqa: S311 - nothing here is secret
    rhythm, team = Rhythm(last_day, size.days, rng), slack_id("T", 0)
    people = make_people(size.people, rhythm, team, rng)
    channels = make_channels(size.channels, people, rhythm, rng)
    private = [of.state == "private" for of in channels]
    objects = [channel_object(channel, people) for channel in channels]
    added = {"change_type": "added", "user_id": people[0].uid, "user_name": people[0].user}
    lists: dict[str, list[dict[str, Any]]] = {
        "users": [user_object(person, team, size.days) for person in people],
        "channels": [of for of, is_private in zip(objects, private, strict=True) if not is_private],
        "groups": [of for of, is_private in zip(objects, private, strict=True) if is_private],
        "dms": [],
        "mpims": [],
        "integration_logs": [{"service_type": of.name, **added} for of in people if of.bot_id],
        f"{channels[0].name}/canvas_in_the_conversation": [
            {"id": slack_id("F", 0), "title": "Welcome", "filetype": "quip"}
        ],
    }
    for name, content in lists.items():
        yield ExportFile(f"{name}.json", orjson.dumps(content))
    writer = MessageWriter(people, rhythm, team, rng)
    ends = list(accumulate(channel.weight for channel in channels))
    done = 0
    for channel, end in zip(channels, ends, strict=True):
        upto = round(size.messages * end / ends[-1])
        own = random.Random(f"{seed} {channel.cid}")  # noqa: S311
        for day, messages in writer.days(channel, upto - done, own):
            name = f"{channel.name}/{_EPOCH + timedelta(day)}.json"
            yield ExportFile(name, orjson.dumps(messages), len(messages))
        done = upto


def write_export(
    path: Path, size: Size, *, last_day: date, seed: int, progress: Progress | None = None
) -> None:
    """Write an export: a zip if ``path`` ends with .zip, else a folder. In a zip the files are of
    the last day, so that its bytes are the same.
    """
    is_zip, done = path.suffix.lower() == ".zip", 0
    made_at = (max(last_day.year, 1980), last_day.month, last_day.day, 0, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") if is_zip else nullcontext() as archive:
        for file in export_files(size, last_day=last_day, seed=seed):
            if archive is None:
                (path / file.name).parent.mkdir(parents=True, exist_ok=True)
                (path / file.name).write_bytes(file.data)
            else:
                entry = zipfile.ZipInfo(file.name, made_at)
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                archive.writestr(entry, file.data, compresslevel=_COMPRESSION)
            done += file.messages
            if progress is not None and file.messages:
                progress(done, size.messages)
