"""Background writes to the store: deletes of acked rows, saves of undelivered messages.

Rule: a write that the store cannot do now is retried with growing pauses until it is done or the
process ends; the number of waiting retries is bounded.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from autopush.delivery.connected import AckedRows
from autopush.delivery.peers import Nodes
from autopush.delivery.placement import Placement
from autopush.delivery.presence import notify_node
from autopush.net.timers import TimerWheel
from autopush.protocol.effects import Ack, Undelivered
from autopush.protocol.messages import UNUSABLE
from autopush.store import PushStore
from autopush.store.messages import row_of
from autopush.store.receipts import Receipts
from autopush.store.rotation import move_if_user_moved
from autopush.store.users import SIMPLEPUSH
from autopush.store.versions import UserMessages
from autopush.telemetry import logs
from autopush.webpush.identifiers import has_receipt
from autopush.webpush.stored import Row
from autopush.webpush.tokens import KeyRing, parse_message_id
from keytables import TableNotFound, Throttled, Unavailable
from keytables.retries import Backoff

PAUSES: Final = Backoff(0.5, 60.0, jitter=0.0)
MAX_RETRIES: Final = 100_000
RETRY_CHECK_INTERVAL: Final = 0.05
CONCURRENT_SAVES: Final = 64
"""Connections whose messages are saved concurrently."""

Write = Callable[[], Awaitable[object]]

_log = logs.get(__name__)


class BackgroundWrites:
    def __init__(
        self,
        store: PushStore,
        nodes: Nodes,
        wheel: TimerWheel,
        acked: AckedRows,
        ring: KeyRing,
        placement: Placement,
    ) -> None:
        self._store = store
        self._placement = placement
        self._ring = ring
        self._nodes = nodes
        self._wheel = wheel
        self._running: set[asyncio.Future[object]] = set()
        self._retries = 0
        self._save_slots = asyncio.Semaphore(CONCURRENT_SAVES)
        self._acked = acked

    def delete_acked(
        self, messages: UserMessages, uaid: str, rows: Sequence[Row], acked: Sequence[Ack] = ()
    ) -> None:
        """Delete rows that were acked or no longer need delivery. `acked`: those with a receipt."""
        self._acked.add(uaid, rows, may_recur=messages.router_type == SIMPLEPUSH)
        delete: Write = partial(messages.delete_all, uaid, rows)
        if acked and self._store.receipts is not None:
            delete = partial(self._delete_reported, self._store.receipts, acked, delete)
        self.start(delete, on_end=partial(self._acked.on_deleted, uaid, rows))

    async def _delete_reported(
        self, receipts: Receipts, acked: Sequence[Ack], delete: Write
    ) -> None:
        # The receipts first: a message that is deleted without one counts as gone.
        for ack in acked:
            states = ("delivered", "errored") if ack.code in UNUSABLE else ("delivered",)
            message = parse_message_id(self._ring, ack.version)
            await receipts.record_states(message, *states, code=ack.code)
        await delete()

    def report(self, versions: Sequence[str], *states: str, code: int | None = None) -> None:
        """Write to the receipts of these messages, as far as they have one."""
        receipts = self._store.receipts
        if receipts is None:
            return
        for version in versions:
            if has_receipt(version):
                message = parse_message_id(self._ring, version)
                self.start(partial(receipts.record_states, message, *states, code=code))

    def save_undelivered(
        self, messages: UserMessages, uaid: str, connected_at: int, undelivered: Undelivered
    ) -> None:
        """Save unacked messages and have the user's current node read them. `connected_at`: ms."""
        unsaved = {notification.version: notification for notification in undelivered.unsaved}
        rows = [*undelivered.stored, *map(row_of, undelivered.unsaved)]

        async def save() -> None:
            async with self._save_slots:
                errors = await asyncio.gather(
                    *map(messages.save, unsaved.values()), return_exceptions=True
                )
            # A retry saves only what failed: the rest may have been delivered and acked by then.
            for version, error in zip([*unsaved], errors, strict=True):
                if error is None:
                    del unsaved[version]
            for error in filter(None, errors):
                raise error
            record = await self._store.users.get(uaid)
            if record is None:
                await messages.delete_all(uaid, rows)  # versions would stay forever
                return
            await move_if_user_moved(self._store, record, rows, messages)
            node_id = self._placement.node_of(record)
            may_be_back = record.connected_at != connected_at or not self._placement.needs_record(
                record
            )
            if node_id is not None and may_be_back:
                await notify_node(self._store, self._nodes, record, node_id)

        self.start(save)

    def refresh_last_connect(self, uaid: str, connected_at: int) -> None:
        """Record that a connection made months ago still exists."""
        self.start(
            partial(self._store.users.refresh_last_connect, uaid, self._nodes.own_id, connected_at)
        )

    # --- retries ----------------------------------------------------------------------------------

    async def finished(self, seconds: float) -> None:
        """Wait for writes and retries, at most `seconds`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while (self._running or self._retries) and (left := deadline - loop.time()) > 0:
            if self._running:
                await asyncio.wait(self._running, timeout=left)
            else:  # all that is left has failed and waits for its retry
                await asyncio.sleep(min(left, RETRY_CHECK_INTERVAL))

    def start(
        self, write: Write, on_end: Callable[[], None] | None = None, failures: int = 0
    ) -> None:
        """Begin a write; `on_end` is called when it is done or given up."""
        future = asyncio.ensure_future(write())
        self._running.add(future)
        future.add_done_callback(partial(self._on_done, write, on_end, failures))

    def _on_done(
        self,
        write: Write,
        on_end: Callable[[], None] | None,
        failures: int,
        future: asyncio.Future[object],
    ) -> None:
        self._running.discard(future)
        error = None if future.cancelled() else future.exception()
        if isinstance(error, TableNotFound):
            _log.warning("A table is gone, and with it what was to be written", table=error.table)
        elif isinstance(error, Throttled | Unavailable):
            if self._retries < MAX_RETRIES:
                self._retries += 1
                failures += 1
                self._wheel.after(PAUSES.delay(failures), self._retry, write, on_end, failures)
                return
            _log.error("Write given up: too many wait for a retry", error=type(error).__name__)
        elif error is not None:
            _log.exception("Write failed", error=error)
        if on_end is not None:
            on_end()

    def _retry(self, write: Write, on_end: Callable[[], None] | None, failures: int) -> None:
        self._retries -= 1
        self.start(write, on_end, failures)
