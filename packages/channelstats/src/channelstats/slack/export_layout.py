"""Where the files of an export are, by their names alone.

    channels.json groups.json dms.json mpims.json    lists of channels; the list says the kind
    users.json, org_users.json                       lists of users
    <name or ID of a channel>/*.json                 arrays of messages
    FC:<ID of a file>:<its title>/*.json             comments on canvases and lists: left out
    __uploads, __MACOSX, …                           what tools add: not looked at
    teams/<workspace>/…                              of an Enterprise Grid: all of it once more for
                                                     each workspace; what is shared stays at the top
    everything else                                  not looked at

The whole may lie in one folder more. Names are compared in one form of Unicode (NFC), as some
computers take letters and accents apart.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

USER_LISTS: Final = ("users.json", "org_users.json")

_NOT_DAYS: Final = (
    *("canvas_in_the_conversation.json", "canvases.json", "content_flags.json", "lists.json"),
    *("file_conversations.json", "huddle_transcripts.json", "integration_logs.json"),
)
"""Files that Slack may put beside those of days, and beside the lists of channels."""
_FILE_CONVERSATION: Final = "FC:"
_OF_TOOLS: Final = "__"
_WORKSPACES: Final = "teams"
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}\.json")
_TEXT_DAY: Final = re.compile(r"(?:^|/)[^/]+/[^/]*\.txt$")
_TEXT_EXPORT: Final = (
    "an export as plain text, without users, reactions and threads to count; export again as JSON"
)


class ChannelKind(StrEnum):
    """Which list a channel was in."""

    PUBLIC = "channels.json"
    PRIVATE = "groups.json"
    DIRECT = "dms.json"
    GROUP_DIRECT = "mpims.json"
    UNLISTED = ""
    """None: there is only a folder with messages."""


LISTS: Final = frozenset({*USER_LISTS, *filter(None, ChannelKind)})


class NotAnExport(Exception):  # noqa: N818 - named for what was found
    """There are no lists where they should be. The message says what was found instead."""


class ExportLayout(msgspec.Struct, frozen=True):
    """``files`` are below the root, each with its name in the archive. ``folders`` are those of
    channels with the files of their days, by workspace and name; the workspace is "" at the top.
    ``strays`` are called like files of days and lie where no channel is; ``comments`` are folders
    of comments on files.
    """

    files: Mapping[str, str]
    workspaces: tuple[str, ...]
    folders: Mapping[tuple[str, str], list[str]]
    strays: tuple[str, ...]
    comments: frozenset[str] = frozenset()

    def path(self, workspace: str, name: str) -> str:
        """The path of a list of a workspace, or of a folder."""
        return f"{_WORKSPACES}/{workspace}/{name}" if workspace else name


def layout_of(names: Iterable[str]) -> ExportLayout:
    """:raises NotAnExport: there is no list, or there are lists of several exports"""
    every = sorted(names)
    root = _root(every)
    files = {name.removeprefix(root): name for name in every if name.startswith(root)}
    workspaces = {parts[1] for path in files if _is_of_workspace(parts := path.split("/"))}
    folders: dict[tuple[str, str], list[str]] = {}
    strays, comments = [], set[str]()
    for path in files:
        parts = path.split("/")
        is_inside = parts[0] == _WORKSPACES and len(parts) > 2 and parts[1] in workspaces
        workspace, (folder, *rest) = (parts[1], parts[2:]) if is_inside else ("", parts)
        if len(rest) == 1 and _is_of_days(folder, rest[0]):
            folders.setdefault((workspace, one_form(folder)), []).append(path)
        elif folder.startswith(_FILE_CONVERSATION):
            comments.add(path.rpartition("/")[0])
        elif _DAY.fullmatch(parts[-1]) and not folder.startswith(_OF_TOOLS):
            strays.append(path)
    if not folders and (texts := [path for path in files if _TEXT_DAY.search(path)]):
        raise NotAnExport(f"{_TEXT_EXPORT}: {texts[0]}")
    return ExportLayout(
        files, tuple(sorted(workspaces)), folders, tuple(strays), frozenset(comments)
    )


def one_form(name: str) -> str:
    """A name in the form of Unicode in which names are compared."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def _is_of_workspace(parts: list[str]) -> bool:
    """Whether a path tells that its second part is a workspace: by a list, or a file of a day."""
    if parts[0] != _WORKSPACES or len(parts) not in (3, 4):
        return False
    return parts[2] in LISTS if len(parts) == 3 else _DAY.fullmatch(parts[3]) is not None


def _is_of_days(folder: str, file: str) -> bool:
    is_channel = not folder.startswith((_FILE_CONVERSATION, _OF_TOOLS))
    return is_channel and file.endswith(".json") and file[0] != "." and file not in _NOT_DAYS


def _root(names: list[str]) -> str:
    """The path of the folder that holds the lists, with a slash; "" for the top."""
    if any(map(_is_list, names)):
        return ""
    parts = (name.partition("/") for name in names)
    roots = sorted({root for root, _, path in parts if _is_list(path)})
    if len(roots) == 1:
        return f"{roots[0]}/"
    if roots:
        raise NotAnExport(f"holds {len(roots)} exports: {', '.join(roots)}; give one of them")
    if zips := [name for name in names if name.lower().endswith(".zip")]:
        raise NotAnExport(f"not an export: it contains {zips[0]}; give that")
    if texts := [name for name in names if _TEXT_DAY.search(name)]:
        raise NotAnExport(f"{_TEXT_EXPORT}: {texts[0]}")
    raise NotAnExport(f"not an export: there is none of {', '.join(sorted(LISTS))}")


def _is_list(path: str) -> bool:
    """Whether it is a list of an export whose root is the top."""
    parts = path.split("/")
    if len(parts) == 1:
        return path in LISTS
    return len(parts) == 3 and parts[0] == _WORKSPACES and parts[2] in LISTS
