"""Users, channels and messages as Slack writes them → rows.

Rule: of a user only names, zone and standing are kept. The text of a message is counted and
forgotten; of files only what they are is kept, not what they say. What is absurd is left out, not
guessed.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Final

import msgspec

from channelstats.identifiers import is_bot_id, is_timestamp, is_user_id
from channelstats.ingest.questions import asks, signs
from channelstats.slack.export import NO_AUTHOR, ExportChannel
from channelstats.slack.export_layout import ChannelKind, one_form
from channelstats.slack.objects import (
    ListedChannel,
    Loose,
    Named,
    ProfileBeside,
    Room,
    SlackChannel,
    SlackFile,
    SlackMessage,
    SlackReaction,
    SlackReply,
    SlackUser,
    int_of,
)
from channelstats.tables.configuration import Counts
from channelstats.tables.directory import Channel, User
from channelstats.tables.message_row import (
    LONGEST_REACTIONS,
    MessageRow,
    Reaction,
    Reply,
    emoji_name,
    encode_json,
    encode_mentions,
    encode_reactions,
    encode_replies,
    extension,
)

ROWS_VERSION: Final = 4
"""Goes up with each change of what rows are made of: the same export is then read again."""

# ── users and channels ───────────────────────────────────────────────────────────────────────────

_LONGEST_NAME: Final = 200
_DAY: Final = 86_400
_NO_IDS: Final[Mapping[str, str]] = {}


def user_of(user: SlackUser) -> User:
    """The row of a user in a list."""
    profile = user.profile or Named()
    offset = int_of(user.tz_offset)
    return User(
        slack_uid=user.id,
        user_name=stored_name(user.name),
        real_name=stored_name(user.real_name or profile.real_name),
        display_name=stored_name(profile.display_name),
        tz=stored_name(user.tz),
        tz_offset=offset if offset is not None and abs(offset) <= _DAY else None,
        deleted=bool(user.deleted),
        admin=bool(user.is_admin),
        is_bot=bool(user.is_bot),
    )


def users_of_messages(rows: Iterable[MessageRow], profiles: Mapping[str, Named]) -> list[User]:
    """The authors of messages, as the profiles beside those have them, else by their IDs alone:
    without a zone, and no bots.
    """
    nobody = Named()
    authors = {row.slack_uid for row in rows if row.slack_uid and not row.is_bot}
    named = ((uid, profiles.get(uid, nobody)) for uid in sorted(authors))
    return [
        User(
            slack_uid=uid,
            user_name=stored_name(profile.name),
            real_name=stored_name(profile.real_name),
            display_name=stored_name(profile.display_name),
            unlisted=True,
        )
        for uid, profile in named
    ]


def counts_of(users: Iterable[User]) -> Counts:
    """How many a list of users holds."""
    every = list(users)
    active = sum(not user.deleted for user in every)
    return Counts(active, len(every), sum(user.is_member for user in every))


def members_of(channel: ExportChannel, ids: Mapping[str, str] = _NO_IDS) -> list[str]:
    """The members of a channel as its list names them, in that order; for ``ids`` see
    `ids_of_people`.
    """
    members = (uid for uid in channel.about.members or () if is_user_id(uid))
    return list(dict.fromkeys(ids.get(uid, uid) for uid in members))


def channel_of(channel: ExportChannel, ids: Mapping[str, str] = _NO_IDS) -> Channel:
    """The row of a channel in a list of an export."""
    about = msgspec.structs.replace(channel.about, name=channel.name)
    return _channel(about, channel.kind, len(members_of(channel, ids)))


def listed_channel_of(channel: ListedChannel, members: int) -> Channel:
    """The row of a public or private channel in a list of the Web API."""
    kind = ChannelKind.PRIVATE if channel.is_private else ChannelKind.PUBLIC
    return _channel(channel, kind, members)


def _channel(about: SlackChannel, kind: ChannelKind, members: int) -> Channel:
    """An archived channel has no members."""
    return Channel(
        slack_cid=about.id,
        friendly_name=stored_name(about.name),
        members=0 if about.is_archived else members,
        created=max(int_of(about.created) or 0, 0),
        is_channel=kind in (ChannelKind.PUBLIC, ChannelKind.UNLISTED),
        is_group=kind is ChannelKind.PRIVATE,
        is_im=kind is ChannelKind.DIRECT,
        is_mpim=kind is ChannelKind.GROUP_DIRECT,
        is_private=kind not in (ChannelKind.PUBLIC, ChannelKind.UNLISTED),
        is_archived=bool(about.is_archived),
        is_general=bool(about.is_general),
    )


def stored_name(text: str | None) -> str:
    """A name as it can be stored: of bounded length, and UTF-8."""
    return one_form((text or "")[:_LONGEST_NAME].encode(errors="replace").decode().strip())


# ── messages ─────────────────────────────────────────────────────────────────────────────────────

EARLIEST: Final = "0946684800.000000"
"""The year 2000. Nothing was said in Slack before; what claims to be is damaged."""

_AHEAD: Final = 86_400
"""Seconds that a message may lie in the future: clocks differ, years do not."""

_MENTION: Final = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^>]*)?>")
_WORD: Final = re.compile(r"[A-Za-z0-9_.+/-]{1,100}")
_MOST_REACTIONS: Final = 10_000_000
_MOST_FILES: Final = 99
_MOST_IN_HUDDLE: Final = 500
"""Slack allows for fewer of both."""
_USERS: Final = 1 << 15


class Origin(msgspec.Struct, frozen=True):
    """Where messages come from: their channel, how recent they are (seconds), and the latest
    timestamp that is not absurd.
    """

    slack_cid: str
    source: str
    fetched_at: int
    latest: str


def ts_of(second: int) -> str:
    return f"{second:010d}.000000"


def latest(now: int) -> str:
    """The latest timestamp that is not absurd."""
    return ts_of(now + _AHEAD)


class People(dict[str | None, str]):
    """The one ID of the person that an ID stands for; "" for what is none. For ``ids`` see
    `ids_of_people`. It keeps those that come again and again.
    """

    def __init__(self, ids: Mapping[str, str] = _NO_IDS) -> None:
        self.ids = ids

    def __missing__(self, text: str | None) -> str:
        uid = self.ids.get(text, text) if is_user_id(text) else ""
        if len(self) < _USERS:
            self[text] = uid
        return uid


EVERYBODY: Final = People()
"""Where nobody has two IDs."""


def row_of(message: SlackMessage, origin: Origin, people: People = EVERYBODY) -> MessageRow:
    """Return the row of a message.

    :raises ValueError: it has no timestamp, or an absurd one
    """
    ts = message.ts
    if not is_timestamp(ts):
        raise ValueError("ts: expected ten digits, a point, six digits")
    if not EARLIEST <= ts <= origin.latest:
        raise ValueError("ts: before the year 2000, or in the future")
    author, is_bot = _author(message, people)
    row = MessageRow(origin.slack_cid, ts, author, is_bot=is_bot)
    row.fetched_at, row.source = origin.fetched_at, origin.source
    if message.subtype:
        row.subtype = known_word(message.subtype) or "unknown"
    if text := message.text:
        row.word_count, row.question = len(text.split()), asks(text)
        if "<@" in text:
            row.mentions = encode_mentions(
                uid
                for mentioned in _MENTION.findall(text)
                if (uid := people[mentioned]) and uid != author
            )
    thread = message.thread_ts
    if is_timestamp(thread) and EARLIEST <= thread <= origin.latest:
        row.thread_ts = thread
        row.parent_user_id = people[message.parent_user_id]
    if message.reactions:
        _add_reactions(row, message.reactions, people)
    if message.replies and not row.is_reply:
        _add_replies(row, message.replies, people)
    if text and not row.is_threaded:  # in a thread nobody has to find out who talks to whom
        row.signs = signs(text)
    if message.files or message.file:
        files = (*(message.files or ())[:_MOST_FILES], message.file)
        row.files = encode_json([about_file(file, people) for file in files if file is not None])
    if message.room is not None:
        row.room = encode_json(_huddle(message.room, people))
    if message.edited is not None and is_timestamp(message.edited.ts):
        row.edited_ts = message.edited.ts
    return row


def take_rows(
    messages: Iterable[SlackMessage],
    origin: Origin,
    rows: list[MessageRow],
    profiles: dict[str, ProfileBeside],
    people: People = EVERYBODY,
) -> list[str]:
    """Add the rows of messages and the profiles of authors; return what is wrong with some."""
    broken = []
    for message in messages:
        if message.type != "message":
            continue
        try:
            row = row_of(message, origin, people)
        except ValueError as error:
            broken.append(str(error))
            continue
        rows.append(row)
        if not (uid := row.slack_uid):
            if message.user:
                broken.append(f"{NO_AUTHOR}{message.user[:20]!r} is not the ID of a user")
        elif not row.is_bot:
            if message.user_profile is not None:
                profiles[uid] = message.user_profile
            if team := message.user_team or message.source_team:
                profiles.setdefault(uid, ProfileBeside()).team = team
    return broken


def _author(message: SlackMessage, people: People) -> tuple[str, bool]:
    """The author, and whether it is known as a bot alone."""
    if author := people[message.user]:
        return author, False
    if is_bot_id(message.bot_id):
        return message.bot_id, True
    return "", False


def _add_replies(row: MessageRow, replies: Iterable[SlackReply | None], people: People) -> None:
    """A message with replies is a head, also where an old export does not say so."""
    by_time = {
        reply.ts: Reply(user, reply.ts)
        for reply in replies
        if reply is not None and (user := people[reply.user]) and is_timestamp(reply.ts)
    }
    row.replies, row.reply_count = encode_replies(by_time.values()), len(by_time)
    row.thread_ts = row.ts


def _add_reactions(
    row: MessageRow, reactions: Iterable[SlackReaction | None], people: People
) -> None:
    encoded, left = list[Reaction](), LONGEST_REACTIONS
    for reaction in reactions:
        if reaction is None:
            continue
        users = tuple([people[listed] for listed in reaction.users or ()])
        if "" in users:
            users = tuple(filter(None, users))
        if people.ids:
            users = tuple(dict.fromkeys(users))
        count = _number(reaction.count, _MOST_REACTIONS)
        if count is None or count < len(users):
            count = len(users)
        if emoji := emoji_name(reaction.name or ""):
            left -= len(emoji.encode()) + 1
            sizes = accumulate(len(uid) + 1 for uid in users)
            users = users[: sum(size <= left for size in sizes)]
            left -= sum(map(len, users), len(users))
            if left >= 0:
                encoded.append(Reaction(emoji, users))
            row.reaction_count += count
            row.reactions_truncated |= len(users) < count
    row.reactions = encode_reactions(encoded)


def about_file(file: SlackFile, people: People = EVERYBODY) -> dict[str, str | int]:
    """What kind of file it is: neither its title nor its name nor where it is."""
    about = {
        "id": known_word(file.id),
        "created": _number(file.created),
        "extension": extension(file.name or ""),
        "mimetype": known_word(file.mimetype),
        "filetype": known_word(file.filetype),
        "size": _number(file.size),
        "user": people[file.user],
    }
    return {name: value for name, value in about.items() if value not in (None, "")}


def _huddle(room: Room, people: People) -> dict[str, list[str] | int]:
    """Who took part, and from when to when; one that ended before it began has no end."""
    begin, end = (_number(at) or 0 for at in (room.date_start, room.date_end))
    took_part = (room.participant_history or room.participants or ())[:_MOST_IN_HUDDLE]
    return {
        "participant_history": [uid for listed in took_part if (uid := people[listed])],
        "date_start": begin,
        "date_end": end if end >= begin else 0,
    }


def known_word(text: str | None) -> str | None:
    return text if text is not None and _WORD.fullmatch(text) else None


def _number(value: Loose, most: int | None = None) -> int | None:
    number = int_of(value)
    return number if number is not None and 0 <= number <= (most or number) else None
