"""Calls from node to node about user agents, by whatever way leads there.

Every call has an `Outcome`; callers never see a socket error. Calls to other machines are
authenticated both ways (:mod:`~autopush.net.node_auth`): a process without any of our keys counts
as silent, since it may be a node with the wrong ones.

Rule: only a node known to be gone, or not to have the user agent, may be removed from a router
record. One that refuses or does not respond stays, as the user agent may be connected to it:
further calls fail at once, and what it has missed is repeated until it answers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from itertools import islice
from typing import Final
from urllib.parse import urlsplit
from zlib import crc32

from msgspec import Struct

from autopush.delivery.answering import Answer, Answering
from autopush.delivery.calls import (
    CheckStorage,
    EndDuplicate,
    FindConnection,
    NodeCall,
    Outcome,
    Push,
)
from autopush.delivery.node_http import outcome_of, to_http
from autopush.net.link import Link, LinkError, LinkGone, LinkInsecure, LinkRefused, LinkUnauthentic
from autopush.net.node_auth import ANY_INSTANCE, instance_url, is_instance_path, split_instance_url
from autopush.net.siblings import SUCCESSOR, Port, SiblingError, SiblingRestarted, Siblings
from autopush.net.timers import TimerWheel
from autopush.net.tls import ClientTls
from autopush.telemetry import logs
from autopush.telemetry.metric_table import NODE_CONNECT_ERROR, NODE_TIMEOUT
from autopush.telemetry.metrics import Metrics
from autopush.webpush.notification import Notification
from autopush.webpush.urgency import HIGHEST

MAX_LINKS: Final = 4096
SLOW_LANES: Final = 8
"""Links to one node for slow calls: on one link, answers come in order."""

RETRY_INTERVAL: Final = 1.0
"""Seconds between calls to an unresponsive node."""
END_DUPLICATE_CALLS: Final = 5
"""Each takes up to 1.5 s; Firefox waits ten seconds for the reply to its hello."""
CONCURRENT_REPEATS: Final = 256
MAX_PENDING: Final = 100_000
PENDING_TIMEOUT: Final = 3600.0
"""Seconds. Firefox pings every half hour: by then it has reconnected and read storage."""

_, _ANY = split_instance_url(instance_url("", ANY_INSTANCE))

_log = logs.get(__name__)


class InstanceCall(Struct, array_like=True, gc=False):
    """A call to a sibling. `instance`: the path of its node ID; one that has restarted since has
    another, and none of the user agents.
    """

    instance: str
    call: NodeCall


class RelayedCall(Struct, array_like=True, gc=False):
    """A call to the sibling of that index."""

    index: int
    call: InstanceCall


NODE: Final = Port[InstanceCall, Outcome]("node", InstanceCall, Outcome)
RELAY: Final = Port[RelayedCall, Outcome]("relay", RelayedCall, Outcome)
"""Where the next version passes on the calls of its predecessor."""


@dataclass(eq=False)
class Nodes:
    """All nodes as seen from one of them; calls to itself need no network.

    A node ID is the URL of an instance (`node_auth.instance_url`). One without an instance (the
    original, earlier versions) cannot be called and counts as gone.

    `here`: answers calls to the own node. `keys`: shared by the nodes, newest first.
    `connect_timeout`, `request_timeout`: seconds, for the connection and for the whole call. `tls`:
    for https node IDs; by default the system's CAs. `sibling_urls`: the base of the node IDs of
    other workers of this service, which are called without a network, to their index among the
    `siblings`.
    """

    own_id: str
    here: Answering
    wheel: TimerWheel
    metrics: Metrics
    _: KW_ONLY
    keys: Sequence[bytes]
    connect_timeout: float
    request_timeout: float = 3.0
    tls: ClientTls = field(default_factory=ClientTls)
    siblings: Siblings = field(default_factory=Siblings)
    sibling_urls: Mapping[str, int] = field(default_factory=dict)
    is_relayed: bool = field(default=False, init=False)
    """Whether siblings are called through the next version, as those of this one end too."""

    def __post_init__(self) -> None:
        self._own_base, self._own_instance = split_instance_url(self.own_id)
        self._distrusted: set[str] = set()
        self._unreachable = self.metrics.counter(NODE_CONNECT_ERROR)
        self._unanswered = self.metrics.counter(NODE_TIMEOUT)
        self._links: dict[tuple[str, int], Link] = {}
        self._pending = PendingCalls(self._call_again)

    async def push(self, node_id: str, notification: Notification) -> Outcome:
        """Deliver through the user agent's node. `stored` of a message: its table, or None."""
        # For a stored message the other node may read the store: a slow call.
        lane = _lane(notification.uaid) if notification.stored else 0
        return await self._call(node_id, Push.of(notification), lane=lane)

    async def push_if_subscribed(self, node_id: str, notification: Notification) -> Outcome:
        """Deliver a message that is not stored, if the user agent is connected to that node and has
        subscribed to the channel, which `push` does not check.
        """
        return await self._call(node_id, Push.of(notification, only_subscribed=True))

    async def check_storage(self, node_id: str, uaid: str, urgency: str = HIGHEST) -> Outcome:
        """Have the node read storage for that user agent; repeated while it does not answer.

        `urgency`: of the message that was stored.
        """
        outcome = await self._call(node_id, CheckStorage(uaid, urgency))
        if outcome.may_be_back:
            self._pending.add(node_id, CheckStorage(uaid))
        return outcome

    async def find_connection(self, node_id: str, uaid: str) -> Outcome:
        return await self._call(node_id, FindConnection(uaid))

    def may_have_duplicates(self, node_id: str) -> bool:
        """Whether `end_duplicate` has anything to do there, for a user agent connected here."""
        return node_id != self.own_id or self.here.others.exist

    async def end_duplicate(
        self, node_id: str, uaid: str, connected_at: int, *, or_older: bool = False
    ) -> None:
        """Close a connection there; the answer comes when its acks are stored.

        A node whose store takes longer answers BUSY in time and is asked again, as silence would
        count as that of a stopped node. One that does not answer has to close it later: what is
        unacked there is saved only then.
        """
        call = EndDuplicate(uaid, connected_at, or_older)
        for _ in range(END_DUPLICATE_CALLS):
            outcome = await self._call(node_id, call, lane=_lane(uaid))
            if outcome.may_be_back:
                self._pending.add(node_id, call)
            if outcome is not Outcome.BUSY:
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

    async def _call_again(self, node_id: str, call: NodeCall) -> Outcome:
        """A call that was not answered."""
        outcome = await self._call(node_id, call)
        # A node that is gone may have taken messages for the connection that was to end there.
        if isinstance(call, EndDuplicate) and outcome is Outcome.GONE:
            user = self.here.registry.find(call.uaid)
            if user is not None:
                user.check_storage()
        return outcome

    # ── three ways to a node ─────────────────────────────────────────────────────────────────────

    async def _call(self, node_id: str, call: NodeCall, *, lane: int = 0) -> Outcome:
        if node_id == self.own_id:
            return await self._call_here(call)
        base, instance = split_instance_url(node_id)
        if base and base == self._own_base:
            outcome = Outcome.GONE  # a predecessor of this worker
        elif (index := self.sibling_urls.get(base)) is not None:
            outcome = await self._call_sibling(index, InstanceCall(instance, call))
        else:
            outcome = await self._call_over_link(node_id, call, lane)
        if outcome is Outcome.GONE or outcome is Outcome.REFUSED:
            self._unreachable.add()
        return outcome

    async def _call_here(self, call: NodeCall) -> Outcome:
        if isinstance(call, EndDuplicate):  # the caller has closed what is connected here
            return await self.here.others.ask(call)
        answer = self.here(call)
        return answer if isinstance(answer, Outcome) else await answer

    async def _call_sibling(self, index: int, call: InstanceCall) -> Outcome:
        next_version = self.siblings.heard(SUCCESSOR) if self.is_relayed else None
        try:
            if next_version is not None:
                return await next_version.call(RELAY, RelayedCall(index, call))
            return await self.siblings[index].call(NODE, call)
        except SiblingRestarted:
            if next_version is None:
                return Outcome.GONE
        except SiblingError:
            pass  # it is silent, as below
        self._unanswered.add()
        return Outcome.SILENT

    def answer_sibling(self, call: InstanceCall) -> Answer:
        """ABSENT to a call that was meant for this worker's predecessor."""
        is_meant = call.instance in (self._own_instance, _ANY)
        return self.here(call.call) if is_meant else Outcome.ABSENT

    async def relay(self, relayed: RelayedCall) -> Outcome:
        """Pass on a call of this worker's predecessor to a sibling."""
        sibling = self.siblings.get(relayed.index)  # None if this version has fewer workers
        if sibling is not None:
            with suppress(SiblingError):
                return await sibling.call(NODE, relayed.call)
        return Outcome.SILENT

    async def _call_over_link(self, node_id: str, call: NodeCall, lane: int) -> Outcome:
        link = self._link(node_id, lane)
        if link is None:
            return Outcome.GONE
        try:
            response = await link.request(*to_http(call))
        except (LinkGone, ValueError):  # ValueError: no host can have that name
            return Outcome.GONE
        except LinkRefused:
            return Outcome.REFUSED
        except LinkError as error:
            if isinstance(error, LinkInsecure | LinkUnauthentic):
                self._report(node_id, error)
            self._unanswered.add()
            return Outcome.SILENT
        if self._distrusted:
            self._distrusted.discard(node_id)
        return outcome_of(response.status)

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


def _lane(uaid: str) -> int:
    return 1 + crc32(uaid.encode()) % SLOW_LANES


class PendingCalls:
    """Calls that unresponsive nodes missed. Each is repeated until the node answers or is gone, so
    that no message waits for a node that was only slow, stopped or cut off. An unresponsive node
    costs one call at a time. `call` calls the node once.
    """

    def __init__(self, call: Callable[[str, NodeCall], Awaitable[Outcome]]) -> None:
        self._call = call
        self._pending: dict[str, dict[NodeCall, None]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._full = False

    def __len__(self) -> int:
        """Without the calls under way."""
        return sum(map(len, self._pending.values()))

    def add(self, node_id: str, call: NodeCall) -> None:
        if len(self) >= MAX_PENDING:
            if not self._full:
                _log.warning("Too many calls are pending: messages may come late")
            self._full = True
            return
        self._full = False
        self._pending.setdefault(node_id, {})[call] = None
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
        outcomes: list[Outcome] = []
        while pending and loop.time() < answered_at + PENDING_TIMEOUT:
            if count == 1:
                await asyncio.sleep(RETRY_INTERVAL)
            calls = list(islice(pending, count))
            for call in calls:  # what is added from here on stays pending
                del pending[call]
            outcomes = await asyncio.gather(*(self._call(node_id, call) for call in calls))
            unanswered = [
                call for call, outcome in zip(calls, outcomes, strict=True) if outcome.may_be_back
            ]
            pending.update(dict.fromkeys(unanswered))
            if not unanswered:
                answered_at = loop.time()
            count = 1 if unanswered else CONCURRENT_REPEATS
        del self._pending[node_id], self._tasks[node_id]
        last = outcomes[0].value if outcomes else "none"
        _log.info("A node did not respond", node=node_id, answer=last, seconds=loop.time() - began)
