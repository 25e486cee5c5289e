"""Channels of a made-up workspace: public and private, busy, silent and archived."""

import random
from typing import Any, Final, NamedTuple

import msgspec

from channelstats.demo.people import DAY, SECOND, SHORTEST, SILENT_DAYS, Member, Rhythm, slack_id


class _Character(NamedTuple):
    """Shares of messages: answered, of bots, with reactions, that are questions."""

    answered: float
    bots: float
    reacted: float
    questions: float


_CHAT: Final = _Character(0.22, 0.00, 0.30, 0.15)
_NEWS: Final = _Character(0.35, 0.05, 0.70, 0.05)
_HELP: Final = _Character(0.65, 0.00, 0.20, 0.80)
_WORK: Final = _Character(0.35, 0.02, 0.25, 0.30)
_ALERTS: Final = _Character(0.25, 0.80, 0.04, 0.05)

_NAMED: Final[tuple[tuple[str, _Character, str], ...]] = (
    ("general", _CHAT, ""),
    ("random", _CHAT, ""),
    ("help", _HELP, ""),
    ("dev", _WORK, ""),
    ("introductions", _NEWS, ""),
    ("leads", _WORK, "private"),
    ("announcements", _NEWS, ""),
    ("reading-club", _CHAT, "silent"),
    ("design", _WORK, ""),
    ("build-bell", _ALERTS, ""),
    ("old-website", _WORK, "archived"),
    ("events", _NEWS, ""),
    ("hiring", _WORK, "private"),
    ("data", _WORK, ""),
    ("mobile-app", _WORK, "young"),
    ("garden", _CHAT, ""),
    ("translations", _HELP, ""),
    ("español", _CHAT, ""),
    ("日本語", _CHAT, ""),
    ("summer-party", _CHAT, "silent"),
)
_FURTHER: Final = (("team", _WORK), ("topic", _CHAT), ("help", _HELP), ("alerts", _ALERTS))
_STATES: Final = {"": 74, "private": 8, "silent": 5, "archived": 8, "young": 5}
"""What further channels are like, by how often."""
_YEAR: Final = 365 * 86_400


class DemoChannel(msgspec.Struct):
    """A channel with messages from the day ``first`` to ``last``, counted from the first of the
    workspace. ``members``, ``bots`` and ``visitors`` are places in the list of people; visitors
    join and leave again without a word.
    """

    cid: str
    name: str
    character: _Character
    created: int
    weight: float
    members: list[int]
    bots: list[int]
    visitors: list[int]
    first: int
    last: int
    is_archived: bool
    is_private: bool


def make_channels(
    number: int, people: list[Member], rhythm: Rhythm, rng: random.Random
) -> list[DemoChannel]:
    """So many channels, from the most used on. Everybody is in the first one, and the first person
    in all.
    """
    humans = [place for place, person in enumerate(people) if not person.bot_id]
    bots = list(range(len(humans), len(people)))
    found = []
    for rank, (name, character, state) in enumerate(_titles(number, rng)):
        first, last = _span(state, rhythm.days, rng)
        wanted = min(len(humans), max(4, int(0.8 * len(humans) * (rank + 1) ** -0.7)))
        members = humans if rank == 0 else sorted({0, *rng.sample(humans, wanted)})
        others = sorted(set(humans).difference(members))
        channel = DemoChannel(
            cid=slack_id("C", rank),
            name=name,
            character=character,
            created=(rhythm.begin + first * DAY) // SECOND - (0 if first else rng.randrange(_YEAR)),
            weight=rng.lognormvariate(0, 0.2) / (rank + 2) * rhythm.share(people[0], first, last),
            members=members,
            bots=bots if character.bots else [],
            visitors=rng.sample(others, min(len(others), len(members) // 20)),
            first=first,
            last=last,
            is_archived=state == "archived",
            is_private=state == "private",
        )
        found.append(channel)
    return found


def _titles(number: int, rng: random.Random) -> list[tuple[str, _Character, str]]:
    """Names, characters and states; no name twice."""
    found = list(_NAMED[:number])
    for place in range(len(found), number):
        prefix, character = rng.choice(_FURTHER)
        state = rng.choices([*_STATES], [*_STATES.values()])[0]
        found.append((f"{prefix}-{place}", character, state))
    return found


def _span(state: str, days: int, rng: random.Random) -> tuple[int, int]:
    """The first and the last day with messages."""
    if state == "young":
        return int(days * (0.4 + 0.5 * rng.random())), days - 1
    if state == "archived":
        return 0, int(days * (0.3 + 0.4 * rng.random()))
    return 0, days - 1 - (SILENT_DAYS if state == "silent" and days >= SHORTEST else 0)


def channel_object(channel: DemoChannel, people: list[Member]) -> dict[str, Any]:
    """A channel as `channels.json` and `groups.json` have it."""
    members = [people[place].uid for place in (*channel.members, *channel.bots)]
    purpose = f"All about {channel.name.replace('-', ' ')}"
    return {
        "id": channel.cid,
        "name": channel.name,
        "created": channel.created,
        "creator": members[0],
        "is_archived": channel.is_archived,
        "is_general": channel.name == "general",
        "members": [] if channel.is_archived else members,
        "topic": {"value": "", "creator": "", "last_set": 0},
        "purpose": {"value": purpose, "creator": members[0], "last_set": channel.created},
    }
