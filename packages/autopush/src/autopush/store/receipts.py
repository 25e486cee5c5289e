"""The outcome of messages whose senders want a receipt: one row for each.

    receipt     partition: the receipt subscription, 32 hex digits
    message     sort key: a hash of the message id
    version     the message id;  `deadline`: when it counts as expired, epoch seconds
    received, stored, retrieved, transmitted, accepted, delivered, errored, expired
                when that was, epoch milliseconds
    code        of the user agent's ack or nack, as far as sent

Each process writes only the attributes it knows, in any order: an ack may come before the row of
its push. A message that was replaced or deleted, or whose subscription is gone, gets no write: it
has no outcome and is not in its table any more.

Rule: an ack is committed here before the message is deleted, so that no reader takes an acked
message for a deleted one.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from enum import IntEnum
from functools import cache
from typing import Final

from msgspec import Struct

from autopush.clock import Clock
from autopush.store.tables import receipt_table
from autopush.telemetry.metric_table import STATES
from autopush.webpush.identifiers import message_id_hash
from autopush.webpush.tokens import MessageId
from keytables import Capacity, Engine, Item, TableHandle, Update

MAX_MESSAGES: Final = 100
"""Messages of one receipt subscription."""
GRACE: Final = 30
"""Seconds after its TTL in which a message that was sent may be acked."""
RETENTION: Final = 86_400
"""Seconds for which an outcome can be asked for."""

LONGEST_TTL: Final = 31 * 86_400
"""Seconds; where the TTL of a message is not known, its row is kept as long."""


@cache
def _setting(*names: str) -> Update:
    return Update(set=names)


class ReceiptStatus(IntEnum):
    """As the standard has it: a status for each message."""

    ACCEPTED = 201
    """By the provider of a bridge, which reports nothing more: not of the standard."""
    PENDING = 202
    DELIVERED = 204
    GONE = 410


class Receipt(Struct, frozen=True):
    """`version`: the message id. `times`: of each state it has passed, epoch milliseconds."""

    version: str
    times: Mapping[str, int]
    deadline: int
    code: int | None = None

    @property
    def state(self) -> str:
        """The last that is known."""
        return next(state for state in reversed(STATES) if state in self.times)

    def outcome(self, now: float) -> ReceiptStatus:
        """`now`: epoch seconds."""
        if "delivered" in self.times:
            return ReceiptStatus.DELIVERED
        if "accepted" in self.times:
            return ReceiptStatus.ACCEPTED
        is_over = "expired" in self.times or now >= self.deadline
        return ReceiptStatus.GONE if is_over else ReceiptStatus.PENDING


class Receipts:
    """The table, and what in this process waits for a change."""

    def __init__(self, table: TableHandle, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._watching: dict[str, set[asyncio.Event]] = {}
        self._is_closed = False
        self.waiting = 0
        """Requests and streams of this process that wait for an outcome."""

    @classmethod
    async def open(
        cls, engine: Engine, name: str, clock: Clock, capacity: Capacity | None = None
    ) -> "Receipts":
        return cls(await engine.ensure_table(receipt_table(name), capacity=capacity), clock)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def record_accepted(
        self, message: MessageId, received: int, ttl: int, state: str = ""
    ) -> Awaitable[object]:
        """A push was answered with success just now. `received`: epoch milliseconds; `ttl`:
        seconds; `state`: that its message has reached since, if any.
        """
        states = [state] if state else []
        deadline = int(self._clock()) + ttl + GRACE
        members: dict[str, int | str] = {
            "version": message.text,
            "deadline": deadline,
            "received": received,
        }
        return self._write(message, states, deadline, members)

    def record_states(
        self, message: MessageId, *states: str, code: int | None = None
    ) -> Awaitable[object]:
        """A message has passed these states just now. `code`: of the user agent."""
        until = int(self._clock()) + (0 if "delivered" in states else LONGEST_TTL)
        return self._write(message, states, until, {} if code is None else {"code": code})

    async def _write(
        self,
        message: MessageId,
        states: Iterable[str],
        until: int,
        members: Mapping[str, int | str],
    ) -> None:
        now = int(self._clock() * 1000)
        values = {**dict.fromkeys(states, now), **members, "expiry": until + RETENTION}
        await self._table.update(_key(message), _setting(*values), values)
        for event in self._watching.get(message.receipt, ()):
            event.set()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    async def find(self, message: MessageId) -> Receipt | None:
        item = await self._table.get(_key(message))
        return None if item is None else _receipt(item)

    async def of_subscription(self, receipt: str) -> list[Receipt]:
        """Those of one subscription, in the order of their acceptance."""
        receipts: list[Receipt] = []
        page = await self._table.query(receipt, limit=MAX_MESSAGES)
        while True:
            receipts += filter(None, map(_receipt, page.items))
            if page.cursor is None or len(receipts) >= 2 * MAX_MESSAGES:
                return sorted(receipts, key=lambda each: each.times.get("received", 0))
            page = await self._table.query(receipt, limit=MAX_MESSAGES, after=page.cursor)

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────

    def watch(self, receipt: str) -> asyncio.Event:
        """Set with each write of this process to that subscription, until `unwatch`, and when this
        process ends.
        """
        event = asyncio.Event()
        self._watching.setdefault(receipt, set()).add(event)
        return event

    def unwatch(self, receipt: str, event: asyncio.Event) -> None:
        events = self._watching[receipt]
        events.discard(event)
        if not events:
            del self._watching[receipt]

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def end_waits(self) -> None:
        """Have all who wait answered: this process ends."""
        self._is_closed = True
        for events in self._watching.values():
            for event in events:
                event.set()


def _key(message: MessageId) -> tuple[str, str]:
    return message.receipt, message_id_hash(message.text)


def _receipt(item: Item) -> Receipt | None:
    """None for a row whose push has not written its part, and may never."""
    version, deadline, code = item.get("version"), item.get("deadline"), item.get("code")
    if not isinstance(version, str) or not isinstance(deadline, int):
        return None
    times = {state: at for state in STATES if isinstance(at := item.get(state), int)}
    return Receipt(version, times, deadline, code if isinstance(code, int) else None)
