"""Who sends: `/senders`, those that keep sending to endpoints that are gone, summed over the
workers; and how many messages each sender got accepted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from operator import itemgetter
from typing import Final

import msgspec

from autopush.api import responses
from autopush.limits import GoneCounts, GoneLimits
from autopush.net.http_messages import Response
from autopush.net.siblings import Port, Siblings
from autopush.recently_used import RecentlyUsed
from autopush.webpush.syntax import encode_base64url

PAGE: Final = "/senders"
MAX_COUNTED: Final = 500
"""Senders whose accepted messages a worker counts."""


class GoneSender(GoneCounts, kw_only=True):
    """`key`: the VAPID public key, base64url; "" for all senders without one."""

    key: str


class GoneReport(msgspec.Struct, frozen=True):
    """`senders`: those with the most messages first. `answered`: of the `workers`."""

    senders: Sequence[GoneSender]
    workers: int = 1
    answered: int = 1


SENDERS: Final = Port[None, GoneReport]("senders", None, GoneReport)


@dataclass(eq=False)
class SendersPage:
    """`siblings`: those with an index of 0 or more are asked too."""

    gone: GoneLimits
    siblings: Siblings = field(default_factory=Siblings)

    async def respond(self) -> Response:
        return responses.json(200, msgspec.to_builtins(await self.report()))

    async def report(self) -> GoneReport:
        answers = await self.siblings.ask_workers(SENDERS)
        reports = [report for report in (self.own(), *answers) if report is not None]
        senders = [sender for report in reports for sender in report.senders]
        return GoneReport(_summed(senders), 1 + len(answers), len(reports))

    def own(self, _asked: None = None) -> GoneReport:
        senders = [
            GoneSender(
                key=encode_base64url(key),
                sent=counts.sent,
                delayed=counts.delayed,
                refused=counts.refused,
            )
            for key, counts in self.gone.senders()
        ]
        return GoneReport(senders)


def _summed(senders: Iterable[GoneSender]) -> list[GoneSender]:
    sums: dict[str, GoneSender] = {}
    for each in senders:
        total = sums.setdefault(each.key, GoneSender(key=each.key))
        total.sent += each.sent
        total.delayed += each.delayed
        total.refused += each.refused
    return sorted(sums.values(), key=lambda sender: (-sender.sent, sender.key))


class SenderCounts:
    """How many messages of each sender were accepted, of those that sign."""

    def __init__(self) -> None:
        self._counts = RecentlyUsed[int](MAX_COUNTED)

    def add(self, key: bytes) -> None:
        self._counts.keep(key, (self._counts.find(key) or 0) + 1)

    def most(self, number: int) -> dict[str, int]:
        """Those with the most messages first; keys in base64url."""
        counts = ((key, count) for key, count in self._counts.items() if isinstance(key, bytes))
        largest = nlargest(number, counts, key=itemgetter(1))
        return {encode_base64url(key): count for key, count in largest}
