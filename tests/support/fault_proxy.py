"""A proxy in front of a DynamoDB-compatible server that injects the faults of networks and busy
databases.

A plan decides the fault of each call. The proxy records the faults, the writes that the server
applied, and whether the client got the response.

    async with FaultProxy(server_port) as proxy:
        proxy.plan = script(Fault.CLOSED, Fault.THROTTLED)   # then none
        proxy.plan = randomly({Fault.CLOSED: 0.05}, seed=1)
        await proxy.stop()                                 # connections are refused and reset
        await proxy.start()
"""

import asyncio
import json
import random
import socket
import struct
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Self

from support.sockets import unused_port

_BODY_HEADERS = frozenset({b"content-length", b"transfer-encoding", b"x-amz-crc32", b"connection"})
"""Headers about the original body, or about one connection."""


@dataclass(frozen=True)
class Message:
    """A request or response, read and sent whole. `start`: its first line without the line end."""

    start: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def status(self) -> int:
        return int(self.start.split(b" ", 2)[1])

    def header(self, name: bytes) -> bytes:
        """Its value, empty if it is missing; `name` in lower case."""
        return next((value for key, value in self.headers if key.lower() == name), b"")

    def with_body(self, body: bytes) -> "Message":
        """The same message with another body, without the headers about the old one."""
        kept = [(key, value) for key, value in self.headers if key.lower() not in _BODY_HEADERS]
        return replace(self, headers=kept, body=body)

    def __bytes__(self) -> bytes:
        kept = [pair for pair in self.headers if pair[0].lower() != b"content-length"]
        lines = [b"%s: %s" % pair for pair in [*kept, (b"Content-Length", b"%d" % len(self.body))]]
        return b"\r\n".join([self.start, *lines, b"", self.body])


async def read_message(reader: asyncio.StreamReader) -> Message | None:
    """The next message, which must have a Content-Length; None at the end.

    Raises asyncio.IncompleteReadError where it is cut off.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise
        return None
    start, *lines = head[:-4].split(b"\r\n")
    headers = [
        (name.strip(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)
    ]
    found = Message(start, headers, b"")
    if found.header(b"transfer-encoding"):
        raise ValueError("a chunked body, which this proxy does not read")
    length = int(found.header(b"content-length") or 0)
    return replace(found, body=await reader.readexactly(length))


PIECES = 8
RESET = struct.pack("ii", 1, 0)
"""Value of SO_LINGER: closing resets the connection."""


class Listener:
    """Accepts connections, each of which a task serves. None is half accepted when it stops, so
    that the port can be used again at once.
    """

    def __init__(
        self, port: int, serve: Callable[["ClientConnection"], Coroutine[Any, Any, None]]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._serve = serve
        self._clients: dict[asyncio.Task[None], ClientConnection] = {}
        self._socket = socket.create_server(("127.0.0.1", port), backlog=100)
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except (BlockingIOError, ConnectionError):
            return  # it is closed already
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = ClientConnection(connection)
        task = self._loop.create_task(self._serve(client))
        self._clients[task] = client
        task.add_done_callback(self._clients.pop)

    async def stop(self) -> None:
        """Refuse connections and reset the present ones; return when none is served any more."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        clients = dict(self._clients)
        for task, client in clients.items():
            client.reset()
            if not client.busy:
                task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)


class ClientConnection:
    """A connection to the proxy. `busy`: the server is handling a call of it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._is_open = False
        self._is_opening = False
        self.busy = False
        self.was_reset = False

    async def open(self) -> None:
        """Before it is read and written."""
        self._is_opening = True  # from now on the socket is the transport's
        self.reader, self.writer = await asyncio.open_connection(sock=self._socket)
        self._is_open = True
        if self.was_reset:
            self.writer.transport.abort()

    async def _send(self, text: bytes) -> None:
        self.writer.write(text)
        await self.writer.drain()

    async def send(self, message: Message) -> bool:
        await self._send(bytes(message))
        return True

    async def send_slowly(self, text: bytes, seconds: float) -> bool:
        size = -(-len(text) // PIECES)
        for start in range(0, len(text), size):
            await self._send(text[start : start + size])
            await asyncio.sleep(seconds / PIECES)
        return True

    async def wait_closed(self) -> None:
        """Wait until the other side closes."""
        await self.reader.read()

    def reset(self) -> None:
        """Close the connection so that the other side gets an RST."""
        self.was_reset = True
        if self._socket.fileno() != -1:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if self._is_open:
            self.writer.transport.abort()
        elif not self._is_opening:
            self._socket.close()

    def close(self) -> None:
        if self._is_open:
            self.writer.close()
        elif not self._is_opening:
            self._socket.close()


class ServerConnection:
    """The connection to the server, for one connection to the proxy."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def exchange(self, request: Message) -> Message:
        if self._streams is None or self._streams[0].at_eof():
            self.close()
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(bytes(request))
        response = await read_message(reader)
        if response is None:
            raise ConnectionResetError
        return response

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


Plan = Callable[["Call"], "Fault"]


class Fault(Enum):
    """What happens to a call."""

    NONE = "none"

    # The server does not get it.
    THROTTLED = "throttled for the table's capacity"
    THROTTLED_GENERALLY = "throttled for another reason"
    ERROR = "500"
    UNAVAILABLE = "503 without a body of the database's"
    RESET = "the connection is reset"

    # The server executes it; the client does not get the response.
    CLOSED = "the connection is closed in place of a response"
    TRUNCATED = "half of the response, then the connection is reset"
    FALSE_ERROR = "500 in place of the response"
    NO_RESPONSE = "no response, until the client gives up"

    # The server executes it long after the client has given it up.
    LATE = "the connection is closed; the server gets it when the test says so"

    # The server executes it, and the client gets the response.
    DELAYED = "the response is late"
    SLOW = "the response comes in small pieces"
    PARTIAL_BATCH = "a batch is executed in part, the rest is unprocessed"


NOT_APPLIED = frozenset(
    {Fault.THROTTLED, Fault.THROTTLED_GENERALLY, Fault.ERROR, Fault.UNAVAILABLE, Fault.RESET}
)
"""After these a write was not applied."""

NOT_DELIVERED = frozenset({Fault.CLOSED, Fault.TRUNCATED, Fault.FALSE_ERROR, Fault.NO_RESPONSE})
"""After these the client cannot know whether a write was applied."""

_CODES = {
    Fault.THROTTLED: (400, "ProvisionedThroughputExceededException"),
    Fault.THROTTLED_GENERALLY: (400, "ThrottlingException"),
    Fault.ERROR: (500, "InternalServerError"),
    Fault.FALSE_ERROR: (500, "InternalServerError"),
}
_NAMESPACE = "com.amazonaws.dynamodb.v20120810#"
_WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"})


@dataclass(frozen=True)
class Call:
    """A call. `number` counts those of the proxy, from 0."""

    number: int
    operation: str
    body: Mapping[str, Any]

    @property
    def is_write(self) -> bool:
        return self.operation in _WRITES


@dataclass
class ServedCall:
    """A call that the server responded to. `delivered`: the client got that response whole."""

    call: Call
    status: int
    fault: Fault

    @property
    def delivered(self) -> bool:
        return self.fault not in NOT_DELIVERED


def no_faults(_: Call) -> Fault:
    return Fault.NONE


def script(*faults: Fault, only: str | None = None) -> Plan:
    """One fault after the other, for calls of one operation if it is named; then none."""
    left = list(faults)

    def plan(call: Call) -> Fault:
        return left.pop(0) if left and only in (None, call.operation) else Fault.NONE

    return plan


def always(fault: Fault, *, only: str | None = None) -> Plan:
    return lambda call: fault if only in (None, call.operation) else Fault.NONE


def randomly(chances: Mapping[Fault, float], *, seed: int) -> Plan:
    """Each fault with its probability, independently for each call."""
    dice = random.Random(seed)
    faults = [*chances, Fault.NONE]
    weights = [*chances.values(), 1 - sum(chances.values())]
    return lambda _: dice.choices(faults, weights)[0]


@dataclass
class FaultProxy:
    """Listens on a port of loopback, the same whenever it is up. Belongs to the loop it was started
    on; `plan` and the attributes below may be set at any time, from any thread.
    """

    server_port: int
    port: int = field(default_factory=unused_port)
    plan: Plan = no_faults
    seconds: float = 0.02
    """How late a delayed response is, and how long a slow one takes."""
    spare_error_responses: bool = False
    """Whether every response but a success is delivered, whatever the plan says."""

    faults: Counter[Fault] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    served: list[ServedCall] = field(default_factory=list)
    """The writes that reached the server, in the order of its responses."""

    late: list[Message] = field(default_factory=list)
    """The calls that the server is to get late, in order."""

    _count: int = 0
    _listener: Listener | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def applied(self) -> list[ServedCall]:
        """The writes that were applied."""
        return [served for served in self.served if served.status == 200]

    def reset_counts(self) -> None:
        self.faults.clear()
        self.operations.clear()
        self.served.clear()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self._listener = Listener(self.port, self._serve)

    async def stop(self) -> None:
        """Refuse connections and reset the present ones. Calls that the server has got are executed
        first, so that none is executed after calls that follow; their responses are lost.
        """
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.stop()

    async def carry_out_late(self) -> list[int]:
        """Let the server have the late calls, one after the other; returns the statuses."""
        late, self.late = self.late, []
        server = ServerConnection(self.server_port)
        try:
            return [(await server.exchange(request)).status for request in late]
        finally:
            server.close()

    async def _serve(self, client: ClientConnection) -> None:
        server = ServerConnection(self.server_port)
        try:
            await client.open()
            while (request := await read_message(client.reader)) is not None:
                if not await self._handle(request, server, client):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            client.reset()  # of either side
        finally:
            server.close()
            client.close()

    async def _handle(
        self, request: Message, server: ServerConnection, client: ClientConnection
    ) -> bool:
        """Return whether the connection stays open."""
        operation = request.header(b"x-amz-target").decode().rpartition(".")[2]
        call = Call(self._count, operation, json.loads(request.body or b"{}"))
        self._count += 1
        self.operations[operation] += 1
        fault = self.plan(call)
        rest = _second_half(operation, call.body) if fault is Fault.PARTIAL_BATCH else {}
        if fault is Fault.PARTIAL_BATCH and not rest:
            fault = Fault.NONE
        if fault in NOT_APPLIED:
            self.faults[fault] += 1
            return await self._refuse(fault, client)
        if rest:
            call = replace(call, body=_without(rest, call.body))
            request = request.with_body(json.dumps(call.body).encode())
        if fault is Fault.LATE:
            self.faults[fault] += 1
            self.late.append(request)
            return False
        client.busy = True
        response = await server.exchange(request)
        client.busy = False
        if rest and response.status == 200:
            response = _json(200, {**json.loads(response.body), _UNPROCESSED[operation]: rest})
        if client.was_reset:
            fault = Fault.CLOSED
        elif response.status != 200 and self.spare_error_responses and fault in NOT_DELIVERED:
            fault = Fault.NONE
        self.faults[fault] += 1
        served = ServedCall(call, response.status, fault)
        if call.is_write:
            self.served.append(served)
        try:
            return await self._deliver(response, fault, client)
        except (ConnectionError, asyncio.CancelledError):
            served.fault = Fault.CLOSED
            raise

    async def _refuse(self, fault: Fault, client: ClientConnection) -> bool:
        if fault is Fault.RESET:
            client.reset()
            return False
        if fault is Fault.UNAVAILABLE:
            return await client.send(Message(b"HTTP/1.1 503 Service Unavailable", [], b"<html>"))
        return await client.send(_error(fault))

    async def _deliver(self, response: Message, fault: Fault, client: ClientConnection) -> bool:
        match fault:
            case Fault.CLOSED:
                return False
            case Fault.NO_RESPONSE:
                await client.wait_closed()
                return False
            case Fault.TRUNCATED:
                await client.send_slowly(bytes(response)[: -max(1, len(response.body) // 2)], 0)
                client.reset()
                return False
            case Fault.FALSE_ERROR:
                return await client.send(_error(fault))
            case Fault.DELAYED:
                await asyncio.sleep(self.seconds)
            case Fault.SLOW:
                return await client.send_slowly(bytes(response), self.seconds)
        return await client.send(response)


def _json(status: int, content: object) -> Message:
    head = b"HTTP/1.1 %d Said" % status
    kind = (b"Content-Type", b"application/x-amz-json-1.0")
    return Message(head, [kind], json.dumps(content).encode())


def _error(fault: Fault) -> Message:
    status, code = _CODES[fault]
    return _json(status, {"__type": _NAMESPACE + code, "message": "injected by the proxy"})


# --- partial batches ------------------------------------------------------------------------------

_UNPROCESSED = {"BatchWriteItem": "UnprocessedItems", "BatchGetItem": "UnprocessedKeys"}
"""The member of the response that holds what was not done."""


def _second_half(operation: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """What a partial batch leaves out: at least one part of a table's, and never all. Empty where
    nothing can be left out.
    """
    if operation not in _UNPROCESSED:
        return {}
    return {
        table: _with_parts(requests, _parts(requests)[_half(requests) :])
        for table, requests in body["RequestItems"].items()
        if len(_parts(requests)) > 1
    }


def _without(rest: dict[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """The body without that."""
    requests = {
        table: _with_parts(found, _parts(found)[: _half(found)]) if table in rest else found
        for table, found in body["RequestItems"].items()
    }
    return {**body, "RequestItems": requests}


def _parts(requests: Any) -> list[Any]:
    found: list[Any] = requests if isinstance(requests, list) else requests["Keys"]
    return found


def _half(requests: Any) -> int:
    return (len(_parts(requests)) + 1) // 2


def _with_parts(requests: Any, parts: list[Any]) -> Any:
    return parts if isinstance(requests, list) else {**requests, "Keys": parts}
