"""`/senders`: senders that keep sending to endpoints that are gone, summed over the workers."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from autopush.api import responses
from autopush.limits import GoneCounts, GoneLimits
from autopush.net.http_messages import Request, Response
from autopush.net.siblings import SiblingError, Siblings
from autopush.webpush.syntax import encode_base64url

PAGE: Final = "/senders"
SENDERS: Final = "senders"
"""The port that siblings call."""


class GoneSender(GoneCounts, kw_only=True):
    """`key`: the VAPID public key, base64url; "" for all senders without one."""

    key: str


class GoneReport(msgspec.Struct, frozen=True):
    """`senders`: those with the most messages first. `answered`: of the `workers`."""

    senders: Sequence[GoneSender]
    workers: int = 1
    answered: int = 1


@dataclass(eq=False)
class SendersPage:
    """`others`: the other workers of the service."""

    gone: GoneLimits
    siblings: Siblings | None
    others: Sequence[int]

    async def respond(self, request: Request) -> Response:
        answers = await asyncio.gather(*(self._ask(each, request) for each in self.others))
        reports = [report for report in answers if report is not None]
        senders = [sender for report in (self._own(), *reports) for sender in report.senders]
        workers, answered = 1 + len(self.others), 1 + len(reports)
        return _page(GoneReport(_summed(senders), workers, answered))

    def respond_to_sibling(self, _request: Request) -> Response:
        return _page(self._own())

    def _own(self) -> GoneReport:
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

    async def _ask(self, worker: int, request: Request) -> GoneReport | None:
        """None if it does not answer."""
        if self.siblings is None:
            return None
        try:
            answer = await self.siblings.call(worker, SENDERS, request)
        except SiblingError:
            return None
        return msgspec.json.decode(answer.body, type=GoneReport) if answer.status == 200 else None


def _summed(senders: Iterable[GoneSender]) -> list[GoneSender]:
    sums: dict[str, GoneSender] = {}
    for each in senders:
        total = sums.setdefault(each.key, GoneSender(key=each.key))
        total.sent += each.sent
        total.delayed += each.delayed
        total.refused += each.refused
    return sorted(sums.values(), key=lambda sender: (-sender.sent, sender.key))


def _page(report: GoneReport) -> Response:
    return responses.json(200, msgspec.to_builtins(report))
