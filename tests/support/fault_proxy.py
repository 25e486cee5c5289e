"""A proxy in front of a DynamoDB-compatible server that does to its calls what networks and busy
databases do.

Rule: what happens to a call is decided by a plan, one fault for each call, and written down: what
was done, which writes the server applied, and whether the caller was told.

    async with FaultProxy(server_port) as proxy:
        proxy.plan = script(Fault.LOST, Fault.THROTTLED)   # then nothing more
        proxy.plan = randomly({Fault.LOST: 0.05}, seed=1)
        await proxy.down()                                 # connections are refused and cut
        await proxy.up()
"""

import asyncio
import json
import random
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Self

from support.fault_batches import LEFT, held_back, without
from support.fault_connections import Caller, Listener, Upstream
from support.fault_http import Message

Plan = Callable[["Call"], "Fault"]


class Fault(Enum):
    """What is done to a call."""

    NONE = "none"

    # The server never sees it.
    THROTTLED = "throttled for the table's capacity"
    THROTTLED_OTHERWISE = "throttled for another reason"
    ERROR = "500"
    UNAVAILABLE = "503 without a body of the database's"
    RESET = "the connection is reset"

    # The server does it; the caller does not learn it.
    LOST = "the connection is closed in place of an answer"
    HALF = "half of the answer, then the connection is reset"
    BROKEN = "500 in place of the answer"
    SILENT = "no answer, until the caller gives up"

    # The server does it, and the caller learns it.
    DELAYED = "the answer comes late"
    DRIPPING = "the answer comes in small pieces"
    PARTLY = "a batch is done in part, the rest is answered unprocessed"


UNDONE = frozenset(
    {Fault.THROTTLED, Fault.THROTTLED_OTHERWISE, Fault.ERROR, Fault.UNAVAILABLE, Fault.RESET}
)
"""After these a write has not happened."""

UNTOLD = frozenset({Fault.LOST, Fault.HALF, Fault.BROKEN, Fault.SILENT})
"""After these the caller cannot know."""

_CODES = {
    Fault.THROTTLED: (400, "ProvisionedThroughputExceededException"),
    Fault.THROTTLED_OTHERWISE: (400, "ThrottlingException"),
    Fault.ERROR: (500, "InternalServerError"),
    Fault.BROKEN: (500, "InternalServerError"),
}
_NAMESPACE = "com.amazonaws.dynamodb.v20120810#"
_WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"})


@dataclass(frozen=True)
class Call:
    """A call as it came. `number` counts those of the proxy, from 0."""

    number: int
    operation: str
    body: Mapping[str, Any]

    @property
    def writes(self) -> bool:
        return self.operation in _WRITES


@dataclass
class Done:
    """A call that the server answered. `told`: the caller got that answer whole."""

    call: Call
    status: int
    fault: Fault

    @property
    def told(self) -> bool:
        return self.fault not in UNTOLD


def nothing(_: Call) -> Fault:
    return Fault.NONE


def script(*faults: Fault, only: str | None = None) -> Plan:
    """One fault after the other, for calls of one operation if it is named; then nothing more."""
    left = list(faults)

    def plan(call: Call) -> Fault:
        return left.pop(0) if left and only in (None, call.operation) else Fault.NONE

    return plan


def always(fault: Fault, *, only: str | None = None) -> Plan:
    return lambda call: fault if only in (None, call.operation) else Fault.NONE


def randomly(chances: Mapping[Fault, float], *, seed: int) -> Plan:
    """Each fault by chance, independently for each call."""
    dice = random.Random(seed)
    faults = [*chances, Fault.NONE]
    weights = [*chances.values(), 1 - sum(chances.values())]
    return lambda _: dice.choices(faults, weights)[0]


@dataclass
class FaultProxy:
    """Listens on a port of `host`, the same whenever it is up. Belongs to the loop it was started
    on; `plan` and the attributes below may be set at any time, from any thread.
    """

    server_port: int
    host: str = "127.0.0.1"
    port: int = 0
    plan: Plan = nothing
    seconds: float = 0.02
    """How late an answer is, and how long a dripping one takes."""
    spare_refusals: bool = False
    """Whether every answer but a success gets through, whatever the plan says."""

    faults: Counter[Fault] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    done: list[Done] = field(default_factory=list)
    """The writes that reached the server, in the order of its answers."""

    _count: int = 0
    _listener: Listener | None = None
    _callers: dict["asyncio.Task[None]", Caller] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def applied(self) -> list[Done]:
        """The writes that happened."""
        return [done for done in self.done if done.status == 200]

    def forget(self) -> None:
        """Begin new counts."""
        self.faults.clear()
        self.operations.clear()
        self.done.clear()

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.down()

    async def up(self) -> None:
        self._listener = Listener(self.host, self.port, self._taken)
        self.port = self._listener.port

    async def down(self) -> None:
        """Refuse connections and cut those there are; calls under way are done, and not answered.

        None is still on its way to the server afterwards, where it could overtake later ones.
        """
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        callers = dict(self._callers)
        for task, caller in callers.items():
            caller.reset()
            if not caller.busy:
                task.cancel()
        await asyncio.gather(*callers, return_exceptions=True)

    def _taken(self, connection: socket.socket) -> None:
        caller = Caller(connection)
        task = asyncio.create_task(self._serve(caller))
        self._callers[task] = caller
        task.add_done_callback(self._callers.pop)

    async def _serve(self, caller: Caller) -> None:
        upstream = Upstream(self.server_port)
        try:
            while (request := await caller.read()) is not None:
                if not await self._answer(request, upstream, caller):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            caller.reset()  # either side is gone
        finally:
            upstream.close()
            caller.close()

    async def _answer(self, request: Message, upstream: Upstream, caller: Caller) -> bool:
        """Whether the connection goes on."""
        operation = request.header(b"x-amz-target").decode().rpartition(".")[2]
        call = Call(self._count, operation, json.loads(request.body or b"{}"))
        self._count += 1
        self.operations[operation] += 1
        fault = self.plan(call)
        rest = held_back(operation, call.body) if fault is Fault.PARTLY else {}
        if fault is Fault.PARTLY and not rest:
            fault = Fault.NONE
        if fault in UNDONE:
            self.faults[fault] += 1
            return await self._refuse(fault, caller)
        if rest:
            call = replace(call, body=without(rest, call.body))
            request = request.with_body(json.dumps(call.body).encode())
        caller.busy = True
        answer = await upstream.exchange(request)
        caller.busy = False
        if rest and answer.status == 200:
            answer = _json(200, {**json.loads(answer.body), LEFT[operation]: rest})
        if caller.cut:
            fault = Fault.LOST
        elif answer.status != 200 and self.spare_refusals and fault in UNTOLD:
            fault = Fault.NONE
        self.faults[fault] += 1
        done = Done(call, answer.status, fault)
        if call.writes:
            self.done.append(done)
        try:
            return await self._pass_on(answer, fault, caller)
        except (ConnectionError, asyncio.CancelledError):
            done.fault = Fault.LOST
            raise

    async def _refuse(self, fault: Fault, caller: Caller) -> bool:
        if fault is Fault.RESET:
            caller.reset()
            return False
        if fault is Fault.UNAVAILABLE:
            return await caller.send(Message(b"HTTP/1.1 503 Service Unavailable", [], b"<html>"))
        return await caller.send(_error(fault))

    async def _pass_on(self, answer: Message, fault: Fault, caller: Caller) -> bool:
        match fault:
            case Fault.LOST:
                return False
            case Fault.SILENT:
                await caller.gone()
                return False
            case Fault.HALF:
                await caller.send_slowly(bytes(answer)[: -max(1, len(answer.body) // 2)], 0)
                caller.reset()
                return False
            case Fault.BROKEN:
                return await caller.send(_error(fault))
            case Fault.DELAYED:
                await asyncio.sleep(self.seconds)
            case Fault.DRIPPING:
                return await caller.send_slowly(bytes(answer), self.seconds)
        return await caller.send(answer)


def _json(status: int, content: object) -> Message:
    head = b"HTTP/1.1 %d Said" % status
    kind = (b"Content-Type", b"application/x-amz-json-1.0")
    return Message(head, [kind], json.dumps(content).encode())


def _error(fault: Fault) -> Message:
    status, code = _CODES[fault]
    return _json(status, {"__type": _NAMESPACE + code, "message": "as planned"})
