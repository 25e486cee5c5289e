"""`/senders`: senders that keep sending to endpoints that are gone, and for the console those with
the most messages, summed over the workers.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from autopush.api import responses
from autopush.limits import BusySenders, GoneCounts, GoneLimits
from autopush.net.http_messages import Response
from autopush.net.siblings import Port, Sibling, SiblingError, Siblings
from autopush.webpush.syntax import encode_base64url

PAGE: Final = "/senders"
MAX_BUSY: Final = 10
MAX_ASKED: Final = 100
"""Of a worker, so that the sum has those that send to many of them."""


class GoneSender(GoneCounts, kw_only=True):
    """`key`: the VAPID public key, base64url; "" for all senders without one."""

    key: str


class GoneReport(msgspec.Struct, frozen=True):
    """`senders`: those with the most messages first. `answered`: of the `workers`. `busy`: by key,
    how many messages were accepted; empty without a console.
    """

    senders: Sequence[GoneSender]
    workers: int = 1
    answered: int = 1
    busy: dict[str, int] = {}


SENDERS: Final = Port[None, GoneReport]("senders", None, GoneReport)


@dataclass(eq=False)
class SendersPage:
    """`siblings`: those with an index of 0 or more are asked too."""

    gone: GoneLimits
    siblings: Siblings = field(default_factory=Siblings)
    busy: BusySenders | None = None

    async def respond(self) -> Response:
        report = msgspec.to_builtins(await self.report())
        del report["busy"]
        return responses.json(200, report)

    async def report(self) -> GoneReport:
        others = [sibling for index, sibling in self.siblings.items() if index >= 0]
        answers = await asyncio.gather(*map(self._ask, others))
        reports = [report for report in (self.own(), *answers) if report is not None]
        senders = [sender for report in reports for sender in report.senders]
        busy = Counter[str]()
        for report in reports:
            busy.update(report.busy)
        most = dict(busy.most_common(MAX_BUSY))
        return GoneReport(_summed(senders), 1 + len(others), len(reports), most)

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
        busy = self.busy.most(MAX_ASKED) if self.busy is not None else ()
        return GoneReport(senders, busy={encode_base64url(key): count for key, count in busy})

    async def _ask(self, sibling: Sibling) -> GoneReport | None:
        """None if it does not answer."""
        try:
            return await sibling.call(SENDERS, None)
        except SiblingError:
            return None


def _summed(senders: Iterable[GoneSender]) -> list[GoneSender]:
    sums: dict[str, GoneSender] = {}
    for each in senders:
        total = sums.setdefault(each.key, GoneSender(key=each.key))
        total.sent += each.sent
        total.delayed += each.delayed
        total.refused += each.refused
    return sorted(sums.values(), key=lambda sender: (-sender.sent, sender.key))
