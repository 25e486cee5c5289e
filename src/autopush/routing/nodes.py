"""Calls from node to node: hand over a notification, check storage, end a duplicate.

Rule: whatever happens to the other node becomes one of four answers; the callers never see a socket
error.
"""

from enum import Enum
from typing import Final
from urllib.parse import urlsplit

from autopush.net.link import Link, LinkBusy, LinkDown
from autopush.net.timers import TimerWheel
from autopush.protocol.actions import Row
from autopush.routing.local import LocalUsers
from autopush.webpush.notification import Notification

TOTAL_TIMEOUT: Final = 3.0
MAX_LINKS: Final = 4096


class NodeAnswer(Enum):
    """What another node said, or failed to say."""

    DONE = "the node has taken it"
    BUSY = "the user agent is there but cannot take more now"
    ABSENT = "the user agent is not connected there"
    UNREACHABLE = "the node does not answer"


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
        self._links: dict[str, Link] = {}

    async def push(self, node_id: str, notification: Notification, row: Row | None) -> NodeAnswer:
        """Hand a notification to the node that holds its user agent.

        `row`: where it is stored, if it is.
        """
        if node_id != self.own_id:
            return await self._call(
                node_id, "PUT", f"/push/{notification.uaid}", notification.to_node()
            )
        user = self._local.find(notification.uaid)
        if user is None:
            return NodeAnswer.ABSENT
        taken = await user.hand_over(notification, row)
        return NodeAnswer.DONE if taken else NodeAnswer.BUSY

    async def check(self, node_id: str, uaid: str) -> NodeAnswer:
        """Ask the node to look into storage for that user agent."""
        if node_id != self.own_id:
            return await self._call(node_id, "PUT", f"/notif/{uaid}")
        user = self._local.find(uaid)
        if user is None:
            return NodeAnswer.ABSENT
        user.check_storage()
        return NodeAnswer.DONE

    async def end_duplicate(self, node_id: str, uaid: str, connected_at: int) -> None:
        """Ask the node to close an older connection of that user agent.

        It answers when the acks that connection has read are in the store.
        """
        await self._call(node_id, "DELETE", f"/notif/{uaid}/{connected_at}")

    async def _call(self, node_id: str, method: str, path: str, body: bytes = b"") -> NodeAnswer:
        link = self._link(node_id)
        if link is None:
            return NodeAnswer.UNREACHABLE
        try:
            response = await link.request(method, path, body)
        except (LinkDown, ValueError):  # ValueError: the id names a host that cannot be
            return NodeAnswer.UNREACHABLE
        except LinkBusy:
            return NodeAnswer.BUSY
        if response.status in (200, 202):
            return NodeAnswer.DONE
        return NodeAnswer.ABSENT if response.status == 404 else NodeAnswer.BUSY

    def _link(self, node_id: str) -> Link | None:
        link = self._links.get(node_id)
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
            link = self._links[node_id] = Link(
                host,
                port,
                connect_timeout=self._connect_timeout,
                timeout=TOTAL_TIMEOUT,
                wheel=self._wheel,
            )
        return link

    def close(self) -> None:
        """Close every link."""
        for link in self._links.values():
            link.close()
        self._links.clear()
