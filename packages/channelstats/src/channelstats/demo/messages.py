"""Messages of a made-up workspace: who writes what when, and how an export holds it.

A channel is planned first, as a few numbers a message, for the first message of a thread names all
replies; then it is written one day after the other.
"""

import random
from collections.abc import Iterator
from itertools import accumulate
from math import log
from typing import Any, Final, NamedTuple

import msgspec

from channelstats.demo.channels import DemoChannel
from channelstats.demo.people import DAY, HOUR, SECOND, Member, Rhythm

_FIRST_REPLY: Final = (log(15 * 60), 1.6)
_NEXT_REPLY: Final = (log(5 * 60), 1.4)
"""Seconds until there is one: the mean of their logarithm, and its deviation."""
_LONGEST: Final = 40
_BY_AUTHOR, _BY_FRIEND = 0.3, 0.65
"""Who replies, below such a random number."""
_BROADCAST, _HUDDLE, _EDITED, _WITH_FILE, _MENTION, _LINK = 0.03, 0.002, 0.03, 0.03, 0.15, 0.08
"""Shares of messages."""

_WORDS: Final = """
the a this that our your new old next last first draft release guide page list map notes meeting
call build test review plan budget survey photo train garden coffee book week month morning team
form search report backup talk is was will can moved updated finished started checked found sent
wrote works looks and with for about after before today tomorrow again quickly :tada: :coffee:
Grüße merci gracias obrigada dziękuję どうも
"""
_SENTENCES: Final = 300
_EMOJI: Final = """
+1 heart tada eyes white_check_mark joy pray raised_hands wave clap rocket fire thinking_face 100
sparkles muscle sunflower party_parrot coffee sob bulb ok_hand ship_it
""".strip().split()
"""From the most used on."""
_EMOJI_WEIGHTS: Final = list(accumulate((rank + 1) ** -1.1 for rank in range(len(_EMOJI))))
_TONED: Final = frozenset({"+1", "pray", "raised_hands", "wave", "clap", "muscle", "ok_hand"})
"""Those that come in skin tones."""
_FILES: Final = (("png", "image/png"), ("pdf", "application/pdf"), ("csv", "text/csv"))

_JOINED, _LEFT, _FROM_BOT = "channel_join", "channel_leave", "bot_message"


class _Thread(msgspec.Struct):
    """Instant and author of its first message, and of the replies."""

    at: int
    author: int
    replies: list[tuple[int, int]]


class _Planned(NamedTuple):
    at: int
    author: int
    subtype: str = ""
    thread: _Thread | None = None


class _Plan:
    """The messages of a channel, each at another instant."""

    def __init__(
        self, channel: DemoChannel, people: list[Member], rhythm: Rhythm, rng: random.Random
    ) -> None:
        self._channel, self._people, self._rhythm, self._rng = channel, people, rhythm, rng
        self._spans: dict[int, tuple[int, int]] = {}
        weights = []
        for place in channel.members:
            person = people[place]
            first, last = max(person.first, channel.first), min(person.last, channel.last)
            if first <= last:
                self._spans[place] = first, last
                share = rhythm.share(person, first, last)
                weights.append(person.weight * share * rng.lognormvariate(0, 0.7) + 1e-9)
        self._writers, self._weights = list(self._spans), list(accumulate(weights))
        self._authors = self._drawn_authors()
        self._taken = set[int]()
        self._planned: list[_Planned] = []

    def messages(self, number: int) -> list[_Planned]:
        """Exactly so many, in the order of time."""
        channel, planned = self._channel, self._planned
        for notable in self._comings_and_goings():
            if len(planned) < number // 4:
                planned.append(notable)
        if channel.bots:
            wanted = min(int(number * channel.character.bots), number - len(planned))
            for bot in self._rng.choices(channel.bots, k=wanted):
                at = self._moment(bot, channel.first, channel.last)
                planned.append(_Planned(at, bot, _FROM_BOT))
        while (room := number - len(planned)) > 0:
            self._add_thread(room)
        return sorted(planned, key=lambda message: message.at)

    def _drawn_authors(self) -> Iterator[int]:
        while True:
            yield from self._rng.choices(self._writers, cum_weights=self._weights, k=256)

    def _moment(self, place: int, first: int, last: int) -> int:
        return self._free(self._rhythm.moment(self._rng, self._people[place], first, last))

    def _free(self, at: int) -> int:
        while at in self._taken:
            at += 1
        self._taken.add(at)
        return at

    def _comings_and_goings(self) -> Iterator[_Planned]:
        """Newcomers join; in the first channel they write at once, and who lapses writes on the
        last day. Visitors join and leave.
        """
        channel = self._channel
        is_first = channel.name == "general"
        for place, (first, last) in self._spans.items():
            if first > channel.first:
                joined = self._moment(place, first, first)
                yield _Planned(joined, place, _JOINED)
                hello = joined + self._rng.randrange(HOUR)
                if is_first and hello < self._rhythm.end:
                    yield _Planned(self._free(hello), place)
            if is_first and last < channel.last:
                yield _Planned(self._moment(place, last, last), place)
        for place in channel.visitors:
            came, went = sorted(self._moment(place, channel.first, channel.last) for _ in "12")
            yield _Planned(came, place, _JOINED)
            yield _Planned(went, place, _LEFT)

    def _add_thread(self, room: int) -> None:
        """A message, with replies for which there is room."""
        rng, author, thread, subtype = self._rng, next(self._authors), None, ""
        at = self._moment(author, *self._spans[author])
        if room > 1 and rng.random() < self._channel.character.answered:
            length = min(int(rng.paretovariate(1.4)), _LONGEST, room - 1)
            if replies := self._replies(at, author, length):
                thread = _Thread(at, author, replies)
                for reply in replies:
                    kind = "thread_broadcast" if rng.random() < _BROADCAST else ""
                    self._planned.append(_Planned(*reply, kind, thread))
        elif rng.random() < _HUDDLE:
            subtype = "huddle_thread"
        self._planned.append(_Planned(at, author, subtype, thread))

    def _replies(self, at: int, author: int, length: int) -> list[tuple[int, int]]:
        """Fewer than ``length`` where the rest would come too late."""
        rng, rhythm = self._rng, self._rhythm
        found: list[tuple[int, int]] = []
        speaker = author
        for number in range(length):
            wait = rng.lognormvariate(*(_NEXT_REPLY if number else _FIRST_REPLY))
            speaker = self._replier(author, speaker)
            at = rhythm.when_awake(rng, self._people[speaker], at + int((3 + wait) * SECOND))
            first, last = self._spans[speaker]
            if not first <= rhythm.day(at) <= last:
                break
            at = self._free(at)
            found.append((at, speaker))
        return found

    def _replier(self, author: int, last: int) -> int:
        rng, friends = self._rng, self._people[author].friends
        for _ in range(3):
            chance = rng.random()
            if chance < _BY_AUTHOR:
                found = author
            elif chance < _BY_FRIEND and friends:
                found = rng.choice(friends)
            else:
                found = next(self._authors)
            if found != last and found in self._spans:
                return found
        return author


class MessageWriter:
    """Writes the messages of one channel after the other."""

    def __init__(self, people: list[Member], rhythm: Rhythm, team: str, rng: random.Random) -> None:
        self._people, self._rhythm, self._team = people, rhythm, team
        self._sentences = [_sentence(rng) for _ in range(_SENTENCES)]

    def days(
        self, channel: DemoChannel, number: int, rng: random.Random
    ) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """So many messages, by their day in UTC, counted from 1970."""
        readers = [self._people[place] for place in channel.members]
        day, found = -1, list[dict[str, Any]]()
        for planned in _Plan(channel, self._people, self._rhythm, rng).messages(number):
            if planned.at // DAY != day:
                if found:
                    yield day, found
                day, found = planned.at // DAY, []
            found.append(self._object(planned, channel, readers, rng))
        if found:
            yield day, found

    def _object(
        self, planned: _Planned, channel: DemoChannel, readers: list[Member], rng: random.Random
    ) -> dict[str, Any]:
        at, author, subtype, thread = planned
        person = self._people[author]
        found: dict[str, Any] = {"type": "message", "ts": _ts(at), "user": person.uid}
        if subtype:
            found["subtype"] = subtype
        if subtype in (_JOINED, _LEFT):
            verb = "joined" if subtype == _JOINED else "left"
            found["text"] = f"<@{person.uid}> has {verb} the channel"
        elif subtype == _FROM_BOT:
            del found["user"]
            found |= {"bot_id": person.bot_id, "username": person.name}
            found["text"] = rng.choice(self._sentences)
        elif subtype == "huddle_thread":
            found |= {"user": "USLACKBOT", "text": "A huddle started"}
            found["room"] = _room(person, at, readers, rng)
        else:
            is_reply = thread is not None and thread.at != at
            self._say(found, person, channel, 0 if is_reply else channel.character.questions, rng)
            if rng.random() < channel.character.reacted * (0.4 if is_reply else 1):
                found["reactions"] = _reactions(readers, rng)
        if thread is not None:
            found["thread_ts"] = _ts(thread.at)
            if thread.at == at:
                self._list_replies(found, thread)
            else:
                found["parent_user_id"] = self._people[thread.author].uid
        return found

    def _say(
        self,
        found: dict[str, Any],
        person: Member,
        channel: DemoChannel,
        questions: float,
        rng: random.Random,
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
        found |= {"text": text, "team": self._team, "user_team": self._team}
        found |= {"source_team": self._team, "user_profile": person.profile}
        found["client_msg_id"] = f"{bits[:8]}-{bits[8:12]}-{bits[12:16]}-{bits[16:20]}-{bits[20:]}"
        element = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
        found["blocks"] = [{"type": "rich_text", "block_id": bits[:5], "elements": [element]}]
        if rng.random() < _WITH_FILE:
            found |= {"files": [_file(person, found["ts"], channel, rng)], "upload": True}
        if rng.random() < _EDITED:
            later = int(found["ts"][:10]) + 5 + rng.randrange(600)
            found["edited"] = {"user": person.uid, "ts": f"{later}.000000"}

    def _list_replies(self, found: dict[str, Any], thread: _Thread) -> None:
        people = self._people
        replies = [{"user": people[author].uid, "ts": _ts(at)} for at, author in thread.replies]
        users = list(dict.fromkeys(reply["user"] for reply in replies))
        found |= {"reply_count": len(replies), "replies": replies}
        found |= {"reply_users": users, "reply_users_count": len(users)}
        found |= {"latest_reply": replies[-1]["ts"], "is_locked": False, "subscribed": False}


def _sentence(rng: random.Random) -> str:
    words = " ".join(rng.choices(_WORDS.split(), k=2 + min(int(rng.expovariate(1 / 5)), 16)))
    return f"{words[0].upper()}{words[1:]}."


def _reactions(readers: list[Member], rng: random.Random) -> list[dict[str, Any]]:
    """A few emoji, each by one or more people; seldom by many."""
    found: dict[str, list[str]] = {}
    for _ in range(min(int(rng.paretovariate(2)), 5)):
        emoji = rng.choices(_EMOJI, cum_weights=_EMOJI_WEIGHTS)[0]
        for person in rng.choices(readers, k=min(int(rng.paretovariate(1.3)), 20)):
            tone = person.skin_tone if emoji in _TONED else 0
            users = found.setdefault(f"{emoji}::skin-tone-{tone}" if tone else emoji, [])
            if person.uid not in users:
                users.append(person.uid)
    return [{"name": name, "users": users, "count": len(users)} for name, users in found.items()]


def _file(person: Member, ts: str, channel: DemoChannel, rng: random.Random) -> dict[str, Any]:
    extension, mimetype = rng.choice(_FILES)
    name = f"file-{rng.randrange(1000)}.{extension}"
    return {
        "id": f"F0{rng.getrandbits(40):010X}",
        "created": int(ts[:10]),
        "name": name,
        "title": name,
        "mimetype": mimetype,
        "filetype": extension,
        "user": person.uid,
        "size": int(rng.lognormvariate(11, 1.5)),
        "is_public": not channel.is_private,
    }


def _room(person: Member, at: int, readers: list[Member], rng: random.Random) -> dict[str, Any]:
    """A huddle."""
    others = [other.uid for other in rng.choices(readers, k=rng.randint(1, 6))]
    return {
        "created_by": person.uid,
        "date_start": at // SECOND,
        "date_end": at // SECOND + int(rng.lognormvariate(7, 0.8)),
        "participant_history": list(dict.fromkeys([person.uid, *others])),
        "thread_root_ts": _ts(at),
    }


def _ts(at: int) -> str:
    return f"{at // SECOND}.{at % SECOND:06d}"
