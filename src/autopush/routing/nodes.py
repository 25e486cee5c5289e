"""Calls from node to node: hand over a notification, check storage, end a duplicate.

Rule: whatever happens to the other node becomes one of five answers; the callers never see a socket
error. A node that was to check storage and said nothing is asked again until it answers, so that a
stored message never waits for a node that was only slow.
"""

from enum import Enum
from typing import Final
from urllib.parse import urlsplit

from autopush.net.eager import begin
from autopush.net.link import Link, LinkBusy, LinkDown, LinkUnreachable
from autopush.net.timers import Timer, TimerWheel
from autopush.protocol.actions import Row
from autopush.routing.local import LocalUsers
from autopush.webpush.notification import Notification

TOTAL_TIMEOUT: Final = 3.0
MAX_LINKS: Final = 4096
MAX_OWED: Final = 100_000
ASK_AGAIN: Final = 1.0
ASKED_AT_ONCE: Final = 256


class NodeAnswer(Enum):
    """What another node said, or failed to say."""

    DONE = "the node has taken it"
    BUSY = "the user agent is there but cannot take more now; it will look into storage"
    ABSENT = "the user agent is not connected there"
    UNREACHABLE = "nobody can be connected to there"
    SILENT = "the node is there, but did not answer in time or has too much to do"

    @property
    def means_gone(self) -> bool:
        """Whether the router record may forget this node."""
        return self in (NodeAnswer.ABSENT, NodeAnswer.UNREACHABLE)


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
        self._links: dict[tuple[str, bool], Link] = {}
        self._owed: dict[tuple[str, str], None] = {}
        self._asking: Timer | None = None

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
        """Ask the node to look into storage for that user agent; if it is silent, again later."""
        if node_id != self.own_id:
            answer = await self._call(node_id, "PUT", f"/notif/{uaid}")
            if answer is NodeAnswer.SILENT:
                self._owe(node_id, uaid)
            return answer
        user = self._local.find(uaid)
        if user is None:
            return NodeAnswer.ABSENT
        user.check_storage()
        return NodeAnswer.DONE

    async def end_duplicate(self, node_id: str, uaid: str, connected_at: int) -> None:
        """Ask the node to close an older connection of that user agent.

        It answers when the acks that connection has read are in the store. As that may take a
        while, the call has a link of its own: answers come in order.
        """
        await self._call(node_id, "DELETE", f"/notif/{uaid}/{connected_at}", slow=True)

    # ── checks owed to silent nodes ──────────────────────────────────────────────────────────────

    def _owe(self, node_id: str, uaid: str) -> None:
        if len(self._owed) < MAX_OWED:
            self._owed[node_id, uaid] = None
        if self._asking is None:
            self._asking = self._wheel.after(ASK_AGAIN, self._ask_again)

    def _ask_again(self) -> None:
        self._asking = None
        asked, self._owed = list(self._owed), {}
        for node_id, uaid in asked[ASKED_AT_ONCE:]:
            self._owe(node_id, uaid)
        for node_id, uaid in asked[:ASKED_AT_ONCE]:
            begin(self.check(node_id, uaid))

    # ── links ────────────────────────────────────────────────────────────────────────────────────

    async def _call(
        self, node_id: str, method: str, path: str, body: bytes = b"", *, slow: bool = False
    ) -> NodeAnswer:
        link = self._link(node_id, slow=slow)
        if link is None:
            return NodeAnswer.UNREACHABLE
        try:
            response = await link.request(method, path, body)
        except (LinkUnreachable, ValueError):  # ValueError: the id names a host that cannot be
            return NodeAnswer.UNREACHABLE
        except (LinkDown, LinkBusy):
            return NodeAnswer.SILENT
        if response.status in (200, 202):
            return NodeAnswer.DONE
        if response.status == 404:
            return NodeAnswer.ABSENT
        unwell = response.status >= 500 and response.status != 503
        return NodeAnswer.SILENT if unwell else NodeAnswer.BUSY

    def _link(self, node_id: str, *, slow: bool) -> Link | None:
        link = self._links.get((node_id, slow))
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
            link = self._links[node_id, slow] = Link(
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
        self._owed.clear()
