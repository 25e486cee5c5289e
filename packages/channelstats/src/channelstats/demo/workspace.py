"""An export of a workspace of any size.

Rule: exactly as many people, channels and messages as asked for; a channel after the other, a day
after the other, so that memory depends on the largest channel's plan alone.
"""

import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import orjson

from channelstats.demo.files import opened
from channelstats.demo.people import Ids, make_people, user_object
from channelstats.demo.places import Place, channel_object, make_places
from channelstats.demo.plan import Planner
from channelstats.demo.rhythm import Rhythm
from channelstats.demo.talk import Talker

Progress: TypeAlias = Callable[[int, int], None]
"""Told how many messages are written, of how many."""

_SECONDS_PER_DAY: Final = 86_400


class Size(msgspec.Struct, frozen=True):
    """How large a workspace is. A few of the people are bots; ``days`` is the time its messages
    are from.
    """

    people: int = 60
    channels: int = 14
    messages: int = 20_000
    days: int = 84

    def __post_init__(self) -> None:
        if min(self.people, self.channels, self.days) < 1 or self.messages < 0:
            raise ValueError("expected at least one of people, of channels, of days")


def write_export(
    path: Path, size: Size, *, last_day: date, seed: int, progress: Progress | None = None
) -> None:
    """Write an export: a zip if ``path`` ends with .zip, else a folder.

    The last message is of ``last_day`` at the latest, in UTC. Takes about 30 µs a message.
    """
    rng = random.Random(seed)  # noqa: S311 - nothing here is secret
    rhythm, ids = Rhythm(last_day, size.days, rng), Ids(rng)
    team = ids.new("T")
    people = make_people(size.people, rhythm, ids, rng)
    places = make_places(size.channels, people, rhythm, ids, rng)
    planner, talker = Planner(people, rhythm), Talker(people, team)
    done = 0
    with opened(path, last_day) as files:
        files.write("users.json", orjson.dumps([user_object(one, team) for one in people]))
        files.write("channels.json", orjson.dumps([channel_object(one, people) for one in places]))
        for place, number in zip(places, _shares(places, size.messages), strict=True):
            own = random.Random(f"{seed} {place.cid}")  # noqa: S311
            plan = planner.plan(place, number, own)
            for day, messages in talker.days(place, plan, own):
                name = datetime.fromtimestamp(day * _SECONDS_PER_DAY, UTC).date().isoformat()
                files.write(f"{place.name}/{name}.json", orjson.dumps(messages))
                done += len(messages)
                if progress is not None:
                    progress(done, size.messages)


def _shares(places: list[Place], messages: int) -> list[int]:
    """How many messages each channel has; those with the largest remainders get the rest."""
    whole = sum(place.weight for place in places)
    exact = [messages * place.weight / whole for place in places]
    found = list(map(int, exact))
    order = sorted(range(len(places)), key=lambda place: found[place] - exact[place])
    for place in order[: messages - sum(found)]:
        found[place] += 1
    return found
