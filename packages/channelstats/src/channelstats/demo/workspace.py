"""Exports of made-up workspaces: who writes what when, and the files that hold it, in a zip or a
folder.

Rule: the same size, last day and seed make the same bytes, with exactly as many people, channels
and messages as asked for. The files are made one at a time, so memory depends on the largest
channel's number of messages alone.

A channel is planned first, as a few numbers a message, for the first message of a thread names all
replies; then it is written one day after the other.
"""

import random
import zipfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import date, timedelta
from itertools import accumulate, groupby, pairwise
from math import log
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import orjson

from channelstats.demo.directory import (
    DAY,
    HOUR,
    SECOND,
    DemoChannel,
    Member,
    Rhythm,
    channel_object,
    make_channels,
    make_people,
    slack_id,
    user_object,
)

Progress: TypeAlias = Callable[[int, int], None]
"""Given the number of messages that are written, and of all."""

_EPOCH: Final = date(1970, 1, 1)
_EARLIEST_IN_ZIP: Final = date(1980, 1, 1)
_COMPRESSION: Final = 1
_FRIDAY: Final = 4
"""Text of this kind hardly gets smaller by more work."""

_FIRST_REPLY: Final = (log(15 * 60), 1.6)
_NEXT_REPLY: Final = (log(5 * 60), 1.4)
"""Seconds until there is one: the mean of their logarithm, and its deviation."""
_LONGEST: Final = 40
_BROADCAST, _HUDDLE, _EDITED, _WITH_FILE, _MENTION, _LINK = 0.03, 0.002, 0.03, 0.03, 0.15, 0.08
"""Shares of messages."""

_WORDS: Final = """
the a this our your new old next last first draft release guide page list notes meeting call build
test review plan budget survey photo garden coffee book week month team form search report talk is
was will can moved updated finished started checked sent works looks and with for about after
before today tomorrow again quickly :tada: Grüße merci gracias どうも
"""
_EMOJI: Final = ("+1", "heart", "tada", "eyes", "white_check_mark", "joy", "pray", "wave", "rocket")
"""From the most used on."""
_EMOJI_WEIGHTS: Final = list(accumulate((rank + 1) ** -1.1 for rank in range(len(_EMOJI))))
_TONED: Final = frozenset({"+1", "pray", "wave"})
"""Those that come in skin tones."""
_FILES: Final = (("png", "image/png"), ("pdf", "application/pdf"), ("csv", "text/csv"))


# ── the files of an export ───────────────────────────────────────────────────────────────────────


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
    private = [one.state == "private" for one in channels]
    objects = [channel_object(channel, people) for channel in channels]
    added = {"change_type": "added", "user_id": people[0].uid, "user_name": people[0].user}
    lists: dict[str, list[dict[str, Any]]] = {
        "users": [user_object(person, team, size.days) for person in people],
        "channels": [
            one for one, is_private in zip(objects, private, strict=True) if not is_private
        ],
        "groups": [one for one, is_private in zip(objects, private, strict=True) if is_private],
        "dms": [],
        "mpims": [],
        "integration_logs": [{"service_type": one.name, **added} for one in people if one.bot_id],
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
    path: Path,
    size: Size,
    *,
    last_day: date,
    seed: int,
    progress: Progress | None = None,
) -> None:
    """Write an export: a zip if ``path`` ends with .zip, else a folder. In a zip the files are of
    the midnight after the last day, so that its bytes are the same.
    """
    is_zip, done = path.suffix.lower() == ".zip", 0
    taken = max(last_day + timedelta(1), _EARLIEST_IN_ZIP)
    made_at = (taken.year, taken.month, taken.day, 0, 0, 0)
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


# ── messages ─────────────────────────────────────────────────────────────────────────────────────


class _Planned(msgspec.Struct):
    """A message. ``head`` is the first one of the thread that it replies to."""

    at: int
    author: int
    subtype: str = ""
    head: "_Planned | None" = None
    replies: "list[_Planned]" = []


class _Plan:
    """The messages of a channel, each at another instant."""

    def __init__(
        self, channel: DemoChannel, people: list[Member], rhythm: Rhythm, rng: random.Random
    ) -> None:
        self._channel, self._people, self._rhythm, self._rng = channel, people, rhythm, rng
        self._spans: dict[int, tuple[int, int]] = {}
        self._weights: list[float] = []
        for place in channel.members:
            first, last = people[place].first, min(people[place].last, channel.last)
            if first <= last:
                self._spans[place] = first, last
                weight = people[place].weight * (last - first + 1)
                self._weights.append(weight * rng.lognormvariate(0, 0.7) + 1e-9)
        self._writers, self._weights = list(self._spans), list(accumulate(self._weights))

    def messages(self, number: int) -> list[_Planned]:
        """Exactly so many, in the order of time."""
        channel, rng = self._channel, self._rng
        planned = list(self._comings_and_goings())[: number // 4]
        wanted = min(int(number * channel.character.bots), number - len(planned))
        for bot in rng.choices(channel.bots, k=wanted) if channel.bots else ():
            planned.append(self._said(bot, 0, channel.last, "bot_message"))
        while (room := number - len(planned)) > 0:
            planned += self._thread(room)
        planned.sort(key=lambda message: message.at)
        for earlier, later in pairwise(planned):
            later.at = max(later.at, earlier.at + 1)
        return planned

    def _author(self) -> int:
        return self._rng.choices(self._writers, cum_weights=self._weights)[0]

    def _said(self, place: int, first: int, last: int, subtype: str = "") -> _Planned:
        at = self._rhythm.moment(self._rng, self._people[place], first, last)
        return _Planned(at, place, subtype)

    def _comings_and_goings(self) -> Iterator[_Planned]:
        """Newcomers join; in the first channel they write at once, and who lapses writes on the
        last day. Visitors join and leave.
        """
        channel = self._channel
        is_first = channel.name == "general"
        for place, (first, last) in self._spans.items():
            if first:
                yield (joined := self._said(place, first, first, "channel_join"))
                hello = joined.at + self._rng.randrange(HOUR)
                if is_first and hello < self._rhythm.end:
                    yield _Planned(hello, place)
            if is_first and last < channel.last:
                yield self._said(place, last, last)
        for place in channel.visitors:
            came, went = sorted(self._said(place, 0, channel.last).at for _ in range(2))
            yield _Planned(came, place, "channel_join")
            yield _Planned(went, place, "channel_leave")

    def _thread(self, room: int) -> list[_Planned]:
        """A message, with replies for which there is room: fewer where they would come too late."""
        rng, rhythm, author = self._rng, self._rhythm, self._author()
        head = self._said(author, *self._spans[author])
        if room > 1 and rng.random() < self._channel.character.answered:
            at, speaker = head.at, author
            for number in range(min(int(rng.paretovariate(1.4)), _LONGEST, room - 1)):
                wait = rng.lognormvariate(*(_NEXT_REPLY if number else _FIRST_REPLY))
                speaker = self._replier(author, speaker)
                at = rhythm.when_awake(rng, self._people[speaker], at + int((3 + wait) * SECOND))
                first, last = self._spans[speaker]
                if not first <= (at - rhythm.begin) // DAY <= last:
                    break
                subtype = "thread_broadcast" if rng.random() < _BROADCAST else ""
                head.replies.append(_Planned(at, speaker, subtype, head))
        elif rng.random() < _HUDDLE:
            head.subtype = "huddle_thread"
        return [head, *head.replies]

    def _replier(self, author: int, last: int) -> int:
        """The author of the thread, a friend, or anybody; seldom the same one again."""
        anybody, chance = self._author(), self._rng.random()
        replier = author if chance < 0.3 else anybody
        if chance > 0.65 and (friends := self._people[author].friends):
            replier = self._rng.choice(friends)
        return anybody if replier == last or replier not in self._spans else replier


class MessageWriter:
    """Writes the messages of one channel after the other."""

    def __init__(self, people: list[Member], rhythm: Rhythm, team: str, rng: random.Random) -> None:
        self._people, self._rhythm, self._team = people, rhythm, team
        self._sentences = [_sentence(rng) for _ in range(300)]

    def days(
        self, channel: DemoChannel, number: int, rng: random.Random
    ) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """So many messages, by their day in UTC, counted from 1970."""
        plan = _Plan(channel, self._people, self._rhythm, rng).messages(number)
        readers = [self._people[place] for place in channel.members]
        for day, planned in groupby(plan, key=lambda message: message.at // DAY):
            yield day, [self._object(one, channel, readers, rng) for one in planned]

    def _object(
        self, planned: _Planned, channel: DemoChannel, readers: list[Member], rng: random.Random
    ) -> dict[str, Any]:
        person, subtype, head = self._people[planned.author], planned.subtype, planned.head
        message: dict[str, Any] = {"type": "message", "ts": _ts(planned.at), "user": person.uid}
        if subtype:
            message["subtype"] = subtype
        if subtype in ("channel_join", "channel_leave"):
            verb = "joined" if subtype == "channel_join" else "left"
            message["text"] = f"<@{person.uid}> has {verb} the channel"
        elif subtype == "bot_message":
            del message["user"]
            message |= {"bot_id": person.bot_id, "username": person.name}
            message["text"] = rng.choice(self._sentences)
        elif subtype == "huddle_thread":
            message |= {"user": "USLACKBOT", "text": "A huddle started"}
            message["room"] = _room(person, planned.at, readers, rng)
        else:
            questions = 0 if head else channel.character.questions
            self._say(message, person, questions, rng)
            if rng.random() < channel.character.reacted * (0.4 if head else 1):
                message["reactions"] = _reactions(readers, rng)
        if head:
            message |= {"thread_ts": _ts(head.at), "parent_user_id": self._people[head.author].uid}
        elif planned.replies:
            replies = [
                {"user": self._people[planned_reply.author].uid, "ts": _ts(planned_reply.at)}
                for planned_reply in planned.replies
            ]
            users = list(dict.fromkeys(reply["user"] for reply in replies))
            message |= {"thread_ts": message["ts"], "reply_count": len(replies), "replies": replies}
            message |= {"reply_users": users, "reply_users_count": len(users)}
            message |= {"latest_reply": replies[-1]["ts"], "is_locked": False, "subscribed": False}
        return message

    def _say(
        self, message: dict[str, Any], person: Member, questions: float, rng: random.Random
    ) -> None:
        """Add what a person wrote, with what nobody reads beside it, so that reading it costs what
        reading a real export costs.
        """
        parts = rng.choices(self._sentences, k=min(1 + int(rng.expovariate(1.2)), 9))
        if rng.random() < questions:
            parts[-1] = parts[-1][:-1] + "?"
        if person.friends and rng.random() < _MENTION:
            parts.insert(0, f"<@{self._people[rng.choice(person.friends)].uid}>")
        if rng.random() < _LINK:
            parts.append(f"<https://notes.example/{rng.getrandbits(32):08x}>")
        text, bits = " ".join(parts), f"{rng.getrandbits(128):032x}"
        message |= {"text": text, "team": self._team, "user_team": self._team}
        message |= {"source_team": self._team, "user_profile": person.profile}
        message["client_msg_id"] = (
            f"{bits[:8]}-{bits[8:12]}-{bits[12:16]}-{bits[16:20]}-{bits[20:]}"
        )
        element = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
        message["blocks"] = [{"type": "rich_text", "block_id": bits[:5], "elements": [element]}]
        at = int(message["ts"][:10])
        if rng.random() < _WITH_FILE:
            extension, mimetype = rng.choice(_FILES)
            file = {"id": f"F0{rng.getrandbits(40):010X}", "created": at, "user": person.uid}
            file |= {"name": f"file.{extension}", "title": "A file", "filetype": extension}
            file |= {"mimetype": mimetype, "size": int(rng.lognormvariate(11, 1.5))}
            message |= {"files": [file], "upload": True}
        if rng.random() < _EDITED:
            message["edited"] = {"user": person.uid, "ts": f"{at + 5 + rng.randrange(600)}.000000"}


def _sentence(rng: random.Random) -> str:
    words = " ".join(rng.choices(_WORDS.split(), k=2 + min(int(rng.expovariate(1 / 5)), 16)))
    return f"{words[0].upper()}{words[1:]}."


def _reactions(readers: list[Member], rng: random.Random) -> list[dict[str, Any]]:
    """A few emoji, each by one or more people; seldom by many."""
    users_of: dict[str, list[str]] = {}
    for _ in range(min(int(rng.paretovariate(2)), 5)):
        emoji = rng.choices(_EMOJI, cum_weights=_EMOJI_WEIGHTS)[0]
        for person in rng.choices(readers, k=min(int(rng.paretovariate(1.3)), 20)):
            tone = person.skin_tone if emoji in _TONED else 0
            users = users_of.setdefault(f"{emoji}::skin-tone-{tone}" if tone else emoji, [])
            if person.uid not in users:
                users.append(person.uid)
    return [{"name": name, "users": users, "count": len(users)} for name, users in users_of.items()]


def _room(person: Member, at: int, readers: list[Member], rng: random.Random) -> dict[str, Any]:
    """A huddle."""
    others = [other.uid for other in rng.choices(readers, k=rng.randint(1, 6))]
    people, start = list(dict.fromkeys([person.uid, *others])), at // SECOND
    end = start + int(rng.lognormvariate(7, 0.8))
    return {"participant_history": people, "date_start": start, "date_end": end}


def _ts(at: int) -> str:
    return f"{at // SECOND}.{at % SECOND:06d}"
