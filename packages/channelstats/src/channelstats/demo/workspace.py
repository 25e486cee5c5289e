"""Exports of made-up workspaces: their files, written to a zip or a folder.

Rule: the same size, last day and seed make the same bytes, with exactly as many people, channels
and messages as asked for. The files are made one at a time, so memory depends on the largest
channel's number of messages alone.
"""

import random
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import orjson

from channelstats.demo.channels import DemoChannel, channel_object, make_channels
from channelstats.demo.messages import MessageWriter
from channelstats.demo.people import Member, Rhythm, make_people, slack_id, user_object

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
    users = [user_object(person, team, size.days) for person in people]
    yield ExportFile("users.json", orjson.dumps(users))
    for name, content in _lists(people, channels):
        yield ExportFile(name, orjson.dumps(content))
    writer = MessageWriter(people, rhythm, team, rng)
    for channel, number in zip(channels, _shares(channels, size.messages), strict=True):
        own = random.Random(f"{seed} {channel.cid}")  # noqa: S311
        for day, messages in writer.days(channel, number, own):
            name = f"{channel.name}/{_EPOCH + timedelta(day)}.json"
            yield ExportFile(name, orjson.dumps(messages), len(messages))


def _lists(
    people: list[Member], channels: list[DemoChannel]
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Channels by their kind, and what Slack puts beside them."""
    for name, is_private in (("channels.json", False), ("groups.json", True)):
        listed = [channel for channel in channels if channel.is_private is is_private]
        yield name, [channel_object(channel, people) for channel in listed]
    yield "dms.json", []
    yield "mpims.json", []
    bots = [person.name for person in people if person.bot_id]
    added = {"change_type": "added", "user_id": people[0].uid, "user_name": people[0].user}
    yield "integration_logs.json", [{"service_type": name, **added} for name in bots]
    canvas = {"id": slack_id("F", 0), "title": "Welcome", "filetype": "quip"}
    yield f"{channels[0].name}/canvas_in_the_conversation.json", [canvas]


def _shares(channels: list[DemoChannel], messages: int) -> list[int]:
    """How many messages each channel has; those with the largest remainders get the rest."""
    whole = sum(channel.weight for channel in channels)
    exact = [messages * channel.weight / whole for channel in channels]
    found = list(map(int, exact))
    order = sorted(range(len(channels)), key=lambda place: found[place] - exact[place])
    for place in order[: messages - sum(found)]:
        found[place] += 1
    return found


def write_export(
    path: Path, size: Size, *, last_day: date, seed: int, progress: Progress | None = None
) -> None:
    """Write an export: a zip if ``path`` ends with .zip, else a folder."""
    done = 0
    with _writer(path, last_day) as write:
        for file in export_files(size, last_day=last_day, seed=seed):
            write(file.name, file.data)
            done += file.messages
            if progress is not None and file.messages:
                progress(done, size.messages)


@contextmanager
def _writer(path: Path, day: date) -> Iterator[Callable[[str, bytes], None]]:
    """Writes files by name. In a zip they are of that day, so that its bytes are the same."""
    if path.suffix.lower() != ".zip":
        yield lambda name, data: _write_file(path / name, data)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:

        def write(name: str, data: bytes) -> None:
            entry = zipfile.ZipInfo(name, (max(day.year, 1980), day.month, day.day, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, compresslevel=_COMPRESSION)

        yield write


def _write_file(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
