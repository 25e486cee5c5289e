"""Who says what kind of thing when, in which thread: a channel as a few numbers a message.

Rule: a plan holds no text and no objects, so a channel of a million messages fits into little
memory; it has exactly as many messages as were asked for.

Answers come after a time that is log-normal, a quarter of an hour in the median, from people who
are awake; the rest of a thread follows faster. Some questions are never answered.
"""

import random
from array import array
from bisect import bisect_left
from enum import IntEnum
from itertools import accumulate
from math import log
from typing import Final

from channelstats.demo.people import Person
from channelstats.demo.places import Kind, Place
from channelstats.demo.rhythm import MACHINE, SECOND, Rhythm

_FIRST_ANSWER: Final = (log(15 * 60), 1.7)
_NEXT_ANSWER: Final = (log(5 * 60), 1.5)
_LONGEST: Final = 60
_AGAIN: Final = 0.3
_FRIEND: Final = 0.65
_BROADCAST: Final = 0.03
_ME: Final = 0.003
_GONE: Final = 0.004
_HUDDLES: Final = 1500
"""A huddle for so many messages."""


class What(IntEnum):
    """What a message is."""

    SAID = 0
    JOINED = 1
    REPORTED = 2
    BROADCAST = 3
    ME = 4
    HUDDLE = 5
    GONE = 6


class Plan:
    """Messages in the order of time: when, by whom (a place in the list of people), the instant of
    the thread's head or 0, and what it is. ``replies`` are the places of answers by their head.
    """

    def __init__(self) -> None:
        self.at = array("q")
        self.who = array("l")
        self.head = array("q")
        self.what = array("b")
        self.replies: dict[int, list[int]] = {}

    def add(self, at: int, who: int, head: int = 0, what: What = What.SAID) -> None:
        self.at.append(at)
        self.who.append(who)
        self.head.append(head)
        self.what.append(what)

    def put_in_order(self) -> None:
        """By time; no two at the same instant."""
        at, head = self.at, self.head
        order = sorted(range(len(at)), key=lambda place: (at[place], head[place]))
        for name in ("at", "who", "head", "what"):
            column: array[int] = getattr(self, name)
            setattr(self, name, array(column.typecode, map(column.__getitem__, order)))
        at = self.at
        for place in range(1, len(at)):
            at[place] = max(at[place], at[place - 1] + 1)
        for place, first in enumerate(self.head):
            if first:
                self.replies.setdefault(first, []).append(place)

    def place_of(self, at: int) -> int:
        """The place of the message of that instant."""
        return bisect_left(self.at, at)

    def forget(self, at: int) -> None:
        """The message of that instant was deleted; answers to it are still there."""
        self.what[self.place_of(at)] = What.GONE


class Planner:
    """Plans one channel after the other."""

    def __init__(self, people: list[Person], rhythm: Rhythm) -> None:
        self._people, self._rhythm = people, rhythm

    def plan(self, place: Place, number: int, rng: random.Random) -> Plan:
        """Exactly so many messages."""
        return _Channel(self._people, self._rhythm, place, rng).plan(number)


class _Channel:
    def __init__(
        self, people: list[Person], rhythm: Rhythm, place: Place, rng: random.Random
    ) -> None:
        self._people, self._rhythm, self._place, self._rng = people, rhythm, place, rng
        self._end = rhythm.end
        if place.archived:
            self._end = min(self._end, rhythm.begin + (place.last + 1) * 86_400 * SECOND)
        self._writers, weights = self._find_writers()
        self._weights = list(accumulate(weights))
        self._present = frozenset(self._writers)
        self._plan = Plan()

    def plan(self, number: int) -> Plan:
        place, plan, rng = self._place, self._plan, self._rng
        character = place.kind.value
        self._add_joins(number // 20)
        if place.bots:
            self._add_reports(int(number * character.bots))
        self._add_huddles(number)
        left = number - len(plan.at)
        replies = int(left * character.replies)
        self._add_sayings(left - replies)
        self._add_threads(replies)
        self._add_sayings(number - len(plan.at))  # in place of answers that would come too late
        plan.put_in_order()
        for at in plan.replies:
            if rng.random() < _GONE:
                plan.forget(at)
        return plan

    # ── who ──────────────────────────────────────────────────────────────────────────────────────

    def _find_writers(self) -> tuple[list[int], list[float]]:
        found, weights = [], []
        for member in self._place.members or [0]:
            first, last = self._span(member)
            if first <= last:
                person = self._people[member]
                share = self._rhythm.weight(person.habit, first, last)
                found.append(member)
                weights.append(person.weight * share * self._rng.lognormvariate(0, 0.8) + 1e-9)
        return (found, weights) if found else ([0], [1.0])

    def _span(self, member: int) -> tuple[int, int]:
        person = self._people[member]
        return max(person.first, self._place.first), min(person.last, self._place.last)

    def _anyone(self) -> int:
        return self._rng.choices(self._writers, cum_weights=self._weights)[0]

    # ── messages outside of threads ──────────────────────────────────────────────────────────────

    def _moment(self, member: int) -> int:
        person = self._people[member]
        first, last = self._span(member)
        if first > last:
            first, last = self._place.first, self._place.last
        return self._in_time(
            self._rhythm.moment(self._rng, person.habit, person.offsets, first, last)
        )

    def _in_time(self, at: int) -> int:
        if at < self._end:
            return at
        begin = self._rhythm.begin + self._place.first * 86_400 * SECOND
        return begin + int(self._rng.random() * (self._end - begin))

    def _add_sayings(self, number: int) -> None:
        add, rng = self._plan.add, self._rng
        for member in rng.choices(self._writers, cum_weights=self._weights, k=number):
            add(self._moment(member), member, 0, What.ME if rng.random() < _ME else What.SAID)

    def _add_joins(self, most: int) -> None:
        """Newcomers are seen in the first channel; in others a few people who come later."""
        rng = self._rng
        later = [member for member in self._writers if self._span(member)[0] > self._place.first]
        if self._place.kind not in (Kind.LOBBY, Kind.HELLO):
            later = rng.sample(self._writers, len(self._writers) // 4)
        for member in later[:most]:
            first, last = self._span(member)
            day = first if self._people[member].first == first else rng.randint(first, last)
            offset = self._people[member].offsets[day]
            at = self._rhythm.begin + day * 86_400 * SECOND - offset
            at += int((7 + 3 * rng.random()) * 3600 * SECOND)
            self._plan.add(self._in_time(max(at, self._rhythm.begin)), member, 0, What.JOINED)

    def _add_reports(self, number: int) -> None:
        place, rhythm, rng = self._place, self._rhythm, self._rng
        for bot in rng.choices(place.bots, k=number):
            offsets = self._people[bot].offsets
            at = rhythm.moment(rng, MACHINE, offsets, place.first, place.last)
            self._plan.add(self._in_time(at), bot, 0, What.REPORTED)

    def _add_huddles(self, number: int) -> None:
        whole, rest = divmod(number, _HUDDLES)
        for _ in range(whole + (self._rng.random() < rest / _HUDDLES)):
            member = self._anyone()
            self._plan.add(self._moment(member), member, 0, What.HUDDLE)

    # ── threads ──────────────────────────────────────────────────────────────────────────────────

    def _add_threads(self, number: int) -> None:
        """Answers to what was said; fewer than wanted where they would come after the end."""
        plan, rng = self._plan, self._rng
        heads = [place for place, what in enumerate(plan.what) if what == What.SAID]
        rng.shuffle(heads)
        for head in heads:
            if number <= 0:
                return
            length = min(int(rng.paretovariate(1.2)), _LONGEST, number)
            number -= self._add_thread(plan.at[head], plan.who[head], length)

    def _add_thread(self, head: int, author: int, length: int) -> int:
        """Return how many answers there are."""
        plan, rng, people = self._plan, self._rng, self._people
        at, speaker = head, author
        for number in range(length):
            middle, width = _NEXT_ANSWER if number else _FIRST_ANSWER
            at += int(rng.lognormvariate(middle, width) * SECOND) + 3 * SECOND
            if at >= self._end:
                return number
            speaker = self._answerer(at, author, speaker)
            if not self._is_awake(speaker, at) and rng.random() < 0.7:
                at = self._rhythm.next_morning(rng, people[speaker].offsets, at)
                if at >= self._end:
                    return number
            said = What.BROADCAST if rng.random() < _BROADCAST else What.SAID
            plan.add(at, speaker, head, said)
        return length

    def _answerer(self, at: int, author: int, last: int) -> int:
        rng, people = self._rng, self._people
        friends = people[author].friends
        day = (at - self._rhythm.begin) // (86_400 * SECOND)
        for _ in range(4):
            chance = rng.random()
            if chance < _AGAIN:
                found = author
            elif chance < _FRIEND and friends:
                found = rng.choice(friends)
            else:
                found = self._anyone()
            person = people[found]
            is_here = found in self._present and person.first <= day <= person.last
            if found != last and is_here and self._is_awake(found, at):
                return found
        return author

    def _is_awake(self, member: int, at: int) -> bool:
        person = self._people[member]
        return self._rhythm.is_awake(self._rng, person.habit, person.offsets, at)
