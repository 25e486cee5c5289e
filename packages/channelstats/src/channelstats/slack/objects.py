"""Messages, users and channels as Slack writes them, in the Web API and in exports alike.

Rule: only what is measured is named here, so nothing else is even read: no e-mail address, no
attachment, no block. The text of a message lives until its words are counted.

Numbers beside the point may be of any kind, or lists hold nulls, without costing the message.
"""

from typing import TypeAlias

import msgspec

Loose: TypeAlias = int | float | str | None
"""A number, as some write it; `whole` reads it."""


def whole(value: Loose) -> int | None:
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


class SlackReaction(msgspec.Struct, gc=False):
    name: str = ""
    users: list[str | None] = []
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


class Edited(msgspec.Struct, gc=False):
    ts: str | None = None


class Room(msgspec.Struct, gc=False):
    """A huddle; times are in seconds, 0 while it lasts."""

    participant_history: list[str | None] | None = None
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
    user_profile: Named | None = None


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


class SlackChannel(msgspec.Struct, gc=False):
    """A channel in a list of an export; the list says which kind it is."""

    id: str
    name: str | None = None
    created: Loose = None
    is_archived: bool | None = None
    members: list[str | None] | None = None
