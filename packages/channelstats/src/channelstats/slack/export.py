"""An export archive: its users, its channels, and the files of days that hold their messages; for
where they are see `export_layout`.

Rule: a file is read when its turn comes and let go before the next one. What cannot be read is
yielded as a problem in its place, and the reading goes on.
"""

import hashlib
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import PurePath
from typing import Final, Self, TypeVar

import msgspec

from channelstats.identifiers import (
    UNLISTED_CHANNEL,
    is_channel_id,
    is_timestamp,
    is_user_id,
    seconds,
)
from channelstats.slack.archive import (
    LARGEST_FILE,
    Archive,
    ArchiveRefused,
    Unreadable,
    open_archive,
)
from channelstats.slack.export_layout import (
    USER_LISTS,
    ChannelKind,
    NotAnExport,
    layout_of,
    one_form,
)
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

_EXAMPLES: Final = 3
"""Folders or files that are named where many have the same problem."""

_REAL_ID: Final = re.compile(r"[CDG][A-Z0-9]{7,}")
"""A folder of this name is called by the ID of its channel."""

_ZONES: Final = timedelta(days=2)
"""So much the date of a file and that of its messages may differ, as nothing says whose time zone
its date is in."""

_GROUP_DIRECT: Final = "mpdm-"
"""How the names of group conversations begin."""


class Problem(msgspec.Struct, frozen=True):
    """Something that could not be taken in: where, and what was expected."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


NO_AUTHOR: Final = "user: "
"""How the reason begins that a message was taken without its author."""


def left_out(place: str, reasons: Iterable[str]) -> list[Problem]:
    """One problem for each kind of reason, however many there are of it."""
    problems = []
    for reason, number in Counter(reasons).most_common():
        what = "without an author" if reason.startswith(NO_AUTHOR) else "left out"
        problems.append(Problem(place, f"{number} {what}: {reason}"))
    return problems


class ExportChannel(msgspec.Struct, frozen=True):
    """A channel of an export and the files of its days, sorted by name. ``workspaces`` of an
    Enterprise Grid list it, "" among them for the top. ``mark`` tells it from others of its name.
    """

    kind: ChannelKind
    about: SlackChannel
    days: tuple[str, ...]
    workspaces: tuple[str, ...] = ("",)
    mark: str = ""

    @property
    def name(self) -> str:
        """Its name, with its mark; "" for none."""
        name = self.about.name or ""
        return f"{name} ({self.mark})" if self.mark else name


def unlisted_problems(channels: Iterable[ExportChannel], flag: str) -> list[Problem]:
    """The problem that folders with messages are in no list; a ``flag`` takes them in."""
    unlisted = [channel.days for channel in channels if not channel.kind]
    if not unlisted:
        return []
    folders, files = (
        sorted(days[0].rpartition("/")[0] for days in unlisted),
        sum(map(len, unlisted)),
    )
    number = f"{len(folders):,} folders " if len(folders) > 1 else ""
    what = "1 file" if files == 1 else f"{files:,} files"
    reason = f"{number}in no list of channels; {what} left out, which {flag} imports"
    return [Problem(_some(folders), reason)]


def _some(names: Sequence[str]) -> str:
    more = len(names) - _EXAMPLES
    return ", ".join(names[:_EXAMPLES]) + (f" and {more:,} more" if more > 0 else "")


class Export:
    """An export archive, open. ``path`` is where it is; the ``fingerprint`` tells it from another
    one.
    """

    def __init__(self, archive: Archive, path: str) -> None:
        self._archive, self.path = archive, path
        self.fingerprint, self.close = archive.fingerprint, archive.close
        self._layout = layout_of(archive.names)
        self._files = self._layout.files
        self.workspaces = self._layout.workspaces
        """Those of an Enterprise Grid; none of another export."""
        self.comments = len(self._layout.comments)
        """Canvases and lists with comments, which are left out."""
        self._problems = [
            Problem(name, "a link or a special file, not followed") for name in archive.ignored
        ]

    @classmethod
    def open(cls, path: str | os.PathLike[str], largest: int = LARGEST_FILE) -> Self:
        """Open a folder or a zip, of which no file is read that is larger than so many bytes.

        :raises ArchiveRefused: it is neither, it is hostile, or it is no export
        """
        archive = open_archive(path, largest)
        try:
            return cls(archive, os.fspath(path))
        except NotAnExport as error:
            archive.close()
            raise ArchiveRefused(f"{os.fspath(path)}: {error}") from None

    def problems(self) -> list[Problem]:
        """What was met since this was called last."""
        met, self._problems = self._problems, []
        return met

    def users(self, workspace: str = "") -> list[SlackUser] | None:
        """The users, the first of each ID; None when no list of them can be read. Of a
        ``workspace`` that has a list of its own they are those.
        """
        paths = self._present([workspace], USER_LISTS) if workspace else []
        paths = paths or self._present(["", *self.workspaces], USER_LISTS)
        if not paths:
            self._problem("users.json", "missing, so users are known by their messages alone")
        lists = [users for path in paths if (users := self._objects(path, USERS)) is not None]
        by_id: dict[str, SlackUser] = {}
        for user in (user for users in lists for user in users):
            if is_user_id(user.id):
                by_id.setdefault(user.id, user)
            else:
                self._problem("users.json", f"{user.id[:20]!r} is not the ID of a user")
        return list(by_id.values()) if lists else None

    def channels(self) -> list[ExportChannel]:
        """The channels, by ID. A folder belongs to one channel at most."""
        if not self._present(["", *self.workspaces], [ChannelKind.PUBLIC]):
            self._problem("channels.json", "missing, so the IDs of public channels are unknown")
        if not self._layout.folders:
            why = "no file of a day is in it, so there are no messages: it has the lists alone"
            self._problem(PurePath(self.path).name, why)
        if strays := self._layout.strays:
            why = f"{len(strays):,} left out: not in the folder of a channel"
            self._problem(_some(strays), why)
        folders = dict(self._layout.folders)
        channels = [*self._listed(folders), *_unlisted(folders)]
        return sorted(_marked(channels), key=lambda channel: channel.about.id)

    def _listed(self, folders: dict[tuple[str, str], list[str]]) -> list[ExportChannel]:
        """The channels of all lists. The ``folders`` that are theirs are taken out.

        A channel that workspaces share is in the lists of each, and may have a folder in each.
        """
        about: dict[str, tuple[ChannelKind, SlackChannel]] = {}
        homes, days = defaultdict[str, set[str]](set), defaultdict[str, list[str]](list)
        ids_by_name = defaultdict[str, set[str]](set)
        for workspace in (*self.workspaces, ""):
            ids_here = defaultdict[str, set[str]](set)
            for kind, channel in self._lists(workspace):
                name, cid = one_form(channel.name or ""), channel.id
                about.setdefault(cid, (kind, channel))
                homes[cid].add(workspace)
                ids_here[name].add(cid)
                own = folders.pop((workspace, name), []) or folders.pop((workspace, cid), [])
                days[cid] += own
            for name, cids in ids_here.items():
                ids_by_name[name] |= cids
                files = set(self._layout.folders.get((workspace, name), ()))
                owner = next((cid for cid in sorted(cids) if files & set(days[cid])), "")
                if owner and len(cids) > 1:
                    others = ", ".join(sorted(cids - {owner}))
                    reason = f"taken to be of {owner}, but {others} has the same name"
                    self._problem(self._layout.path(workspace, name), reason)
        for key in list(folders):  # in lists of other workspaces than the folder
            ids = {key[1]} & about.keys() or ids_by_name[key[1]]
            if len(ids) == 1:
                days[next(iter(ids))] += folders.pop(key)
        return [
            ExportChannel(
                kind, channel, tuple(sorted(days[cid], key=_place)), tuple(sorted(homes[cid]))
            )
            for cid, (kind, channel) in about.items()
        ]

    def messages(self, channel: ExportChannel) -> Iterator[tuple[str, list[SlackMessage]]]:
        """The files of a channel's days, each with what it holds, in the order of their names."""
        for path in channel.days:
            yield path, self._objects(path, MESSAGES) or []

    def size(self, channel: ExportChannel) -> int:
        """How many bytes the files of a channel's days have."""
        return sum(self._archive.size(self._files[path]) for path in channel.days)

    def written(self) -> int:
        """When its newest file was written, in seconds since the epoch; 0 for not known."""
        return max(map(self._archive.written, self._files.values()), default=0)

    def newest(self, channels: list[ExportChannel], latest: str) -> str:
        """The newest timestamp up to ``latest`` of these channels; "" for none.

        So it is told how recent an export is without reading all of it: of a channel the last file
        with a message is read, and those that no date says the place of. Where its messages are not
        of the date that it is called by, every file is read.
        """
        return max((self._newest_of(channel, latest) for channel in channels), default="")

    def _newest_of(self, channel: ExportChannel, latest: str) -> str:
        newest = ""
        for path in reversed(channel.days):  # what no date says the place of comes first
            try:
                messages, _ = MESSAGES.decode(self._archive.read(self._files[path]))
            except (Unreadable, MalformedJson):
                continue  # reported when the channel is read
            times = [message.ts for message in messages if is_timestamp(message.ts)]
            in_file = max((ts for ts in times if ts <= latest), default="")
            newest = max(newest, in_file)
            if in_file and (day := day_of(path)) is not None:
                said = datetime.fromtimestamp(seconds(in_file), UTC).date()
                if abs(said - day) <= _ZONES:
                    break
        return newest

    # ── files ────────────────────────────────────────────────────────────────────────────────────

    def _problem(self, place: str, reason: str) -> None:
        self._problems.append(Problem(place, reason))

    def _present(self, workspaces: Iterable[str], names: Iterable[str]) -> list[str]:
        """The paths of the lists of these names that are there."""
        paths = [self._layout.path(workspace, name) for workspace in workspaces for name in names]
        return [path for path in paths if path in self._files]

    def _objects(self, path: str, decoder: ArrayDecoder[_T]) -> list[_T] | None:
        """What a file holds, without what is broken; None when nothing can be told."""
        try:
            objects, broken = decoder.decode(self._archive.read(self._files[path]))
        except (Unreadable, MalformedJson) as error:
            self._problem(path, f"left out: {error}")
            return None
        self._problems += left_out(path, broken)
        return objects

    def _lists(self, workspace: str) -> Iterator[tuple[ChannelKind, SlackChannel]]:
        """The channels in the lists of a workspace."""
        for kind in filter(None, ChannelKind):
            for path in self._present([workspace], [kind]):
                for channel in self._objects(path, CHANNELS) or []:
                    if is_channel_id(channel.id):
                        yield kind, channel
                    else:
                        self._problem(path, f"{channel.id[:20]!r} is not the ID of a channel")


def day_of(path: str) -> date | None:
    """The date that a file is called by; None for another name."""
    try:
        return date.fromisoformat(path[path.rfind("/") + 1 : -len(".json")])
    except ValueError:
        return None


def _place(path: str) -> tuple[str, str]:
    """By date, and behind all dates whatever is called otherwise."""
    name = path.rpartition("/")[2]
    return name if name[:1].isdecimal() else f"~{name}", path


def _unlisted(folders: dict[tuple[str, str], list[str]]) -> Iterator[ExportChannel]:
    """Channels made of folders that no list knows. Of one that is not called by an ID the ID is
    made of its name, so that it is the same in the next export.
    """
    for (workspace, folder), days in folders.items():
        digest = hashlib.sha256(f"{workspace}/{folder}".encode(errors="replace")).hexdigest()
        is_id = _REAL_ID.fullmatch(folder) is not None
        cid = folder if is_id else f"{UNLISTED_CHANNEL}{digest[:12].upper()}"
        kind = ChannelKind.UNLISTED
        if is_id and folder.startswith("D"):
            kind = ChannelKind.DIRECT
        elif folder.startswith(_GROUP_DIRECT):
            kind = ChannelKind.GROUP_DIRECT
        yield ExportChannel(kind, SlackChannel(cid, folder), tuple(days), (workspace,))


def _marked(channels: list[ExportChannel]) -> Iterator[ExportChannel]:
    """The channels, those of one name with the workspaces that list each, or else with its ID."""
    places = [", ".join(filter(None, channel.workspaces)) for channel in channels]
    names = [channel.about.name for channel in channels]
    called, placed = Counter(names), Counter(zip(names, places, strict=True))
    for channel, name, place in zip(channels, names, places, strict=True):
        if not name or called[name] == 1:
            yield channel
        else:
            mark = place if placed[name, place] == 1 else channel.about.id
            yield msgspec.structs.replace(channel, mark=mark)
