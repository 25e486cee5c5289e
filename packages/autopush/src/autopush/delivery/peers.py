"""Calls from node to node: deliver a notification, check storage, end a duplicate connection.

Every outcome of a call is one of these answers; callers never see a socket error. Calls are
authenticated both ways (:mod:`~autopush.net.node_auth`): a process without any of our keys counts
as unresponsive, since it may be a node with the wrong ones.

Rule: only a node known to be gone, or not to have the user agent, may be removed from a router
record. One that refuses or does not respond stays, as the user agent may be connected to it:
further calls fail at once, and what it has missed is repeated until it answers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from itertools import islice
from typing import Final
from urllib.parse import urlsplit
from zlib import crc32

from autopush.delivery.connected import Registry
from autopush.delivery.versions import OtherVersions
from autopush.net.http_messages import Request, Response
from autopush.net.link import Link, LinkError, LinkGone, LinkInsecure, LinkRefused, LinkUnauthentic
from autopush.net.node_auth import is_instance_path, split_instance_url
from autopush.net.siblings import SUCCESSOR, SiblingError, SiblingRestarted, Siblings
from autopush.net.timers import TimerWheel
from autopush.net.tls import ClientTls
from autopush.protocol.effects import NORMAL_CLOSURE, REPLACED
from autopush.telemetry import logs
from autopush.telemetry.metric_table import NODE_CONNECT_ERROR, NODE_TIMEOUT
from autopush.telemetry.metrics import Metrics
from autopush.webpush.notification import Notification
from autopush.webpush.stored import Row
from autopush.webpush.urgency import HIGHEST

MAX_LINKS: Final = 4096
SLOW_LANES: Final = 8
"""Links to one node for slow calls: on one link, answers come in order."""

NODE: Final = "node"
"""The port that siblings call."""
RELAY: Final = "relay"
"""The port that the predecessor calls, for siblings."""
RETRY_INTERVAL: Final = 1.0
"""Seconds between calls to an unresponsive node."""
END_DUPLICATE_CALLS: Final = 5
"""Each takes up to 1.5 s; Firefox waits ten seconds for the reply to its hello."""
CONCURRENT_REPEATS: Final = 256
MAX_PENDING: Final = 100_000
PENDING_TIMEOUT: Final = 3600.0
"""Seconds. Firefox pings every half hour: by then it has reconnected and read storage."""

_log = logs.get(__name__)


class NodeAnswer(Enum):
    DONE = "the node has taken it"
    LATER = (
        "the user agent is connected and gets it later, from storage; nothing more is to be done"
    )
    BUSY = "the user agent is connected but cannot take more now; it will read storage"
    ABSENT = "the user agent is not connected there"
    UNREACHABLE = "it is gone: another process has its place"
    REFUSED = "nothing listens there now, or no host has that name: a firewall's word, perhaps"
    UNRESPONSIVE = "no answer; the node may be slow, stopped, cut off or overloaded"

    @property
    def means_gone(self) -> bool:
        """Whether the router record may stop naming this node."""
        return self in (NodeAnswer.ABSENT, NodeAnswer.UNREACHABLE)

    @property
    def may_be_back(self) -> bool:
        """Whether the node may have the user agent, and could not be told."""
        return self in (NodeAnswer.REFUSED, NodeAnswer.UNRESPONSIVE)

    @property
    def is_failure(self) -> bool:
        return self is NodeAnswer.UNREACHABLE or self.may_be_back


@dataclass(eq=False)
class Nodes:
    """All nodes as seen from one of them; calls to itself need no network.

    A node ID is the URL of an instance (`node_auth.instance_url`). One without an instance (the
    original, earlier versions) cannot be called and counts as gone.

    `keys`: shared by the nodes, newest first. `connect_timeout`, `request_timeout`: seconds, for
    the connection and for the whole call. `tls`: for https node IDs; by default the
    system's CAs.
    `sibling_urls`: the base of the node IDs of other workers of this service, which are called
    without a network, to their index among the `siblings`. `others`: have the own node ID too.
    """

    own_id: str
    registry: Registry
    wheel: TimerWheel
    metrics: Metrics
    _: KW_ONLY
    keys: Sequence[bytes]
    connect_timeout: float
    request_timeout: float = 3.0
    tls: ClientTls = field(default_factory=ClientTls)
    siblings: Siblings | None = None
    sibling_urls: Mapping[str, int] = field(default_factory=dict)
    others: OtherVersions = field(default_factory=lambda: OtherVersions(None))

    def __post_init__(self) -> None:
        self._own_base, _ = split_instance_url(self.own_id)
        self._distrusted: set[str] = set()
        self._unreachable = self.metrics.counter(NODE_CONNECT_ERROR)
        self._unanswered = self.metrics.counter(NODE_TIMEOUT)
        self._links: dict[tuple[str, int], Link] = {}
        self._pending = PendingCalls(self._call_again)
        self._is_retired = False

    async def push(self, node_id: str, notification: Notification, row: Row | None) -> NodeAnswer:
        """Deliver through the user agent's node. `row`: where the message is stored, or None."""
        path = f"/push/{notification.uaid}"
        if node_id != self.own_id:
            # For a stored message the other node may read the store: a slow call.
            lane = _lane(notification.uaid) if row else 0
            return await self._call(node_id, "PUT", path, notification.to_node(), lane=lane)
        user = self.registry.find(notification.uaid)
        if user is None:
            answer = await self._call(node_id, "PUT", path, notification.to_node())
            if answer is not NodeAnswer.ABSENT:
                return answer
            user = self.registry.find(notification.uaid)  # it may have moved here
        if user is None:
            return self._absent(notification.uaid)
        delivered = await user.deliver_from_peer(notification, row)
        return NodeAnswer.DONE if delivered else NodeAnswer.BUSY

    async def push_if_subscribed(self, node_id: str, notification: Notification) -> NodeAnswer:
        """Deliver a message that is not stored, if the user agent is connected to that node and has
        subscribed to the channel, which `push` does not check.

        BUSY: also if it has not subscribed, or the node's version does not know the call.
        """
        path = f"/push/{notification.uaid}/subscribed"
        return await self._call(node_id, "PUT", path, notification.to_node())

    async def check_storage(self, node_id: str, uaid: str, urgency: str = HIGHEST) -> NodeAnswer:
        """Have the node read storage for that user agent; repeated while it is unresponsive.

        `urgency`: of the message that was stored. LATER: the node reads storage later by itself.
        """
        user = self.registry.find(uaid) if node_id == self.own_id else None
        if user is None:
            path = f"/notif/{uaid}"
            # In the body, which an older version ignores: it reads storage in any case.
            answer = await self._call(node_id, "PUT", path, urgency.encode())
            if answer.may_be_back:
                self._pending.add(node_id, "PUT", path)
            if node_id != self.own_id or answer is not NodeAnswer.ABSENT:
                return answer
            user = self.registry.find(uaid)  # it may have moved here
            if user is None:
                return self._absent(uaid)
        return NodeAnswer.DONE if user.check_storage(urgency) else NodeAnswer.LATER

    def _absent(self, uaid: str) -> NodeAnswer:
        is_finishing = self.registry.acked.has_undeleted(uaid)
        return NodeAnswer.BUSY if is_finishing else NodeAnswer.ABSENT

    async def is_connected(self, node_id: str, uaid: str) -> NodeAnswer:
        """Has no side effects. BUSY: the node's version does not know the call."""
        path = f"/notif/{uaid}"
        if node_id != self.own_id:
            return await self._call(node_id, "GET", path)
        if self.registry.find(uaid):
            return NodeAnswer.DONE
        return await self._call(node_id, "GET", path)

    def may_have_duplicates(self, node_id: str) -> bool:
        """Whether `end_duplicate` has anything to do there, for a user agent connected here."""
        return node_id != self.own_id or self.others.exist

    async def end_duplicate(self, node_id: str, uaid: str, connected_at: int) -> None:
        """Close an older connection there; the answer comes when its acks are stored.

        A node whose store takes longer answers BUSY in time and is asked again, as silence would
        count as that of a stopped node. One that does not answer has to close it later: what is
        unacked there is saved only then.
        """
        user = self.registry.find(uaid) if node_id == self.own_id else None
        if user is not None and user.connected_at == connected_at:
            user.disconnect(NORMAL_CLOSURE, REPLACED)
            return
        path = f"/notif/{uaid}/{connected_at}"
        for _ in range(END_DUPLICATE_CALLS):
            answer = await self._call(node_id, "DELETE", path, lane=_lane(uaid))
            if answer.may_be_back:
                self._pending.add(node_id, "DELETE", path)
            if answer is not NodeAnswer.BUSY:
                return

    async def finish(self, seconds: float) -> None:
        """Wait until no call is pending, at most `seconds`."""
        await self._pending.finished(seconds)

    def close(self) -> None:
        """Pending calls are dropped."""
        self._pending.close()
        for link in self._links.values():
            link.close()
        self._links.clear()

    async def _call_again(self, node_id: str, method: str, path: str) -> NodeAnswer:
        """A call that was not answered."""
        answer = await self._call(node_id, method, path)
        has_moved_here = node_id == self.own_id and answer is NodeAnswer.ABSENT
        # A node that is gone may have taken messages for the connection that was to end there.
        has_taken_others = method == "DELETE" and answer is NodeAnswer.UNREACHABLE
        if has_moved_here or has_taken_others:
            user = self.registry.find(path.split("/")[2])
            if user is not None:
                user.check_storage()
        return answer

    async def _call(
        self, node_id: str, method: str, path: str, body: bytes = b"", *, lane: int = 0
    ) -> NodeAnswer:
        if node_id == self.own_id:
            response = await self.others.ask(method, path, body)
            return NodeAnswer.ABSENT if response is None else _answer_of(response.status)
        base, instance = split_instance_url(node_id)
        if base and base == self._own_base:
            # A predecessor of this worker.
            self._unreachable.add()
            return NodeAnswer.UNREACHABLE
        if self.siblings is not None and (index := self.sibling_urls.get(base)) is not None:
            request = Request(method, f"{instance}{path}", "", {}, "", body=body)
            try:
                return _answer_of((await self._ask_sibling(self.siblings, index, request)).status)
            except SiblingRestarted:
                self._unreachable.add()
                return NodeAnswer.UNREACHABLE
            except SiblingError:
                self._unanswered.add()
                return NodeAnswer.UNRESPONSIVE
        link = self._link(node_id, lane)
        if link is None:
            self._unreachable.add()
            return NodeAnswer.UNREACHABLE
        try:
            answered = await link.request(method, path, body)
        except (LinkGone, ValueError):  # ValueError: no host can have that name
            self._unreachable.add()
            return NodeAnswer.UNREACHABLE
        except LinkRefused:
            self._unreachable.add()
            return NodeAnswer.REFUSED
        except (LinkInsecure, LinkUnauthentic) as error:
            self._report(node_id, error)
            self._unanswered.add()
            return NodeAnswer.UNRESPONSIVE
        except LinkError:
            self._unanswered.add()
            return NodeAnswer.UNRESPONSIVE
        if self._distrusted:
            self._distrusted.discard(node_id)
        return _answer_of(answered.status)

    def retire(self) -> None:
        """From now on call siblings through the next version: those of this one end too, and what
        they had goes on in their successors.
        """
        self._is_retired = True

    async def relay(self, request: Request) -> Response:
        """Pass on a call of this worker's predecessor to a sibling, whose index begins the path."""
        index, _, path = request.path.lstrip("/").partition("/")
        call = Request(request.method, f"/{path}", "", {}, "", body=request.body)
        if self.siblings is not None:
            with suppress(SiblingError):
                return await self._ask_sibling(self.siblings, int(index), call)
        return Response(500)

    async def _ask_sibling(self, siblings: Siblings, index: int, call: Request) -> Response:
        if self._is_retired and siblings.has_started(SUCCESSOR):
            path = f"/{index}{call.path}"
            passed = Request(call.method, path, "", {}, "", body=call.body)
            with suppress(SiblingError):
                return await siblings.call(SUCCESSOR, RELAY, passed)
            return Response(500)  # says nothing of the sibling
        return await siblings.call(index, NODE, call)

    def _report(self, node_id: str, error: LinkInsecure | LinkUnauthentic) -> None:
        """Once for each node until it answers."""
        if node_id in self._distrusted or len(self._distrusted) >= MAX_LINKS:
            return
        self._distrusted.add(node_id)
        reason = str(error)
        if isinstance(error, LinkInsecure):
            _log.error("A node cannot be called over TLS", node=node_id, reason=reason)
        else:
            _log.error(
                "A node has no crypto_key in common with this one: messages for its user agents "
                "are stored, until all nodes have the same crypto_key",
                node=node_id,
                reason=reason,
            )

    def _link(self, node_id: str, lane: int) -> Link | None:
        link = self._links.get((node_id, lane))
        if link is None:
            try:
                parts = urlsplit(node_id)
                host, port = parts.hostname, parts.port
            except ValueError:
                return None
            if not host or not port or not is_instance_path(parts.path):
                return None
            if len(self._links) >= MAX_LINKS:
                self._links.pop(next(iter(self._links))).close()
            link = self._links[node_id, lane] = Link(
                host,
                port,
                connect_timeout=self.connect_timeout,
                timeout=self.request_timeout,
                wheel=self.wheel,
                tls=self.tls if parts.scheme == "https" else None,
                keys=self.keys,
                base=parts.path,
            )
        return link


def _answer_of(status: int) -> NodeAnswer:
    if status == 200:
        return NodeAnswer.DONE
    if status == 202:
        return NodeAnswer.LATER
    if status == 404:
        return NodeAnswer.ABSENT
    return NodeAnswer.UNRESPONSIVE if status >= 500 and status != 503 else NodeAnswer.BUSY


def _lane(uaid: str) -> int:
    return 1 + crc32(uaid.encode()) % SLOW_LANES


class PendingCalls:
    """Calls that unresponsive nodes missed. Each is repeated until the node answers or is gone, so
    that no message waits for a node that was only slow, stopped or cut off. An unresponsive node
    costs one call at a time. `call(node_id, method, path)` calls the node once.
    """

    def __init__(self, call: Callable[[str, str, str], Awaitable[NodeAnswer]]) -> None:
        self._call = call
        self._pending: dict[str, dict[tuple[str, str], None]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._full = False

    def __len__(self) -> int:
        """Without the calls under way."""
        return sum(map(len, self._pending.values()))

    def add(self, node_id: str, method: str, path: str) -> None:
        if len(self) >= MAX_PENDING:
            if not self._full:
                _log.warning("Too many calls are pending: messages may come late")
            self._full = True
            return
        self._full = False
        self._pending.setdefault(node_id, {})[method, path] = None
        if node_id not in self._tasks:
            _log.info("A node does not respond", node=node_id)
            self._tasks[node_id] = asyncio.ensure_future(self._repeat(node_id))

    async def finished(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._tasks and (left := deadline - loop.time()) > 0:
            await asyncio.wait(self._tasks.values(), timeout=left)

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        self._pending.clear()

    async def _repeat(self, node_id: str) -> None:
        loop = asyncio.get_running_loop()
        pending = self._pending[node_id]
        began, answered_at, count = loop.time(), loop.time(), 1
        answers: list[NodeAnswer] = []
        while pending and loop.time() < answered_at + PENDING_TIMEOUT:
            if count == 1:
                await asyncio.sleep(RETRY_INTERVAL)
            calls = list(islice(pending, count))
            for call in calls:  # what is added from here on stays pending
                del pending[call]
            answers = await asyncio.gather(*(self._call(node_id, *call) for call in calls))
            unanswered = [
                call for call, answer in zip(calls, answers, strict=True) if answer.may_be_back
            ]
            pending.update(dict.fromkeys(unanswered))
            if not unanswered:
                answered_at = loop.time()
            count = 1 if unanswered else CONCURRENT_REPEATS
        del self._pending[node_id], self._tasks[node_id]
        last = answers[0].name.lower() if answers else "none"
        _log.info("A node did not respond", node=node_id, answer=last, seconds=loop.time() - began)
