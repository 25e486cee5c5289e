"""One user agent's socket: frames to its session, the session's actions to the socket and the node.

Rule: callbacks run everything; a task exists only while the store is awaited. While the session
waits for the store (a hello, a register, a move), the socket is not read, so messages take effect
in the order they were sent.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from autopush.net.eager import begin
from autopush.net.timers import Timer
from autopush.net.websocket import WebSocketProtocol
from autopush.protocol.actions import (
    Action,
    Again,
    Answer,
    Close,
    DropUser,
    Failure,
    Forget,
    Greet,
    Later,
    Question,
    Row,
    Send,
)
from autopush.protocol.session import Session
from autopush.protocol.states import WAITING_STATES, State
from autopush.store.messages import Messages
from autopush.webpush.notification import Notification
from keytables import KeytablesError, TableNotFound, Throttled

if TYPE_CHECKING:
    from autopush.connection.node import ConnectionNode

HELLO_TOO_LATE: Final = 1008


class UserAgentConnection(WebSocketProtocol):
    """See the module. Also the `ConnectedUser` that routing sees."""

    __slots__ = ("_node", "_pauses", "_timer", "deferred", "messages", "session")

    def __init__(self, node: "ConnectionNode") -> None:
        super().__init__(node.wheel)
        self._node = node
        self._timer: Timer | None = None
        self._pauses: tuple[Timer, ...] = ()
        self.session = Session(node.rules, int(node.clock() * 1000))
        self.messages: Messages = node.store.current
        self.deferred = False
        """Greeted with a new UAID that is in no table yet: the first register writes it."""

    @property
    def close_timeout(self) -> float:
        """Seconds for the closing handshake, as the operator set them."""
        return self._node.close_timeout

    # ── socket events ────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._node.registry.sockets[self] = None
        if self._node.hello_timeout:
            self._timer = self._node.wheel.after(self._node.hello_timeout, self._hello_too_late)

    def text_received(self, payload: bytes) -> None:
        self._carry_out(self.session.receive(payload, self._node.clock()))

    def binary_received(self) -> None:
        self._carry_out(self.session.receive_binary())

    def pong_received(self, payload: bytes) -> None:  # noqa: ARG002 - the shell's hook
        if self.session.uaid is not None:
            self._set_timer(self._node.rules.auto_ping_interval, self._ping)

    def output_paused(self) -> None:
        self.session.output_paused = True

    def output_resumed(self) -> None:
        self._carry_out(self.session.output_resumed())

    def connection_closed(self, code: int | None, reason: str) -> None:  # noqa: ARG002
        self._node.registry.sockets.pop(self, None)
        self._part()

    # ── what routing asks ────────────────────────────────────────────────────────────────────────

    @property
    def connected_at(self) -> int:
        """Milliseconds, as in the router record."""
        return self.session.connected_at

    @property
    def here(self) -> bool:
        """Whether the connection still stands."""
        return self.session.state is not State.CLOSED

    def is_subscribed(self, channel_id: str) -> bool:
        """Whether the channel is known to be subscribed."""
        channels = self.session.channels
        return channels is not None and channel_id in channels

    def deliver(self, notification: Notification, row: Row | None) -> bool:
        """Send now, or False: busy. A message that is on its way already is not sent again."""
        if notification.version in self.session.sent:
            return True
        if not self.session.accept(notification, row):
            return False
        self.send_text(notification.to_client())
        return True

    async def hand_over(self, notification: Notification, row: Row | None) -> bool:
        """As `deliver`, for a message another worker has.

        Stored there, it may have been read and even acked here before it was handed over: then its
        row is gone, and it is not sent again. Stored in another table than this connection reads,
        it is not taken: its user has moved or is about to, and whoever stored it sees to that.
        """
        if row is not None:
            if notification.stored != self.messages.name:
                self.check_storage()
                return False
            if await self.messages.find(self._uaid, row) is None or self._is_acked(row):
                return True
        return self.deliver(notification, row)

    def check_storage(self) -> bool:
        """Look for stored messages, now (True) or when that is possible (False)."""
        actions = self.session.check_storage()
        self._carry_out(actions)
        return bool(actions)

    def move_later(self) -> None:
        """Move to the message table of this month some time in the next half hour."""
        self._carry_out(self.session.move_later())

    def leave(self, code: int, reason: str = "") -> None:
        """End the connection from our side."""
        self._carry_out(self.session.drop(code, reason))

    # ── the session's actions ────────────────────────────────────────────────────────────────────

    def _carry_out(self, actions: Sequence[Action]) -> None:
        todo = deque(actions)
        while todo:
            action = todo.popleft()
            if isinstance(action, Send):
                texts = [action.payload]
                while todo and isinstance(following := todo[0], Send):
                    texts.append(following.payload)
                    todo.popleft()
                self.send_texts(texts)
            elif isinstance(action, Forget):
                self._node.forget(self.messages, self._uaid, action.rows)
            elif isinstance(action, Close):
                self._part()
                self.close(action.code, action.reason)
            elif isinstance(action, Later):
                self._pause(action)
            elif isinstance(action, DropUser):
                self._node.drop_user(self.messages, self._uaid, self.connected_at)
            else:
                todo.extend(self._ask(action))

    def _ask(self, question: Question) -> Sequence[Action]:
        """Put a question to the node; what it answers at once is answered here, the rest when
        its task ends.
        """
        try:
            outcome = begin(self._node.answer(self, question))
        except Exception as error:  # noqa: BLE001 - whatever fails, the session must hear of it
            return self._failed(question, error)
        if not isinstance(outcome, asyncio.Task):
            return self._answered(question, outcome)
        if self.session.state in WAITING_STATES:
            self.pause_reading()
        outcome.add_done_callback(partial(self._resume, question))
        return ()

    def _resume(self, question: Question, task: "asyncio.Task[Answer]") -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self._carry_out(self._answered(question, task.result()))
        else:
            self._carry_out(self._failed(question, error))
        if self.session.state not in WAITING_STATES:
            self.resume_reading()

    def _answered(self, question: Question, answer: Answer) -> Sequence[Action]:
        actions = self.session.answer(question, answer, self._node.clock())
        if isinstance(question, Greet):
            self._set_timer(self._node.rules.auto_ping_interval, self._ping)
        return actions

    def _failed(self, question: Question, error: BaseException) -> Sequence[Action]:
        failure = Failure.BROKEN
        if isinstance(error, Throttled):
            failure = Failure.OVERLOADED
        elif isinstance(error, TableNotFound):
            failure = Failure.GONE
        elif not isinstance(error, KeytablesError | asyncio.CancelledError):  # at the node's end
            self._node.on_crash(error, type(question).__name__)
        return self.session.fail(question, failure)

    @property
    def _uaid(self) -> str:
        if self.session.uaid is None:
            raise RuntimeError("a session without UAID has nothing in storage")
        return self.session.uaid

    def _is_acked(self, row: Row) -> bool:
        return row in self._node.acked.of(self._uaid)

    def _part(self) -> None:
        """Hand on what is unacked as soon as the end is certain; a second call finds nothing
        left.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for pause in self._pauses:
            pause.cancel()
        self._pauses = ()
        self._node.registry.release(self)
        farewell = self.session.end()
        if farewell.unsaved or farewell.waiting:
            self._node.hand_on(self.messages, self._uaid, self.session.connected_at, farewell)

    # ── timers ───────────────────────────────────────────────────────────────────────────────────

    def _set_timer(self, seconds: float, callback: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        live = seconds and self.session.state is not State.CLOSED
        self._timer = self._node.wheel.after(seconds, callback) if live else None

    def _pause(self, until: Later) -> None:
        if self.session.state in WAITING_STATES:
            self.pause_reading()
        timer = self._node.wheel.after(
            self._node.uniform(*until.between), self._take_up, until.again
        )
        self._pauses = (*(pause for pause in self._pauses if pause.pending), timer)

    def _take_up(self, again: Again) -> None:
        self._carry_out(self.session.take_up(again))

    def _hello_too_late(self) -> None:
        self.leave(HELLO_TOO_LATE, "no hello in time")

    def _ping(self) -> None:
        self.ping()
        self._set_timer(self._node.auto_ping_timeout, self._no_pong)

    def _no_pong(self) -> None:
        self._part()
        self.abort()
