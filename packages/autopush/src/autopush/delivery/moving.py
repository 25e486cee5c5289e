"""WebSockets that move to the worker that owns their user agent.

A hello says which user agent it is. If another worker owns it, that one gets the socket with the
hello, and begins the session anew; so the user agent notices nothing, and all that concerns it
happens in one process.
"""

import asyncio
import os
import socket
from typing import cast

import msgspec

from autopush.delivery.node import ConnectionNode
from autopush.delivery.user_agent import UserAgentConnection
from autopush.net.siblings import Siblings


class Moved(msgspec.Struct, array_like=True, frozen=True):
    """`user_agent`, `host`: headers of the upgrade. `account`: as of `Client`. `address_key`: of
    `ConnectionLimits`. `unread`: what followed the hello.
    """

    user_agent: str
    host: str
    account: str
    address_key: str
    hello: bytes
    unread: bytes


class Movers:
    """Sends connections to siblings, and takes over those that they send."""

    def __init__(self, siblings: Siblings) -> None:
        self._siblings = siblings
        self._arriving: set[asyncio.Task[None]] = set()

    def send(self, owner: int, connection: UserAgentConnection, hello: bytes) -> bool:
        """False if the connection has to stay."""
        copied = connection.copy_socket()
        if copied is None:
            return False
        descriptor, unread = copied
        client = connection.client
        moved = Moved(
            client.user_agent, client.host, client.account, connection.address_key, hello, unread
        )
        try:
            return self._siblings.hand_over(owner, descriptor, msgspec.msgpack.encode(moved))
        finally:
            os.close(descriptor)

    def adopt(self, node: ConnectionNode, sock: socket.socket, state: bytes) -> None:
        moved = msgspec.msgpack.decode(state, type=Moved)
        if not node.is_accepting:
            sock.close()  # the user agent connects again
            return
        arriving = asyncio.ensure_future(_arrive(node, sock, moved))
        self._arriving.add(arriving)
        arriving.add_done_callback(self._arriving.discard)


async def _arrive(node: ConnectionNode, sock: socket.socket, moved: Moved) -> None:
    client = node.clients.find(moved.user_agent, moved.host, moved.account)
    connection = UserAgentConnection(node, client, moved.address_key)
    node.connection_limits.take_over(moved.address_key)  # the connection releases it
    arrival = _Arrival(connection, moved)
    await asyncio.get_running_loop().connect_accepted_socket(lambda: arrival, sock)


class _Arrival(asyncio.Protocol):
    """Gives a connection its hello before anything else is read."""

    def __init__(self, connection: UserAgentConnection, moved: Moved) -> None:
        self._connection, self._moved = connection, moved

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connection, moved = self._connection, self._moved
        cast(asyncio.Transport, transport).set_protocol(connection)
        connection.connection_made(transport)
        connection.text_received(moved.hello)
        if moved.unread:
            connection.data_received(moved.unread)
