"""A workspace that lives on while it is taken in, again and again, through faults and breaks.

Whatever the runs in between saw, the last one leaves what a first one would: but messages that are
gone are still there, marked.
"""

import copy
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from channelstats.counting import Counting
from channelstats.ingest.runs import Event, StepProgress
from support.channelstats.fake_slack import Fault
from support.channelstats.house import House, house
from support.channelstats.random_workspace import Maker, settings
from support.channelstats.slack_house import EVERYTHING, Slack, consistent, threaded
from support.channelstats.workspace import Raw, Workspace

NOW = 1_800_000_000.0
RUNS = 4
DAY = 86_400


def seen(rng: random.Random, last: Workspace, run: int) -> Workspace:
    """The workspace as an earlier run saw it: without what came later, with what is gone now, and
    with what was edited or reacted to as it was.
    """
    of = copy.deepcopy(last)
    for cid, raws in of.messages.items():
        kept: dict[str, Raw] = {}
        for raw in raws:
            if rng.random() < 0.2 * (RUNS - run):
                continue
            if rng.random() < 0.2:
                raw.pop("reactions", None)
            if rng.random() < 0.2:
                raw["text"] = "as it was before"
            kept[raw["ts"]] = raw
        for _ in range(rng.randrange(4)):
            gone = Maker(rng, settings(rng)).message(
                f"{rng.randrange(1_600_000_000, 1_750_000_000)}.000007"
            )
            if kept and rng.random() < 0.5:
                head = min(kept)
                if head < gone["ts"]:
                    gone["thread_ts"] = head
            kept.setdefault(gone["ts"], gone)
        of.messages[cid] = threaded(kept)
    return of


def faults(rng: random.Random) -> list[Fault]:
    """Some that pass and some that do not."""
    do = rng.choices(("rate", "cut", "status", "expire"), k=rng.randrange(6))
    passing = [Fault(each, "502", after=rng.randrange(20)) for each in do if each != "rate"]
    storm = [Fault("rate", "9", after=rng.randrange(20), times=5) for each in do if each == "rate"]
    lasting = Fault("cut", after=rng.randrange(40), times=-1)
    return [*passing, *storm, *([lasting] if rng.random() < 0.4 else [])]


class Interrupted(Exception):
    """Ends a run from its report."""


async def broken_off(slack: Slack, into: House, now: float, after: int) -> None:
    """A run that ends after so many channels, at the latest."""

    def interrupt(event: Event) -> None:
        nonlocal after
        if isinstance(event, StepProgress) and event.step == "messages" and event.channel:
            after -= 1
            if after < 0:
                raise Interrupted

    with suppress(Interrupted):
        await slack.sync(into, now=now, counting=Counting(), on_event=interrupt)


async def rows(of: House) -> dict[str, Any]:
    """What is stored of messages that are not gone, but for the time it was read."""
    items = await of.items("Message")
    return {
        key: {name: value for name, value in item.items() if name != "fetched_at"}
        for key, item in items.items()
        if not item.get("deleted")
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_the_last_run_leaves_what_a_first_one_would(
    slack: Slack, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    last = consistent(Maker(rng, settings(rng)).workspace(40))
    async with house(tmp_path / "again") as again, house(tmp_path / "first") as first:
        for run in range(RUNS):
            slack.serve(seen(rng, last, run), *faults(rng), most=rng.choice((3, 50)))
            now = NOW + run * DAY
            if rng.random() < 0.3:
                await broken_off(slack, again, now, rng.randrange(3))
            else:
                await slack.sync(again, now=now, options=EVERYTHING, counting=Counting())
        for into in (again, first):
            slack.serve(last)
            finished = await slack.sync(into, now=NOW + RUNS * DAY, counting=Counting())
            assert finished.ok
        assert await rows(again) == await rows(first)
        for name in ("Channel", "FirstPost"):
            assert await again.items(name) == await first.items(name)
        for cid in last.messages:
            assert await again.tables.bulk.get(cid) == await first.tables.bulk.get(cid)
