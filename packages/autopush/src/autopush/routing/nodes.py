"""Calls from node to node: hand over a notification, check storage, end a duplicate.

Rule: whatever happens to the other node becomes one of five answers; the callers never see a socket
error. Only a node that is known not to be there is unreachable: its users' records may forget it.
One that says nothing keeps its users, who may be connected to it all the while. It costs nothing:
a dark link fails at once, and a check that it missed is asked for again.
"""

from typing import Final
from urllib.parse import urlsplit
from zlib import crc32

from autopush.net.link import Link, LinkError, LinkRefused
from autopush.net.timers import TimerWheel
from autopush.protocol.actions import Row
from autopush.routing.local import LocalUsers
from autopush.routing.node_answer import NodeAnswer
from autopush.routing.owed import OwedChecks
from autopush.webpush.notification import Notification

TOTAL_TIMEOUT: Final = 3.0
MAX_LINKS: Final = 4096
SLOW_LANES: Final = 8
"""Links to one node for calls that take it a while, as answers come in order."""

__all__ = ["NodeAnswer", "Nodes"]


class Nodes:
    """All nodes of the service as seen from one of them; the node itself is answered without any
    network.
    """

    def __init__(
        self, own_id: str, local: LocalUsers, wheel: TimerWheel, connect_timeout: float
    ) -> None:
        self.own_id = own_id
        self._local = local
        self._wheel = wheel
        self._connect_timeout = connect_timeout
        self._links: dict[tuple[str, int], Link] = {}
        self._owed = OwedChecks(self._ask)

    async def push(self, node_id: str, notification: Notification, row: Row | None) -> NodeAnswer:
        """Hand a notification to the node that holds its user agent.

        `row`: where it is stored, if it is.
        """
        if node_id != self.own_id:
            # One that is stored is looked for in the store over there.
            lane = _lane(notification.uaid) if row else 0
            return await self._call(
                node_id, "PUT", f"/push/{notification.uaid}", notification.to_node(), lane=lane
            )
        user = self._local.find(notification.uaid)
        if user is None:
            return NodeAnswer.ABSENT
        taken = await user.hand_over(notification, row)
        return NodeAnswer.DONE if taken else NodeAnswer.BUSY

    async def check(self, node_id: str, uaid: str) -> NodeAnswer:
        """Ask the node to look into storage for that user agent; if it is silent, again later."""
        if node_id != self.own_id:
            answer = await self._ask(node_id, uaid)
            if answer is NodeAnswer.SILENT:
                self._owed.add(node_id, uaid)
            return answer
        user = self._local.find(uaid)
        if user is None:
            return NodeAnswer.ABSENT
        user.check_storage()
        return NodeAnswer.DONE

    async def end_duplicate(self, node_id: str, uaid: str, connected_at: int) -> None:
        """Ask the node to close an older connection of that user agent.

        It answers when the acks that connection has read are in the store. As that may take a
        while, such calls have links of their own.
        """
        await self._call(node_id, "DELETE", f"/notif/{uaid}/{connected_at}", lane=_lane(uaid))

    async def _ask(self, node_id: str, uaid: str) -> NodeAnswer:
        return await self._call(node_id, "PUT", f"/notif/{uaid}")

    # ── links ────────────────────────────────────────────────────────────────────────────────────

    async def _call(
        self, node_id: str, method: str, path: str, body: bytes = b"", *, lane: int = 0
    ) -> NodeAnswer:
        link = self._link(node_id, lane)
        if link is None:
            return NodeAnswer.UNREACHABLE
        try:
            response = await link.request(method, path, body)
        except (LinkRefused, ValueError):  # ValueError: the id names a host that cannot be
            return NodeAnswer.UNREACHABLE
        except LinkError:
            return NodeAnswer.SILENT
        if response.status in (200, 202):
            return NodeAnswer.DONE
        if response.status == 404:
            return NodeAnswer.ABSENT
        unwell = response.status >= 500 and response.status != 503
        return NodeAnswer.SILENT if unwell else NodeAnswer.BUSY

    def _link(self, node_id: str, lane: int) -> Link | None:
        link = self._links.get((node_id, lane))
        if link is None:
            try:
                parts = urlsplit(node_id)
                host, port = parts.hostname, parts.port
            except ValueError:
                return None
            if not host or not port:
                return None
            if len(self._links) >= MAX_LINKS:
                self._links.pop(next(iter(self._links))).close()
            link = self._links[node_id, lane] = Link(
                host,
                port,
                connect_timeout=self._connect_timeout,
                timeout=TOTAL_TIMEOUT,
                wheel=self._wheel,
            )
        return link

    async def finish(self, seconds: float) -> None:
        """Give silent nodes so much time to be told what they missed."""
        await self._owed.finished(seconds)

    def close(self) -> None:
        """Close every link; checks that are still owed are forgotten."""
        self._owed.close()
        for link in self._links.values():
            link.close()
        self._links.clear()


def _lane(uaid: str) -> int:
    return 1 + crc32(uaid.encode()) % SLOW_LANES
