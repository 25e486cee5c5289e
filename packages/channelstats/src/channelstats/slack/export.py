"""An export archive: its users, its channels, and the files of days that hold their messages.

Rule: a file is read when its turn comes and let go before the next one. What cannot be read is
yielded as a problem in its place, and the reading goes on.

    channels.json groups.json dms.json mpims.json    lists of channels; the list says the kind
    users.json, org_users.json                       lists of users
    <name or ID of a channel>/*.json                 arrays of messages
    FC:<ID of a file>:<its title>/*.json             comments on canvases and lists: left out
    everything else                                  not looked at

The whole may lie in one folder more.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, Self, TypeVar

import msgspec

from channelstats.identifiers import is_channel_id, is_timestamp, is_user_id
from channelstats.slack.archive import Archive, ArchiveRefused, Limits, Unreadable, open_archive
from channelstats.slack.objects import (
    CHANNELS,
    MESSAGES,
    USERS,
    ArrayDecoder,
    MalformedJson,
    SlackChannel,
    SlackMessage,
    SlackUser,
)

_T = TypeVar("_T")

_USER_LISTS: Final = ("users.json", "org_users.json")
_NOT_DAYS: Final = (
    *("canvas_in_the_conversation.json", "canvases.json", "content_flags.json", "lists.json"),
    *("file_conversations.json", "huddle_transcripts.json", "integration_logs.json"),
)
"""Files that Slack may put beside those of days, and beside the lists of channels."""
_FILE_CONVERSATION: Final = "FC:"
_EXAMPLES: Final = 3
"""Folders that are named where many have the same problem."""


class ChannelKind(StrEnum):
    """Which list a channel was in."""

    PUBLIC = "channels.json"
    PRIVATE = "groups.json"
    DIRECT = "dms.json"
    GROUP_DIRECT = "mpims.json"


class Problem(msgspec.Struct, frozen=True):
    """Something that could not be taken in: where, and what was expected."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


def left_out(place: str, reasons: Iterable[str]) -> list[Problem]:
    """One problem for each kind of reason, however many there are of it."""
    return [
        Problem(place, f"{number} left out: {reason}")
        for reason, number in Counter(reasons).most_common()
    ]


class ExportChannel(msgspec.Struct, frozen=True):
    """A channel of an export and the files of its days, sorted by name."""

    kind: ChannelKind
    about: SlackChannel
    days: tuple[str, ...]


class Export:
    """An export archive, open. ``path`` is where it is, ``limits`` what was allowed; the
    ``fingerprint`` tells it from another one.
    """

    def __init__(self, archive: Archive, path: str, limits: Limits) -> None:
        self._archive, self.path, self.limits = archive, path, limits
        self.fingerprint, self.close = archive.fingerprint, archive.close
        root = _root(frozenset(archive.names))
        self._files = {
            name.removeprefix(root): name for name in archive.names if name.startswith(root)
        }
        self._problems = [
            Problem(name, "a link or a special file, not followed") for name in archive.ignored
        ]

    @classmethod
    def open(cls, path: str | os.PathLike[str], limits: Limits | None = None) -> Self:
        """Open a folder or a zip.

        :raises ArchiveRefused: it is neither, it is hostile, or it is no export
        """
        limits = limits or Limits()
        archive = open_archive(path, limits)
        try:
            return cls(archive, os.fspath(path), limits)
        except ArchiveRefused as error:
            archive.close()
            raise ArchiveRefused(f"{os.fspath(path)}: {error}") from None

    def problems(self) -> list[Problem]:
        """What was met since this was called last."""
        met, self._problems = self._problems, []
        return met

    def users(self) -> list[SlackUser] | None:
        """The users, the first of each ID; None when no list of them can be read."""
        present = [name for name in _USER_LISTS if name in self._files]
        if not present:
            self._problem("users.json", "missing, so users are known by their messages alone")
        lists = [found for name in present if (found := self._objects(name, USERS)) is not None]
        users: dict[str, SlackUser] = {}
        for user in (user for found in lists for user in found):
            if is_user_id(user.id):
                users.setdefault(user.id, user)
            else:
                self._problem("users.json", f"{user.id[:20]!r} is not the ID of a user")
        return list(users.values()) if lists else None

    def channels(self, kinds: frozenset[ChannelKind]) -> list[ExportChannel]:
        """The channels of these kinds, by ID. A folder belongs to one channel at most."""
        if ChannelKind.PUBLIC in kinds and ChannelKind.PUBLIC not in self._files:
            self._problem("channels.json", "missing, so the IDs of public channels are unknown")
        folders = self._folders()
        found: dict[str, ExportChannel] = {}
        for kind in ChannelKind:  # also those not wanted, to know whose each folder is
            for about in self._channel_list(kind):
                if about.id not in found:
                    days = folders.pop(about.name or "", None) or folders.pop(about.id, [])
                    found[about.id] = ExportChannel(kind, about, tuple(days))
        if folders:
            self._problem_of_folders(folders)
        return [channel for _, channel in sorted(found.items()) if channel.kind in kinds]

    def messages(self, channel: ExportChannel) -> Iterator[tuple[str, list[SlackMessage]]]:
        """The files of a channel's days, each with what it holds, in the order of their names."""
        for name in channel.days:
            yield name, self._objects(name, MESSAGES) or []

    def size(self, channel: ExportChannel) -> int:
        """How many bytes the files of a channel's days have."""
        return sum(self._archive.size(self._files[name]) for name in channel.days)

    def written(self) -> int:
        """When its newest file was written, in seconds since the epoch; 0 for not known."""
        return max(map(self._archive.written, self._files.values()), default=0)

    def newest(self, channels: list[ExportChannel], latest: str) -> str:
        """The newest timestamp up to ``latest`` in the last file of every channel; "" for none.

        So it is told how recent an export is without reading all of it.
        """
        times: list[str] = []
        for channel in channels:
            try:
                last, _ = MESSAGES.decode(self._archive.read(self._files[channel.days[-1]]))
            except (IndexError, Unreadable, MalformedJson):
                continue  # no files; or reported when the channel is read
            times += [message.ts for message in last if is_timestamp(message.ts)]
        return max((ts for ts in times if ts <= latest), default="")

    # ── files ────────────────────────────────────────────────────────────────────────────────────

    def _problem(self, place: str, reason: str) -> None:
        self._problems.append(Problem(place, reason))

    def _problem_of_folders(self, folders: dict[str, list[str]]) -> None:
        names = sorted(folders)
        files = sum(map(len, folders.values()))
        more = len(names) - _EXAMPLES
        place = ", ".join(names[:_EXAMPLES]) + (f" and {more:,} more" if more > 0 else "")
        number = f"{len(names):,} folders " if len(names) > 1 else ""
        what = "1 file" if files == 1 else f"{files:,} files"
        self._problem(place, f"{number}in no list of channels; {what} left out")

    def _objects(self, name: str, decoder: ArrayDecoder[_T]) -> list[_T] | None:
        """What a file holds, without what is broken; None when nothing can be told."""
        try:
            found, broken = decoder.decode(self._archive.read(self._files[name]))
        except (Unreadable, MalformedJson) as error:
            self._problem(name, f"left out: {error}")
            return None
        self._problems += left_out(name, broken)
        return found

    def _channel_list(self, kind: ChannelKind) -> Iterator[SlackChannel]:
        if kind not in self._files:
            return
        for about in self._objects(kind, CHANNELS) or []:
            if is_channel_id(about.id):
                yield about
            else:
                self._problem(kind, f"{about.id[:20]!r} is not the ID of a channel")

    def _folders(self) -> dict[str, list[str]]:
        """The files of days by the folder they are in."""
        found: dict[str, list[str]] = {}
        for name in self._files:
            folder, _, file = name.rpartition("/")
            if (
                folder
                and "/" not in folder
                and not folder.startswith(_FILE_CONVERSATION)
                and file.endswith(".json")
                and not file.startswith(".")
                and file not in _NOT_DAYS
            ):
                found.setdefault(folder, []).append(name)
        return found


def _root(names: frozenset[str]) -> str:
    """The path of the folder that holds the lists, with a slash; "" for the top."""
    lists = {*_USER_LISTS, *ChannelKind}
    if lists & names:
        return ""
    paths = (name.partition("/") for name in names)
    roots = {folder for folder, _, name in paths if name in lists}
    if len(roots) == 1:
        return f"{roots.pop()}/"
    raise ArchiveRefused(f"not an export: there is none of {', '.join(sorted(lists))}")
