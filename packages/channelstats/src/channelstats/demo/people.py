"""Who there is: people and a few bots, with names, zones, habits and friends.

Rule: most write little and a few write a lot; who comes later or leaves earlier says nothing
before or after.
"""

import random
from typing import Any, Final

import msgspec

from channelstats.demo.names import CULTURES, ZONES, Culture, Namer
from channelstats.demo.rhythm import HABITS, MACHINE, Rhythm

_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_BOTS: Final = (
    "Build Bell",
    "Ticket Tide",
    "Rota Robin",
    "Metric Moth",
    "Paper Trail",
    "Gatehouse",
)
_PER_CIRCLE: Final = 24
_NEWCOMERS: Final = 0.3
_LEAVERS: Final = 0.04
_QUIET: Final = 0.35
_ELSEWHERE: Final = 0.15


class Person(msgspec.Struct):
    """Somebody, or a bot. ``first`` and ``last`` are the days, of the workspace's, on which there
    may be messages; ``weight`` is how much is written, as against others. ``bot_id`` is a bot's.
    """

    uid: str
    user: str
    real: str
    display: str
    zone: str
    habit: int
    weight: float
    circle: int
    first: int
    last: int
    left: bool = False
    admin: bool = False
    bot_id: str = ""
    tone: int = 0
    wordy: float = 1.0
    friends: tuple[int, ...] = ()
    offsets: list[int] = []


class Ids:
    """IDs of Slack's shape, each given once."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._given: set[str] = set()

    def new(self, kind: str) -> str:
        while True:
            found = f"{kind}0{''.join(self._rng.choices(_LETTERS, k=9))}"
            if found not in self._given:
                self._given.add(found)
                return found


def make_people(number: int, rhythm: Rhythm, ids: Ids, rng: random.Random) -> list[Person]:
    """So many people; the last few of them are bots."""
    bots = min(number // 12, len(_BOTS))
    circles = max(1, number // _PER_CIRCLE)
    namer, taken = Namer(rng), set[str]()  # user names, and names shown
    found = [
        _person(place, circles, rhythm, ids, namer, taken, rng) for place in range(number - bots)
    ]
    found += [_bot(_BOTS[place], rhythm, ids) for place in range(bots)]
    _befriend(found, circles, rng)
    for person in found:
        person.offsets = rhythm.offsets(person.zone)
    return found


def _person(
    place: int,
    circles: int,
    rhythm: Rhythm,
    ids: Ids,
    namer: Namer,
    taken: set[str],
    rng: random.Random,
) -> Person:
    culture = rng.choices(CULTURES, [culture.share for culture in CULTURES])[0]
    name = namer.name(culture)
    first, last = 0, rhythm.days - 1
    if place >= 2 and rng.random() < _NEWCOMERS:
        first = int(rhythm.days * rng.random())
    left = place >= 2 and rng.random() < _LEAVERS
    if left:
        last = rng.randint(first, last)
    user = _free(rng, name.latin_given, name.latin_family, taken)
    display = rng.choices(("", name.given, name.latin_given, user), (35, 35, 20, 10))[0]
    display = "" if display in taken and display != user else display  # nobody is confused
    taken.add(display)
    weight = rng.lognormvariate(0, 1.4)
    if place >= 2 and rng.random() < _QUIET:
        weight *= 0.02
    return Person(
        uid=ids.new("U"),
        user=user,
        real=name.full,
        display=display,
        zone=_zone(culture, rng),
        habit=rng.choices(range(len(HABITS)), (55, 12, 20, 13))[0],
        weight=weight,
        circle=rng.randrange(circles),
        first=first,
        last=last,
        left=left,
        admin=place < 2,
        tone=rng.choices((0, 2, 3, 4, 5, 6), (60, 8, 8, 8, 8, 8))[0],
        wordy=rng.lognormvariate(0, 0.4),
    )


def _bot(name: str, rhythm: Rhythm, ids: Ids) -> Person:
    return Person(
        uid=ids.new("U"),
        user=name.lower().replace(" ", "_"),
        real=name,
        display=name,
        zone="UTC",
        habit=MACHINE,
        weight=0.0,
        circle=-1,
        first=0,
        last=rhythm.days - 1,
        bot_id=ids.new("B"),
    )


def _zone(culture: Culture, rng: random.Random) -> str:
    return rng.choice(ZONES if rng.random() < _ELSEWHERE else culture.zones)


def _free(rng: random.Random, given: str, family: str, taken: set[str]) -> str:
    """A user name that nobody has."""
    base = rng.choice((given, f"{given}.{family}", f"{given[:1]}{family}"))
    found, number = base, 1
    while found in taken:
        number += 1
        found = f"{given}.{family}" if number == 2 else f"{given}.{family}{number}"
    taken.add(found)
    return found


def _befriend(people: list[Person], circles: int, rng: random.Random) -> None:
    """Give everyone a few whom they answer and mention most: some near, some popular."""
    near: list[list[int]] = [[] for _ in range(circles)]
    humans = [place for place, person in enumerate(people) if not person.bot_id]
    for place in humans:
        near[people[place].circle].append(place)
    popular = sorted(humans, key=lambda place: -people[place].weight)[: max(3, len(humans) // 10)]
    for place in humans:
        circle = near[people[place].circle]
        chosen = rng.sample(circle, min(4, len(circle)))
        chosen += rng.sample(popular, min(2, len(popular)))
        people[place].friends = tuple(friend for friend in chosen if friend != place)


def user_object(person: Person, team: str) -> dict[str, Any]:
    """A user as `users.json` has it."""
    found: dict[str, Any] = {
        "id": person.uid,
        "team_id": team,
        "name": person.user,
        "deleted": person.left,
        "real_name": person.real,
        "tz": person.zone,
        "tz_label": person.zone.rpartition("/")[2].replace("_", " "),
        "tz_offset": person.offsets[-1] // 1_000_000,
        "profile": {
            "real_name": person.real,
            "real_name_normalized": person.real,
            "display_name": person.display,
            "display_name_normalized": person.display,
            "email": f"{person.user}@mail.example",
            "team": team,
        },
        "is_admin": person.admin,
        "is_bot": bool(person.bot_id),
        "is_app_user": False,
    }
    if person.bot_id:
        found["profile"]["bot_id"] = person.bot_id
    return found


def profile_object(person: Person, team: str) -> dict[str, Any]:
    """The profile that an export has beside each message."""
    return {
        "avatar_hash": f"g{person.uid.lower()}",
        "image_72": f"https://avatars.example/{person.uid.lower()}-72.png",
        "first_name": person.real.split()[0],
        "real_name": person.real,
        "display_name": person.display,
        "team": team,
        "name": person.user,
        "is_restricted": False,
        "is_ultra_restricted": False,
    }
