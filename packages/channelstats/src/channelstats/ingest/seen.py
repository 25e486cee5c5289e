"""Up to when stored messages are known to be as they are, though their rows say an earlier time.

Rule: a row that was found unchanged is not written again, and is as recent as if it had been. So
what was read after an export is not replaced by that export, and days without news stay as they
are.

Each run leaves a step in the row `seen <channel ID>` of Configuration: at that time it saw the
messages of a span of time, all but some, and some older threads. A few steps are kept, more or less
evenly spread over the time of the runs; for what they cover no more the time in the row counts.
"""

from collections.abc import Container, Iterable, Mapping
from itertools import pairwise
from typing import Final

import msgspec

from channelstats.tables.attributes import number, text, without_empty
from channelstats.tables.configuration import Configuration
from channelstats.tables.message_row import MessageRow
from keytables import Value

_STEPS: Final = 8
_EXCEPTIONS: Final = 200
"""Of each kind: of a step, and messages in it that were not seen, and threads beside its span."""


class Step(msgspec.Struct, frozen=True):
    """At the time ``at`` (seconds) what is stored from ``since`` to ``until`` was seen, but not the
    messages ``unseen``; and, however old, the whole of the ``threads``.
    """

    at: int
    since: str
    until: str
    unseen: frozenset[str] = frozenset()
    threads: frozenset[str] = frozenset()

    def covers(self, row: MessageRow) -> bool:
        if row.thread_ts in self.threads:
            return True
        return self.since <= row.ts <= self.until and row.ts not in self.unseen


class Seen(msgspec.Struct, frozen=True):
    """Steps in the order of time."""

    steps: tuple[Step, ...] = ()

    def recency(self, row: MessageRow) -> int:
        """How recent a stored row is, in seconds. What is deleted is not there to be seen."""
        if row.deleted:
            return row.fetched_at
        return max([row.fetched_at, *(step.at for step in self.steps if step.covers(row))])

    def with_step(self, new: Step) -> "Seen":
        kept = [step for step in self.steps if not _says_all_of(new, step)]
        steps = sorted([*kept, new], key=lambda step: step.at)
        while len(steps) > _STEPS:
            gaps = [later.at - step.at for step, later in pairwise(steps)]
            del steps[gaps.index(min(gaps[:-1])) + 1]
        return Seen(tuple(steps))


NOTHING: Final = Seen()


def step_of(
    seen: Container[str],
    stored: Mapping[str, MessageRow],
    *,
    at: int,
    since: str,
    until: str,
    threads: Iterable[str] = (),
) -> Step:
    """The step of a run that has ``seen`` messages of a channel (their timestamps); ``threads`` are
    those read whole.
    """
    missed = sorted(
        ts
        for ts, row in stored.items()
        if since <= ts <= until and ts not in seen and not row.deleted
    )
    if len(missed) > _EXCEPTIONS:
        missed = missed[-_EXCEPTIONS:]
        since = missed[0]
    older = sorted(ts for ts in threads if ts < since)[-_EXCEPTIONS:]
    return Step(at, since, until, frozenset(missed), frozenset(older))


def _says_all_of(new: Step, old: Step) -> bool:
    spans = new.since <= old.since and new.until >= old.until
    return new.at >= old.at and spans and new.unseen <= old.unseen and old.threads <= new.threads


# ── in the table ─────────────────────────────────────────────────────────────────────────────────


async def seen_of(configuration: Configuration, cid: str) -> Seen:
    """What is known of a channel."""
    steps = (await configuration.get(_key(cid))).get("steps")
    if not isinstance(steps, list):
        return NOTHING
    return Seen(tuple(_step(step) for step in steps if isinstance(step, Mapping)))


async def put_seen(configuration: Configuration, cid: str, seen: Seen) -> None:
    """Store it: after the rows it is about."""
    steps: list[Value] = [
        without_empty(
            {
                "at": step.at,
                "since": step.since,
                "until": step.until,
                "unseen": " ".join(sorted(step.unseen)),
                "threads": " ".join(sorted(step.threads)),
            }
        )
        for step in seen.steps
    ]
    await configuration.put(_key(cid), {"steps": steps})


def _key(cid: str) -> str:
    return f"seen {cid}"


def _step(item: Mapping[str, Value]) -> Step:
    unseen, threads = (frozenset(text(item, name).split()) for name in ("unseen", "threads"))
    return Step(number(item, "at") or 0, text(item, "since"), text(item, "until"), unseen, threads)
