"""People, bots and channels of a made-up workspace, and the days and hours on which is written."""

import random
from bisect import bisect_right
from datetime import UTC, date, datetime, time, timedelta
from itertools import accumulate
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import orjson

SECOND: Final = 1_000_000
HOUR: Final = 3600 * SECOND
DAY: Final = 24 * HOUR
"""Instants are microseconds since the epoch."""

_GROWTH: Final = 1.2
"""How much more is written on the last day than on the first, as a share."""
_WEEKDAYS: Final = (10, 11, 11, 10, 8, 1.5, 2)
_HOURS: Final = "0.5 .2 0 0 0 0 .5 2 6 9 10 9 6 8 9 9 8 6 4 4 4 3 3 1"
"""How much people write on each day from Monday on, and in each hour from midnight on."""

_ZONES: Final = """
America/New_York America/Chicago America/Los_Angeles America/Sao_Paulo Europe/London Europe/Berlin
Europe/Madrid Europe/Kyiv Europe/Stockholm Africa/Lagos Africa/Nairobi Asia/Kolkata Asia/Tokyo
Australia/Sydney
"""
_GIVEN: Final = """
Ananya Ava Beatriz Chloé Daisuke Elif Étienne Freya Grace Isla João Jürgen Kofi Layla Lotte Lucía
Mateo Niamh Noah Oksana Priya Rohan Thabo Yui Zofia
"""
_FAMILY: Final = """
Adeyemi Bäcker Boateng Brooks Carter Castillo Dvořák Fontaine Haddad Herrera Ibáñez Kamau Kim Koval
Lindqvist Mensah Moreau Nowak Okafor Patel Peña Sato Sharma Virtanen Walsh
"""
_BOTS: Final = ("Build Bell", "Ticket Tide", "Rota Robin", "Metric Moth", "Paper Trail")

TEAM: Final = frozenset({"user0", "user1", "user4"})
"""Names of those whose work it is to answer."""
_FRIENDS: Final = 8
"""So many people answer and mention each other most."""
_OUTSIDE: Final = frozenset({9, 36, 60})
"""The places of people from another workspace."""
SILENT_DAYS: Final = 14
"""Who stopped last did so on this day before the last: in the week before the last whole one, if
the last day is from Monday to Friday, whether weeks begin on Sundays or on Mondays."""
SHORTEST: Final = 3 * SILENT_DAYS
"""Days of a workspace in which people and channels go silent."""


class Member(msgspec.Struct):
    """Somebody, or a bot (``bot_id``), who writes from the day ``first`` to ``last``, counted from
    the first of the workspace. ``weight`` is how much, as against others; ``offset`` is in
    microseconds east of UTC; ``friends`` are places in the list of people; ``is_stranger``: from
    outside.
    """

    uid: str
    user: str
    name: str
    display: str
    zone: str
    offset: int
    first: int
    last: int
    weight: float = 0.0
    bot_id: str = ""
    is_stranger: bool = False
    skin_tone: int = 0
    friends: list[int] = []
    profile: orjson.Fragment = orjson.Fragment(b"{}")


class Rhythm:
    """How much is written on which days and at which hours. ``begin`` and ``end`` are the first
    instant of the workspace and the one after its last.

    Rule: days and hours are drawn in the local time of a person, and then become an instant.
    """

    def __init__(self, last_day: date, days: int, rng: random.Random) -> None:
        self.days, first = days, last_day - timedelta(days - 1)
        self.begin = int(datetime.combine(first, time(), UTC).timestamp()) * SECOND
        self.end = self.begin + days * DAY
        trend = [(1 + _GROWTH * day / days) * rng.lognormvariate(0, 0.12) for day in range(days)]
        weights = (
            share * _WEEKDAYS[(first.weekday() + day) % 7] for day, share in enumerate(trend)
        )
        self._days = [0.0, *accumulate(weights)]
        self._hours = [0.0, *accumulate(map(float, _HOURS.split()))]

    def offset(self, zone: str) -> int:
        """Microseconds east of UTC at the end."""
        end = datetime.fromtimestamp(self.end // SECOND, ZoneInfo(zone))
        return int((end.utcoffset() or timedelta()).total_seconds()) * SECOND

    def moment(self, rng: random.Random, person: Member, first: int, last: int) -> int:
        """An instant at which somebody writes, on one of these local days."""
        low, high = self._days[first], self._days[last + 1]
        day = min(bisect_right(self._days, low + rng.random() * (high - low)) - 1, last)
        hour = min(bisect_right(self._hours, rng.random() * self._hours[-1]) - 1, 23)
        at = self.begin + day * DAY + int((hour + rng.random()) * HOUR) - person.offset
        # Before the first day in UTC, or after the last one, is the next or the previous day.
        return at + DAY * (at < self.begin) - DAY * (at >= self.end)

    def when_awake(self, rng: random.Random, person: Member, at: int) -> int:
        """That instant, or one in the morning after it where it is at night."""
        day, local = divmod(at + person.offset, DAY)
        if 7 * HOUR <= local < 23 * HOUR:
            return at
        morning = int((7.5 + 4 * rng.random()) * HOUR)
        return (day + (local >= 23 * HOUR)) * DAY + morning - person.offset


def slack_id(kind: str, number: int) -> str:
    """An ID of Slack's form."""
    return f"{kind}0{0x1A2B3C4D5 + 7919 * number:09X}"


# ── people ───────────────────────────────────────────────────────────────────────────────────────


def make_people(number: int, rhythm: Rhythm, team: str, rng: random.Random) -> list[Member]:
    """So many people; the last few are bots. The first two are always there. Most write little and
    a few a lot.
    """
    humans, zones, people = number - min(number // 12, len(_BOTS)), _ZONES.split(), []
    for place in range(humans):
        span, zone = _days_of(place, humans, rhythm.days), rng.choice(zones)
        uid, offset = slack_id("U", place), rhythm.offset(zone)
        person = Member(uid, f"user{place}", *_names(place), zone, offset, *span)
        person.is_stranger = place in _OUTSIDE
        mostly_reads = place >= 2 and rng.random() < 0.3
        person.weight = rng.lognormvariate(0, 1.3) * (0.02 if mostly_reads else 1)
        person.skin_tone = rng.choices((0, 2, 3, 4, 5, 6), (60, 8, 8, 8, 8, 8))[0]
        begin = place // _FRIENDS * _FRIENDS
        friends = range(begin, min(begin + _FRIENDS, humans))
        person.friends = [friend for friend in friends if friend != place]
        people.append(person)
    for place, name in enumerate(_BOTS[: number - humans], humans):
        uid, bot_id = slack_id("U", place), slack_id("B", place)
        bot = Member(uid, f"bot{place}", name, name, "UTC", 0, 0, rhythm.days - 1, bot_id=bot_id)
        people.append(bot)
    for person in people:
        person.profile = orjson.Fragment(orjson.dumps(_profile(person, team)))
    return people


def _names(place: int) -> tuple[str, str]:
    """The real and the display name of somebody, which nobody else has."""
    given, family = _GIVEN.split(), _FAMILY.split()
    turn, of_turn = divmod(place, len(given) * len(family))
    first = given[of_turn % len(given)]
    last = family[(of_turn // len(given) + 7 * of_turn) % len(family)]
    return f"{first} {last}{f' {turn + 1}' if turn else ''}", first if place < len(given) else ""


def _days_of(place: int, humans: int, days: int) -> tuple[int, int]:
    """The first and last day of somebody: newcomers and lapsed people are spread over all days."""
    if place % 3 == 2:
        return days * place // humans, days - 1
    if place % 7 == 3 and days >= SHORTEST:
        return 0, days - 1 - SILENT_DAYS - (days - SHORTEST) * (place - 3) // humans
    return 0, days - 1


def _profile(person: Member, team: str) -> dict[str, Any]:
    """The profile that `users.json` has, and beside each message too."""
    return {
        "avatar_hash": f"g{person.uid.lower()}",
        "image_72": f"https://avatars.example/{person.uid.lower()}-72.png",
        "first_name": person.name.partition(" ")[0],
        "real_name": person.name,
        "display_name": person.display,
        "team": team,
        "name": person.user,
        "is_restricted": False,
        "is_ultra_restricted": False,
    }


def user_object(person: Member, team: str, days: int) -> dict[str, Any]:
    """Somebody as `users.json` has them after so many days. Every third who lapsed has no account
    any more.
    """
    bot = {"bot_id": person.bot_id} if person.bot_id else {}
    return {
        "id": person.uid,
        "team_id": team,
        "name": person.user,
        "deleted": person.last < days - 1 and person.last % 3 == 0,
        "real_name": person.name,
        "tz": person.zone,
        "tz_offset": person.offset // SECOND,
        "profile": {**_profile(person, team), "email": f"{person.user}@mail.example", **bot},
        "is_bot": bool(person.bot_id),
        "is_stranger": person.is_stranger,
    }


# ── channels ─────────────────────────────────────────────────────────────────────────────────────


class Character(NamedTuple):
    """Shares of messages: answered, of bots, with reactions, that are questions."""

    answered: float
    bots: float
    reacted: float
    questions: float


_CHARACTERS: Final = {
    "chat": Character(0.22, 0.00, 0.30, 0.15),
    "news": Character(0.35, 0.05, 0.70, 0.05),
    "help": Character(0.65, 0.00, 0.20, 0.80),
    "team": Character(0.35, 0.02, 0.25, 0.30),
    "alerts": Character(0.25, 0.80, 0.04, 0.05),
}
_NAMED: Final = """
general:chat random:chat help:help dev:team introductions:news leads:team:private
announcements:news reading-club:chat:silent design:team build-bell:alerts old-website:team:archived
events:news hiring:team:private data:team mobile-app:team garden:chat translations:help
español:chat 日本語:chat summer-party:chat:ended
"""
"""Names, characters and states, from the most used on."""
_STATES: Final = [*[""] * 8, "private", "archived"]
"""What further channels are like."""


class DemoChannel(msgspec.Struct):
    """A channel with messages up to the day ``last``, counted from the first of the workspace.
    ``members``, ``bots`` and ``visitors`` are places in the list of people; visitors join and leave
    again without a word.
    """

    cid: str
    name: str
    created: int
    character: Character
    state: str
    weight: float
    last: int
    members: list[int]
    bots: list[int]
    visitors: list[int]


def make_channels(
    number: int, people: list[Member], rhythm: Rhythm, rng: random.Random
) -> list[DemoChannel]:
    """So many channels, from the most used on. Everybody is in the first one, and the first person
    in all.
    """
    humans = [place for place, person in enumerate(people) if not person.bot_id]
    titles, channels, end = _NAMED.split()[:number], [], rhythm.days - 1
    for rank in range(len(titles), number):
        kind = rng.choice([*_CHARACTERS])
        titles.append(f"{kind}-{rank}:{kind}:{rng.choice(_STATES)}")
    for rank, title in enumerate(titles):
        name, kind, state = f"{title}:".split(":")[:3]
        silent = end - SILENT_DAYS if rhythm.days >= SHORTEST else end
        last = {"silent": silent, "ended": end * 3 // 4, "archived": end // 2}.get(state, end)
        wanted = min(len(humans), max(4, int(0.8 * len(humans) * (rank + 1) ** -0.7)))
        members = humans if rank == 0 else sorted({0, *rng.sample(humans, wanted)})
        others = sorted(set(humans).difference(members))
        visitors = rng.sample(others, min(len(others), len(members) // 20))
        bots = list(range(len(humans), len(people))) if _CHARACTERS[kind].bots else []
        weight = rng.lognormvariate(0, 0.2) / (rank + 2) * (last + 1)
        created = rhythm.begin // SECOND - rng.randrange(365 * 86_400)
        about = (_CHARACTERS[kind], state, weight, last, members, bots, visitors)
        channels.append(DemoChannel(slack_id("C", rank), name, created, *about))
    return channels


def channel_object(channel: DemoChannel, people: list[Member]) -> dict[str, Any]:
    """A channel as `channels.json` and `groups.json` have it."""
    members = [people[place].uid for place in (*channel.members, *channel.bots)]
    is_archived, about = channel.state == "archived", f"All about {channel.name.replace('-', ' ')}"
    return {
        "id": channel.cid,
        "name": channel.name,
        "created": channel.created,
        "creator": members[0],
        "is_archived": is_archived,
        "is_general": channel.name == "general",
        "members": [] if is_archived else members,
        "purpose": {"value": about, "creator": members[0], "last_set": channel.created},
    }
