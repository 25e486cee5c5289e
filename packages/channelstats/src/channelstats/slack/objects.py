"""Messages, users and channels as Slack writes them, in the Web API and in exports.

Rule: only what is measured is named here, so nothing else is even read: no e-mail address, no
attachment, no block. The text of a message lives until its words are counted.

Rule: one broken object costs itself, and of a message one odd member that member; only text that is
no JSON array at all costs a whole file. Numbers beside the point may be of any kind, or lists hold
nulls, without costing anything.
"""

import json
import re
from collections.abc import Iterable
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

_T = TypeVar("_T")

Loose: TypeAlias = int | float | str | None
"""A number, as some write it; `int_of` reads it."""


def int_of(value: Loose) -> int | None:
    """The whole number that is meant; None for anything else, and for one beyond 2**53."""
    try:
        number = int(value) if value is not None else None
    except (ValueError, OverflowError):
        return None
    return number if number is not None and abs(number) <= 2**53 else None


class Named(msgspec.Struct, gc=False):
    """The names in a profile."""

    name: str | None = None
    real_name: str | None = None
    display_name: str | None = None


class ProfileBeside(Named, gc=False):
    """The profile of its author beside a message, who may be in no list."""

    team: str | None = None


class SlackReaction(msgspec.Struct, gc=False):
    name: str | None = None
    users: list[str | None] | None = None
    count: Loose = None


class SlackReply(msgspec.Struct, gc=False):
    user: str | None = None
    ts: str | None = None


class SlackFile(msgspec.Struct, gc=False):
    id: str | None = None
    created: Loose = None
    name: str | None = None
    mimetype: str | None = None
    filetype: str | None = None
    size: Loose = None
    user: str | None = None
    permalink: str | None = None


_ADDRESS: Final = re.compile(
    r"https://([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.enterprise)?)\.slack\.com/"
)


def workspace_of(file: SlackFile) -> str:
    """The workspace that the link to a file leads to: `xxx` of `https://xxx.slack.com/…`, "" for
    every other address. Nothing else of the link is kept.
    """
    address = _ADDRESS.match(file.permalink or "")
    return address[1] if address is not None else ""


class Edited(msgspec.Struct, gc=False):
    ts: str | None = None


class Room(msgspec.Struct, gc=False):
    """A huddle; times are in seconds, 0 while it lasts."""

    participant_history: list[str | None] | None = None
    participants: list[str | None] | None = None
    date_start: Loose = None
    date_end: Loose = None


class SlackMessage(msgspec.Struct, gc=False):
    """A message, in history, in a thread or in the file of a day."""

    type: str | None = None
    ts: str | None = None
    user: str | None = None
    bot_id: str | None = None
    text: str | None = None
    subtype: str | None = None
    thread_ts: str | None = None
    parent_user_id: str | None = None
    reactions: list[SlackReaction | None] | None = None
    replies: list[SlackReply | None] | None = None
    files: list[SlackFile | None] | None = None
    file: SlackFile | None = None
    edited: Edited | None = None
    room: Room | None = None
    user_profile: ProfileBeside | None = None
    user_team: str | None = None
    source_team: str | None = None


class GridUser(msgspec.Struct, gc=False):
    """What a user is in the whole of an Enterprise Grid: the ID there, and the workspaces."""

    id: str | None = None
    enterprise_id: str | None = None
    teams: list[str | None] | None = None


class SlackUser(msgspec.Struct, gc=False):
    """A user, in `users.list` or in `users.json`."""

    id: str
    name: str | None = None
    real_name: str | None = None
    tz: str | None = None
    tz_offset: Loose = None
    deleted: bool | None = None
    is_admin: bool | None = None
    is_bot: bool | None = None
    profile: Named | None = None
    team_id: str | None = None
    is_stranger: bool | None = None
    enterprise_user: GridUser | None = None


class SlackChannel(msgspec.Struct, gc=False):
    """A channel in a list of an export; the list says which kind it is."""

    id: str
    name: str | None = None
    created: Loose = None
    is_archived: bool | None = None
    is_general: bool | None = None
    members: list[str | None] | None = None


# ── what only the Web API says ───────────────────────────────────────────────────────────────────


class HistoryMessage(SlackMessage, gc=False):
    """A message in history or in a thread. A head says how many replies it has, but not which."""

    reply_count: Loose = None
    latest_reply: str | None = None


class ListedChannel(SlackChannel, gc=False):
    """A channel in `conversations.list`, which names no members. A private one of today is no
    "group" to Slack.
    """

    is_private: bool | None = None
    is_member: bool | None = None
    num_members: Loose = None
    previous_names: list[str | None] | None = None


class Identity(msgspec.Struct, frozen=True):
    """Whose token it is, as `auth.test` says, and its ``scopes`` where Slack says them."""

    url: str = ""
    team: str = ""
    user: str = ""
    bot_id: str = ""
    scopes: frozenset[str] = frozenset()


# ── decoding ─────────────────────────────────────────────────────────────────────────────────────

_WRONG_KIND: Final = re.compile(r"Expected `([^`]+)`, got `([^`]+)`(?: - at `([^`]+)`)?")
_KINDS: Final = {
    "str": "a text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_BOM: Final = b"\xef\xbb\xbf"


class MalformedJson(Exception):  # noqa: N818
    """The text is no JSON array. The message says where and why."""


class Broken(Exception):  # noqa: N818
    """A value is not the object it should be. The message says why."""


def object_of(value: object, kind: type[_T]) -> _T:
    """The object that a value of JSON stands for.

    :raises Broken: it does not
    """
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.MsgspecError as error:
        raise Broken(_in_words(str(error))) from None
    except UnicodeEncodeError:
        raise Broken(_HALF_A_PAIR) from None


def objects_of(values: Iterable[object], kind: type[_T]) -> tuple[list[_T], list[str]]:
    """The objects that values stand for, and for each that is broken what is wrong with it. Of a
    message an odd member that is not essential costs that member alone.
    """
    objects, broken = [], []
    for value in values:
        try:
            objects.append(object_of(value, kind))
        except Broken as error:
            reason, sound = str(error), None
            if issubclass(kind, SlackMessage) and reason != _HALF_A_PAIR:
                sound = _sound_message(value, kind)
            if sound is not None:
                objects.append(object_of(sound, kind))
                reason = f"{reason}; the rest of the message was taken"
            broken.append(reason)
    return objects, broken


_HALF_A_PAIR: Final = "half of a surrogate pair in the name of a field"
_ESSENTIAL: Final = frozenset(
    {"type", "ts", "user", "bot_id", "text", "subtype", "thread_ts", "parent_user_id"}
)
"""Members without which a message would be another one."""


def _sound_message(message: object, kind: type[object]) -> dict[str, object] | None:
    """A message without its odd members; None where one of those is essential."""

    def is_sound(members: dict[str, object]) -> bool:
        try:
            object_of(members, kind)
        except Broken:
            return False
        return True

    if not isinstance(message, dict):
        return None
    sound = {name: value for name, value in message.items() if is_sound({name: value})}
    return sound if _ESSENTIAL & message.keys() <= sound.keys() else None


def _in_words(complaint: str) -> str:
    """What msgspec says of a wrong value, for people who know JSON."""
    parts = _WRONG_KIND.fullmatch(complaint)
    if parts is None:
        return complaint
    expected, given, path = parts.groups(default="")
    kinds = [_KINDS.get(kind, kind) for kind in expected.split(" | ") if kind != "null"]
    place = path.removeprefix("$").lstrip(".") or "it"
    return f"{place} is {_KINDS.get(given, given)}, expected {' or '.join(kinds)}"


class ArrayDecoder(Generic[_T]):
    """Decodes arrays of one kind of object. Numbers may be written as text, as old exports do."""

    def __init__(self, kind: type[_T]) -> None:
        self._kind = kind
        self._many = msgspec.json.Decoder(list[kind], strict=False)  # type: ignore[valid-type]

    def decode(self, data: bytes) -> tuple[list[_T], list[str]]:
        """Return what `objects_of` does.

        :raises MalformedJson: no JSON, or no array
        """
        data = data.removeprefix(_BOM)
        try:
            return self._many.decode(data), []
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
        # The standard library's decoder takes what msgspec refuses to: halves of surrogate pairs.
        try:
            values = json.loads(data)
        except json.JSONDecodeError as error:
            where = f"line {error.lineno} column {error.colno}"
            raise MalformedJson(f"not JSON, {where}: {error.msg}") from None
        except UnicodeDecodeError as error:
            raise MalformedJson(f"not UTF-8, byte {error.start}") from None
        except RecursionError:
            raise MalformedJson("nested too deeply") from None
        except ValueError:
            raise MalformedJson("a number with too many digits") from None
        if not isinstance(values, list):
            raise MalformedJson(f"expected an array, found {type(values).__name__}")
        return objects_of(values, self._kind)


MESSAGES: Final = ArrayDecoder(SlackMessage)
USERS: Final = ArrayDecoder(SlackUser)
CHANNELS: Final = ArrayDecoder(SlackChannel)
