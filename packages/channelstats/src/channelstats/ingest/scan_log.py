"""When the stored messages of a channel were last read again and found unchanged.

Rule: a row that was found unchanged is not written again, and is as recent as if it had been. So
what was read after an export is not replaced by that export, and days without news stay as they
are.

Each run leaves a scan in the row `seen <channel ID>` of Configuration. A few are kept, more or less
evenly spread over the time of the runs; for what they no longer cover the time in the row counts.
"""

from collections.abc import Container, Iterable, Mapping
from itertools import pairwise
from typing import Final, Self

import msgspec

from channelstats.tables.configuration import Configuration
from channelstats.tables.items import number, text, without_empty
from channelstats.tables.message_row import MessageRow
from keytables import Value

_SCANS: Final = 8
_EXCEPTIONS: Final = 200
"""Of each kind: of a scan, and messages in it that were not seen, and threads beside its span."""


class Scan(msgspec.Struct, frozen=True):
    """At the time ``at`` (seconds) what is stored from ``since`` to ``until`` was seen, but not the
    messages ``unseen``; and, however old, the whole of the ``threads``.
    """

    at: int
    since: str
    until: str
    unseen: frozenset[str] = frozenset()
    threads: frozenset[str] = frozenset()

    @classmethod
    def of_run(
        cls,
        seen: Container[str],
        stored: Mapping[str, MessageRow],
        *,
        at: int,
        since: str,
        until: str,
        threads: Iterable[str] = (),
    ) -> Self:
        """The scan of a run that has ``seen`` messages of a channel (their timestamps); ``threads``
        are those read whole.
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
        return cls(at, since, until, frozenset(missed), frozenset(older))

    def covers(self, row: MessageRow) -> bool:
        if row.thread_ts in self.threads:
            return True
        return self.since <= row.ts <= self.until and row.ts not in self.unseen

    def includes(self, old: "Scan") -> bool:
        """Whether an older scan says nothing that this one does not."""
        spans = self.since <= old.since and self.until >= old.until
        known = self.unseen <= old.unseen and old.threads <= self.threads
        return self.at >= old.at and spans and known


class ScanLog(msgspec.Struct, frozen=True):
    """The scans of a channel, in the order of time."""

    scans: tuple[Scan, ...] = ()

    @classmethod
    async def load(cls, configuration: Configuration, cid: str) -> Self:
        rows = (await configuration.get(_key(cid))).get("steps")
        if not isinstance(rows, list):
            return cls()
        return cls(tuple(_scan(row) for row in rows if isinstance(row, Mapping)))

    async def save(self, configuration: Configuration, cid: str) -> None:
        """Store it: after the rows it is about."""
        rows: list[Value] = [
            without_empty(
                {
                    "at": scan.at,
                    "since": scan.since,
                    "until": scan.until,
                    "unseen": " ".join(sorted(scan.unseen)),
                    "threads": " ".join(sorted(scan.threads)),
                }
            )
            for scan in self.scans
        ]
        await configuration.put(_key(cid), {"steps": rows})

    def recency(self, row: MessageRow) -> int:
        """How recent a stored row is, in seconds. What is deleted is not there to be seen."""
        if row.deleted:
            return row.fetched_at
        return max([row.fetched_at, *(scan.at for scan in self.scans if scan.covers(row))])

    def with_scan(self, new: Scan) -> "ScanLog":
        kept = [scan for scan in self.scans if not new.includes(scan)]
        scans = sorted([*kept, new], key=lambda scan: scan.at)
        while len(scans) > _SCANS:
            gaps = [later.at - scan.at for scan, later in pairwise(scans)]
            del scans[gaps.index(min(gaps[:-1])) + 1]
        return ScanLog(tuple(scans))


NO_SCANS: Final = ScanLog()


def _key(cid: str) -> str:
    return f"seen {cid}"


def _scan(row: Mapping[str, Value]) -> Scan:
    unseen, threads = (frozenset(text(row, name).split()) for name in ("unseen", "threads"))
    return Scan(number(row, "at") or 0, text(row, "since"), text(row, "until"), unseen, threads)
