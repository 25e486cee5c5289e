"""Channels: names, members, and what happens in them.

Rule: a few channels hold most of what is said, and the rest is a long tail; everybody is in the
first one.
"""

import random
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec

from channelstats.demo.people import Ids, Person
from channelstats.demo.rhythm import DAY, SECOND, Rhythm

_TAIL: Final = 1.1
"""The power by which channels get smaller."""

_ARCHIVED: Final = 0.08
_YOUNG: Final = 0.15
_WIDE: Final = 0.7
_YEAR: Final = 365 * 86_400


class Character(NamedTuple):
    """What a kind of channel is like: shares of replies, of bots' messages, of messages that get
    reactions.
    """

    replies: float
    bots: float
    reacted: float


class Kind(Enum):
    LOBBY = Character(0.30, 0.00, 0.25)
    CHAT = Character(0.22, 0.00, 0.30)
    NEWS = Character(0.35, 0.05, 0.70)
    HELP = Character(0.62, 0.00, 0.15)
    WORK = Character(0.42, 0.02, 0.18)
    ALERTS = Character(0.15, 0.80, 0.04)
    HELLO = Character(0.45, 0.00, 0.55)


_FIRST: Final = (
    ("general", Kind.LOBBY, "Where everybody is"),
    ("random", Kind.CHAT, "Anything that is nice"),
    ("help", Kind.HELP, "Ask here, no question is too small"),
    ("dev", Kind.WORK, "Building things"),
    ("introductions", Kind.HELLO, "Say hello"),
    ("announcements", Kind.NEWS, "What everyone should know"),
    ("design", Kind.WORK, "How it looks and reads"),
    ("events", Kind.NEWS, "Meetups and calls"),
    ("build-bell", Kind.ALERTS, "What the machines say"),
    ("books", Kind.CHAT, "What we read"),
    ("translations", Kind.WORK, "Into all languages"),
    ("garden", Kind.CHAT, "Plants and balconies"),
    ("data", Kind.WORK, "Numbers and where they come from"),
    ("kochen-und-backen", Kind.CHAT, "Rezepte aus aller Welt"),
    ("español", Kind.CHAT, "Todo en español"),
    ("日本語", Kind.CHAT, "日本語で話しましょう"),
    ("français", Kind.CHAT, "Tout en français"),
    ("हिन्दी", Kind.CHAT, "हिन्दी में बातचीत"),
    ("українська", Kind.CHAT, "Розмови українською"),
    ("عربي", Kind.CHAT, "حديث بالعربية"),
)
_SUBJECTS: Final = """
atlas bakery beacon bicycle birds bridge camera canvas cellar chess choir cinema compass
courier cycling ferry fieldwork forest gallery harbour hiking kettle kitchen lantern library
lighthouse maps market meadow mentors museum music news orchard paper parents pixel pottery
radio railway rivers sailing school signal sketch stars studio swimming theatre tools travel
typography walking weather weaving website writing
""".split()  # noqa: SIM905 - one line would do for each word
_KINDS: Final = (
    ("team", Kind.WORK),
    ("topic", Kind.CHAT),
    ("help", Kind.HELP),
    ("proj", Kind.WORK),
    ("city", Kind.CHAT),
    ("alerts", Kind.ALERTS),
    ("learn", Kind.HELP),
    ("fun", Kind.CHAT),
    ("news", Kind.NEWS),
)


class Place(msgspec.Struct):
    """A channel. ``members`` are places in the list of people; ``first`` and ``last`` are the days
    on which there are messages.
    """

    cid: str
    name: str
    kind: Kind
    purpose: str
    created: int
    weight: float
    members: list[int]
    bots: list[int]
    first: int
    last: int
    archived: bool = False


def make_places(
    number: int, people: list[Person], rhythm: Rhythm, ids: Ids, rng: random.Random
) -> list[Place]:
    """So many channels, from the most used on."""
    humans = [place for place, person in enumerate(people) if not person.bot_id]
    bots = [place for place, person in enumerate(people) if person.bot_id]
    circles = _circles(people, humans)
    found = []
    for rank, (name, kind, purpose) in enumerate(_titles(number)):
        archived = rank >= 8 and rng.random() < _ARCHIVED
        young = rank >= 8 and rng.random() < _YOUNG
        first = rng.randrange(rhythm.days) // 2 if young else 0
        last = rng.randint(first, rhythm.days - 1) if archived else rhythm.days - 1
        age = rng.randint(1, 4 * _YEAR) if rank >= 2 else 5 * _YEAR
        began = rhythm.begin // SECOND
        found.append(
            Place(
                cid=ids.new("C"),
                name=name,
                kind=kind,
                purpose=purpose,
                created=began + first * (DAY // SECOND) - (0 if young else age),
                weight=(rank + 2) ** -_TAIL * rng.lognormvariate(0, 0.25),
                members=_members(rank, humans, circles, rng),
                bots=bots if kind.value.bots else [],
                first=first,
                last=last,
                archived=archived,
            )
        )
    return found


def _titles(number: int) -> list[tuple[str, Kind, str]]:
    found = list(_FIRST[:number])
    rounds = -(-number // (len(_SUBJECTS) * len(_KINDS)))
    for turn in range(1, rounds + 1):
        for place in range(len(_KINDS)):
            for order, subject in enumerate(_SUBJECTS):
                if len(found) == number:
                    return found
                prefix, kind = _KINDS[(order + place) % len(_KINDS)]
                name = f"{prefix}-{subject}" if turn == 1 else f"{prefix}-{subject}-{turn}"
                found.append((name, kind, f"About {subject}"))
    return found


def _circles(people: list[Person], humans: list[int]) -> list[list[int]]:
    found: dict[int, list[int]] = {}
    for place in humans:
        found.setdefault(people[place].circle, []).append(place)
    return [found[circle] for circle in sorted(found)]


def _members(
    rank: int, humans: list[int], circles: list[list[int]], rng: random.Random
) -> list[int]:
    """Everybody in the first; in others fewer and fewer, half of them from one or two circles."""
    if rank == 0:
        return list(humans)
    wanted = min(len(humans), max(4, int(len(humans) * _WIDE * (rank + 1) ** -0.8)))
    near: list[int] = []
    for circle in rng.sample(circles, min(2, len(circles))):
        near += rng.sample(circle, min(len(circle), wanted // 4))
    far = rng.sample(humans, wanted)
    return list(dict.fromkeys([*near, *far]))[:wanted]


def channel_object(place: Place, people: list[Person]) -> dict[str, Any]:
    """A channel as `channels.json` has it."""
    creator = people[place.members[0]].uid if place.members else ""
    members = [people[member].uid for member in (*place.members, *place.bots)]
    return {
        "id": place.cid,
        "name": place.name,
        "created": place.created,
        "creator": creator,
        "is_archived": place.archived,
        "is_general": place.name == "general",
        "members": [] if place.archived else members,
        "topic": {"value": "", "creator": "", "last_set": 0},
        "purpose": {"value": place.purpose, "creator": creator, "last_set": place.created},
    }
