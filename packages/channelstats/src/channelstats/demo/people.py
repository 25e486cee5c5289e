"""People and bots of a made-up workspace, and the hours and days on which they write."""

import random
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import accumulate
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec
import orjson

SECOND: Final = 1_000_000
HOUR: Final = 3600 * SECOND
DAY: Final = 24 * HOUR
"""Instants are microseconds since the epoch."""

_HOLIDAYS: Final = frozenset(
    {(1, 1), (3, 8), (5, 1), (6, 21), (8, 15), (11, 1), (12, 24), (12, 25), (12, 26), (12, 31)}
)
"""Months and days that are like Sundays, so that any twelve weeks have one."""
_GROWTH: Final = 1.2
"""How much more is written on the last day than on the first, as a share."""
_HABITS: Final = (
    # weights of the weekdays from Monday on, and of the hours from midnight on
    ((10, 11, 11, 10, 8, 0.6, 0.5), "0 0 0 0 0 0 .5 2 6 10 11 10 6 8 10 10 9 6 3 2 2 1 1 .3"),
    ((10, 10, 11, 10, 9, 1.5, 1), "0 0 0 0 .2 2 5 8 10 9 8 7 5 6 5 4 3 2 1 1 .6 .4 .1 0"),
    ((8, 8, 8, 8, 7, 9, 10), "1 .4 .1 0 0 0 .2 .8 1 1 1 2 2 2 1 1 2 4 6 8 10 10 8 4"),
    ((1, 1, 1, 1, 1, 1, 1), "1 " * 24),
)
"""At an office, early, after work; the last is that of bots."""
_BOT_HABIT: Final = len(_HABITS) - 1

_ZONES: Final = """
America/New_York America/Chicago America/Los_Angeles America/Toronto America/Mexico_City
America/Sao_Paulo Europe/London Europe/Dublin Europe/Berlin Europe/Paris Europe/Madrid
Europe/Kyiv Europe/Stockholm Africa/Lagos Africa/Nairobi Africa/Cairo Asia/Kolkata Asia/Tokyo
Asia/Singapore Australia/Sydney
"""
_GIVEN: Final = """
Adaeze Ananya Anneke Astrid Ava Burak Beatriz Caleb Chloé Daisuke Declan Elif Eliška Étienne
Freya Grace Hazel Heike Iñaki Isla João Joaquín Jürgen Kofi Kwame Layla Lihua Lotte Lucía Maeve
Mateo Minjun Niamh Noah Oksana Ondřej Priya Ren Rhys Rohan Ruby Seoyeon Solène Taras Thabo Théo
Tunde Väinö Wanjiru Wyatt Ximena Youssef Yui Zofia
"""
_FAMILY: Final = """
Adeyemi Ashworth Bäcker Barbosa Bevan Boateng Brooks Byrne Carter Castillo Diallo Dlamini Dvořák
Fletcher Fontaine Girard Haddad Hayes Herrera Ibáñez Iyer Kamau Keller Kim Köhler Koval Lefèvre
Lindqvist Mansour Menon Mensah Mercer Moreau Moroz Mwangi Nowak Núñez Okafor Öztürk Park Patel
Peña Quiroga Sato Schröder Sharma Svoboda Tanaka Virtanen Vogel Walsh Wang Wójcik Yamada
"""
_BOTS: Final = ("Build Bell", "Ticket Tide", "Rota Robin", "Metric Moth", "Paper Trail")

_TEAM: Final = 12
_NEWCOMERS: Final = range(6)
_LAPSED: Final = range(6, 9)
_OF: Final = 20
"""Of so many people, the places of those who come later and of those who stop writing."""
SILENT_DAYS: Final = 14
"""Who stopped last did so on this day before the last: in the week before the last whole one, if
the last day is from Monday to Friday, whether weeks begin on Sundays or on Mondays."""
SHORTEST: Final = 3 * SILENT_DAYS
"""Days of a workspace in which people and channels go silent."""


class Member(msgspec.Struct):
    """Somebody, or a bot (``bot_id``), who writes from the day ``first`` to ``last``, counted from
    the first of the workspace. ``weight`` is how much, as against others; ``offsets`` are
    microseconds east of UTC on each day; ``friends`` are places in the list of people.
    """

    uid: str
    name: str
    display: str
    zone: str
    habit: int
    first: int
    last: int
    offsets: list[int]
    weight: float = 0.0
    bot_id: str = ""
    is_admin: bool = False
    skin_tone: int = 0
    friends: list[int] = []
    profile: orjson.Fragment = orjson.Fragment(b"{}")

    @property
    def user(self) -> str:
        """The user name: the name in letters from a to z."""
        letters = unicodedata.normalize("NFKD", self.name.lower())
        return re.sub("[^a-z0-9.]", "", letters.replace(" ", "."))


class Rhythm:
    """How much is written on which days and at which hours. ``begin`` and ``end`` are the first
    instant of the workspace and the one after its last.

    Rule: days and hours are drawn in the local time of a person, and then become an instant.
    """

    def __init__(self, last_day: date, days: int, rng: random.Random) -> None:
        self.days, self._first = days, last_day - timedelta(days - 1)
        self.begin = int(datetime.combine(self._first, time(), UTC).timestamp()) * SECOND
        self.end = self.begin + days * DAY
        dates = [self._first + timedelta(day) for day in range(days)]
        weekdays = [6 if (day.month, day.day) in _HOLIDAYS else day.weekday() for day in dates]
        trend = [(1 + _GROWTH * day / days) * rng.lognormvariate(0, 0.12) for day in range(days)]
        self._days: list[list[float]] = []
        self._hours: list[list[float]] = []
        for by_weekday, by_hour in _HABITS:
            each = [weight * by_weekday[day] for weight, day in zip(trend, weekdays, strict=True)]
            self._days.append([0.0, *accumulate(each)])
            self._hours.append([0.0, *accumulate(map(float, by_hour.split()))])
        self._offsets: dict[str, list[int]] = {}

    def offsets(self, zone: str) -> list[int]:
        """Microseconds east of UTC on each day."""
        if zone not in self._offsets:
            noon = datetime.combine(self._first, time(12), ZoneInfo(zone))
            found = [(noon + timedelta(day)).utcoffset() or timedelta() for day in range(self.days)]
            self._offsets[zone] = [int(offset.total_seconds()) * SECOND for offset in found]
        return self._offsets[zone]

    def share(self, person: Member, first: int, last: int) -> float:
        """How much of what somebody would write on all days falls on these, both included."""
        days = self._days[person.habit]
        return (days[last + 1] - days[first]) / days[-1]

    def moment(self, rng: random.Random, person: Member, first: int, last: int) -> int:
        """An instant at which somebody writes, on one of these local days."""
        days, hours, draw = self._days[person.habit], self._hours[person.habit], rng.random
        low, room, begin = days[first], days[last + 1] - days[first], self.begin
        for _ in range(4):
            day = min(bisect_right(days, low + draw() * room) - 1, last)
            hour = min(bisect_right(hours, draw() * hours[-1]) - 1, 23)
            at = begin + day * DAY + int((hour + draw()) * HOUR) - person.offsets[day]
            if begin <= at < self.end:  # else it is before the first day or after the last in UTC
                return at
        return begin + first * DAY + int(draw() * DAY * (last - first + 1))

    def day(self, at: int) -> int:
        """The day of an instant, in UTC, counted from the first one."""
        return (at - self.begin) // DAY

    def when_awake(self, rng: random.Random, person: Member, at: int) -> int:
        """That instant, or one in the morning after it where it is at night."""
        offset = person.offsets[min(self.day(at), self.days - 1)]
        day, local = divmod(at + offset, DAY)
        if 7 * HOUR <= local < 23 * HOUR:
            return at
        return (day + (local >= 23 * HOUR)) * DAY + int((7.5 + 4 * rng.random()) * HOUR) - offset


def slack_id(kind: str, number: int) -> str:
    """An ID of Slack's form."""
    return f"{kind}0{0x1A2B3C4D5 + 7919 * number:09X}"


def make_people(number: int, rhythm: Rhythm, team: str, rng: random.Random) -> list[Member]:
    """So many people; the last few are bots. The first two are administrators and always there.

    Most write little and a few a lot.
    """
    zones, last, shown = _ZONES.split(), rhythm.days - 1, set[str]()
    humans = number - min(number // 12, len(_BOTS))
    found = []
    for place, name in enumerate(_names(humans, rng)):
        zone, given = rng.choice(zones), name.partition(" ")[0]
        display = given if given not in shown and rng.random() < 0.7 else ""
        shown.add(display)
        habit = rng.choices(range(_BOT_HABIT), (60, 18, 22))[0]
        span = _span(place, humans, rhythm.days, rng)
        uid, offsets = slack_id("U", place), rhythm.offsets(zone)
        person = Member(uid, name, display, zone, habit, *span, offsets, is_admin=place < 2)
        person.weight = rng.lognormvariate(0, 1.3)
        if place >= 2 and rng.random() < 0.3:
            person.weight *= 0.02  # mostly reads
        person.skin_tone = rng.choices((0, 2, 3, 4, 5, 6), (60, 8, 8, 8, 8, 8))[0]
        found.append(person)
    _befriend(found, rng)
    for place, name in enumerate(_BOTS[: number - humans], humans):
        uid, offsets, bot_id = slack_id("U", place), rhythm.offsets("UTC"), slack_id("B", place)
        bot = Member(uid, name, name, "UTC", _BOT_HABIT, 0, last, offsets, bot_id=bot_id)
        found.append(bot)
    for person in found:
        person.profile = orjson.Fragment(orjson.dumps(_profile(person, team)))
    return found


def _names(number: int, rng: random.Random) -> Iterator[str]:
    """So many names, none of them twice."""
    names = [f"{given} {family}" for given in _GIVEN.split() for family in _FAMILY.split()]
    rng.shuffle(names)
    for place in range(number):
        turn, of_turn = divmod(place, len(names))
        yield f"{names[of_turn]} {turn + 1}" if turn else names[of_turn]


def _span(place: int, humans: int, days: int, rng: random.Random) -> tuple[int, int]:
    """The first and last day of somebody: newcomers and lapsed people are spread over all days."""
    turn, role = divmod(place, _OF)
    turns = -(-humans // _OF)
    if place >= 2 and role in _NEWCOMERS:
        part = (turn + (role + rng.random()) / len(_NEWCOMERS)) / turns
        return int(days * part), days - 1
    if role in _LAPSED and days >= SHORTEST:
        part = (turn + (role - _LAPSED[0]) / len(_LAPSED)) / turns
        return 0, days - 1 - SILENT_DAYS - int((days - SHORTEST) * part)
    return 0, days - 1


def _befriend(people: list[Member], rng: random.Random) -> None:
    """Give everybody a few whom they answer and mention most: of the same team, and popular."""
    by_weight = sorted(range(len(people)), key=lambda place: -people[place].weight)
    popular = by_weight[: max(3, len(people) // 10)]
    for place, person in enumerate(people):
        begin = place // _TEAM * _TEAM
        team = range(begin, min(begin + _TEAM, len(people)))
        chosen = rng.sample(team, min(4, len(team))) + rng.sample(popular, min(2, len(popular)))
        person.friends = [friend for friend in chosen if friend != place]


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
        "tz_offset": person.offsets[-1] // SECOND,
        "profile": {**_profile(person, team), "email": f"{person.user}@mail.example", **bot},
        "is_admin": person.is_admin,
        "is_bot": bool(person.bot_id),
    }
