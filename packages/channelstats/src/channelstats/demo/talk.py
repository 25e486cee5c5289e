"""A planned message as Slack writes it into the file of a day.

Rule: an object has what Slack's has, with what nobody reads beside it (blocks, profiles), so that
reading an export of ours costs what reading a real one costs.
"""

import random
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

import orjson

from channelstats.demo import sentences
from channelstats.demo.people import Person, profile_object
from channelstats.demo.places import Kind, Place
from channelstats.demo.plan import Plan, What
from channelstats.demo.rhythm import DAY, SECOND

_EDITED: Final = 0.03
_WITH_FILE: Final = 0.03
_ANSWERS_REACTED: Final = 0.4
_MOST_LISTED: Final = 40
_SLACKBOT: Final = "USLACKBOT"
_EMOJI: Final = list(accumulate((place + 1) ** -1.1 for place in range(len(sentences.EMOJI))))


class Talker:
    """Writes the messages of one channel after the other."""

    def __init__(self, people: list[Person], team: str) -> None:
        self._people, self._team = people, team
        self._profiles: dict[int, orjson.Fragment] = {}

    def days(
        self, place: Place, plan: Plan, rng: random.Random
    ) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """The messages of each day (of the epoch, in UTC) that has some."""
        speech = _Speech(self._people, place, plan, rng, self._team, self._profiles)
        day, found = -1, list[dict[str, Any]]()
        for number, at in enumerate(plan.at):
            if at // DAY != day:
                if found:
                    yield day, found
                day, found = at // DAY, []
            found.append(speech.message(number))
        if found:
            yield day, found


class _Speech:
    """The messages of one channel."""

    def __init__(
        self,
        people: list[Person],
        place: Place,
        plan: Plan,
        rng: random.Random,
        team: str,
        profiles: dict[int, orjson.Fragment],
    ) -> None:
        self._people, self._place, self._plan, self._rng = people, place, plan, rng
        self._team, self._profiles = team, profiles
        self._readers = place.members or [0]

    def message(self, number: int) -> dict[str, Any]:
        plan = self._plan
        what, at, head = What(plan.what[number]), plan.at[number], plan.head[number]
        person = self._people[plan.who[number]]
        found: dict[str, Any] = {"type": "message", "ts": _ts(at)}
        replies = plan.replies.get(at, ())
        if what in (What.SAID, What.ME, What.BROADCAST):
            self._say(found, what, plan.who[number], head, answered=bool(replies))
        elif what == What.REPORTED:
            text = self._filled(self._rng.choice(sentences.REPORTS), person)
            found |= {"subtype": "bot_message", "text": text, "username": person.real}
            found["bot_id"] = person.bot_id
        elif what == What.JOINED:
            text = f"<@{person.uid}> has joined the channel"
            found |= {"subtype": "channel_join", "user": person.uid, "text": text}
        elif what == What.HUDDLE:
            self._huddle(found, person, at)
        else:
            found |= {"subtype": "tombstone", "user": _SLACKBOT}
            found |= {"text": "This message was deleted.", "hidden": True}
        if head:
            found["thread_ts"] = _ts(head)
            author = self._author_at(head)
            if author:
                found["parent_user_id"] = author
        elif replies:
            self._lead(found, at, replies)
        return found

    # ── parts ────────────────────────────────────────────────────────────────────────────────────

    def _say(
        self, found: dict[str, Any], what: What, who: int, head: int, *, answered: bool
    ) -> None:
        rng, person, draw = self._rng, self._people[who], self._rng.random
        text = self._text(person, what, is_answer=head != 0, answered=answered)
        found["user"] = person.uid
        found["text"] = text
        if what == What.ME:
            found["subtype"] = "me_message"
        elif what == What.BROADCAST:
            found["subtype"] = "thread_broadcast"
        bits = f"{rng.getrandbits(128):032x}"
        found["client_msg_id"] = f"{bits[:8]}-{bits[8:12]}-{bits[12:16]}-{bits[16:20]}-{bits[20:]}"
        found["team"] = found["user_team"] = found["source_team"] = self._team
        found["user_profile"] = self._profile(who)
        element = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
        found["blocks"] = [{"type": "rich_text", "block_id": bits[:5], "elements": [element]}]
        if draw() < _WITH_FILE:
            found["files"] = [self._file(person, found["ts"])]
            found["upload"] = True
        if draw() < _EDITED:
            later = int(found["ts"][:10]) + int(rng.expovariate(1 / 120)) + 5
            found["edited"] = {"user": person.uid, "ts": f"{later}.000000"}
        share = self._place.kind.value.reacted * (_ANSWERS_REACTED if head else 1)
        if draw() < share:
            found["reactions"] = self._reactions()

    def _text(self, person: Person, what: What, *, is_answer: bool, answered: bool) -> str:
        rng = self._rng
        if what == What.ME:
            return rng.choice(sentences.ACTIONS)
        first: tuple[str, ...]
        if is_answer:
            first = sentences.ANSWERS
        elif self._place.kind is Kind.HELLO and rng.random() < 0.7:
            first = sentences.GREETINGS
        elif rng.random() < (0.6 if answered else 0.15):
            first = sentences.QUESTIONS
        else:
            first = sentences.SAYINGS
        more = int(rng.expovariate(1 / (0.5 if is_answer else 0.9)) * person.wordy)
        chosen = [rng.choice(first)]
        if more:
            chosen += rng.choices(sentences.SAYINGS, k=min(more, 8))
        return self._filled(" ".join(chosen), person)

    def _filled(self, text: str, person: Person) -> str:
        if "{" not in text:
            return text
        rng = self._rng
        friends = person.friends or self._readers
        return text.format(
            thing=rng.choice(sentences.THINGS),
            who=f"<@{self._people[rng.choice(friends)].uid}>",
            link=f"<https://notes.example/{rng.randrange(1 << 32):08x}>",
            number=rng.randrange(100, 9000),
            small=rng.randrange(2, 30),
        )

    def _reactions(self) -> list[dict[str, Any]]:
        rng, people = self._rng, self._people
        found: dict[str, list[str]] = {}
        for _ in range(min(int(rng.paretovariate(1.6)), 6)):
            emoji = rng.choices(sentences.EMOJI, cum_weights=_EMOJI)[0]
            number = min(int(rng.paretovariate(1.1)), _MOST_LISTED)
            for reader in rng.choices(self._readers, k=number):
                person = people[reader]
                tone = person.tone if emoji in sentences.TONED else 0
                name = f"{emoji}::skin-tone-{tone}" if tone else emoji
                users = found.setdefault(name, [])
                if person.uid not in users:
                    users.append(person.uid)
        return [
            {"name": name, "users": users, "count": len(users)} for name, users in found.items()
        ]

    def _file(self, person: Person, ts: str) -> dict[str, Any]:
        rng = self._rng
        stem, kind, mimetype = rng.choice(sentences.FILES)
        name = f"{stem}-{rng.randrange(1000)}.{kind}"
        return {
            "id": f"F0{rng.getrandbits(40):010X}",
            "created": int(ts[:10]),
            "timestamp": int(ts[:10]),
            "name": name,
            "title": name,
            "mimetype": mimetype,
            "filetype": kind,
            "user": person.uid,
            "size": int(rng.lognormvariate(11, 1.5)),
            "mode": "hosted",
            "is_public": True,
        }

    def _huddle(self, found: dict[str, Any], person: Person, at: int) -> None:
        rng = self._rng
        others = rng.choices(self._readers, k=rng.randint(1, 6))
        present = dict.fromkeys([person.uid, *(self._people[other].uid for other in others)])
        begin = at // SECOND
        found |= {"subtype": "huddle_thread", "user": _SLACKBOT, "text": "A huddle started"}
        found["room"] = {
            "created_by": person.uid,
            "date_start": begin,
            "date_end": begin + int(rng.lognormvariate(7, 0.8)),
            "participants": [],
            "participant_history": list(present),
            "thread_root_ts": found["ts"],
        }

    def _lead(self, found: dict[str, Any], at: int, replies: list[int] | tuple[int, ...]) -> None:
        plan, people = self._plan, self._people
        listed = [
            {"user": people[plan.who[reply]].uid, "ts": _ts(plan.at[reply])} for reply in replies
        ]
        users = list(dict.fromkeys(reply["user"] for reply in listed))
        found |= {
            "thread_ts": _ts(at),
            "reply_count": len(listed),
            "reply_users_count": len(users),
            "reply_users": users,
            "latest_reply": listed[-1]["ts"],
            "replies": listed,
            "is_locked": False,
            "subscribed": False,
        }

    def _author_at(self, head: int) -> str:
        """Who wrote the head of a thread; nobody when it is gone."""
        number = self._plan.place_of(head)
        if self._plan.what[number] == What.GONE:
            return ""
        return self._people[self._plan.who[number]].uid

    def _profile(self, who: int) -> orjson.Fragment:
        found = self._profiles.get(who)
        if found is None:
            data = orjson.dumps(profile_object(self._people[who], self._team))
            found = self._profiles[who] = orjson.Fragment(data)
        return found


def _ts(at: int) -> str:
    return f"{at // SECOND}.{at % SECOND:06d}"
